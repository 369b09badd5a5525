# SPDX-License-Identifier: GPL-2.0-or-later
"""What changed between two results, and what of it is a regression."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any, get_args

import builders
import jsonschema
import pytest
from commands import run
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from partywall.core.errors import UsageProblem
from partywall.report import diff as view
from partywall.results import document, store
from partywall.results.compare import Change
from partywall.results.counts import CallCount, Instructions, Passing, Sums
from partywall.results.diff import Difference, Tolerance, What, diff, how
from partywall.results.result import Result
from partywall.results.upgrade import FIRST

USUAL = Tolerance()
RATES = st.floats(0, 1e6)


def changed(**more: Any) -> Result:
    return builders.result(builders.signal().model_copy(update=more), builders.isolated())


SAME = changed()


def told(after: Result, before: Result = SAME) -> list[tuple[str, str, str]]:
    return [(f.how, f.what, f.name) for f in diff(before, after, USUAL).findings]


def shown(found: Difference) -> str:
    file = io.StringIO()
    view.render(found, Console(file=file, width=80))
    return file.getvalue()


def test_a_result_does_not_differ_from_itself() -> None:
    found = diff(SAME, SAME, Tolerance(least=0, share=0, instructions=0))
    assert found.findings == []
    assert "nothing changed" in shown(found)


def lacking(tmp_path: Path) -> list[Path]:
    """Two files, of which the latter lacks a workload of the former."""
    paths = [tmp_path / "before.json", tmp_path / "after.json"]
    for path, found in zip(paths, (SAME, builders.result(builders.signal())), strict=True):
        store.write(found, path)
    return paths


def test_what_is_not_measured_any_more_has_not_passed(tmp_path: Path) -> None:
    before, after = lacking(tmp_path)
    (lost,) = diff(store.load(before), store.load(after), USUAL).missing
    assert lost == "overlay/access 8 x 1"
    status, said, _ = run("diff", before, after)
    assert status == 1
    assert f"not measured any more, or not in the same way: {lost}" in said
    assert "nothing of what both have changed" in said
    assert "only in one" not in said
    assert run("diff", before, after, "--allow-missing")[0] == 0
    # What is measured besides is no loss.
    status, said, _ = run("diff", after, before)
    assert status == 0
    assert f"only in one of the two: {lost}" in said


def test_what_was_measured_otherwise_is_said_once(tmp_path: Path) -> None:
    before, after = lacking(tmp_path)
    otherwise = builders.isolated().model_copy(update={"confinement": "unconfined"})
    store.write(builders.result(builders.signal(), otherwise), after)
    status, said, _ = run("diff", before, after)
    assert status == 1
    assert said.count("overlay/access 8 x 1") == 1


def test_a_comment_says_first_what_is_not_measured_any_more(tmp_path: Path) -> None:
    _, said, _ = run("diff", *lacking(tmp_path), "--markdown")
    first = said.splitlines()[0]
    assert first.startswith("### Walls: 1 workload not measured any more")


def test_walls_go_and_appear() -> None:
    none = changed(walls=[])
    gone = told(none)
    assert ("went", "wall", "init_ucounts") in gone
    assert {how for how, _, _ in gone} == {"went"}
    found = diff(none, SAME, USUAL)
    assert {(f.how, f.regression) for f in found.findings} == {("appeared", True)}
    assert "regressions" in shown(found)


def test_what_counts_in_full_as_windows_ran_one_after_another_is_no_regression() -> None:
    sums = Sums(walls=6.0, handed_over=1.0, rest=0.0)
    before = changed(sums=sums)
    more = sums.model_copy(update={"handed_over": 9.0})
    grew = told(changed(sums=more), before)
    assert ("grew", "transfers", "all lines") in grew
    apart = changed(sums=more, in_turn=0.1)
    assert told(apart, before) == []
    assert "windows ran one after another" in (diff(before, apart, USUAL).left_out or "")
    # In both they count alike.
    assert told(apart, changed(sums=sums, in_turn=0.1)) == grew


def test_instructions_calls_and_locks_count_too() -> None:
    ran = builders.signal().instructions
    more = Instructions(kernel=ran.kernel * 1.06, user=ran.user, background=0)
    assert told(changed(instructions=more)) == [("grew", "instructions", "kernel")]
    slight = Instructions(kernel=ran.kernel * 1.04, user=ran.user, background=0)
    assert told(changed(instructions=slight)) == []
    called = [CallCount(function="kmem_cache_free", per_op=n) for n in (1.0, 2.0)]
    assert told(changed(calls=called[1:]), changed(calls=called[:1])) == [
        ("grew", "calls", "kmem_cache_free")
    ]
    held = changed(locks=[builders.lock("rtnl_mutex", ran.kernel / 2)])
    assert told(held) == [("appeared", "lock", "rtnl_mutex lock")]
    assert told(changed(locks=[builders.lock("rtnl_mutex", 5)])) == []


def test_what_an_older_partywall_did_not_measure_is_no_regression() -> None:
    old = SAME.model_copy(update={"measured_with": FIRST})
    ran = builders.signal().instructions
    more = Instructions(kernel=ran.kernel * 2, user=ran.user, background=0)
    after = changed(locks=[builders.lock("rtnl_mutex", ran.kernel / 2)], instructions=more)
    found = diff(old, after, USUAL)
    assert found.findings == []
    assert "measure it again" in shown(found)
    assert diff(old, old, USUAL).left_out is None


def test_walls_of_deferred_work_come_and_go_too() -> None:
    sums = Sums(walls=6.0, handed_over=0.0, rest=0.0)
    none, some = (
        changed(deferred=builders.put_off(walls), sums=sums)
        for walls in ([], builders.signal().walls)
    )
    assert told(some, none) == [
        ("appeared", "deferred wall", "init_ucounts"),
        ("appeared", "deferred wall", "kmalloc-256: struct aa_label"),
        ("appeared", "deferred", "all lines"),
    ]
    assert {how for how, _, _ in told(none, some)} == {"went"}
    found = diff(none, some, USUAL)
    assert "deferred init_ucounts" in " ".join(shown(found).split())
    assert found.left_out is None


def test_deferred_work_that_only_one_result_judges_is_left_out_and_that_is_said() -> None:
    older = changed(deferred=None)
    found = diff(older, changed(deferred=builders.put_off(builders.signal().walls)), USUAL)
    assert found.findings == []
    assert found.left_out is not None
    assert found.left_out.startswith("deferred work: one of the results is of an older")


def test_regressions_come_first() -> None:
    ran = builders.signal().instructions
    more = Instructions(kernel=ran.kernel * 2, user=ran.user, background=0)
    found = diff(SAME, changed(walls=[], instructions=more), USUAL).findings
    assert [f.regression for f in found] == sorted((f.regression for f in found), reverse=True)
    assert found[0].what == "instructions"


@given(RATES, RATES, st.floats(0, 10), st.floats(0, 2))
def test_a_change_is_what_it_is_the_other_way_round(
    before: float, after: float, least: float, share: float
) -> None:
    there = how(Change(before=before, after=after), least, 0)
    back = how(Change(before=after, after=before), least, 0)
    mirror = {"grew": "shrank", "shrank": "grew", "appeared": "went", "went": "appeared"}
    assert back == (None if there is None else mirror[there])
    if abs(after - before) <= least or abs(after - before) <= share * before:
        assert how(Change(before=before, after=after), least, share) is None


def test_json_is_what_the_schema_says() -> None:
    found = diff(SAME, changed(walls=[]), USUAL)
    jsonschema.validate(json.loads(document.dump(found)), document.schema(Difference))
    assert Difference.model_validate_json(document.dump(found)) == found


def test_results_without_a_workload_in_common_are_refused() -> None:
    with pytest.raises(UsageProblem, match="in common"):
        diff(SAME, builders.result(builders.false_sharing()), USUAL)


def judged(walls: dict[str, float], passing: dict[str, float], **more: Any) -> Result:
    """A result with these objects that are walls, and these that are handed over."""
    lines = []
    for name, moved in walls.items():
        wall = builders.named_wall(name)
        lines.append(
            wall.model_copy(update={"transfers": moved, "transfers_at": more.get("at_n", moved)})
        )
    sums = Sums(walls=sum(walls.values()), handed_over=sum(passing.values()), rest=0.0)
    found = [Passing(name=name, lines=3, transfers=moved) for name, moved in passing.items()]
    return changed(walls=lines, passing=found, sums=sums, at=more.get("at", 64), calls=[])


def test_a_lock_that_fewer_share_each_did_not_go() -> None:
    some = judged({"lock": 2.0}, {})
    (wall,) = some.workloads[0].walls
    few = wall.model_copy(update={"sharing": "some", "writers": [0, 1, 2]})
    after = some.model_copy(
        update={"workloads": [some.workloads[0].model_copy(update={"walls": [few]})]}
    )
    assert told(after, some) == []


def test_what_was_a_wall_and_is_handed_over_shrank_by_what_it_moves_less() -> None:
    before, after = judged({"lock": 4.0}, {}), judged({}, {"lock": 3.0})
    assert told(after, before) == [("shrank", "wall", "lock"), ("shrank", "transfers", "all lines")]
    assert told(judged({}, {"lock": 4.0}), before) == []
    assert told(judged({}, {}), before)[0] == ("went", "wall", "lock")


def test_what_is_handed_over_counts_too() -> None:
    before, after = judged({}, {"object": 1.0}), judged({}, {"object": 3.0})
    assert told(after, before) == [
        ("grew", "handed over", "object"),
        ("grew", "transfers", "all lines"),
    ]
    assert "handed over: object" in shown(diff(before, after, USUAL))


def test_every_kind_of_finding_has_words() -> None:
    assert set(view.UNITS) == set(get_args(What))


def test_an_improvement_is_no_regression() -> None:
    # A lock is gone; some memory is handed over in its stead.
    before, after = judged({"lock": 4.0}, {}), judged({}, {"object": 1.0})
    found = diff(before, after, USUAL)
    assert found.regressions == []
    assert [f.how for f in found.findings] == ["went", "shrank"]
    back = diff(after, before, USUAL)
    assert {f.name for f in back.regressions} == {"lock", "all lines"}


def test_what_moves_more_among_more_is_seen_at_their_number() -> None:
    before, after = judged({"seldom": 0.1}, {}, at_n=0.8), judged({"seldom": 0.2}, {}, at_n=6.4)
    assert told(after, before)[0] == ("grew", "wall", "seldom")
    other = judged({"seldom": 0.2}, {}, at_n=6.4, at=512)
    assert told(other, before) == []


def test_walls_by_another_rule_are_no_regression() -> None:
    old = changed(walls=[], calls=[])
    after = judged({"lock": 4.0}, {})
    found = diff(old, after, USUAL)
    assert found.findings == []
    assert found.left_out is not None
    assert "walls" in found.left_out
