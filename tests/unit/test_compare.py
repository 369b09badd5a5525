# SPDX-License-Identifier: GPL-2.0-or-later
"""Two results side by side: what belongs together, what changed, and how it is shown."""

from __future__ import annotations

import importlib
import io
import json
from pathlib import Path
from typing import Any

import builders
import jsonschema
import pytest
from rich.console import Console

from partywall import workloads
from partywall.cli import commands
from partywall.cli.options import OVER_LIMIT
from partywall.core.errors import EnvironmentProblem, UsageProblem
from partywall.core.topology import Topology
from partywall.measure import run
from partywall.report import compare as view
from partywall.results import compare, document
from partywall.results.compare import Comparison
from partywall.results.counts import CallCount, Instructions, Sums
from partywall.results.result import Result

BEFORE = builders.result(builders.signal(), builders.isolated())


def shown(found: compare.Comparison, width: int = 80, *, verbose: bool = False) -> str:
    file = io.StringIO()
    view.render(found, Console(file=file, width=width), verbose=verbose)
    return file.getvalue()


def without_walls() -> compare.Comparison:
    signal = builders.signal()
    after = signal.model_copy(
        update={
            "walls": [],
            "between": 0.004,
            "instructions": Instructions(kernel=4000, user=212, background=38),
            "calls": [CallCount(function=call.function, per_op=0) for call in signal.calls],
        }
    )
    return compare.compare(BEFORE, builders.result(after, builders.isolated()))


def test_walls_of_one_object_are_taken_together() -> None:
    (change, *_) = without_walls().workloads
    assert len({one.object for one in change.objects}) == len(change.objects)
    assert sum(one.transfers.before for one in change.objects) == pytest.approx(
        builders.signal().wall_transfers
    )
    assert all(one.transfers.after == 0 for one in change.objects)
    assert change.walls.after == 0
    assert change.instructions.relative == pytest.approx((4000 - 4811.2) / 4811.2)


def test_a_wall_that_is_new_is_seen() -> None:
    found = compare.compare(
        builders.result(builders.isolated()),
        builders.result(builders.isolated().model_copy(update={"walls": builders.signal().walls})),
    )
    (change,) = found.workloads
    assert change.walls.after == len(builders.signal().found) == 2
    assert all(one.transfers.before == 0 for one in change.objects)
    assert found.worst > 0


def test_the_worst_object_is_that_at_the_number_that_both_verdicts_are_for() -> None:
    wall = builders.signal().walls[0].model_copy(update={"transfers": 0.25, "transfers_at": 2.0})
    sums = Sums(walls=2.0, handed_over=0.0, rest=0.0)
    judged = builders.signal().model_copy(update={"walls": [wall], "sums": sums, "at": 64})
    both = builders.result(judged)
    assert compare.compare(both, both).worst == 2.0
    other = builders.result(judged.model_copy(update={"at": 512}))
    assert compare.compare(both, other).worst == 0.25


def test_walls_of_deferred_work_count_though_they_were_not_judged_before() -> None:
    late = builders.put_off(builders.signal().walls)
    before = builders.workload("udp", []).model_copy(update={"deferred": None})
    after = builders.workload("udp", [], deferred=late)
    found = compare.compare(builders.result(before), builders.result(after))
    assert found.worst == late.objects[0].judged
    assert "deferred, not judged before: init_ucounts" in shown(found)


def test_walls_of_deferred_work_are_compared_apart() -> None:
    late = builders.put_off(builders.signal().walls)
    none = builders.signal().model_copy(update={"deferred": builders.put_off([])})
    some = builders.signal().model_copy(update={"deferred": late})
    found = compare.compare(builders.result(none), builders.result(some))
    (change,) = found.workloads
    assert [one.transfers.before for one in change.deferred] == [0, 0]
    assert [one.object for one in change.deferred] == [one.object for one in change.objects]
    assert "deferred: init_ucounts" in shown(found)
    quiet = builders.workload("udp", [], deferred=builders.put_off([]))
    loud = builders.workload("udp", [], deferred=late)
    found = compare.compare(builders.result(quiet), builders.result(loud))
    assert found.worst == late.objects[0].judged
    assert "deferred: init_ucounts" in shown(found)


def test_a_result_compared_with_itself_does_not_differ() -> None:
    found = compare.compare(BEFORE, BEFORE)
    for one in found.workloads:
        assert one.walls.before == one.walls.after
        assert one.instructions.relative == 0
    assert not found.alone
    assert "=" in shown(found)


@pytest.mark.parametrize(
    "other",
    [
        {"topology": Topology(containers=4, cpus=1)},
        {"window": 401},
        {"confinement": "unconfined"},
        {"threshold": 0.1},
        {"variant": "another"},
    ],
)
def test_what_is_not_comparable_is_not_compared(other: dict[str, object]) -> None:
    changed = builders.signal().model_copy(update=other)
    with pytest.raises(UsageProblem, match="no workload in common"):
        compare.compare(builders.result(builders.signal()), builders.result(changed))
    found = compare.compare(BEFORE, builders.result(changed, builders.isolated()))
    assert len(found.workloads) == 1
    assert len(found.alone) == 2
    assert "only in one of the two" in shown(found)


def test_windows_of_time_are_compared_whatever_they_counted() -> None:
    before = builders.signal().model_copy(update={"counted": True})
    after = before.model_copy(update={"window": 443})
    assert len(compare.compare(builders.result(before), builders.result(after)).workloads) == 1
    one = after.model_copy(update={"counted": False})
    with pytest.raises(UsageProblem, match="no workload in common"):
        compare.compare(builders.result(before), builders.result(one))


def test_the_view_says_before_and_after_in_80_columns() -> None:
    text = shown(without_walls())
    assert all(len(line) <= 80 for line in text.splitlines())
    assert "4,000 -16.9%" in text
    assert "-> 0" in text
    assert "init_ucounts" in text


@pytest.mark.parametrize("width", [60, 80, 200])
def test_no_row_is_wider_than_the_terminal(width: int) -> None:
    text = shown(without_walls(), width)
    assert all(len(line) <= min(width, 120) for line in text.splitlines())
    assert not any(line.endswith(" ") for line in text.splitlines())


def test_many_objects_are_summed_up_unless_all_are_asked_for() -> None:
    wall = builders.signal().walls[0]
    walls = [
        wall.model_copy(update={"object": wall.object.model_copy(update={"name": f"thing {n}"})})
        for n in range(30)
    ]
    many = builders.result(builders.signal().model_copy(update={"walls": walls}))
    found = compare.compare(many, many)
    assert "and 18 more objects" in shown(found)
    assert "more objects" not in shown(found, verbose=True)
    assert "thing 29" in shown(found, verbose=True)


def test_the_json_fits_its_schema() -> None:
    text = document.dump(without_walls())
    jsonschema.validate(json.loads(text), document.schema(Comparison))
    assert compare.Comparison.model_validate_json(text) == without_walls()


def test_a_root_that_can_not_be_stops_no_comparison_of_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = importlib.import_module("partywall.cli.compare")
    ran: list[Any] = []

    def measured(wanted: Any, what: str, folder: Path) -> tuple[Result, dict[str, Any]]:
        ran.append((what, [one.title for one in wanted.workloads]))
        return builders.result(builders.signal()), {}

    left = workloads.select(["signal"])
    failed = {"redis/get": EnvironmentProblem("no package redis-server", "look for it")}
    monkeypatch.setattr(command, "with_roots", lambda chosen, progress: (left, failed))
    monkeypatch.setattr(command, "_ready", lambda what: object())
    monkeypatch.setattr(command, "_measured", measured)
    words = ["compare", "stock", "partywall", "-w", "signal", "-w", "redis/get"]
    status = commands.main(words, standalone_mode=False)
    out, err = capsys.readouterr()
    assert status == EnvironmentProblem.exit_code
    assert ran == [("stock", ["signal"]), ("partywall", ["signal"])]
    assert "init_ucounts" in out
    assert "redis/get: no package redis-server" in err


def _with_guests(monkeypatch: pytest.MonkeyPatch, became: dict[str, list[run.Outcome]]) -> None:
    """Make guests of each kernel end as given."""
    command = importlib.import_module("partywall.cli.compare")
    monkeypatch.setattr(command, "with_roots", lambda chosen, progress: (chosen, {}))
    monkeypatch.setattr(command, "resolve", lambda request, progress: request.kernel)
    monkeypatch.setattr(run, "check", lambda wanted, progress: became[wanted.kernel].pop(0))


SIGNAL, ISOLATED = builders.result(builders.signal()), builders.result(builders.isolated())
WORDS = ["compare", "stock", "partywall", "-w", "signal", "-w", "fork"]
BROKEN = {"fork": EnvironmentProblem("the guest failed", "see its console")}


def test_a_guest_that_fails_stops_no_comparison_of_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    ours = run.Outcome(SIGNAL, BROKEN)
    _with_guests(monkeypatch, {"stock": [run.Outcome(BEFORE, {})], "partywall": [ours]})
    status = commands.main([*WORDS, "--results", str(tmp_path)], standalone_mode=False)
    out, err = capsys.readouterr()
    assert status == EnvironmentProblem.exit_code
    assert "init_ucounts" in out
    # Which one, on which kernel.
    assert "partywall: fork: the guest failed" in err
    assert "stock: fork" not in err
    # What was measured is kept.
    assert len(list(tmp_path.iterdir())) == 2


def test_a_comparison_of_which_nothing_is_left_names_what_failed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    _with_guests(
        monkeypatch,
        {
            "stock": [run.Outcome(SIGNAL, BROKEN)],
            "partywall": [run.Outcome(ISOLATED, {"signal": BROKEN["fork"]})],
        },
    )
    status = commands.main([*WORDS, "--results", str(tmp_path)], standalone_mode=False)
    out, err = capsys.readouterr()
    assert status == EnvironmentProblem.exit_code
    assert not out
    assert err.count("Saved as ") == 2
    assert "stock: fork: the guest failed" in err
    assert "partywall: signal: the guest failed" in err
    # Why there is no comparison may have nothing to do with what failed.
    assert "the two results have no workload in common" in err
    assert len(list(tmp_path.iterdir())) == 2
    none = {"stock": [run.Outcome(None, BROKEN)], "partywall": [run.Outcome(SIGNAL, {})]}
    _with_guests(monkeypatch, none)
    status = commands.main([*WORDS, "--results", str(tmp_path)], standalone_mode=False)
    assert status == EnvironmentProblem.exit_code
    assert "stock: fork: the guest failed" in capsys.readouterr().err
    # Where one kernel has nothing to compare the other one is not measured.
    assert len(none["partywall"]) == 1


def test_a_wall_over_the_limit_is_told_by_its_status_unless_something_failed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for failures, expected in (({}, OVER_LIMIT), (BROKEN, EnvironmentProblem.exit_code)):
        both = {"stock": [run.Outcome(BEFORE, {})], "partywall": [run.Outcome(SIGNAL, failures)]}
        _with_guests(monkeypatch, both)
        words = [*WORDS, "--fail-above", "0.01", "--results", str(tmp_path)]
        assert commands.main(words, standalone_mode=False) == expected
