# SPDX-License-Identifier: GPL-2.0-or-later
"""What containers that do one operation do to those that do another, by their visits."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from recordings import party, recording, repeated, visits

from partywall.analyse import transfers, verdict
from partywall.analyse.beside import Judged, Side, touch
from partywall.analyse.judgement import Judgement
from partywall.analyse.transfers import Lines, Parties
from partywall.core.topology import Topology
from partywall.record.recording import Kind
from partywall.results.lines import LineObject
from partywall.results.touches import Touch

WINDOW = 100
VICTIM = Side("victim", range(2), WINDOW)
NEIGHBOUR = Side("neighbour", range(2, 4), WINDOW)
LATE = Kind.DEFERRED


def touched(
    mine: Sequence[tuple[int, ...]],
    theirs: Sequence[tuple[int, ...]],
    at: int = 3,
    held: Sequence[Sequence[tuple[int, ...]]] = ((), ()),
) -> Touch:
    """What two containers with these lines do to two others; each wrote or read them alike.

    ``held``: which of these visits lie in one hold, of either side.
    """
    sides = ((mine, held[0]), (theirs, held[1]))
    whole = recording(
        *(party(cpu, sides[cpu // 2][0], repeats=sides[cpu // 2][1]) for cpu in range(4))
    )
    parties = Parties.of(whole, 1)
    moving = transfers.visits(whole).moving()
    of = moving, parties, 4 * WINDOW

    def judged(kind: Kind, lines: Lines) -> Judged:
        names = {
            row: LineObject(
                kind="global",
                name=f"line{number}",
                address=f"{number << 6:#x}",
                size=64,
                line=0,
                state="static",
            )
            for row, number in enumerate(lines.number.tolist())
        }
        judgement = Judgement(
            lines,
            parties,
            Topology(4, 1),
            "between",
            window=WINDOW,
            threshold=verdict.THRESHOLD,
            objects=names,
            look=names.__getitem__,
        )
        return Judged(kind, lines.number, judgement, lambda row: names[row].name)

    own = judged(Kind.FOREGROUND, transfers.analyse(*of))
    late = judged(LATE, transfers.late(*of))
    return touch(VICTIM, NEIGHBOUR, moving, parties, [own, late], at=at)


def test_a_neighbour_costs_what_both_write_in_the_foreground() -> None:
    # Of two neighbours each writes half as often.
    found = touched([visits(5, 0, 100)], [visits(5, 0, 25)])
    assert {one.object: one.transfers for one in found.objects} == {"line5": pytest.approx(0.5)}


def test_visits_in_one_hold_are_one_on_either_side() -> None:
    (line,) = touched(
        [visits(5, 0, 300)],
        [visits(5, 0, 900)],
        held=([repeated(5, 200)], [repeated(5, 600)]),
    ).objects
    assert line.transfers == pytest.approx(1)
    # Two neighbours in three holds of ten visits each; the victim looks once without the lock.
    (line,) = touched(
        [visits(5, 100, 0)],
        [visits(5, 0, 3000)],
        held=([repeated(5, 0, 100)], [repeated(5, 2700)]),
    ).objects
    assert line.transfers == pytest.approx(1)
    # Nor is there more than one victim who looks, however many were measured.
    (line,) = touched(
        [visits(5, 4000, 0)],
        [visits(5, 0, 6000)],
        held=([repeated(5, 0, 1000)], [repeated(5, 5900)]),
        at=2,
    ).objects
    assert line.transfers == pytest.approx(1 + 10)
    # A victim that neighbours part: once for each visit of theirs without the lock.
    (line,) = touched(
        [visits(5, 0, 1000)],
        [visits(5, 200, 0)],
        held=([repeated(5, 900)], [repeated(5, 0, 200)]),
    ).objects
    assert line.transfers == pytest.approx(4)


@pytest.mark.parametrize("mine", [Kind.FOREGROUND, LATE])
@pytest.mark.parametrize("theirs", [Kind.FOREGROUND, LATE])
def test_who_meets_in_deferred_work_costs_as_much_as_in_calls(mine: Kind, theirs: Kind) -> None:
    found = touched([visits(5, 0, 100, kind=mine)], [visits(5, 0, 25, kind=theirs)])
    assert {one.object: one.transfers for one in found.objects} == {"line5": pytest.approx(0.5)}
    assert found.transfers == pytest.approx(0.5)


def test_deferred_work_of_a_line_of_the_foreground_comes_on_top() -> None:
    both = [visits(5, 0, 100), visits(5, 0, 100, kind=LATE)]
    found = touched(both, [visits(5, 0, 25), visits(5, 0, 50, kind=LATE)])
    assert {one.object: one.transfers for one in found.objects} == {"line5": pytest.approx(1.5)}


def test_lines_of_deferred_work_are_told_by_their_own_rows() -> None:
    # Line 3 is of the foreground alone, so the second line is the first of deferred work.
    mine = [visits(3, 0, 100), visits(9, 0, 40, kind=LATE)]
    found = touched(mine, [visits(3, 0, 10), visits(9, 0, 40, kind=LATE)])
    assert {one.object: one.transfers for one in found.objects} == {
        "line9": pytest.approx(0.4),
        "line3": pytest.approx(0.2),
    }


def test_what_only_one_side_defers_costs_the_other_nothing() -> None:
    assert touched([visits(5, 0, 100, kind=LATE)], [visits(6, 0, 100, kind=LATE)]).objects == []
