# SPDX-License-Identifier: GPL-2.0-or-later
"""Visits become transfers as the formula says, between those who can take a line away."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recordings import party, recording, repeated, visits

from partywall.analyse import transfers
from partywall.analyse.transfers import Parties
from partywall.record.recording import Kind

Array = npt.NDArray[Any]
FUZZ = settings(max_examples=200, deadline=None)

# Of the fixmap, where each CPU has its local APIC; and the last line below it.
FIXMAP = 0xFFFF_FFFF_FF5F_D000 >> 6
BELOW_FIXMAP = (0xFFFF_FFFF_FF00_0000 >> 6) - 1


def everyone(parties: int) -> Array:
    """Each party takes lines from each other one."""
    return ~np.eye(parties, dtype=bool)


def moved(reads: list[int], writes: list[int], others: Array | None = None) -> float:
    """Transfers of one line."""
    chosen = everyone(len(reads)) if others is None else others
    found = transfers.transfers(np.array([reads]), np.array([writes]), chosen)
    assert found.shape == (1,)
    return float(found[0])


@st.composite
def lines(draw: st.DrawFn) -> tuple[list[int], list[int], Array]:
    """Visits of one line by one to six parties, and a symmetric matrix of others."""
    parties = draw(st.integers(min_value=1, max_value=6))
    counts = st.lists(st.integers(0, 1000), min_size=parties, max_size=parties)
    others = np.zeros((parties, parties), bool)
    for one in range(parties):
        for other in range(one):
            others[one, other] = others[other, one] = draw(st.booleans())
    return draw(counts), draw(counts), others


def test_eight_writers_of_two_visits_each_move_a_line_sixteen_times() -> None:
    assert moved([0] * 8, [2] * 8) == 16


def test_a_line_that_is_only_read_stays() -> None:
    assert moved([1000] * 8, [0] * 8) == 0


def test_one_writer_and_seven_readers() -> None:
    # The writer has 3 visits and loses the line 3 times; a reader its 2 visits each.
    assert moved([0] + [2] * 7, [3] + [0] * 7) == 3 + 7 * 2


def test_one_party_alone_moves_nothing() -> None:
    assert moved([500], [500]) == 0


def test_a_private_counter_that_another_reads_rarely_is_bounded_by_the_rare_reads() -> None:
    assert moved([0, 2], [1000, 0]) == 2 + 2


def test_a_party_that_reads_and_writes() -> None:
    # First: min(1, 2) + min(5, 2). Second: min(2, 5 + 1) + min(0, 1).
    assert moved([5, 0], [1, 2]) == (1 + 2) + (2 + 0)


def test_two_pairs_that_do_not_meet() -> None:
    others = np.zeros((4, 4), bool)
    others[0, 1] = others[1, 0] = others[2, 3] = others[3, 2] = True
    assert moved([0] * 4, [5, 1, 7, 0], others) == 1 + 1


def test_lines_do_not_mix() -> None:
    reads = np.array([[0, 0], [9, 9], [0, 1]])
    writes = np.array([[3, 3], [0, 0], [1, 0]])
    assert transfers.transfers(reads, writes, everyone(2)).tolist() == [6, 0, 2]


def test_rates_give_rates() -> None:
    rates = np.array([[0.5, 0.25]])
    assert transfers.transfers(np.zeros((1, 2)), rates, everyone(2)).tolist() == [0.5]


def in_holds(
    reads: list[int], writes: list[int], again: list[int], loose: list[int]
) -> tuple[list[int], list[int]]:
    """Visits of one line that are none of one hold with the one before."""
    of = (np.array([one]) for one in (reads, writes))
    held = (np.array([one]) for one in (again, loose))
    read, wrote = transfers.in_holds([*of, *held], everyone(len(reads)))
    return read[0].tolist(), wrote[0].tolist()


def test_visits_in_one_hold_are_one() -> None:
    # Of ten holds with five visits each, and of one that only reads.
    assert in_holds([20, 3], [30, 0], [40, 2], [0, 0]) == ([0, 1], [10, 0])


def test_who_comes_without_the_lock_parts_a_hold_as_often_as_he_comes() -> None:
    assert in_holds([0, 6, 0], [50, 0, 50], [40, 0, 40], [0, 6, 0]) == ([0, 6, 0], [16, 0, 16])
    # And no more often than there are visits.
    assert in_holds([0, 900], [50, 0], [40, 0], [0, 900]) == ([0, 900], [50, 0])


def test_among_more_containers_more_come_without_the_lock() -> None:
    of = [np.array([[n] * 2]) for n in (2, 20, 18, 2)]
    scale = np.array([[0, 4], [4, 0]])
    read, wrote = transfers.in_holds(of, scale)
    assert (read + wrote).tolist() == [[22 - 18 + 8] * 2]


@FUZZ
@given(lines(), st.data())
def test_holds_never_make_transfers_more(
    given_line: tuple[list[int], list[int], Array], data: st.DataObject
) -> None:
    reads, writes, others = given_line
    both = [read + write for read, write in zip(reads, writes, strict=True)]
    again = [data.draw(st.integers(0, max(0, n - 1))) for n in both]
    loose = [data.draw(st.integers(0, n - part)) for n, part in zip(both, again, strict=True)]
    of = [np.array([one]) for one in (reads, writes, again, loose)]
    every = transfers.transfers(of[0], of[1], others)
    found = transfers.transfers(*transfers.in_holds(of, others), others)
    assert 0 <= found[0] <= every[0]
    of[2] = 0 * of[2]
    assert transfers.transfers(*transfers.in_holds(of, others), others)[0] == every[0]


def test_holds_count_in_both_kinds_of_work_and_interrupts_have_none() -> None:
    both = [
        visits(5, 0, 10),
        visits(5, 0, 6, kind=Kind.DEFERRED),
        visits(5, 0, 3, kind=Kind.BACKGROUND),
    ]
    repeats = [repeated(5, 8), repeated(5, 4, kind=Kind.DEFERRED)]
    whole = recording(party(0, both, repeats=repeats), party(1, both, repeats=repeats))
    moving, parties = transfers.visits(whole).moving(), Parties.of(whole, 1)
    assert transfers.analyse(moving, parties, 2).between.tolist() == [2]
    assert transfers.late(moving, parties, 2).between.tolist() == [2]
    # What interrupts do parts holds: 19 visits, of which 12 lie in one, parted three times.
    background = transfers.analyse(moving, parties, 2).background_between
    assert background.tolist() == [(19 - 12 + 3) - (2 + 2)]
    # What a file claims of a line that it does not list is of none.
    wrong = recording(party(0, both, repeats=[repeated(4, 1), *repeats]), party(1, both))
    assert transfers.visits(wrong).number.tolist() == [5]


def test_no_lines_at_all() -> None:
    nothing = np.zeros((0, 3), np.int64)
    assert transfers.transfers(nothing, nothing, everyone(3)).shape == (0,)


@FUZZ
@given(lines())
def test_transfers_lie_between_nothing_and_all_visits(
    line: tuple[list[int], list[int], Any],
) -> None:
    reads, writes, others = line
    assert 0 <= moved(reads, writes, others) <= sum(reads) + sum(writes)


@FUZZ
@given(lines())
def test_nothing_moves_without_a_writer_or_without_others(
    line: tuple[list[int], list[int], Any],
) -> None:
    reads, writes, others = line
    assert moved(reads, [0] * len(reads), others) == 0
    assert moved(reads, writes, np.zeros_like(others)) == 0


@FUZZ
@given(lines())
def test_the_formula_word_by_word(line: tuple[list[int], list[int], Any]) -> None:
    reads, writes, others = line
    expected = 0
    for me in range(len(reads)):
        rest = [number for number in range(len(reads)) if others[number, me]]
        expected += min(writes[me], sum(reads[n] + writes[n] for n in rest))
        expected += min(reads[me], sum(writes[n] for n in rest))
    found = transfers.transfers(np.array([reads]), np.array([writes]), others)
    assert found.tolist() == [expected]
    assert found.dtype == np.int64


@FUZZ
@given(lines(), st.randoms(use_true_random=False))
def test_the_order_of_parties_does_not_matter(
    line: tuple[list[int], list[int], Any], random: Any
) -> None:
    reads, writes, others = line
    order = list(range(len(reads)))
    random.shuffle(order)
    shuffled = moved(
        [reads[n] for n in order], [writes[n] for n in order], others[np.ix_(order, order)]
    )
    assert shuffled == moved(reads, writes, others)


@FUZZ
@given(lines(), st.data())
def test_more_visits_of_one_party_never_move_a_line_less(
    line: tuple[list[int], list[int], Any], data: st.DataObject
) -> None:
    reads, writes, others = line
    who = data.draw(st.integers(0, len(reads) - 1))
    more = data.draw(st.integers(1, 100))
    before = moved(reads, writes, others)
    for counts in (reads, writes):
        raised = [count + more * (n == who) for n, count in enumerate(counts)]
        given_ = (raised, writes) if counts is reads else (reads, raised)
        assert moved(*given_, others) >= before


@FUZZ
@given(lines())
def test_nobody_pays_more_than_the_others_cause(line: tuple[list[int], list[int], Any]) -> None:
    reads, writes, others = line
    caused = 0
    for one in range(len(reads)):
        theirs = [n for n in range(len(reads)) if others[one, n]]
        written = sum(writes[n] for n in theirs)
        caused += 2 * written + sum(reads[n] for n in theirs)
    assert moved(reads, writes, others) <= caused


def test_cpus_are_dealt_to_containers_in_order() -> None:
    parties = Parties.of(recording(*(party(cpu) for cpu in range(6))), 2)
    assert parties.container.tolist() == [0, 0, 1, 1, 2, 2]
    assert parties.cpu.tolist() == [0, 1, 2, 3, 4, 5]


def test_a_kernel_thread_is_in_no_container() -> None:
    parties = Parties.of(recording(party(0), party(1), party(1, thread=0xFF1100000ABC0000)), 1)
    assert parties.container.tolist() == [0, 1, -1]
    assert parties.thread.tolist() == [0, 0, 0xFF1100000ABC0000]


def test_others_are_told_apart_by_container() -> None:
    between, within = Parties.of(recording(*(party(cpu) for cpu in range(4))), 2).others()
    apart, same = [True] * 2, [False] * 2
    assert between.tolist() == [same + apart, same + apart, apart + same, apart + same]
    assert np.argwhere(within).tolist() == [[0, 1], [1, 0], [2, 3], [3, 2]]


def test_a_kernel_thread_takes_no_line_from_its_own_cpu() -> None:
    between, within = Parties.of(
        recording(party(0), party(1), party(1, thread=7 << 14)), 1
    ).others()
    assert not between[1, 2]
    assert not between[2, 1]
    assert between[0, 2]
    assert between[2, 0]
    assert not within.any()


def test_a_thread_takes_no_line_from_itself_on_another_cpu() -> None:
    parties = Parties.of(recording(party(0, thread=7 << 14), party(1, thread=7 << 14)), 1)
    between, within = parties.others()
    assert not (between | within).any()


def test_two_threads_on_two_cpus_take_lines_from_each_other() -> None:
    parties = Parties.of(recording(party(0, thread=7 << 14), party(1, thread=9 << 14)), 1)
    between, within = parties.others()
    assert (between | within).tolist() == [[False, True], [True, False]]


def test_what_a_container_left_for_later_is_its_own_wherever_it_is_done() -> None:
    # Of container 0 on the CPU of container 1, and of container 1 on that of 0.
    first, second = (2 << 14) + 1, (1 << 14) + 2
    parties = Parties.of(
        recording(party(0), party(1), party(1, thread=first), party(0, thread=second)), 1
    )
    assert parties.container.tolist() == [0, 1, 0, 1]
    between, within = parties.others()
    # A line that container 0 alone uses, and one that workers use for both.
    own, shared = np.array([[9, 0, 9, 0]]), np.array([[0, 0, 9, 9]])
    none = np.zeros_like(own)
    assert [transfers.transfers(none, own, which)[0] for which in (between, within)] == [0, 18]
    assert [transfers.transfers(none, shared, which)[0] for which in (between, within)] == [18, 0]


def test_two_kernel_threads_are_not_inside_one_container() -> None:
    parties = Parties.of(recording(party(0, thread=7 << 14), party(1, thread=9 << 14)), 1)
    _, within = parties.others()
    assert not within.any()


@FUZZ
@given(
    st.lists(st.tuples(st.integers(0, 5), st.sampled_from([0, 7, 9])), max_size=8),
    st.integers(1, 4),
)
def test_others_are_symmetric_and_on_other_cpus(who: list[tuple[int, int]], each: int) -> None:
    parties = Parties.of(recording(*(party(cpu, thread=thread) for cpu, thread in who)), each)
    between, within = parties.others()
    for others in (between, within):
        assert (others == others.T).all()
        for one, other in np.argwhere(others):
            assert who[one][0] != who[other][0]
    assert not (between & within).any()


def test_analyse_counts_foreground_and_background_apart() -> None:
    both = [visits(5, 0, 2), visits(5, 0, 4, kind=Kind.BACKGROUND)]
    whole = recording(party(0, both), party(1, both))
    lines = transfers.analyse(transfers.visits(whole).moving(), Parties.of(whole, 1), 2)
    assert lines.number.tolist() == [5]
    assert lines.writes.tolist() == [[2, 2]]
    assert lines.reads.tolist() == [[0, 0]]
    assert lines.between.tolist() == [(2 + 2) / 2]
    # min(2 + 4, 2 + 4) of each, less the foreground's.
    assert lines.background_between.tolist() == [(6 + 6 - 4) / 2]
    assert lines.within.tolist() == lines.background_within.tolist() == [0]
    assert lines.operations == 2


def test_a_thread_that_moves_takes_its_stack_along_and_nobody_pays_for_it() -> None:
    base = 0xFF11000004000000
    below, first, last, above = ((base + at) >> 6 for at in (-0x40, 0, 0x3FC0, 0x4000))
    numbers = [below, first, last, above]
    seen = [visits(n, 0, 4, kind=Kind.BACKGROUND) for n in numbers]
    # Who waits on a stack of a thread is woken by others.
    woken = visits(last, 0, 3)
    whole = recording(party(0, [*seen, woken]), party(1, [*seen, woken]))
    parties = Parties.of(whole, 1)
    assert transfers.analyse(transfers.visits(whole), parties, 1).background_between.all()
    stacks = np.array([base + 0x100000, base], np.uint64)
    lines = transfers.analyse(transfers.visits(replace(whole, stacks=stacks)), parties, 1)
    assert lines.number.tolist() == numbers
    assert lines.background_between.tolist() == [8, 0, 0, 8]
    assert lines.between.tolist() == [0, 0, 6, 0]
    # With KASAN a stack is larger, and what a task uses lies at its upper end.
    large = transfers.visits(replace(whole, stacks=stacks), 0x8000)
    assert transfers.analyse(large, parties, 1).background_between.tolist() == [8, 0, 0, 0]


def test_deferred_work_adds_to_the_foreground_and_is_no_background() -> None:
    both = [
        visits(5, 0, 2, turns=2, returns=1),
        visits(5, 0, 4, kind=Kind.DEFERRED, turns=3, returns=2),
        visits(5, 0, 1, kind=Kind.BACKGROUND),
        visits(6, 0, 7),
        visits(7, 1, 8, kind=Kind.DEFERRED),
    ]
    whole = recording(party(0, both), party(1, both))
    moving, parties = transfers.visits(whole).moving(), Parties.of(whole, 1)
    lines = transfers.analyse(moving, parties, 2)
    assert lines.number.tolist() == [5, 6, 7]
    assert lines.writes.tolist() == [[2, 2], [7, 7], [0, 0]]
    assert lines.between.tolist() == [2, 7, 0]
    # What is left when all of the 2 + 4 + 1 visits are counted.
    assert lines.background_between.tolist() == [1, 0, 0]
    late = transfers.late(moving, parties, 2)
    assert late.number.tolist() == [5, 7]
    assert late.writes.tolist() == [[4, 4], [8, 8]]
    assert late.reads.tolist() == [[0, 0], [1, 1]]
    assert late.turns[0].tolist() == [2 + 3, 2 + 3]
    assert late.returns[0].tolist() == [1 + 2, 1 + 2]
    assert late.between.tolist() == [4, 9]
    assert late.within.tolist() == [0, 0]
    assert late.seen[0] == (1 + 2 + 1 + 2 + 1) / 2


def test_a_container_takes_lines_in_its_own_calls_that_another_uses_in_deferred_work() -> None:
    whole = recording(party(0, [visits(5, 0, 3)]), party(1, [visits(5, 0, 2, kind=Kind.DEFERRED)]))
    moving, parties = transfers.visits(whole).moving(), Parties.of(whole, 1)
    assert transfers.analyse(moving, parties, 1).between.tolist() == [0]
    assert transfers.late(moving, parties, 1).between.tolist() == [2 + 2]
    assert transfers.analyse(moving, parties, 1).background_between.tolist() == [0]


def test_analyse_has_lines_that_only_the_background_moves() -> None:
    whole = recording(
        party(0, [visits(3, 0, 9, kind=Kind.BACKGROUND)]),
        party(1, [visits(3, 6, 0, kind=Kind.BACKGROUND)]),
    )
    lines = transfers.analyse(transfers.visits(whole).moving(), Parties.of(whole, 1), 3)
    assert lines.between.tolist() == [0]
    assert lines.background_between.tolist() == [(6 + 6) / 3]


def test_analyse_joins_what_parties_saw() -> None:
    whole = recording(
        party(0, [visits(10, 1, 0), visits(30, 0, 1)]),
        party(1, [visits(10, 0, 1), visits(20, 4, 4)]),
        party(2, [visits(30, 2, 0)]),
    )
    lines = transfers.analyse(transfers.visits(whole).moving(), Parties.of(whole, 1), 1)
    assert lines.number.tolist() == [10, 20, 30]
    assert lines.reads.tolist() == [[1, 0, 0], [0, 4, 0], [0, 0, 2]]
    assert lines.writes.tolist() == [[0, 1, 0], [0, 4, 0], [1, 0, 0]]
    assert lines.between.tolist() == [1 + 1, 0, 1 + 1]


def test_analyse_drops_the_fixmap_and_nothing_below_it() -> None:
    seen = [
        visits(BELOW_FIXMAP, 0, 1),
        visits(FIXMAP, 0, 100),
        visits(FIXMAP, 0, 1, kind=Kind.BACKGROUND),
    ]
    whole = recording(party(0, seen), party(1, seen))
    lines = transfers.analyse(transfers.visits(whole).moving(), Parties.of(whole, 1), 1)
    assert lines.number.tolist() == [BELOW_FIXMAP]
    assert lines.between.tolist() == [2]
    assert lines.background_between.tolist() == [0]


def test_analyse_tells_between_from_within() -> None:
    whole = recording(*(party(cpu, [visits(1, 0, 1)]) for cpu in range(4)))
    for cpus, between, within in ((1, 4, 0), (2, 4, 4), (4, 0, 4)):
        lines = transfers.analyse(transfers.visits(whole).moving(), Parties.of(whole, cpus), 1)
        assert (lines.between[0], lines.within[0]) == (between, within)


@pytest.mark.parametrize("operations", [1, 7, 3200])
def test_analyse_gives_transfers_per_operation(operations: int) -> None:
    whole = recording(party(0, [visits(1, 0, 70)]), party(1, [visits(1, 70, 0)]))
    lines = transfers.analyse(transfers.visits(whole).moving(), Parties.of(whole, 1), operations)
    assert lines.between[0] == pytest.approx(140 / operations)
    assert lines.reads.tolist() == [[0, 70]]


def test_analyse_does_not_overflow() -> None:
    most = 2**32 - 1
    whole = recording(*(party(cpu, [visits(1, most, most)]) for cpu in range(240)))
    lines = transfers.analyse(transfers.visits(whole).moving(), Parties.of(whole, 1), 1)
    assert lines.between[0] == 240 * 2 * most


@pytest.mark.parametrize("parties", [0, 1, 2])
def test_analyse_of_parties_that_saw_nothing(parties: int) -> None:
    whole = recording(*(party(cpu) for cpu in range(parties)))
    lines = transfers.analyse(transfers.visits(whole).moving(), Parties.of(whole, 1), 1)
    assert len(lines.number) == len(lines.between) == 0
    assert lines.reads.shape == (0, parties)


def at(reads: list[int], writes: list[int], count: int, **more: Any) -> float:
    """Transfers per operation of a line at ``count`` containers; one party did each list's item."""
    parties = [
        party(cpu, [visits(1, *done)]) for cpu, done in enumerate(zip(reads, writes, strict=True))
    ]
    whole = recording(*parties, *more.get("threads", ()))
    ran, operations = len(parties), more.get("operations", 1)
    found = transfers.analyse(
        transfers.visits(whole).moving(), Parties.of(whole, 1), operations, ran=ran, at=count
    )
    return float(found.between_at[0])


def test_a_line_that_is_read_often_and_written_rarely_moves_more_among_more() -> None:
    # 2 reading visits and 0.0005 writing ones for each operation of each container.
    line = [20_000] * 8, [5] * 8
    assert at(*line, 8, operations=80_000) == pytest.approx(0.004)
    assert at(*line, 64, operations=80_000) == pytest.approx(0.0005 * 64)


@FUZZ
@given(st.integers(0, 1000), st.integers(0, 1000), st.integers(2, 12), st.integers(2, 300))
def test_containers_that_are_alike_follow_the_formula(r: int, w: int, ran: int, count: int) -> None:
    expected = min(w, (count - 1) * (w + r)) + min(r, (count - 1) * w)
    assert at([r] * ran, [w] * ran, count, operations=ran) == pytest.approx(expected)


@FUZZ
@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=2, max_size=8))
def test_at_as_many_as_ran_it_is_what_was_measured_and_more_never_move_less(line: Any) -> None:
    reads, writes = ([one[n] for one in line] for n in (0, 1))
    ran = len(line)
    assert at(reads, writes, ran) == moved(reads, writes)
    some = [at(reads, writes, count) for count in (2, 8, 64, 240)]
    assert some == sorted(some)


def test_what_one_container_alone_visits_stays_its_own_at_any_number() -> None:
    assert at([50, 0, 0], [50, 0, 0], 64) == 0


@pytest.mark.parametrize("count", [8, 64])
def test_a_thread_that_works_for_all_meets_each_as_often_at_any_number(count: int) -> None:
    # Each container reads a line 10 times that a thread writes once for each of them.
    thread = party(0, [visits(1, 0, 80)], thread=7 << 14)
    assert at([0] + [10] * 8, [0] * 9, 9, threads=[thread]) == 80 + 80
    eight = at(
        [10] * 8, [0] * 8, count, operations=8, threads=[party(9, thread.lines, thread=7 << 14)]
    )
    # A reader finds it written by the thread each time, and the thread by readers.
    assert eight == pytest.approx(10 + 10)


def test_cpus_of_one_container_are_as_many_as_they_are() -> None:
    whole = recording(*(party(cpu, [visits(1, 4, 1)]) for cpu in range(4)))
    found = transfers.analyse(
        transfers.visits(whole).moving(), Parties.of(whole, 2), 4, ran=2, at=64
    )
    # 63 others with two CPUs each, instead of one.
    assert found.between_at[0] == pytest.approx(1 + 4)
    assert found.between[0] == pytest.approx(1 + 2)
    assert found.within[0] == pytest.approx(1 + 1)
    alone = transfers.analyse(
        transfers.visits(whole).moving(), Parties.of(whole, 4), 4, ran=1, at=64
    )
    assert alone.between_at[0] == 0
