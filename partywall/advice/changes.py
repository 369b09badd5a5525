# SPDX-License-Identifier: GPL-2.0-or-later
"""What differs between the kernels of a map, operation by operation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

from partywall.advice.map import Map

LEAST, SHARE = 0.5, 0.1
"""Transfers, and the share of them, that who meets whom makes of an operation by itself."""


@dataclass(frozen=True)
class Change:
    """An operation that costs something else on one kernel than on the last one with a figure.

    ``before``, ``after``: numbers of the two kernels in the map. ``was``, ``now``: transfers
    per operation.
    """

    title: str
    before: int
    after: int
    was: float
    now: float

    @property
    def size(self) -> float:
        """By how much, as orders of magnitude above one transfer."""
        return abs(math.log1p(self.now) - math.log1p(self.was))


def changes(found: Map) -> list[Change]:
    """Return what differs from kernel to kernel, the largest differences first.

    What differs by less than `LEAST` or `SHARE` is left out.
    """
    every = []
    for one in found.operations:
        there = [
            (number, cell.transfers)
            for number, cell in enumerate(one.cells)
            if cell is not None and cell.failed is None
        ]
        every += [
            Change(one.title, before, after, was, now)
            for (before, was), (after, now) in pairwise(there)
        ]
    told = [one for one in every if abs(one.now - one.was) > max(LEAST, SHARE * one.was)]
    return sorted(told, key=lambda one: (-one.size, one.title, one.before))
