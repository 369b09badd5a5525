# SPDX-License-Identifier: GPL-2.0-or-later
"""What containers that do one operation, and those that do another, do to each other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from partywall.analyse.judgement import Judgement
from partywall.analyse.transfers import Parties, Visits, counted, in_holds
from partywall.analyse.verdict import ROUNDING
from partywall.record.recording import Kind
from partywall.results.lines import cpu_of, each_cpu
from partywall.results.touches import Touch, Touched

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Side:
    """Containers that do one operation: their numbers, and operations of each process."""

    title: str
    containers: range
    window: int


@dataclass(frozen=True)
class Judged:
    """The judgement on one kind of work.

    ``number``: of its lines, shape (lines,); ``name``: of a line's object, by its row.
    """

    kind: Kind
    number: Array
    judgement: Judgement
    name: Callable[[int], str]


class Costs:
    """What neighbours do to a victim at each line, one container of ``at``.

    Per operation of the victim, for each of which each neighbour does one: a writing visit
    costs a transfer if a neighbour visited since, a reading one if one wrote since, as in
    `partywall.analyse.transfers.transfers`. What deferred work costs is what a line moves more
    if it counts beside the foreground, as elsewhere. A kernel thread in charged work that is
    nobody's is neither a victim nor a neighbour.

    ``met``: by kind of work, how often neighbours came to each line in their windows so that it
    may have cost a victim anything, of deferred work in both; shape (lines,). ``number``: as
    `Visits` has it. ``more``: how many neighbours there are to be for each that ran.
    """

    def __init__(
        self, victim: Side, neighbour: Side, lines: Visits, parties: Parties, *, at: int
    ) -> None:
        self.victim, self.neighbour, self.number = victim, neighbour, lines.number
        self.more = (at - 1) / len(neighbour.containers)
        self._parties = parties
        self._mine, self._theirs = (_columns(parties, side) for side in (victim, neighbour))
        # What a neighbour left for later takes nothing from the CPU that does it.
        apart, _ = parties.others()
        self._apart = apart[np.ix_(self._theirs, self._mine)].astype(np.float64)
        # What a container left for later, and another one's CPU did, is no process of its.
        self.processes = int(np.count_nonzero(parties.thread[self._mine] == 0))
        own, both = counted(lines), counted(lines, late=True)
        self._ran, self._at = (self._of(own, both, times) for times in (1.0, self.more))
        self.met = {Kind.FOREGROUND: self._met(own), Kind.DEFERRED: self._met(both)}

    def _of(self, own: list[Array], both: list[Array], times: float) -> dict[Kind, Array]:
        moved = self._moved(own, times)
        late = np.maximum(self._moved(both, times) - moved, 0)
        return {Kind.FOREGROUND: moved, Kind.DEFERRED: late}

    def _moved(self, counts: list[Array], times: float) -> Array:
        """Transfers per operation, of each line (rows) for each party of a victim's.

        ``counts``: as `counted` has them; ``times``: how many neighbours there are for each
        that ran.
        """
        mine, window = self._mine, self.victim.window
        of = [
            one[:, self._theirs].astype(np.float64) @ self._apart / self.neighbour.window * times
            for one in counts
        ]
        by = [one[:, mine] / window for one in counts]
        alone = np.eye(by[0].shape[1])
        # Those of neighbours lie in holds of theirs, and nobody but one victim comes between.
        loose = by[3].sum(axis=1, keepdims=True) / len(self.victim.containers)
        theirs_read, theirs_wrote = in_holds([*of[:3], np.broadcast_to(loose, of[0].shape)], alone)
        read, written = in_holds([*by[:3], of[3]], alone)
        visited = theirs_read + theirs_wrote
        return np.asarray(np.minimum(written, visited) + np.minimum(read, theirs_wrote))

    def _met(self, counts: list[Array]) -> Array:
        reads, writes, *_ = counts
        wrote = writes[:, self._mine].any(axis=1)
        came = np.where(wrote, reads[:, self._theirs].sum(axis=1), 0)
        return np.asarray(came + writes[:, self._theirs].sum(axis=1))

    def at(self, kind: Kind) -> Array:
        """Return transfers of each line for one process of a victim's, at that number."""
        return np.asarray(self._at[kind].sum(axis=1) / self.processes)

    def of(self, kind: Kind, line: int, cpu: int | None, *, grows: bool) -> tuple[float, float]:
        """Return a line's transfers for one process of a victim's, as ran and at that number.

        ``cpu``: whose variable lies there, if it is one that each CPU has. Those of neighbours'
        are as many as these; a victim has no other victims, and none of their CPUs.
        ``grows``: more come to it with more neighbours.
        """
        whose = self._parties.container[self._mine]
        chosen = np.ones(len(whose), bool)
        times = self._at if grows else self._ran
        more = 1.0
        if cpu is not None:
            container = self._container_of(cpu)
            if container in self.victim.containers:
                chosen = whose == container
            elif container in self.neighbour.containers:
                times, more = self._ran, self.more
        ran, at = (
            float(one[kind][line, chosen].sum() / self.processes) for one in (self._ran, times)
        )
        return ran, at * more

    def _container_of(self, cpu: int) -> int:
        parties = self._parties
        own = parties.container[(parties.cpu == cpu) & (parties.thread == 0)]
        return int(own[0]) if len(own) else -1


def touch(costs: Costs, judged: Iterable[Judged], *, threshold: float) -> Touch:
    """Return what neighbours do to a victim.

    ``judged``: both kinds of work. A line that fewer than half of the neighbours share is met
    by no more than ran. What an object costs in all counts if it is more than ``threshold``,
    and if it was met often enough to tell: as often as there are victims, and as there are
    neighbours, at least.
    A variable that each CPU has is one object here: on which CPUs a victim ran would make
    it another beside others than beside its like.
    """
    victim, neighbour = costs.victim, costs.neighbour
    seen, found = defaultdict[str, float](float), defaultdict[str, float](float)
    met: dict[str, dict[Kind, int]] = defaultdict(lambda: defaultdict(int))
    for one in judged:
        judgement = one.judgement
        grows = judgement.grows & _most(judgement, neighbour)
        for row in np.flatnonzero(judgement.walls & _both(judgement, victim, neighbour)).tolist():
            line = int(np.searchsorted(costs.number, one.number[row]))
            part, full_name = float(judgement.part[row]), one.name(row)
            ran, at = costs.of(one.kind, line, cpu_of(full_name), grows=bool(grows[row]))
            name = each_cpu(full_name)
            seen[name] += ran * part
            found[name] += at * part
            met[name][one.kind] += int(costs.met[one.kind][line])
    enough = {
        name
        for name, rate in found.items()
        if rate > threshold
        and max(met[name].values()) >= len(neighbour.containers)
        and seen[name] * victim.window * costs.processes >= len(victim.containers) - ROUNDING
    }
    objects = _worst_first(Touched(object=name, transfers=found[name]) for name in enough)
    return Touch(
        victim=victim.title,
        neighbour=neighbour.title,
        transfers=sum(one.transfers for one in objects),
        objects=objects,
        seldom=_worst_first(
            Touched(object=name, transfers=rate)
            for name, rate in found.items()
            if rate > 0 and name not in enough
        ),
    )


def _worst_first(objects: Iterable[Touched]) -> list[Touched]:
    return sorted(objects, key=lambda one: (-one.transfers, one.object))


def _columns(parties: Parties, side: Side) -> Array:
    return np.isin(parties.container, list(side.containers))


def _both(judged: Judgement, *sides: Side) -> Array:
    """Which lines containers of both sides share: come back to, or of variables use."""
    there = [judged.back[:, list(side.containers)].any(axis=1) for side in sides]
    return np.asarray(np.logical_and.reduce(there))


def _most(judged: Judgement, side: Side) -> Array:
    """Which lines half of a side's containers share, at least."""
    there = judged.back[:, list(side.containers)]
    return np.asarray(2 * there.sum(axis=1) >= there.shape[1])
