# SPDX-License-Identifier: GPL-2.0-or-later
"""Pairs of lines taken as one: what they would cost where they move together.

Some processors fetch the other line of an aligned pair of 128 bytes along with the one
that missed, and some machines have lines of that size. Then what lies in the other line
matters: a line that one CPU alone uses moves with its neighbour's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from partywall.analyse import verdict
from partywall.analyse.transfers import Visits, counted, in_holds, transfers
from partywall.record.recording import LINE_SHIFT
from partywall.results.lines import LineObject
from partywall.results.pairs import PairOfLines, PairsOfLines

Array = npt.NDArray[Any]

LISTED = 24
"""Pairs that a result holds, those that cost most more first."""


@dataclass(frozen=True)
class Pairs:
    """Every aligned pair of lines, with its transfers per operation; shape (pairs,) each.

    ``number``: address >> 7. ``used``: which of its two lines are; shape (2, pairs).
    ``apart``: of these, as they are. ``least`` and ``most``: of both as one line.
    """

    number: Array
    used: Array
    apart: Array
    least: Array
    most: Array


def paired(lines: Visits, others: Array, operations: int) -> Pairs:
    """Return the pairs of ``lines``, as the foreground and deferred work use them.

    ``others``: who takes lines from whom, as for `transfers`.
    How many visits a party makes to a pair lies between two bounds: those of the line
    that it visits more, if it always visits both at once, and the sum, if never. Those in one
    hold of a line's lock are one for the first; for the second none is, as what others do with the
    other line may come between.
    """
    number, row = np.unique(lines.number >> np.uint64(1), return_inverse=True)
    shape = (len(number), lines.reads.shape[1])
    slot = (lines.number & np.uint64(1)).astype(np.intp)
    reads, writes = (np.zeros((2, *shape), np.int64) for _ in range(2))
    used = np.zeros((2, len(number)), bool)
    used[slot, row] = True
    counts = counted(lines, late=True)
    reads[slot, row], writes[slot, row] = counts[:2]
    never = transfers(reads.sum(axis=0), writes.sum(axis=0), others)
    reads[slot, row], writes[slot, row] = in_holds(counts, others)
    apart = transfers(reads[0], writes[0], others) + transfers(reads[1], writes[1], others)
    both_writes = writes.max(axis=0)
    both_reads = np.maximum((reads + writes).max(axis=0) - both_writes, 0)
    always = transfers(both_reads, both_writes, others)
    return Pairs(
        number=number,
        used=used,
        apart=apart / operations,
        least=np.minimum(never, always) / operations,
        most=np.maximum(never, always) / operations,
    )


def of(
    found: Pairs,
    *,
    operations: int,
    sharers: int,
    threshold: float,
    look: Callable[[int], LineObject],
) -> PairsOfLines:
    """Return what pairs cost, and those that cost more than their two lines.

    ``found``: as `paired` has them; ``sharers`` and ``threshold``: as for `verdict.often`,
    which what a pair costs more at least has to pass. ``look``: what lies at the address of a
    line.
    """
    more = found.least - found.apart
    chosen = verdict.often(more, operations=operations, sharers=sharers, threshold=threshold)
    rows = np.flatnonzero(chosen)
    rows = rows[np.lexsort((rows, -more[rows]))]
    listed = []
    for row in rows[:LISTED].tolist():
        first = int(found.number[row]) << 1
        names = [
            look(first + slot << LINE_SHIFT).name if found.used[slot, row] else None
            for slot in (0, 1)
        ]
        listed.append(
            PairOfLines(
                address=f"{first << LINE_SHIFT:#x}",
                first=names[0],
                second=names[1],
                apart=float(found.apart[row]),
                least=float(found.least[row]),
                most=float(found.most[row]),
            )
        )
    return PairsOfLines(
        apart=float(found.apart.sum()),
        least=float(found.least.sum()),
        most=float(found.most.sum()),
        worse=len(rows),
        listed=listed,
    )
