# SPDX-License-Identifier: GPL-2.0-or-later
"""Uses of a range of addresses, and what fields of a line cost each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recordings import TGKILL, access, party, pattern, recording

from partywall.analyse.sharing import (
    Patterns,
    Use,
    Uses,
    groups_of,
    part_of,
    split_saves,
    split_saves_on_top,
)
from partywall.analyse.transfers import transfers
from partywall.record.recording import (
    ATOMIC,
    CHARGED,
    DEFERRED,
    EXCEPTION,
    IRQ,
    SCHEDULER,
    SOFTIRQ,
    TASK,
    USER,
    Kind,
)

FUZZ = settings(max_examples=200, deadline=None)
LINE = 0xFF11000003B2C400
SITES = ((0xFFFFFFFF81000010, 0), (0xFFFFFFFF81000020, 0xFFFFFFFF81000FF0))


def uses(*accesses: list[tuple[int, ...]], kind: Kind = Kind.FOREGROUND) -> Uses:
    """Uses of a recording in which CPU n made the n-th list of accesses."""
    parties = [party(cpu, accesses=made) for cpu, made in enumerate(accesses)]
    return Uses(recording(*parties, sites=SITES), kind)


def places(found: Uses, start: int, end: int) -> list[tuple[int, int]]:
    """Address and size of what a query gives; asked for places alone, it says the same."""
    every = list(found(start, end))
    assert found.places(start, end) == {one[:4] for one in every}
    return [(use.address, use.size) for use in every]


def test_a_range_holds_what_lies_in_it_in_order() -> None:
    found = uses([access(LINE + n, reads=1) for n in (0x38, 0x40, 0x00, 0x20)])
    assert places(found, LINE, LINE + 0x40) == [(LINE, 8), (LINE + 0x20, 8), (LINE + 0x38, 8)]


def no_copies(code: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
    return np.zeros(len(code), bool)


def test_who_clears_or_copies_memory_counts_where_nobody_else_comes() -> None:
    cleared = [access(LINE + n, site=1, writes=9) for n in (0, 8, 16)]
    found = uses([*cleared, access(LINE + 24, reads=1), access(LINE + 0x48, site=1, writes=1)])
    copying = SITES[1][0]
    assert found.busiest(lambda code: code == copying) == {
        LINE: LINE + 24,
        LINE + 0x40: LINE + 0x48,
    }
    assert found.busiest(no_copies)[LINE] == LINE


def test_the_busiest_address_of_each_line() -> None:
    first = [
        access(LINE, reads=9),
        access(LINE + 8, reads=1, writes=1),
        access(LINE + 16, writes=1),
    ]
    second = [
        access(LINE + 16, writes=1),
        access(LINE + 0x40, reads=1),
        access(LINE + 0x48, reads=1),
    ]
    assert uses(first, second).busiest(no_copies) == {LINE: LINE + 16, LINE + 0x40: LINE + 0x40}
    assert uses([]).busiest(no_copies) == {}


@FUZZ
@given(
    st.lists(
        st.tuples(st.integers(0, 31), st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=30
    )
)
def test_the_busiest_address_is_that_of_the_largest_sum(made: list[tuple[int, int, int]]) -> None:
    sums: dict[int, list[int]] = {}
    for slot, reads, writes in made:
        count = sums.setdefault(LINE + slot * 8, [0, 0])
        count[0] += writes
        count[1] += reads + writes
    found = uses([access(LINE + slot * 8, reads=r, writes=w) for slot, r, w in made]).busiest(
        no_copies
    )
    for line in {address & -64 for address in sums}:
        inside = {a: tuple(count) for a, count in sums.items() if a & -64 == line}
        assert found[line] == min(inside, key=lambda a: (tuple(-n for n in inside[a]), a))


def test_a_range_ends_before_its_end() -> None:
    found = uses([access(LINE + 8, 8, reads=1)])
    assert places(found, LINE, LINE + 8) == []
    assert places(found, LINE, LINE + 9) == [(LINE + 8, 8)]


@pytest.mark.parametrize("size", [4, 8, 16, 32, 64])
def test_an_access_that_reaches_into_a_range_belongs_to_it(size: int) -> None:
    found = uses([access(LINE - size + 1, size, writes=1)])
    assert places(found, LINE, LINE + 64) == [(LINE - size + 1, size)]
    reads, writes = found.by_party(LINE, LINE + 64)
    assert (reads.tolist(), writes.tolist()) == ([0], [1])


@pytest.mark.parametrize("size", [1, 8, 16, 64])
def test_an_access_that_ends_at_a_range_does_not_belong_to_it(size: int) -> None:
    found = uses([access(LINE - size, size, writes=1)])
    assert places(found, LINE, LINE + 64) == []
    assert found.by_party(LINE, LINE + 64)[1].tolist() == [0]


def test_a_wide_access_belongs_to_both_fields() -> None:
    found = uses([access(LINE, 16, writes=3)])
    assert places(found, LINE, LINE + 8) == places(found, LINE + 8, LINE + 16) == [(LINE, 16)]
    assert found.by_party(LINE + 8, LINE + 16)[1].tolist() == [3]


def test_uses_of_parties_are_added_up() -> None:
    found = uses(
        [access(LINE, 4, reads=1, writes=2, flags=ATOMIC, site=1)],
        [access(LINE, 4, reads=10, writes=20, flags=ATOMIC, site=1)],
    )
    code, caller = SITES[1]
    assert list(found(LINE, LINE + 64)) == [
        Use(LINE, 4, code, caller, TGKILL, atomic=True, reads=11, writes=22)
    ]
    assert next(iter(found(LINE, LINE + 64))).total == 33


@pytest.mark.parametrize("different", [{"size": 4}, {"site": 1}, {"context": 0x101}, {"flags": 1}])
def test_different_uses_of_an_address_stay_apart(different: dict[str, int]) -> None:
    found = uses([access(LINE, reads=1)], [access(LINE, **{"reads": 1, **different})])
    assert len(list(found(LINE, LINE + 64))) == 2


def test_nothing_is_found_in_a_recording_of_nothing() -> None:
    found = uses([], [])
    assert list(found(0, 2**63)) == []
    assert [counts.tolist() for counts in found.by_party(LINE, LINE + 64)] == [[0, 0], [0, 0]]


def test_nothing_is_found_in_a_recording_of_nobody() -> None:
    found = uses()
    assert list(found(0, 2**63)) == []
    assert [counts.tolist() for counts in found.by_party(LINE, LINE + 64)] == [[], []]


@pytest.mark.parametrize("context", [USER, EXCEPTION, TGKILL, CHARGED, CHARGED + 3])
def test_the_workloads_own_work_is_foreground(context: int) -> None:
    made = [access(LINE, reads=1, context=context)]
    assert places(uses(made), LINE, LINE + 64)
    assert not places(uses(made, kind=Kind.BACKGROUND), LINE, LINE + 64)


@pytest.mark.parametrize("context", [IRQ, SOFTIRQ, SCHEDULER, TASK, TASK + 5])
def test_interrupts_scheduler_and_kernel_threads_are_background(context: int) -> None:
    made = [access(LINE, reads=1, context=context)]
    assert not places(uses(made), LINE, LINE + 64)
    assert places(uses(made, kind=Kind.BACKGROUND), LINE, LINE + 64)
    assert uses(made).by_party(LINE, LINE + 64)[0].tolist() == [0]


@pytest.mark.parametrize("number", [0, 44, 0x3EFF])
def test_softirqs_that_a_system_call_ran_are_deferred(number: int) -> None:
    made = [access(LINE, reads=1, context=DEFERRED + number)]
    assert places(uses(made, kind=Kind.DEFERRED), LINE, LINE + 64)
    assert not places(uses(made), LINE, LINE + 64)
    assert not places(uses(made, kind=Kind.BACKGROUND), LINE, LINE + 64)


def test_counts_by_party_keep_the_order_of_parties() -> None:
    found = uses(
        [access(LINE, reads=1)],
        [],
        [access(LINE, writes=5), access(LINE + 8, reads=2), access(LINE + 64, reads=100)],
    )
    reads, writes = found.by_party(LINE, LINE + 64)
    assert reads.tolist() == [1, 0, 2]
    assert writes.tolist() == [0, 0, 5]


def test_large_counts_do_not_overflow() -> None:
    most = 2**32 - 1
    found = uses([access(LINE, reads=most), access(LINE + 8, reads=most)])
    assert found.by_party(LINE, LINE + 64)[0].tolist() == [2 * most]


Made = st.lists(
    st.tuples(st.integers(0, 200), st.sampled_from([1, 2, 4, 8, 16, 32, 64]), st.integers(1, 9)),
    max_size=12,
)


@FUZZ
@given(st.lists(Made, min_size=1, max_size=3), st.integers(0, 200), st.integers(1, 64))
def test_any_range_finds_exactly_what_overlaps_it(made: list[Any], start: int, size: int) -> None:
    found = uses(*([access(LINE + at, wide, reads=n) for at, wide, n in one] for one in made))
    overlapping = [
        [(LINE + at, wide, n) for at, wide, n in one if at < start + size and at + wide > start]
        for one in made
    ]
    begin, end = LINE + start, LINE + start + size
    reads, writes = found.by_party(begin, end)
    assert reads.tolist() == [sum(n for _, _, n in one) for one in overlapping]
    assert not writes.any()
    assert sorted(places(found, begin, end)) == sorted(
        {(at, wide) for one in overlapping for at, wide, _ in one}
    )
    assert sum(use.reads for use in found(begin, end)) == reads.sum()


def saved(*made: list[tuple[int, int, int]], groups: list[int] | None = None) -> float:
    """Transfers that splitting saves; (visits, mask read, mask written) by each party."""
    parties = [
        party(cpu, patterns=[pattern(LINE // 64, n, read=r, written=w) for n, r, w in rows])
        for cpu, rows in enumerate(made)
    ]
    visits = Patterns(recording(*parties))(LINE)
    chosen = [1 << word for word in range(8)] if groups is None else groups
    return split_saves(visits, chosen, ~np.eye(len(made), dtype=bool))


A, B, C = 1, 2, 4


def test_a_field_that_is_only_read_pays_for_its_neighbour() -> None:
    assert saved([(1000, 0, A)], [(1000, B, 0)]) == 2000


def test_two_counters_of_two_writers_share_falsely() -> None:
    assert saved([(500, 0, A)], [(500, 0, B)]) == 1000


def test_one_counter_of_two_writers_is_shared_truly() -> None:
    assert saved([(500, A, A)], [(500, A, A)]) == 0


def test_splitting_saves_nothing_of_a_field_that_is_read_alone_and_written() -> None:
    # In the visits that write it, another is read; in others it is read alone.
    made = [(100, A | B, A), (100, A, 0)]
    assert saved(made, made) == 0


def test_a_reference_count_costs_who_only_reads_beside_it() -> None:
    # As of a struct cred: 8 visits count, 4 look at fsuid, in each operation.
    made = [(800, 0, A), (400, B, 0)]
    assert saved(*[made] * 8) == 8 * 400


def test_a_lock_and_what_it_guards_stay_together() -> None:
    made = [(500, A, A | B)]
    assert saved(made, made) == 0
    assert saved(made, made, groups=[A | B]) == 0


def test_words_of_one_group_are_not_taken_apart() -> None:
    assert saved([(500, 0, A)], [(500, 0, B)], groups=[A | B, C]) == 0


def test_what_is_used_together_stays_and_what_is_not_goes() -> None:
    made = [(500, A, A | B), (500, C, 0)]
    assert saved(made, made) == 1000


def on_top(
    own: list[list[tuple[int, int, int]]],
    late: list[list[tuple[int, int, int]]],
    groups: list[int] | None = None,
) -> float:
    """What splitting saves of deferred work; visits of each party as for `saved`."""
    parties = [
        party(
            cpu,
            patterns=[
                pattern(LINE // 64, n, read=r, written=w, kind=kind)
                for kind, rows in ((Kind.FOREGROUND, calls), (Kind.DEFERRED, softirqs))
                for n, r, w in rows
            ],
        )
        for cpu, (calls, softirqs) in enumerate(zip(own, late, strict=True))
    ]
    whole = recording(*parties)
    kinds = (Patterns(whole, kind)(LINE) for kind in (Kind.DEFERRED, Kind.FOREGROUND))
    chosen = [1 << word for word in range(8)] if groups is None else groups
    return split_saves_on_top(*kinds, chosen, ~np.eye(len(parties), dtype=bool))


def test_a_field_that_calls_only_read_pays_for_what_softirqs_write() -> None:
    # Two read it in calls, and write its neighbour in softirqs, which alone is no gain.
    calls, softirqs = [[(100, B, 0)]] * 2, [[(100, 0, A)]] * 2
    assert on_top([[]] * 2, softirqs) == 0
    assert on_top(calls, softirqs) == 200
    assert on_top(calls, softirqs, groups=[A | B]) == 0


def test_what_calls_alone_save_is_not_said_of_deferred_work_again() -> None:
    calls = [[(100, 0, A), (100, B, 0)]] * 2
    assert saved(*calls) == 200
    assert on_top(calls, [[(50, C, C)]] * 2) == 0
    assert on_top(calls, [[]] * 2) == 0
    # What is best together with deferred work costs no less than nothing.
    assert on_top(calls, [[(900, A | B, A | B)]] * 2) == 0


def test_a_line_without_visits_saves_nothing() -> None:
    assert saved([], []) == 0
    assert split_saves(Patterns(recording())(LINE), [1], np.zeros((0, 0), bool)) == 0


Rows = st.lists(st.tuples(st.integers(1, 50), st.integers(0, 15), st.integers(0, 15)), max_size=4)


@FUZZ
@given(st.lists(Rows, min_size=1, max_size=4))
def test_no_more_is_saved_than_moves(made: Any) -> None:
    used = [[row for row in rows if row[1] | row[2]] for rows in made]
    others = ~np.eye(len(made), dtype=bool)
    reads = [sum(n for n, _, w in rows if not w) for rows in used]
    writes = [sum(n for n, _, w in rows if w) for rows in used]
    moved = transfers(np.array([reads]), np.array([writes]), others)[0]
    assert 0 <= saved(*used) <= moved
    assert saved(*used, groups=[0xFF]) == 0


def test_groups_are_words_that_a_part_has() -> None:
    found = groups_of([(0, 4, "count"), (4, 4, "flags"), (8, 8, "lock"), (24, 16, "lock")])
    assert sorted(found) == [0b1, 0b100, 0b11010, *(1 << word for word in (5, 6, 7))]


def test_a_field_that_reaches_over_the_lines_ends_is_in_it_with_its_part() -> None:
    assert 0b10000001 in groups_of([(-8, 16, "a"), (56, 64, "a")])


@pytest.mark.parametrize(
    ("path", "type_", "part"),
    [
        ("usage", "struct cred", "usage"),
        ("wait.lock.rlock", "struct x", "wait"),
        ("[3].lock.rlock", "struct x", "[3].lock"),
        ("ucount[3]", "struct ucounts", "ucount[3]"),
        ("owner", "struct rw_semaphore", ""),
        ("wait_lock.raw_lock", "struct mutex", ""),
        ("+0x10", None, "+0x10"),
    ],
)
def test_a_part_is_what_is_moved_as_a_whole(path: str, type_: str | None, part: str) -> None:
    assert part_of(path, type_) == part
