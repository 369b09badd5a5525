# SPDX-License-Identifier: GPL-2.0-or-later
"""Lines judged by their objects: who shares them, what they move, which are walls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from judging import ONCE, WINDOW, counter, judged, thing
from recordings import party, recording, visits

from partywall.analyse import transfers, verdict
from partywall.analyse.judgement import Judgement, after_others, in_turn
from partywall.analyse.transfers import Parties
from partywall.core.topology import Topology
from partywall.record.recording import Kind, Slices


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


def test_where_windows_ran_one_after_another_nothing_is_known_to_be_handed_over() -> None:
    # A lock that all take in each operation, in windows of several slices each: nobody returns.
    lock = [[(ONCE, ONCE, 0, 5)] * 8]
    apart, told = (judged(lock, [thing("lock")], in_turn=share) for share in (0.1, 1.0))
    for found in (apart, told):
        assert found.sharing[0] == verdict.HANDED_OVER
    assert told.moved[0] < verdict.THRESHOLD
    assert apart.moved[0] == apart.moved_at[0] == 1.0
    # Of what is read by most and written seldom more moves among more.
    seldom = [[(1, 1)] * 8]
    few = judged(seldom, [thing("lock")], in_turn=0.1)
    more = judged(seldom, [thing("lock")], in_turn=0.1, at=64)
    assert few.moved[0] == few.moved_at[0] == more.moved[0] <= more.moved_at[0]
    assert judged(lock, [thing("lock")]).moved[0] == told.moved[0]


# Four CPUs that count a credential in each operation, in windows that overlap by halves: as
# overlay/access-missing was recorded on Linux 6.12. In how many slices who worked again after
# others.
CREDENTIAL = [[(12 * ONCE, ONCE, *one) for one in ((0, 3), (0, 4), (1, 4), (1, 5))]]
AFTER = [2.0, 1.0, 2.0, 1.0]
FOUR: dict[str, Any] = {"cpus": 4, "scope": "within"}


def test_nobody_is_asked_for_returns_in_slices_before_which_nobody_else_worked() -> None:
    found = judged(CREDENTIAL, [thing("cred")], **FOUR, after=AFTER)
    assert found.walls.all()
    assert found.sharing[0] == verdict.ALL
    # In so many in which others did between, it was one's for a while and then another's.
    assert not judged(CREDENTIAL, [thing("cred")], **FOUR, after=[2, 3, 3, 4]).walls.any()
    assert not judged(CREDENTIAL, [thing("cred")], **FOUR).walls.any()


def test_who_worked_after_others_twice_came_back_to_what_it_came_back_to_once() -> None:
    # Of two CPUs' eight slices each two came after others; in any order seven returns would.
    lines = [[(ONCE, ONCE, 1, 8)] * 2 + [0] * 6, [(ONCE, ONCE, 2, 8)] * 8]
    names = [thing("two"), thing("all")]
    found = judged(lines, names, after=[2.0] * 8)
    assert found.sharing.tolist() == [verdict.SOME, verdict.ALL]
    # If others worked before most of them, or nobody counted, it was had in turn.
    for after in ([7.0] * 8, None):
        assert judged(lines, names, after=after).sharing[0] == verdict.HANDED_OVER


@pytest.mark.parametrize("after", [[0, 1], [1, 1], [0, 0]])
@pytest.mark.parametrize(("turns", "slices", "shared"), [(50, 6, False), (50, 17, True)])
def test_where_nobody_could_be_seen_to_return_memory_comes_round_in_few_slices(
    after: list[float], turns: int, slices: int, shared: bool
) -> None:
    # Two containers' windows one after the other, of twenty slices each.
    lines = [[(turns, turns, 0, slices)] * 2, [(ONCE, ONCE, 0, 20)] * 2]
    found = judged(lines, [thing("x"), thing("all")], after=after, in_turn=0.03)
    assert found.walls.tolist() == [shared, True]


def test_what_is_visited_in_few_slices_is_asked_for_the_returns_it_can_have() -> None:
    # Of forty slices each CPU worked in half after others, and before nearly all the eight in
    # which it has the object: as memory that comes round is had.
    lines = [[(8, 8, 1, 8)] * 8, [(ONCE, ONCE, 19, 40)] * 8]
    found = judged(lines, [thing("x"), thing("all")], after=[20.0] * 8)
    assert found.walls.tolist() == [False, True]


def test_in_how_many_slices_who_worked_after_others_is_told_of_each() -> None:
    slices = [Slices(5, 4, 1), Slices(5, 2, 0), Slices(1, 0, 0), None]
    whole = recording(
        *(party(cpu, slices=one) for cpu, one in enumerate(slices)),
        party(0, thread=0xFFFF888000100000, slices=Slices(9, 0, 0)),
    )
    assert after_others(whole, "within").tolist() == [4, 2, 0, np.inf, np.inf]
    assert after_others(whole, "between").tolist() == [1, 0, 0, np.inf, np.inf]


@pytest.mark.parametrize(
    ("slices", "between", "within"),
    [
        ([(9, 8, 8)] * 4, 1.0, 1.0),
        ([(5, 4, 1), (5, 2, 1)], 0.25, 0.75),
        # Who ran in two slices is not asked, and one alone tells nothing.
        ([(5, 4, 1), (5, 2, 1), (2, 0, 0)], 0.25, 0.75),
        ([(5, 4, 1), (2, 1, 1)], None, None),
        ([None, None], None, None),
    ],
)
def test_who_worked_in_turn_is_told_of_those_who_ran_long_enough(
    slices: list[tuple[int, int, int] | None], between: float | None, within: float | None
) -> None:
    parts = [
        party(cpu, slices=None if one is None else Slices(*one)) for cpu, one in enumerate(slices)
    ]
    whole = recording(*parts, party(0, thread=0xFFFF888000100000, slices=Slices(9, 0, 0)))
    assert (in_turn(whole, "between"), in_turn(whole, "within")) == (between, within)


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


def test_who_shares_with_a_container_that_comes_seldom_is_expected_as_seldom() -> None:
    # Its own other CPU comes as often as it does, which says nothing of the other container.
    often, seldom = (ONCE, ONCE, 11, 13, 5), (20, 20, 5, 6, 5)
    found = judged(
        [[often, often, seldom, 0], [(ONCE, ONCE, 12)] * 4],
        [thing("object"), thing("counter")],
        cpus=2,
    )
    assert found.walls.tolist() == [True, True]


def test_a_counter_of_two_is_theirs_though_one_of_them_runs_in_more_slices() -> None:
    """As the stock of a memory cgroup, of two servers one of which has more of the time."""
    (found,) = judged([[(600, 600, 9, 24), (250, 250, 8, 10)]], [thing("counter")]).sharing
    assert found == verdict.ALL
    (found,) = judged([[(600, 600, 2, 24), (250, 250, 2, 10)]], [thing("counter")]).sharing
    assert found == verdict.HANDED_OVER
    # Among others that do not come to it, and as CPUs of one container beside another one.
    every = [(ONCE, ONCE, 20, 24), (ONCE, ONCE, 9, 10), *[(ONCE, ONCE, 20, 24)] * 6]
    pair = [(600, 600, 9, 24), (250, 250, 8, 10), *[0] * 6]
    (found, _) = judged([pair, every], [thing("counter"), thing("of all")]).sharing
    assert found == verdict.SOME
    (found, _) = judged(
        [pair[:4], every[:4]], [thing("counter"), thing("of all")], cpus=2, scope="within"
    ).sharing
    assert found == verdict.ALL


def test_what_a_thread_and_two_hand_each_other_is_theirs_no_more_for_slices_of_threads() -> None:
    # In how many slices a thread had it is not known, but it lies between those of the others.
    line = [(300, 300, 6, 24), (40, 40, 5, 10)]
    lines, names = [line, [(ONCE, ONCE, 9, 24), (ONCE, ONCE, 9, 10)]], [thing("x"), thing("y")]
    found = judged(lines, names, thread=(40, 40, 20, 20)).sharing
    assert found.tolist() == [verdict.HANDED_OVER, verdict.ALL]


def test_few_slices_of_another_do_not_make_a_wall_of_what_came_round_twice() -> None:
    (found,) = judged([[(336, 336, 2, 24), (33, 33, 1, 3)]], [thing("x")]).sharing
    assert found == verdict.HANDED_OVER


def test_what_cpus_of_one_container_hand_each_other_has_not_moved_to_another() -> None:
    own, other = (ONCE, ONCE, 30, 31, 0), (5, 2, 0, 1, 0)
    found = judged([[own, own, other, 0], [(ONCE, ONCE, 40)] * 4], [thing("a"), thing("b")], cpus=2)
    assert found.walls.tolist() == [False, True]
    # To each of three CPUs once but for the first; by visits alone it is fifteen times.
    assert found.moved[0] == pytest.approx(2 / (4 * WINDOW))


@pytest.mark.parametrize(("slices", "shared"), [(2, True), (9, False)])
def test_what_all_use_alike_but_each_for_a_while_only_is_handed_over(
    slices: int, shared: bool
) -> None:
    # Each came back once: of half a return that chance would have had, or of seven.
    found = judged([[(40, 40, 1, slices)] * 8, counter(8, WINDOW)], [thing("x"), thing("all")])
    assert found.walls.tolist() == [shared, True]


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
