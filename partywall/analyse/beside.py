# SPDX-License-Identifier: GPL-2.0-or-later
"""What containers that do one operation, and those that do another, do to each other."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from partywall.analyse.judgement import Judgement
from partywall.analyse.transfers import Lines, Parties
from partywall.results.touches import Touch, Touched

Array = npt.NDArray[Any]

_ONE_CPU = re.compile(r" of CPU [0-9]+$")


@dataclass(frozen=True)
class Side:
    """Containers that do one operation: their numbers, and operations of each process."""

    title: str
    containers: range
    window: int


def touch(
    victim: Side,
    neighbour: Side,
    lines: Lines,
    parties: Parties,
    judged: Judgement,
    *,
    at: int,
    name: Callable[[int], str],
) -> Touch:
    """Return what neighbours do to a victim, at ``at`` containers: one, and the others theirs.

    Per operation of the victim, for each of which each neighbour does one: a writing visit
    costs a transfer if a neighbour visited since, a reading one if one wrote since, as in
    `partywall.analyse.transfers.transfers`. ``name``: of a line by its row, its object's.
    A variable that each CPU has is one object here: on which CPUs a victim ran would make
    it another beside others than beside its like.
    """
    mine, theirs = (_columns(parties, side) for side in (victim, neighbour))
    reads, writes = (counts[:, mine] / victim.window for counts in (lines.reads, lines.writes))
    scale = (at - 1) / len(neighbour.containers)
    wrote = lines.writes[:, theirs].sum(axis=1) / neighbour.window * scale
    visited = wrote + lines.reads[:, theirs].sum(axis=1) / neighbour.window * scale
    moved = np.minimum(writes, visited[:, None]) + np.minimum(reads, wrote[:, None])
    # Of one process, on average.
    each = moved.mean(axis=1)
    found: dict[str, float] = defaultdict(float)
    for row in np.flatnonzero(judged.walls & _both(judged, victim, neighbour)).tolist():
        found[_ONE_CPU.sub(" of each CPU", name(row))] += float(each[row])
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
