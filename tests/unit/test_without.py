# SPDX-License-Identifier: GPL-2.0-or-later
"""A workload without some of its walls: what goes, and what stays as it was."""

from __future__ import annotations

from typing import Any

import builders
import pytest

from partywall.advice.mends import Mend, Saved
from partywall.advice.without import Gone, all_of, also, by_mends, key, number, without
from partywall.model import profiles
from partywall.model.cost import cost
from partywall.results.held import Held
from partywall.results.lines import Line, LineObject, Wall
from partywall.results.locks import Lock
from partywall.results.result import WorkloadResult

PROFILE = profiles.load(profiles.DEFAULT)


def wall(name: str, transfers: float, at: int, **more: Any) -> Line:
    """A line of a variable of this name."""
    what = LineObject(
        kind="global", name=name, address=f"{0xFFFFFFFF82000000 + 64 * at:#x}", size=64, line=0
    )
    return builders.line(what, transfers, **more)


def mend(name: str, **more: Any) -> Mend:
    """A mend for a variable."""
    given: dict[str, Any] = {"by": "series", "patches": ["topic/0001"], "source": "here"}
    return Mend(object=name, **(given | more))


def each(workload: WorkloadResult) -> float:
    """What each of 64 does, of one alone."""
    return cost(workload, PROFILE, 64).relative.usual


def test_a_wall_that_is_gone_leaves_the_others_as_they_were() -> None:
    signal = builders.signal()
    left = without(signal, all_of(signal, [("global", "init_ucounts")]))
    assert [one.name for one in left.found] == ["kmalloc-256: struct aa_label"]
    assert left.walls == [signal.walls[0]]
    # What moves and is no wall stays.
    assert left.between == pytest.approx(signal.between - 4.031)
    assert left.instructions == signal.instructions
    assert each(left) > each(signal)


def test_without_anything_it_is_as_it_was() -> None:
    signal = builders.signal()
    left = without(signal, {})
    assert left.found == signal.found
    assert sorted(left.walls, key=repr) == sorted(signal.walls, key=repr)


def test_walls_of_one_name_have_their_lines_once() -> None:
    """As of fifty containers' own inodes: each of them had the lines of all."""
    lines = [wall("inode", 2.0, at) for at in range(1, 4)]
    alike = [
        Wall(
            kind=lines[0].object.kind,
            name=lines[0].object.name,
            type=None,
            lines=1,
            transfers=2.0,
            sharers=[at, at + 1],
        )
        for at in range(3)
    ]
    one = builders.workload("mount", lines, objects=alike, between=6.0)
    assert without(one, {}) == one
    left = without(one, {number(lines[0].address): Gone()})
    assert [line.address for line in left.walls] == [line.address for line in lines[1:]]
    assert sum(line.transfers for line in left.walls) == 4.0
    assert sum(found.transfers for found in left.found) == pytest.approx(4.0)
    assert left.between == pytest.approx(4.0)


def test_without_any_wall_nobody_waits() -> None:
    signal = builders.signal()
    left = without(signal, all_of(signal, map(key, signal.every_wall)))
    assert (left.walls, left.found) == ([], [])
    assert each(left) > 0.999


def test_of_lines_that_are_not_listed_as_much_goes_as_of_those() -> None:
    listed = [wall("table", 3.0, 1), wall("table", 1.0, 2)]
    many = Wall(kind="global", name="table", lines=10, transfers=8.0)
    workload = builders.workload("w", listed, objects=[many], between=8.0)
    (left,) = without(workload, {number(listed[0].address): Gone()}).found
    # A quarter of what is listed stays: one of its lines, and four of eight.
    assert (left.transfers, left.lines) == (pytest.approx(2.0), 5)
    assert without(workload, all_of(workload, [key(many)])).found == []


def test_a_part_is_as_much_as_its_functions_use() -> None:
    code = [builders.site("f", 0, "", atomics=3.0), builders.site("g", 0, "", atomics=1.0)]
    workload = builders.workload("w", [wall("lock", 4.0, 1, code=code)])
    (line,) = workload.walls
    taken = by_mends(workload, {number(line.address): [mend("lock", functions=["f"], part=True)]})
    assert taken == {number(line.address): Gone(0.75, {"f": 1.0}, part=True)}
    left = without(workload, taken)
    assert left.walls[0].transfers == left.found[0].transfers == pytest.approx(1.0)
    assert left.walls[0].write_visits == pytest.approx(1.0)
    assert left.between == pytest.approx(1.0)


def test_a_part_of_which_it_is_known_how_large_it_is_takes_no_more() -> None:
    code = [builders.site("f", 0, "", atomics=3.0), builders.site("g", 0, "", atomics=1.0)]
    workload = builders.workload("w", [wall("lock", 4.0, 1, code=code)])
    (at,) = (number(line.address) for line in workload.walls)
    half = mend("lock", functions=["f"], part=True, most=0.5)
    assert by_mends(workload, {at: [half]})[at].share == 0.375
    none = mend("lock", part=True, most=0.0)
    assert by_mends(workload, {at: [none]})[at].share == 0.0
    assert by_mends(workload, {at: [none, half]})[at] == Gone(0.375, {"f": 0.5}, part=True)


def test_a_mend_takes_all_of_a_line_that_its_functions_use_mostly() -> None:
    code = [builders.site("f", 0, "", atomics=3.0), builders.site("g", 0, "", atomics=2.0)]
    workload = builders.workload("w", [wall("count", 5.0, 1, code=code)])
    (at,) = (number(line.address) for line in workload.walls)
    assert by_mends(workload, {at: [mend("count", functions=["f"])]})[at] == Gone()
    # Others do more there than what it changes.
    some = by_mends(workload, {at: [mend("count", functions=["g"])]})[at]
    assert (some.share, some.part) == (0.4, True)
    both = by_mends(workload, {at: [mend("count", functions=[f], part=True) for f in "fg"]})[at]
    assert (both.share, both.part) == (1.0, True)
    assert by_mends(workload, {at: [mend("count", part=True, beside="x")]}) == {}


def test_what_most_uses_are_is_asked_of_all_lines_of_a_wall() -> None:
    few = [builders.site("f", 0, "", atomics=1.0), builders.site("g", 0, "", atomics=2.0)]
    many = [builders.site("f", 8, "", atomics=3.0)]
    lines = [wall("count", 3.0, 1, code=few), wall("count", 3.0, 2, code=many)]
    workload = builders.workload("w", lines)
    every = {number(line.address): [mend("count", functions=["f"])] for line in lines}
    assert by_mends(workload, every) == dict.fromkeys(every, Gone())


def _locked() -> WorkloadResult:
    """A lock with a line of data under it, which are two walls."""
    lines = [wall("lock", 2.0, 1, locked=2.0), wall("data", 3.0, 2, locked=3.0)]
    held: dict[str, Any] = {"transfers": 5.0, "last_transfers": 5.0, "word_transfers": 2.0}
    lock = builders.lock("lock", 4000.0, address=lines[0].address, field="", **held)
    objects = [
        Wall(kind="global", name=line.object.name, lines=1, transfers=line.transfers, locked=moved)
        for line, moved in zip(lines, (2.0, 3.0), strict=True)
    ]
    return builders.workload("w", lines, locks=[lock], objects=objects)


def test_a_lock_goes_with_its_line_and_what_was_under_it_moves_as_before() -> None:
    workload = _locked()
    left = without(workload, all_of(workload, [("global", "lock")]))
    assert left.locks == []
    ((line,), (data,)) = left.walls, left.found
    assert (line.transfers, line.locked) == (3.0, 0.0)
    assert (data.transfers, data.locked) == (3.0, 0.0)
    # Who wants the line waits for that, but no longer for all that ran under the lock.
    assert each(workload) < each(left) < 0.999


def test_what_is_no_longer_fetched_under_a_lock_keeps_nobody_out() -> None:
    workload = _locked()
    left = without(workload, all_of(workload, [("global", "data")]))
    (lock,) = left.locks
    assert (lock.transfers, lock.last_transfers, lock.word_transfers) == (2.0, 2.0, 2.0)
    assert lock.instructions == 4000.0
    assert left.walls[0].locked == 2.0


def test_a_lock_that_is_taken_less_often_is_held_for_as_long() -> None:
    workload = _locked()
    (line, _) = workload.walls
    at = number(line.address)
    rarer = mend("lock", part=True, most=0.5, held=False)
    left = without(workload, by_mends(workload, {at: [rarer]}))
    (lock,) = left.locks
    assert (lock.exclusive, lock.instructions, lock.own) == (0.5, 4000.0, 4000.0)
    # Of five that are fetched under it two were its own line's, and one is left of these.
    assert (lock.word_transfers, lock.transfers, lock.last_transfers) == (1.0, 4.0, 4.0)
    assert {one.object.name: one.transfers for one in left.walls} == {"lock": 1.0, "data": 3.0}
    shorter = without(workload, by_mends(workload, {at: [mend("lock", part=True, most=0.5)]}))
    assert shorter.locks[0].instructions == 2000.0
    assert each(workload) < each(left) < each(shorter)


def test_what_is_saved_of_instructions_leaves_the_line_as_it_was() -> None:
    workload = _locked()
    at = number(workload.walls[0].address)
    saved = Saved(workloads=["w"], kernel=0.2, under=0.25, command="partywall compare")
    left = without(workload, by_mends(workload, {at: [mend("lock", saved=saved)]}))
    assert left.walls == workload.walls
    assert left.instructions.kernel == pytest.approx(workload.instructions.kernel * 0.8)
    assert left.instructions.user == workload.instructions.user
    (lock,) = left.locks
    assert (lock.instructions, lock.transfers) == (pytest.approx(3000.0), 5.0)
    # That of another field of the object is held as long.
    other = saved.model_copy(update={"lock": "other"})
    elsewhere = by_mends(workload, {at: [mend("lock", saved=other)]})
    assert without(workload, elsewhere).locks[0].instructions == 4000.0
    # It is saved whatever else is gone there, and once.
    more = also(by_mends(workload, {at: [mend("lock", saved=saved)]}), {at: Gone()})
    assert without(workload, more).locks == []
    assert without(workload, more).instructions == left.instructions
    twice = dict.fromkeys(
        map(number, (line.address for line in workload.walls)), Gone(0.0, saved=(saved, saved))
    )
    assert without(workload, twice).instructions == left.instructions


@pytest.mark.parametrize(("most", "ran"), [(0.1, 3000.0), (0.5, 2000.0)])
def test_of_what_is_saved_under_a_lock_and_what_a_mend_takes_the_larger_counts(
    most: float, ran: float
) -> None:
    # A topic and a release may mend one thing, which would be taken away twice.
    workload = _locked()
    at = number(workload.walls[0].address)
    saved = mend("lock", saved=Saved(workloads=["w"], under=0.25, command="partywall compare"))
    release = mend("lock", part=True, most=most)
    left = without(workload, by_mends(workload, {at: [saved, release]}))
    assert left.locks[0].instructions == pytest.approx(ran)
    assert left.locks[0].own == pytest.approx(min(4000.0 * (1 - most), ran))
    # What is alone taken less often is held for as long, but for what is saved.
    rarer = mend("lock", part=True, most=most, held=False)
    left = without(workload, by_mends(workload, {at: [saved, rarer]}))
    assert left.locks[0].instructions == pytest.approx(3000.0)


def test_of_two_locks_one_keeps_what_is_fetched_under_it() -> None:
    lines = [wall(name, 2.0, at, locked=2.0) for at, name in enumerate("abc", 1)]
    locks = [
        builders.lock(
            name,
            100.0,
            address=line.address,
            field="",
            transfers=3.0,
            last_transfers=3.0,
            word_transfers=2.0,
        )
        for name, line in zip("ab", lines, strict=False)
    ]
    workload = builders.workload("w", lines, locks=locks)
    left = without(workload, all_of(workload, [("global", "a")]))
    assert [lock.object for lock in left.locks] == ["b"]
    # As much as the lock that is left had: its own line, and half of the third.
    assert [line.locked for line in left.walls] == [2.0, pytest.approx(1.0)]
    assert [one.locked for one in left.found] == [0.0, 0.0]


def _sleeping(by: str = "cleanup_net") -> tuple[WorkloadResult, Lock]:
    """A mutex that is a wall and is held asleep, by one function and hardly by another."""
    line = wall("rtnl_mutex", 2.0, 1, code=[builders.site("f", 0, "", atomics=1.0)])
    lock = builders.lock("rtnl_mutex", 100.0, address=line.address, field="")
    (held, *_) = builders.held().locks
    (holder,) = held.holders
    slow = holder.model_copy(update={"by": by, "ns": 3e6, "asleep_ns": 2e6})
    quick = holder.model_copy(update={"by": "quick", "ns": 1e6, "asleep_ns": 0.0})
    both = held.model_copy(update={"address": line.address, "holders": [slow, quick]})
    return builders.workload("w", [line], locks=[lock], held=Held(locks=[both], waits=[])), lock


def test_who_sleeps_with_a_lock_that_is_gone_keeps_nobody_out() -> None:
    workload, _ = _sleeping()
    left = without(workload, all_of(workload, [("global", "rtnl_mutex")]))
    assert left.held is not None
    assert left.held.locks == []
    assert each(left) > 10 * each(workload)


def test_a_part_of_a_lock_is_as_long_as_its_functions_have_it() -> None:
    workload, lock = _sleeping()
    (line,) = workload.walls
    at = number(line.address)
    functions = ["cleanup_net", "f"]
    taken = by_mends(workload, {at: [mend("rtnl_mutex", functions=functions, part=True)]})
    left = without(workload, taken)
    assert left.held is not None
    assert [one.by for one in left.held.locks[0].holders] == ["quick"]
    assert left.locks[0].instructions == pytest.approx(lock.instructions / 4)
    other = by_mends(workload, {at: [mend("rtnl_mutex", functions=["f"], part=True)]})
    still = without(workload, other)
    assert still.held is not None
    assert [one.by for one in still.held.locks[0].holders] == ["cleanup_net", "quick"]


@pytest.mark.parametrize("most", [0.5, 0.99])
def test_a_part_of_a_lock_brings_no_more_than_the_whole(most: float) -> None:
    own = wall("lock", 30.0, 1, locked=30.0)
    others = [wall(f"v{at}", 2.0, at + 2, locked=2.0) for at in range(15)]
    more = {"transfers": 60.0, "last_transfers": 60.0, "word_transfers": 30.0}
    lock = builders.lock("lock", 100.0, address=own.address, **more)
    workload = builders.workload("w", [own, *others], locks=[lock])
    whole = without(workload, {number(own.address): Gone(1.0)})
    part = without(workload, {number(own.address): Gone(most, held=True)})
    assert each(part) <= each(whole) * 1.03
    # What is no longer fetched under the lock is waited for at its own line.
    (left,) = part.locks
    under = sum(line.locked for line in part.every_line)
    assert under == pytest.approx(left.last_transfers)


def test_what_deferred_work_does_at_a_line_is_no_more_than_its_part() -> None:
    def at_work(function: str, atomics: float) -> Line:
        site = builders.site(function, 0, "", atomics=atomics)
        return wall("a", atomics, 1, code=[site])

    late = builders.put_off([at_work("f", 1.0)])
    workload = builders.workload("w", [at_work("g", 99.0)], deferred=late)
    (at,) = {number(line.address) for line in workload.every_line}
    gone = by_mends(workload, {at: [mend("a", functions=["f"], part=True)]})[at]
    assert gone.share == pytest.approx(0.01)


def test_deferred_work_is_taken_away_as_well() -> None:
    late = builders.put_off(builders.signal().walls)
    workload = builders.workload("w", [], deferred=late)
    left = without(workload, all_of(workload, [("global", "init_ucounts")]))
    assert left.deferred is not None
    assert [one.name for one in left.deferred.objects] == ["kmalloc-256: struct aa_label"]
    assert left.deferred.transfers == pytest.approx(2.0)
