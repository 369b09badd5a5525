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
from partywall.record.recording import Kind
from partywall.results.lines import each_cpu
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


def touch(
    victim: Side,
    neighbour: Side,
    lines: Visits,
    parties: Parties,
    judged: Iterable[Judged],
    *,
    at: int,
) -> Touch:
    """Return what neighbours do to a victim, at ``at`` containers: one, and the others theirs.

    Per operation of the victim, for each of which each neighbour does one: a writing visit
    costs a transfer if a neighbour visited since, a reading one if one wrote since, as in
    `partywall.analyse.transfers.transfers`. ``judged``: both kinds of work; what deferred
    work costs is what a line moves more if it counts beside the foreground, as elsewhere.
    A variable that each CPU has is one object here: on which CPUs a victim ran would make
    it another beside others than beside its like.
    """
    scale = (at - 1) / len(neighbour.containers)
    mine, theirs = (_columns(parties, side) for side in (victim, neighbour))
    # What a container left for later, and another one's CPU did, is no process of its.
    processes = np.count_nonzero(parties.thread[mine] == 0)

    def moved(counts: list[Array]) -> Array:
        """Transfers of each line for one process, on average."""
        of = [
            one[:, theirs].sum(axis=1, keepdims=True) / neighbour.window * scale for one in counts
        ]
        by = [one[:, mine] / victim.window for one in counts]
        # Those of neighbours lie in holds of theirs, and nobody but one victim comes between.
        loose = by[3].sum(axis=1, keepdims=True) / len(victim.containers)
        theirs_read, theirs_wrote = in_holds([*of[:3], loose], np.ones((1, 1)))
        read, written = in_holds([*by[:3], of[3]], np.ones((1, by[0].shape[1])))
        visited = theirs_read + theirs_wrote
        found = np.minimum(written, visited) + np.minimum(read, theirs_wrote)
        return np.asarray(found.sum(axis=1) / processes)

    own = moved(counted(lines))
    both = np.maximum(own, moved(counted(lines, late=True)))
    found: dict[str, float] = defaultdict(float)
    for one in judged:
        costs = both - own if one.kind == Kind.DEFERRED else own
        walls = one.judgement.walls & _both(one.judgement, victim, neighbour)
        for row in np.flatnonzero(walls).tolist():
            line = np.searchsorted(lines.number, one.number[row])
            found[each_cpu(one.name(row))] += float(costs[line])
    objects = [Touched(object=one, transfers=rate) for one, rate in found.items() if rate > 0]
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
    """Which lines containers of both sides come back to."""
    there = [judged.back[:, list(side.containers)].any(axis=1) for side in sides]
    return np.asarray(np.logical_and.reduce(there))
