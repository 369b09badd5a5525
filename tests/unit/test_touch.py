# SPDX-License-Identifier: GPL-2.0-or-later
"""What containers that do one operation do to those that do another, by their visits."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from types import SimpleNamespace

import numpy as np
import pytest
from recordings import party, recording, repeated, visits

from partywall.analyse import transfers, verdict
from partywall.analyse.beside import Costs, Judged, Side, touch
from partywall.analyse.judgement import Judgement
from partywall.analyse.transfers import Lines, Parties
from partywall.analyse.work import Setting, Work
from partywall.analyse.workload import Analysis
from partywall.core.topology import Topology
from partywall.record.recording import Kind, Party
from partywall.results.lines import LineObject
from partywall.results.touches import Touch

WINDOW = 100
LATE = Kind.DEFERRED
Rows = Sequence[tuple[int, ...]]


def touched(
    mine: Rows,
    theirs: Rows,
    at: int = 3,
    held: Sequence[Rows] = ((), ()),
    threshold: float = verdict.THRESHOLD,
) -> Touch:
    """What two containers with these lines do to two others; each wrote or read them alike.

    ``held``: which of these visits lie in one hold, of either side.
    """
    sides = ((mine, held[0]), (theirs, held[1]))
    parties = [party(cpu, sides[cpu // 2][0], repeats=sides[cpu // 2][1]) for cpu in range(4)]
    return touched_by(parties, 2, at, threshold=threshold)


def touched_by(
    of: Sequence[Party],
    half: int,
    at: int,
    *,
    names: Mapping[int, str] | None = None,
    threshold: float = verdict.THRESHOLD,
    slab: bool = False,
    windows: tuple[int, int] = (WINDOW, WINDOW),
) -> Touch:
    """What containers from ``half`` on do to those before, each with a CPU.

    ``names``: of lines, by number; ``slab``: lines are of objects that may be handed on.
    """
    whole = recording(*of)
    count = sum(not one.thread for one in of)
    victim, neighbour = (
        Side(title, numbers, window)
        for title, numbers, window in zip(
            ("victim", "neighbour"), (range(half), range(half, count)), windows, strict=True
        )
    )
    parties = Parties.of(whole, 1)
    moving = transfers.visits(whole).moving()
    given = moving, parties, count * WINDOW

    def judged(kind: Kind, lines: Lines) -> Judged:
        objects = {
            row: named(number, (names or {}).get(number, ""), slab=slab)
            for row, number in enumerate(lines.number.tolist())
        }
        judgement = Judgement(
            lines,
            parties,
            Topology(count, 1),
            "between",
            window=WINDOW,
            threshold=threshold,
            sides=[(side.containers, side.window) for side in (victim, neighbour)],
            objects=objects,
            look=objects.__getitem__,
        )
        return Judged(kind, lines.number, judgement, lambda row: objects[row].name)

    own = judged(Kind.FOREGROUND, transfers.analyse(*given))
    late = judged(LATE, transfers.late(*given))
    costs = Costs(victim, neighbour, moving, parties, at=at)
    return touch(costs, [own, late], threshold=threshold)


def named(number: int, name: str = "", *, slab: bool = False) -> LineObject:
    """What has a line by itself: a variable, or an object that may be handed on."""
    return LineObject(
        kind="slab" if slab else "global",
        name=name or f"line{number}",
        type="struct some" if slab else None,
        address=f"{number << 6:#x}",
        size=64,
        line=0,
        state="live" if slab else "static",
    )


def setting_of(parties: Parties, count: int, at: int) -> Setting:
    """By what lines of so many containers are judged, each with a CPU."""
    return Setting(
        parties=parties,
        topology=Topology(count, 1),
        scope="between",
        window=WINDOW,
        operations=count * WINDOW,
        threshold=verdict.THRESHOLD,
        at=at,
    )


def told(found: Touch) -> dict[str, float]:
    """What each object costs."""
    return {one.object: one.transfers for one in found.objects}


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


@pytest.mark.parametrize("slices", [2, 3])
def test_who_does_something_else_need_not_visit_as_often(slices: int) -> None:
    """Among those who do the same one tells by that who shares, where windows are short."""
    mine = visits(5, 200, 0, turns=200, returns=slices - 1, slices=slices)
    theirs = visits(5, 0, 600, turns=600, returns=slices - 1, slices=slices)
    of = [party(cpu, [theirs if cpu >= 4 else mine]) for cpu in range(8)]
    assert told(touched_by(of, 4, 64, slab=True)) == {"line5": pytest.approx(2)}


def test_what_one_side_has_by_turns_is_not_shared() -> None:
    mine = visits(5, 200, 0, turns=200, returns=1, slices=2)
    theirs = visits(5, 0, 600, turns=600, returns=1, slices=2)
    of = [
        party(cpu, [theirs if cpu >= 4 else mine] if cpu in (0, 4, 5) else []) for cpu in range(8)
    ]
    assert touched_by(of, 4, 64, slab=True).objects == []
    # Of one or two on either side nobody can tell.
    pair = [party(0, [mine]), party(1, [theirs])]
    assert touched_by(pair, 1, 64, slab=True).objects == []


def test_few_who_meet_are_as_many_as_were_measured() -> None:
    """A line that one of each side comes back to is none that 64 containers meet at."""
    of = [
        party(cpu, {0: [visits(5, 0, 10_000)], 4: [visits(5, 0, 100)]}.get(cpu, []))
        for cpu in range(8)
    ]
    assert told(touched_by(of, 4, 64, slab=True)) == {"line5": pytest.approx(0.25)}


def test_a_line_that_few_neighbours_share_is_met_by_no_more() -> None:
    """Half of them are enough, and a quarter is not, though most of all share it."""

    def found(neighbours: int) -> dict[str, float]:
        theirs = {cpu: [visits(5, 0, 4)] for cpu in range(4, 4 + neighbours)}
        of = [
            party(cpu, theirs.get(cpu, [visits(5, 0, WINDOW)] if cpu < 4 else []))
            for cpu in range(8)
        ]
        return told(touched_by(of, 4, 64, slab=True))

    assert found(1) == {"line5": pytest.approx(0.04)}
    assert found(2) == {"line5": pytest.approx(1)}


def test_variables_of_neighbours_cpus_are_as_many_as_they() -> None:
    mine = [visits(number, 400, 0) for number in range(4, 8)]
    of = [party(cpu, [visits(cpu, 0, 10)] if cpu >= 4 else mine) for cpu in range(8)]
    names = {number: f"runqueues of CPU {number}" for number in range(8)}
    found = touched_by(of, 4, 64, names=names)
    assert told(found) == {"runqueues of each CPU": pytest.approx(6.3)}
    # One's own is one, which all neighbours look at.
    theirs = [visits(number, 10, 0) for number in range(4)]
    of = [party(cpu, [visits(cpu, 0, 400)] if cpu < 4 else theirs) for cpu in range(8)]
    found = touched_by(of, 4, 64, names=names)
    assert told(found) == {"runqueues of each CPU": pytest.approx(4)}


def test_what_a_victim_meets_by_chance_is_not_told() -> None:
    def found(reads: int, threshold: float = verdict.THRESHOLD) -> dict[str, float]:
        return told(touched([visits(5, reads, 0)], [visits(5, 0, 900)], threshold=threshold))

    assert found(1) == {}
    assert found(2) == {"line5": pytest.approx(0.02)}
    assert found(2, threshold=0.03) == {}
    # Once in all windows of two victims.
    of = [party(0, [visits(5, 1, 0)]), party(1), *(party(n, [visits(5, 0, 900)]) for n in (2, 3))]
    assert touched_by(of, 2, 3, threshold=0.001).objects == []


def test_what_a_neighbour_came_to_once_is_not_told() -> None:
    """However many there are to be: so often somebody comes by, or never again."""
    mine, once = [visits(5, 0, WINDOW)], [visits(5, 1, 0)]
    of = [party(cpu, {6: once, 7: once}.get(cpu, mine if cpu < 4 else [])) for cpu in range(8)]
    found = touched_by(of, 4, 64)
    assert found.objects == []
    assert [(one.object, one.transfers) for one in found.seldom] == [
        ("line5", pytest.approx(0.315))
    ]
    of = [party(cpu, mine if cpu < 4 else once) for cpu in range(8)]
    assert told(touched_by(of, 4, 64)) == {"line5": pytest.approx(0.63)}


def test_a_victim_has_no_fellows_and_none_of_their_cpus() -> None:
    """Who writes each CPU's variable meets 63 neighbours at its own, and one at each of theirs."""
    every = [visits(number, 0, WINDOW) for number in range(8)]
    names = {number: f"runqueues of CPU {number}" for number in range(8)}
    found = touched_by([party(cpu, every) for cpu in range(8)], 4, 64, names=names)
    assert told(found) == {"runqueues of each CPU": pytest.approx(1 + 63)}


def test_each_side_comes_back_by_its_own_window() -> None:
    """Three turns in one operation are many, and in 100 few."""
    whose = {4: [visits(5, 0, 3)], 5: [visits(5, 0, 3)], 6: [], 7: []}
    of = [party(cpu, whose.get(cpu, [visits(5, 0, 300)])) for cpu in range(8)]
    assert told(touched_by(of, 4, 64, slab=True)) == {}
    found = touched_by(of, 4, 64, slab=True, windows=(WINDOW, 1))
    assert told(found) == {"line5": pytest.approx(3)}


def test_memory_that_is_handed_on_is_shared_by_neither_side() -> None:
    """Of 300 objects each is used by four of eight, one after the other."""
    chance = random.Random(1)
    rows: dict[int, list[tuple[int, ...]]] = {cpu: [] for cpu in range(8)}
    for number in range(300):
        for cpu in chance.sample(range(8), 4):
            turns = chance.randint(2, 6) * (1 if cpu < 4 else 6)
            rows[cpu].append(visits(number, 0, turns, turns=turns, returns=0, slices=1))
    names = {number: f"object{number}" for number in range(300)}
    found = touched_by([party(cpu, rows[cpu]) for cpu in rows], 4, 64, slab=True, names=names)
    assert len(found.objects) + len(found.seldom) <= 3


def test_what_a_neighbour_left_for_ones_own_cpu_takes_nothing_from_it() -> None:
    own = [party(0, [visits(5, 0, 100)]), party(1, [visits(5, 0, 4)])]
    others = [party(cpu, [visits(5, 0, 10)]) for cpu in (2, 3)]

    def found(cpu: int) -> float:
        left = party(cpu, [visits(5, 0, 100, kind=LATE)], thread=3)
        return told(touched_by([*own, *others, left], 2, 3))["line5"]

    # Of each 100 operations the one with 100 visits pays 20 or 100, the other one all its 4.
    assert found(0) == pytest.approx((0.2 + 0.04) / 2)
    assert found(2) == pytest.approx((1 + 0.04) / 2)


class Judging:
    """Work all of whose lines are walls, and move as their setting has it."""

    def __init__(self, lines: Lines, setting: Setting) -> None:
        self.lines, self._setting = lines, setting

    def told_by(self, lines: Lines, setting: Setting) -> Judging:
        """The same by another setting."""
        return Judging(lines, setting)

    def to_touch(self, costs: Costs) -> Judged:
        """All lines, which move so often by their setting."""
        setting = self._setting
        assert setting.operations == 4 * setting.window == 4 * costs.victim.window
        judgement = SimpleNamespace(
            walls=self.lines.between_at * setting.operations > 0,
            back=np.ones((len(self.lines.number), 4), bool),
            grows=np.ones(len(self.lines.number), bool),
            part=self.lines.between * setting.window / WINDOW,
        )
        name = f"window {setting.window}"
        return Judged(Kind.FOREGROUND, self.lines.number, judgement, lambda _: name)  # type: ignore[arg-type]


@pytest.mark.parametrize("window", [WINDOW, 25])
def test_each_victim_is_judged_by_its_own_window(window: int) -> None:
    whole = recording(*(party(cpu, [visits(5, 0, 100)]) for cpu in range(4)))
    parties = Parties.of(whole, 1)
    moving = transfers.visits(whole).moving()
    lines = transfers.analyse(moving, parties, 4 * WINDOW, ran=4, at=3)
    setting = setting_of(parties, 4, 3)
    analysis = object.__new__(Analysis)
    late = transfers.late(moving, parties, 4 * WINDOW, ran=4, at=3)
    analysis._setting, analysis._lines = setting, lines
    analysis._own, analysis._late = Judging(lines, setting), Judging(late, setting)  # type: ignore[assignment]
    found = analysis.touches((Side("one", range(2), WINDOW), Side("other", range(2, 4), window)))
    assert [told(each) for each in found] == [
        {f"window {WINDOW}": pytest.approx(1)},
        # The two others do one operation each for one of its own.
        {f"window {window}": pytest.approx(min(WINDOW / window, 2))},
    ]


def test_what_costs_a_victim_is_looked_up_however_little_of_all_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A thousandth of all is not looked up for its own sake, and what has no object is no wall."""
    mine, theirs = [visits(5, 0, WINDOW)], [visits(5, 0, WINDOW), visits(7, 0, 10**6)]
    whole = recording(*(party(cpu, mine if cpu < 4 else theirs) for cpu in range(8)))
    parties = Parties.of(whole, 1)
    setting = setting_of(parties, 8, 8)
    moving = transfers.visits(whole).moving()
    work = object.__new__(Work)
    work._recorded, work._kind = whole, Kind.FOREGROUND
    looked_up: list[int] = []

    def object_at(_: Work, line: int) -> LineObject:
        looked_up.append(line >> 6)
        return named(line >> 6)

    monkeypatch.setattr(Work, "object_at", object_at)
    monkeypatch.setattr(Work, "name", lambda _, row: SimpleNamespace(object=named(row)))
    lines = transfers.analyse(moving, parties, 8 * WINDOW, ran=8, at=8)
    now = work.told_by(lines, setting)
    assert not hasattr(work, "lines")
    sides = Side("victim", range(4), WINDOW), Side("neighbour", range(4, 8), WINDOW)
    judged = now.to_touch(Costs(*sides, moving, parties, at=8))
    assert looked_up == [5, 7]
    assert judged.judgement.walls.tolist() == [True, True]
    assert judged.number.tolist() == [5, 7]
