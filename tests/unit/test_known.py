# SPDX-License-Identifier: GPL-2.0-or-later
"""The table of known walls is whole, and what it is worth is counted right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cases
import known
import pytest
import scoring
from builders import field, line, lock, put_off, workload
from cases import Case, Control
from pydantic import ValidationError

from partywall.core.errors import PartywallError
from partywall.core.progress import Quiet
from partywall.results.counts import Sums
from partywall.results.left import Left
from partywall.results.lines import Line, LineObject, Wall
from partywall.results.result import WorkloadResult


def case(**more: Any) -> Case:
    given: dict[str, Any] = {
        "name": "a-wall",
        "commit": "0123456789ab",
        "subject": "a: mend it",
        "release": "6.13",
        "structure": "thing.count",
        "gain": "+1 %",
        "workload": "signal",
        "before": "debian:6.1",
        "after": "debian:6.12",
        "objects": ("*struct thing",),
        "fields": ("count*",),
    }
    return Case(**(given | more))


def wall(name: str, transfers: float, *fields: str, kind: Any = None) -> Line:
    what = LineObject(
        kind=kind or "slab",
        name=name,
        type=None,
        address="0xff11000000001000",
        size=64,
        line=0,
    )
    return line(what, transfers, fields=[field(path, 8 * n) for n, path in enumerate(fields)])


def shown(*walls: Line, **more: Any) -> WorkloadResult:
    return workload("signal", list(walls), **more)


COUNT = wall("kmalloc-64: struct thing", 2.0, "ops", "count.refs")


def test_the_table_is_whole_and_its_workloads_are_there() -> None:
    table = cases.read()
    run = [one for one in table.case if not one.skip]
    assert len(run) >= 12
    for entry in (*run, *table.control):
        assert known.workload(entry.workload)


def test_a_case_that_is_run_says_what_is_looked_for_where() -> None:
    for lacks in ("workload", "before", "after", "objects"):
        empty: Any = () if lacks == "objects" else ""
        with pytest.raises(ValidationError, match="or skip"):
            case(**{lacks: empty})
        assert case(**{lacks: empty}, skip="needs a build").skip


def test_a_wall_is_built_back_by_a_patch_of_its_name() -> None:
    back = {one.name for one in cases.read().case if one.before == known.BACK}
    assert {patch.path.stem for patch in known.back()} == back
    assert all(patch.files for patch in known.back())


def test_a_name_is_given_once(tmp_path: Path) -> None:
    text = cases.TABLE.read_text()
    twice = tmp_path / "walls.toml"
    name = cases.read().control[0].name
    twice.write_text(f'{text}\n[[control]]\nname = "{name}"\nworkload = "fork"\nkernels = ["a"]\n')
    with pytest.raises(ValidationError, match=name):
        cases.read(twice)


def test_the_figure_is_that_of_lines_of_the_object_with_the_field() -> None:
    result = shown(
        COUNT,
        wall("kmalloc-64: struct thing", 4.0, "other"),
        wall("struct nothing", 8.0, "count.refs"),
        wall("struct thing", 0.5, "count.refs"),
    )
    assert scoring.figure(result, case()) == 2.5
    assert scoring.figure(result, case(fields=("*",))) == 6.5
    assert scoring.figure(result, case(objects=("thing",))) == 0


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [(2.0, 5.0, "right"), (2.0, 0.0, "missed"), (0.0, 2.0, "missed")],
)
def test_what_nobody_mended_is_to_be_found_on_both_kernels(
    before: float, after: float, verdict: str
) -> None:
    results = [
        shown(*([wall("struct thing", moved, "count.refs")] if moved else []))
        for moved in (before, after)
    ]
    one = scoring.score(case(after_it="there"), *results)
    assert one.verdict == verdict
    sums = scoring.total([one], [])
    assert (sums.found, sums.wrong) == (verdict == "right", 0)


def test_an_object_is_all_its_lines_also_those_that_a_result_leaves_out() -> None:
    table = Wall(kind="global", name="table", type="struct thing[]", lines=64, transfers=3.0)
    result = shown(wall("table", 0.1, "[0].count", kind="global"), objects=[table])
    asked = case(objects=("table",), fields=("*",))
    assert scoring.figure(result, asked) == 3.0
    assert scoring.figure(result, case(objects=("table",), fields=("*.count",))) == 0.1


def test_a_line_without_known_fields_counts_where_any_field_does() -> None:
    result = shown(wall("epmutex", 1.5, kind="global"))
    assert scoring.figure(result, case(objects=("epmutex",), fields=("*",))) == 1.5
    assert scoring.figure(result, case(objects=("epmutex",))) == 0


def test_an_object_answers_to_its_type() -> None:
    one = wall("global_thing", 1.0, "count")
    typed = one.model_copy(
        update={"object": one.object.model_copy(update={"type": "struct thing"})}
    )
    assert scoring.figure(shown(typed), case()) == 1.0
    assert scoring.figure(shown(one), case()) == 0


def test_of_a_lock_the_time_under_it_or_the_times_it_is_taken_count() -> None:
    locks = [lock("tasks", 300.0, field="tasks", exclusive=2.0), lock("other", 50.0)]
    result = shown(COUNT, locks=locks)
    asked = {"objects": ("tasks",), "fields": ("*",)}
    assert scoring.figure(result, case(measure="instructions", **asked)) == 300.0
    assert scoring.figure(result, case(measure="acquisitions", **asked)) == 2.0


@pytest.mark.parametrize(
    ("before", "after", "after_it", "verdict", "found", "wrong"),
    [
        (2.0, 0.0, "gone", "right", True, False),
        (2.0, 0.02, "gone", "still there", True, True),
        (2.0, 1.8, "less", "right", True, False),
        (2.0, 1.9, "less", "still there", True, True),
        (0.0, 0.0, "gone", "missed", False, False),
        (0.0, 0.0, "less", "missed", False, False),
        (0.0, 1.0, "less", "missed", False, True),
    ],
)
def test_a_case_is_right_if_found_before_and_gone_or_less_after(
    before: float, after: float, after_it: str, verdict: str, found: bool, wrong: bool
) -> None:
    old, new = (shown(*([wall("struct thing", n, "count")] if n else [])) for n in (before, after))
    score = scoring.score(case(after_it=after_it), old, new)
    assert (score.verdict, score.found, score.wrong) == (verdict, found, wrong)


def test_what_is_only_listed_apart_is_not_found_and_said_to_be() -> None:
    score = scoring.score(case(), shown(background=[COUNT]), shown())
    assert (score.found, score.apart, score.verdict) == (False, 2.0, "listed apart")


def test_recall_is_of_known_walls_and_precision_of_what_is_named() -> None:
    def one(before: float, after: float) -> scoring.Score:
        return scoring.Score(case(), before, after)

    control = Control(name="calm", workload="signal", kernels=("debian",))
    calm = scoring.check(control, "6.12", shown())
    assert calm.walls == ()
    moving = shown(sums=Sums(walls=0, handed_over=0.5, rest=0))
    assert scoring.check(control, "6.12", moving).walls == ("no wall",)
    # What is left for after the windows is not what a control is for.
    left = Left(context="RCU callback of close", by="f", late=False, times=1, done=0, containers=0)
    later = put_off([]).model_copy(update={"left": [left]})
    assert scoring.check(control, "6.12", shown(deferred=later)).walls == ()
    for lost in ({"left": None}, {"unfollowed": ["work items (no __queue_work)"]}):
        hidden = shown(deferred=later.model_copy(update=lost))
        assert scoring.check(control, "6.12", hidden).walls == ("isolated in its calls",)
    loud = scoring.check(control, "6.12", shown(COUNT, COUNT, wall("x", 1.0)))
    assert len(loud.walls) == 2
    # Of deferred work as well.
    late = scoring.check(control, "6.12", shown(deferred=put_off([COUNT])))
    assert late.walls == (COUNT.object.name,)
    sums = scoring.total([one(2, 0), one(2, 1), one(0, 0), one(3, 0)], [calm, loud])
    assert (sums.run, sums.found, sums.wrong) == (4, 3, 3)
    assert (sums.recall, sums.precision) == (0.75, 0.5)
    nothing = scoring.total([], [])
    assert (nothing.recall, nothing.precision) == (0, 0)


def test_results_of_two_kernels_scopes_or_parameters_are_kept_apart() -> None:
    bench = known.Bench(Quiet())
    entries = [case(), case(scope="within"), case(append="a=1"), case(workload="calls/epoll")]
    paths = {bench.path(entry, kernel) for entry in entries for kernel in ("debian", "debian@sid")}
    assert len(paths) == 8
    assert all(path.parent == known.RESULTS for path in paths)


def test_an_unknown_case_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert known.main(["no-such"]) == 2
    assert "no-such" in capsys.readouterr().out
    assert known.main(["--list"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == cases.read().case[0].name


def test_what_could_not_be_measured_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object) -> None:
        raise PartywallError("the guest hung")

    monkeypatch.setattr(known.Bench, "result", fails)
    assert known.main(["load-avg", "getppid"]) == 3
    said = capsys.readouterr().out
    assert "failed: load-avg: the guest hung" in said
    assert "recall 0%: 0 of 0" in said


def test_each_case_says_which_releases_were_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measured(_: object, entry: Case | Control, kernel: str) -> tuple[str, WorkloadResult]:
        release = "6.1.0-56" if kernel == "debian:6.1" else "6.12.117+deb12"
        hash_lock = wall("mm_struct: struct mm_struct", 2.0, "mmap_lock.count")
        return f"{release}-cloud-amd64", shown(*([hash_lock] if kernel == "debian:6.1" else []))

    monkeypatch.setattr(known.Bench, "result", measured)
    assert known.main(["vma-lock-faults"]) == 0
    said = capsys.readouterr().out
    (row,) = (text for text in said.splitlines() if text.startswith("vma-lock-faults"))
    assert "2 6.1.0-56 " in " ".join(row.split())
    assert "0 6.12.117+deb12 right" in " ".join(row.split())
    assert "precision 100% of the table's objects" in said
    assert known.main(["vma-lock-faults", "getppid", "--markdown"]) == 0
    said = capsys.readouterr().out
    assert "2 on 6.1.0-56 | 0 on 6.12.117+deb12, to be gone | right" in said
    assert "| `calls/getppid`, between | 6.1.0-56 | mm_struct: struct mm_struct |" in said
