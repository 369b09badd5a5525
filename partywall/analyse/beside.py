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

    ``ran`` and ``at``: by kind of work, with as many neighbours as ran and as there are to be;
    shape (lines,) each, ``number`` as `Visits` has it. ``more``: how many times as many.
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
        self.ran, self.at = (self._of(own, both, times) for times in (1.0, self.more))

    def _of(self, own: list[Array], both: list[Array], times: float) -> dict[Kind, Array]:
        moved = self._moved(own, times)
        late = np.maximum(self._moved(both, times) - moved, 0)
        return {Kind.FOREGROUND: moved, Kind.DEFERRED: late}

    def _moved(self, counts: list[Array], times: float) -> Array:
        """Transfers of each line for one process of a victim's, on average.

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
        found = np.minimum(written, visited) + np.minimum(read, theirs_wrote)
        return np.asarray(found.sum(axis=1) / self.processes)

    def is_neighbours(self, cpu: int) -> bool:
        """Whether a CPU is a neighbour's."""
        parties = self._parties
        own = (parties.cpu == cpu) & (parties.thread == 0)
        return bool(np.isin(parties.container[own], list(self.neighbour.containers)).any())


def touch(costs: Costs, judged: Iterable[Judged], *, threshold: float) -> Touch:
    """Return what neighbours do to a victim.

    ``judged``: both kinds of work. Of a line that few of the neighbours share there are no more
    than ran. What all of it is of an object counts if it is more than ``threshold``, and if
    what was measured is once for each victim at least.
    A variable that each CPU has is one object here: on which CPUs a victim ran would make
    it another beside others than beside its like. Those of neighbours' CPUs are as many as
    there are to be.
    """
    victim, neighbour = costs.victim, costs.neighbour
    seen: dict[str, float] = defaultdict(float)
    found: dict[str, float] = defaultdict(float)
    for one in judged:
        judgement = one.judgement
        grows = judgement.grows & _most(judgement, neighbour)
        for row in np.flatnonzero(judgement.walls & _both(judgement, victim, neighbour)).tolist():
            line = np.searchsorted(costs.number, one.number[row])
            part, full_name = float(judgement.part[row]), one.name(row)
            cost = float(costs.ran[one.kind][line]) * part
            if (cpu := cpu_of(full_name)) is not None and costs.is_neighbours(cpu):
                cost_at = cost * costs.more
            else:
                cost_at = float(costs.at[one.kind][line]) * part if grows[row] else cost
            seen[each_cpu(full_name)] += cost
            found[each_cpu(full_name)] += cost_at
    least = len(victim.containers) - ROUNDING
    objects = [
        Touched(object=name, transfers=rate)
        for name, rate in found.items()
        if rate > threshold and seen[name] * victim.window * costs.processes >= least
    ]
    objects.sort(key=lambda one: (-one.transfers, one.object))
    return Touch(
        victim=victim.title,
        neighbour=neighbour.title,
        transfers=sum(one.transfers for one in objects),
        objects=objects,
    )


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
