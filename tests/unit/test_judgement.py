# SPDX-License-Identifier: GPL-2.0-or-later
"""Lines judged by their objects: who shares them, what they move, which are walls."""

from __future__ import annotations

import random
from typing import Any

import pytest
from recordings import party, recording, visits

from partywall.analyse import transfers, verdict
from partywall.analyse.judgement import Judgement
from partywall.analyse.transfers import Parties
from partywall.core.topology import Scope, Topology
from partywall.record.recording import Kind
from partywall.results.result import LineObject

WINDOW = 400
ONCE = 400
"""Visits of who visits in each operation."""


def thing(name: str, state: str = "live", **more: Any) -> LineObject:
    """An object of the slab, or a variable if it is static."""
    given: dict[str, Any] = {"kind": "global" if state == "static" else "slab", "type": "struct x"}
    given |= {"address": "0xffff888000000000", "size": 64, "line": 0}
    return LineObject.model_validate({"name": name, "state": state, **(given | more)})


def judged(
    lines: list[list[Any]],
    objects: list[LineObject],
    *,
    seen: list[LineObject] | None = None,
    at: int | None = None,
    cpus: int = 1,
    scope: Scope = "between",
    window: int = WINDOW,
    thread: tuple[int, int, int, int] | None = None,
) -> Judgement:
    """The judgement on lines, each with its writing visits (turns, returns, slices) by each CPU.

    Where only visits are given, each is a turn and returns after another party's. ``thread``:
    the visits of a kernel thread, at every line but the last.
    """
    number = len(lines[0])
    rows: list[list[tuple[int, ...]]] = [[] for _ in range(number)]
    for line, counts in enumerate(lines):
        for cpu, count in enumerate(counts):
            made, turns, *rest = count if isinstance(count, tuple) else (count, count)
            if made:
                # Of whoever has it but for some turns, the emulator sees none come back.
                returns = 0 if isinstance(count, tuple) else min(7, turns - 1)
                returns, slices = (*rest, None, None)[:2] if rest else (returns, None)
                given = {"turns": turns, "returns": returns, "slices": slices}
                rows[cpu].append(visits(line, 0, made, **given))
    parts = [party(cpu, made) for cpu, made in enumerate(rows)]
    if thread is not None:
        made, turns, returns, slices = thread
        given = {"turns": turns, "returns": returns, "slices": slices}
        there = [visits(line, 0, made, **given) for line in range(len(lines) - 1)]
        parts.append(party(0, there, thread=0xFFFF888000100000))
    whole = recording(*parts)
    shape = Topology(number // cpus, cpus)
    parties = Parties.of(whole, cpus)
    found = transfers.analyse(
        transfers.visits(whole).moving(),
        parties,
        window * number,
        ran=shape.containers,
        at=shape.containers if at is None else at,
    )
    named = dict(enumerate(objects))
    return Judgement(
        found,
        parties,
        shape,
        scope,
        window=window,
        threshold=verdict.THRESHOLD,
        objects=named,
        look=lambda row: (objects if seen is None else seen)[row],
    )


def test_a_lock_of_two_of_eight_containers_is_their_wall() -> None:
    pairs = [[ONCE if cpu // 2 == pair else 0 for cpu in range(8)] for pair in range(4)]
    found = judged(pairs, [thing("lock", address=f"{n:#x}", type=None) for n in range(4)])
    assert found.walls.all()
    assert found.sharing.tolist() == [verdict.SOME] * 4
    assert [row.nonzero()[0].tolist() for row in found.back] == [[0, 1], [2, 3], [4, 5], [6, 7]]


def test_what_some_share_moves_as_much_per_operation_among_more() -> None:
    found = judged([[ONCE, ONCE, 0, 0, 0, 0, 0, 0], [ONCE] * 8], [thing("a"), thing("b")], at=64)
    assert found.moved_at.tolist() == pytest.approx([0.25, 1.0])


@pytest.mark.parametrize("locks", [1, 16])
def test_who_is_in_a_system_call_and_who_in_a_softirq_meet_at_a_lock(locks: int) -> None:
    # The recorder counts no returns of one kind of work after the other.
    each = {"turns": ONCE, "returns": 0, "slices": 9}
    whole = recording(
        party(0, [visits(n, 0, ONCE, **each) for n in range(locks)]),
        party(1, [visits(n, 0, ONCE, kind=Kind.DEFERRED, **each) for n in range(locks)]),
    )
    parties, shape = Parties.of(whole, 1), Topology(2, 1)
    moving = transfers.visits(whole).moving()
    lock = thing("lock", "static", type=f"struct x [{locks}]")
    found = Judgement(
        transfers.late(moving, parties, 2 * WINDOW),
        parties,
        shape,
        "between",
        window=WINDOW,
        threshold=verdict.THRESHOLD,
        objects=dict.fromkeys(range(locks), lock),
        look=lambda row: lock,
    )
    assert found.walls.tolist() == [True] * locks
    assert found.moved.tolist() == [1.0] * locks


def test_memory_handed_over_moves_as_often_as_was_seen() -> None:
    # Each makes it, visits it 50 times, and lets go of it for good.
    found = judged([[(50, 2)] * 8, [ONCE] * 8], [thing("object"), thing("counter")])
    assert found.walls.tolist() == [False, True]
    assert found.sharing[0] == verdict.HANDED_OVER
    assert found.moved[0] == pytest.approx(7 / (8 * WINDOW))


def test_a_container_and_a_kernel_thread_share_no_wall() -> None:
    found = judged([[ONCE, 0, 0, 0]], [thing("object")])
    assert not found.walls.any()


def test_lines_of_a_table_are_one_object_and_its_visitors_come_back_to_it() -> None:
    # No container visits a line of it more than twice.
    table = [[(2, 2, 1)] * 8 for _ in range(40)]
    found = judged(table, [thing("table[]", "static", address=f"{n:#x}") for n in range(40)])
    assert found.walls.all()
    assert len(set(found.objects.tolist())) == 1
    assert float(found.moved.sum()) == pytest.approx(2 * 40 / WINDOW)
    assert (found.sharing == verdict.ALL).all()
    alone = judged(table, [thing("object", type=None, address=f"{n:#x}") for n in range(40)])
    assert not alone.walls.any()


def test_a_variable_that_all_use_seldom_is_all_of_theirs() -> None:
    seen = [(n, n, n - 1) for n in (3, 2, 2, 2, 2, 4, 4, 3)]
    found = judged([list(seen)], [thing("vm_stat", "static")], window=48)
    assert found.sharing.tolist() == [verdict.ALL]
    assert found.back.all()
    assert found.walls.all()


def test_who_looks_once_does_not_share_what_two_fight_over() -> None:
    found = judged([[ONCE] * 2 + [1] * 6, [ONCE] * 8], [thing(n, "static") for n in ("a", "b")])
    assert found.sharing.tolist() == [verdict.SOME, verdict.ALL]
    assert found.back[0].nonzero()[0].tolist() == [0, 1]


def test_locks_of_pairs_in_one_array_are_theirs_all_the_same() -> None:
    pairs = [[ONCE if cpu // 2 == pair else 0 for cpu in range(8)] for pair in range(4)]
    found = judged(pairs, [thing("locks", "static") for _ in range(4)])
    assert found.sharing.tolist() == [verdict.SOME] * 4
    assert len(set(found.objects.tolist())) == 1
    assert [row.nonzero()[0].tolist() for row in found.back] == [[0, 1], [2, 3], [4, 5], [6, 7]]


def test_a_table_whose_lines_are_handed_over_once_is_no_wall() -> None:
    # Each line is written by one container and later by another, and never again.
    once = [[(1, 1) if cpu in (n % 8, (n + 1) % 8) else 0 for cpu in range(8)] for n in range(96)]
    found = judged(once, [thing("once[]", "static") for _ in range(96)])
    assert not found.walls.any()
    assert (found.sharing == verdict.HANDED_OVER).all()


def entries(number: int, visits: tuple[int, ...], **more: Any) -> tuple[list[Any], list[Any]]:
    """Lines of a table that two of eight containers visited each, and a counter of all; names."""
    lines: list[list[Any]] = [
        [visits if cpu in (n % 8, (n + 1) % 8) else 0 for cpu in range(8)] for n in range(number)
    ]
    given = {"type": "struct x [64]", **more}
    names = [thing("locks", "static", address=f"{n:#x}", **given) for n in range(number)]
    # The emulator ran each in 41 slices.
    return [*lines, [(ONCE, ONCE, 40)] * 8], [*names, thing("counter", "static")]


@pytest.mark.parametrize(("returns", "theirs"), [(0, False), (3, False), (4, True)])
def test_locks_that_are_hashed_to_are_no_wall_where_one_has_each_for_a_while(
    returns: int, theirs: bool
) -> None:
    # Of 16 returns that chance would have had.
    lines, names = entries(8, (50, 50, returns, 33))
    found = judged(lines, names)
    assert found.walls.tolist() == [theirs] * 8 + [True]
    assert ((found.sharing[:8] != verdict.HANDED_OVER) == theirs).all()


def test_a_lock_of_a_table_that_two_take_in_turns_is_their_wall_among_others() -> None:
    lines, names = entries(8, (50, 50, 0, 33))
    lines[0][0] = lines[0][1] = (50, 50, 20, 33)
    assert judged(lines, names).walls.tolist() == [True] + [False] * 7 + [True]
    # Nor does an entry that all take turns at say anything of the others.
    lines[0] = [(ONCE, ONCE, 40)] * 8
    assert judged(lines, names).walls.tolist() == [True] + [False] * 7 + [True]


def test_how_often_a_kernel_thread_comes_to_a_table_says_nothing_of_containers() -> None:
    lines, names = entries(16, (50, 50, 0, 33))
    found = judged(lines, names, thread=(50, 50, 40, 41))
    assert found.walls.tolist() == [False] * 16 + [True]


def test_lines_of_a_structure_or_of_few_entries_are_no_table_that_is_hashed_to() -> None:
    assert judged(*entries(8, (50, 50, 0, 33), type="struct x")).walls.all()
    assert judged(*entries(7, (50, 50, 0, 33))).walls.all()


def test_a_table_that_nobody_visits_in_many_slices_is_not_known_to_be_hashed_to() -> None:
    # Less than eight returns that chance would have had may be none by chance.
    few, more = (entries(8, (50, 50, 0, slices)) for slices in (1, 3))
    assert judged(*few).sharing[0] == verdict.SOME
    assert judged(*more).sharing[0] == verdict.HANDED_OVER


def emulated(
    containers: int, window: int, *, entries: int, operations_each: int, turns: int = 5
) -> list[list[tuple[int, ...]]]:
    """What the recorder counts of those entries of a hashed table that several visit.

    Each operation of a container takes one entry for some ``turns``, drawn anew after
    ``operations_each``, which nobody else takes meanwhile if these are many. The emulator
    runs one container for two to four operations, and then the next one.
    """
    draw = random.Random(17)
    counts = [[[0, 0, 0] for _ in range(containers)] for _ in range(entries)]
    last: dict[int, int] = {}
    seen: dict[tuple[int, int], int] = {}
    held = [0] * containers
    done = [0] * containers
    slice_ = 0
    while min(done) < window * turns:
        for container in range(containers):
            slice_ += 1
            for _ in range(draw.randint(2 * turns, 4 * turns)):
                if done[container] % (turns * operations_each) == 0:
                    taken = set(held) if operations_each > 1 else set()
                    free = sorted(set(range(entries)) - taken)
                    held[container] = draw.choice(free)
                done[container] += 1
                entry = held[container]
                count = counts[entry][container]
                count[0] += 1
                count[1] += last.get(entry, container) != container and count[0] > 1
                last[entry] = container
                count[2] += seen.get((entry, container)) != slice_
                seen[entry, container] = slice_
    met = [line for line in counts if sum(count[0] > 0 for count in line) > 1]
    return [[(n, n, *rest) if n else 0 for n, *rest in line] for line in met]


def counter(containers: int, window: int, each: int = 5) -> list[tuple[int, ...]]:
    """A counter that all take in each operation, in so many turns."""
    return [(each * window, each * window, window // 3 - 1)] * containers


def judged_with_a_counter(
    containers: int, window: int, entries: int, operations_each: int, each: int
) -> Judgement:
    """The judgement on a table as `emulated`, and last on a `counter`."""
    lines = emulated(containers, window, entries=entries, operations_each=operations_each)
    names = [thing("locks", "static", type=f"struct x [{entries}]") for _ in lines]
    all_of_them = counter(containers, window, each)
    return judged([*lines, all_of_them], [*names, thing("all", "static")], window=window)


@pytest.mark.parametrize("each", [1, 5])
@pytest.mark.parametrize(
    ("entries", "containers", "window"),
    [(32, 2, 64), (32, 8, 64), (32, 8, 96), (256, 4, 64), (256, 8, 400), (1024, 8, 64)],
)
def test_a_table_that_each_operation_hashes_to_anew_is_a_wall_in_any_window(
    entries: int, containers: int, window: int, each: int
) -> None:
    found = judged_with_a_counter(containers, window, entries, 1, each)
    assert found.walls.all()


@pytest.mark.parametrize("each", [1, 5])
@pytest.mark.parametrize(
    ("entries", "containers", "window"), [(32, 4, 400), (32, 8, 400), (32, 8, 800), (256, 8, 400)]
)
def test_a_table_of_which_each_has_an_entry_for_many_operations_is_none(
    entries: int, containers: int, window: int, each: int
) -> None:
    found = judged_with_a_counter(containers, window, entries, 20, each)
    assert found.walls.tolist() == [False] * (len(found.walls) - 1) + [True]


@pytest.mark.parametrize(("slices", "shared"), [(2, True), (9, False)])
def test_what_all_use_alike_but_each_for_a_while_only_is_handed_over(
    slices: int, shared: bool
) -> None:
    # Each came back once: of half a return that chance would have had, or of seven.
    found = judged([[(40, 40, 1, slices)] * 8, counter(8, WINDOW)], [thing("x"), thing("all")])
    assert found.walls.tolist() == [shared, True]


@pytest.mark.parametrize(("pairs", "slices"), [(8, 2), (4, 3)])
def test_a_table_that_two_have_each_line_of_is_theirs_though_none_ever_met(
    pairs: int, slices: int
) -> None:
    # In long slices the window of one may be over before the other's begins.
    number = 2 * pairs
    lines: list[list[Any]] = [
        [(ONCE, ONCE, 0) if cpu // 2 == n else 0 for cpu in range(number)] for n in range(pairs)
    ]
    given = {"type": "struct x [64]"}
    names = [thing("pairs", "static", address=f"{n:#x}", **given) for n in range(pairs)]
    counter = [(ONCE, ONCE, slices - 1)] * number
    found = judged([*lines, counter], [*names, thing("counter", "static")])
    assert (found.sharing[:pairs] == verdict.SOME).all()
    assert found.walls.all()


def test_a_variable_of_two_is_theirs_though_the_emulator_ran_each_in_one_go() -> None:
    lines = [[(ONCE, ONCE, 7)] * 8, [(ONCE, ONCE)] * 2 + [0] * 6]
    found = judged(lines, [thing("all", "static"), thing("two", "static")])
    assert found.sharing.tolist() == [verdict.ALL, verdict.SOME]
    assert found.walls.all()
    # Memory of the slab may have been the one's first and then the other's.
    assert not judged(lines, [thing("all"), thing("two")]).walls[1]


def test_what_two_had_in_turn_is_no_wall_where_each_ran_in_one_slice() -> None:
    # An object of the slab, of one container in all operations and then of another.
    once = [(ONCE, ONCE)] * 2 + [0] * 6
    found = judged([list(once)], [thing("object")])
    assert not found.walls.any()
    assert found.moved[0] == pytest.approx(1 / (8 * WINDOW))
    # What all use alike is shared by all, though nobody was seen to come back.
    assert judged([[(ONCE, ONCE)] * 8], [thing("counter")]).walls.all()


def test_a_table_in_vmalloc_is_one_object_though_each_line_is_seldom_visited() -> None:
    table = [[(2, 2, 1)] * 8 for _ in range(40)]
    names = [thing("vmalloc memory of f()", kind="vmalloc", type=None) for _ in range(40)]
    found = judged(table, names)
    assert found.walls.all()
    assert len(set(found.objects.tolist())) == 1


def test_a_variable_that_is_set_up_once_is_no_wall() -> None:
    found = judged([[(1, 1)] * 8], [thing("once", "static")], window=48)
    assert found.sharing.tolist() == [verdict.HANDED_OVER]


def test_objects_of_one_type_are_judged_together_if_they_are_shared() -> None:
    rows = [[4] * 8 for _ in range(5)]
    found = judged(rows, [thing("x", address=f"{n:#x}") for n in range(5)])
    assert found.walls.all()
    one = judged(rows[:1], [thing("x")])
    assert not one.walls.any()


def test_what_is_freed_by_the_end_or_has_no_name_is_by_itself() -> None:
    rows = [[4] * 8 for _ in range(5)]
    names = [thing("x", address=f"{n:#x}") for n in range(5)]
    freed = [thing("x", "freed") for _ in range(5)]
    assert not judged(rows, names, seen=freed).walls.any()
    unnamed = [thing("unnamed: why", kind="unnamed") for _ in range(5)]
    assert not judged(rows, unnamed).walls.any()


def test_a_line_that_was_not_looked_up_is_by_itself() -> None:
    found = judged([[ONCE] * 8, [ONCE] * 8, [4] * 8], [thing("a")])
    assert len(set(found.objects.tolist())) == 3
    assert found.walls.tolist() == [True, True, False]


def test_within_a_container_its_cpus_share() -> None:
    found = judged([[ONCE] * 4, [ONCE, 0, ONCE, 0]], [thing("a"), thing("b")], cpus=2)
    assert found.walls.tolist() == [True, True]
    inside = judged(
        [[ONCE] * 4, [ONCE, 0, ONCE, 0]], [thing("a"), thing("b")], cpus=2, scope="within"
    )
    assert inside.walls.tolist() == [True, False]


def test_nothing_is_judged_as_nothing() -> None:
    found = judged([[0, 0]], [])
    assert found.walls.tolist() == found.moved.tolist() == []
