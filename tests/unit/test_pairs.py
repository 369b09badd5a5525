# SPDX-License-Identifier: GPL-2.0-or-later
"""Aligned pairs of lines, taken as one."""

from __future__ import annotations

import io

import builders
import pytest
import recordings
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from partywall.analyse import pairs
from partywall.analyse.transfers import Lines, Parties, analyse, visits
from partywall.record.recording import Kind
from partywall.report import pairs as view
from partywall.results.lines import LineObject
from partywall.results.pairs import PairOfLines, PairsOfLines
from partywall.results.result import Result

EVEN = 0xFF11000000000 >> 6 << 1


def found(*parties: list[tuple[int, int, int]], operations: int = 100) -> tuple[Lines, pairs.Pairs]:
    """Pairs of parties on a CPU each, from (line, visits that read, visits that write)."""
    recorded = recordings.recording(
        *(
            recordings.party(cpu, [recordings.visits(*one) for one in lines])
            for cpu, lines in enumerate(parties)
        )
    )
    of = Parties.of(recorded, 1)
    lines = analyse(visits(recorded), of, operations)
    return lines, pairs.paired(lines, of.others()[0], operations)


def test_neighbours_own_lines_move_as_a_pair() -> None:
    lines, pair = found([(EVEN, 0, 100)], [(EVEN + 1, 0, 100)])
    assert lines.between.tolist() == [0, 0]
    assert pair.number.tolist() == [EVEN >> 1]
    assert (pair.apart, pair.least, pair.most) == ([0.0], [2.0], [2.0])


def test_visits_in_one_hold_are_one_of_a_pair_too() -> None:
    made = [recordings.visits(EVEN, 0, 100)], [recordings.repeated(EVEN, 90)]
    recorded = recordings.recording(
        *(recordings.party(cpu, made[0], repeats=made[1]) for cpu in range(2))
    )
    of = Parties.of(recorded, 1)
    lines = analyse(visits(recorded), of, 100)
    pair = pairs.paired(lines, of.others()[0], 100)
    assert pair.apart.tolist() == pair.least.tolist() == lines.between.tolist() == [0.2]


def test_who_visits_the_other_line_of_a_pair_parts_holds_at_most() -> None:
    recorded = recordings.recording(
        recordings.party(
            0, [recordings.visits(EVEN + 1, 0, 100)], repeats=[recordings.repeated(EVEN + 1, 90)]
        ),
        recordings.party(1, [recordings.visits(EVEN, 0, 1000)]),
    )
    of = Parties.of(recorded, 1)
    pair = pairs.paired(analyse(visits(recorded), of, 100), of.others()[0], 100)
    assert (pair.apart.tolist(), pair.least.tolist(), pair.most.tolist()) == ([0], [0.2], [2.0])


def test_neighbours_are_no_lines_that_the_verdict_sees() -> None:
    recorded = recordings.recording(
        recordings.party(0, [recordings.visits(EVEN, 0, 9), recordings.visits(EVEN + 2, 0, 5)]),
        recordings.party(1, [recordings.visits(EVEN + 1, 0, 9), recordings.visits(EVEN + 2, 5, 0)]),
        recordings.party(2, [recordings.visits(EVEN + 3, 5, 0), recordings.visits(EVEN + 3, 2, 0)]),
    )
    assert visits(recorded).moving().number.tolist() == [EVEN + 2]
    every = visits(recorded).number.tolist()
    assert every == [EVEN, EVEN + 1, EVEN + 2, EVEN + 3]


def test_what_is_deferred_moves_with_its_neighbour_too() -> None:
    recorded = recordings.recording(
        recordings.party(0, [recordings.visits(EVEN, 0, 100)]),
        recordings.party(1, [recordings.visits(EVEN + 1, 0, 100, kind=Kind.DEFERRED)]),
    )
    pair = pairs.paired(visits(recorded), Parties.of(recorded, 1).others()[0], 100)
    assert (pair.apart, pair.least, pair.most) == ([0.0], [2.0], [2.0])


def test_lines_that_are_no_aligned_pair_do_not() -> None:
    _, pair = found([(EVEN + 1, 0, 100)], [(EVEN + 2, 0, 100)])
    assert pair.most.tolist() == [0, 0]


def test_lines_that_are_always_visited_together_cost_once_or_twice() -> None:
    both = [(EVEN, 0, 100), (EVEN + 1, 0, 100)]
    _, pair = found(both, both)
    assert (pair.apart, pair.least, pair.most) == ([4.0], [2.0], [4.0])


def test_who_only_reads_beside_a_counter_pays_for_it() -> None:
    both = [(EVEN, 0, 100), (EVEN + 1, 300, 0)]
    _, pair = found(both, both)
    # Two CPUs: at most as many reads meet a write as there are writes.
    assert pair.apart.tolist() == [2.0]
    assert pair.most.tolist() == [4.0]


Visits = st.lists(
    st.tuples(st.integers(EVEN, EVEN + 5), st.integers(0, 50), st.integers(0, 50)),
    max_size=6,
    unique_by=lambda one: one[0],
)


@given(st.lists(Visits, min_size=2, max_size=4))
def test_no_pair_costs_less_than_half_of_its_lines(
    parties: list[list[tuple[int, int, int]]],
) -> None:
    lines, pair = found(*parties)
    assert (pair.least <= pair.most + 1e-9).all()
    assert pair.apart.sum() == pytest.approx(lines.between.sum())
    assert (pair.most >= pair.apart / 2 - 1e-9).all()


def test_what_costs_more_is_listed_with_what_lies_there() -> None:
    _, every = found([(EVEN, 0, 100)], [(EVEN + 1, 0, 100), (EVEN + 9, 0, 100)])

    def look(address: int) -> LineObject:
        return LineObject(kind="global", name=hex(address), address="0x0", size=8, line=0)

    def of(threshold: float) -> PairsOfLines:
        return pairs.of(every, operations=100, sharers=2, threshold=threshold, look=look)

    told = of(0.01)
    assert (told.apart, told.least, told.worse) == (0, 2.0, 1)
    (pair,) = told.listed
    assert (pair.first, pair.second) == (hex(EVEN << 6), hex((EVEN + 1) << 6))
    assert of(3.0).listed == []


def shown(told: PairsOfLines | None, *, everything: bool = False) -> str:
    file = io.StringIO()
    one = builders.signal().model_copy(update={"pairs": told})
    result: Result = builders.result(one)
    view.render(result, Console(file=file, width=80), everything=everything)
    return file.getvalue()


def test_pairs_are_shown() -> None:
    one = PairOfLines(address="0x80", first="a", second="b\x1b", apart=1.0, least=2.0, most=3.0)
    alike = one.model_copy(update={"second": "a", "first": "a"})
    told = PairsOfLines(apart=4.0, least=5.0, most=8.0, worse=30, listed=[one, alike] * 12)
    text = shown(told)
    said = "4.00 transfers/op on lines of 64 bytes, 5.00 to 8.00 on lines of 128"
    assert said in " ".join(text.split())
    assert text.count("2.00 to 3.00") == 8
    assert "a | b\\x1b" in text
    assert "and 22 pairs more" in text
    assert shown(told, everything=True).count("2.00 to 3.00") == 24
    none = PairsOfLines(apart=4.0, least=2.0, most=4.0, worse=0, listed=[])
    assert "no pair costs more for certain" in shown(none)
    assert "check again" in shown(None)
