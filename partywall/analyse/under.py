# SPDX-License-Identifier: GPL-2.0-or-later
"""What has to be fetched while a lock is held: who wants the lock waits for that as well."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from partywall.analyse.judgement import Judgement
from partywall.analyse.transfers import Lines, counted, in_holds
from partywall.record.recording import LINE_SHIFT, Kind, Recording, kinds_of, numbers_of

Array = npt.NDArray[Any]


@dataclass
class Transfers:
    """Per operation, of lines of walls, while a lock was held; ``last``: and none later."""

    last: float = 0.0
    all: float = 0.0
    word: float = 0.0
    """Of all, those of the line that the lock's word is in."""


@dataclass
class Under:
    """Transfers under locks on lines of walls.

    ``shares``: by kind of work and a line's row, which share of its transfers, 0..1, is made
    under such locks. ``of``: by the address of a lock.
    """

    shares: dict[Kind, dict[int, float]] = field(
        default_factory=lambda: {Kind.FOREGROUND: {}, Kind.DEFERRED: {}}
    )
    of: dict[int, Transfers] = field(default_factory=lambda: defaultdict(Transfers))


def under(recorded: Recording, work: dict[Kind, tuple[Lines, Judgement]], others: Array) -> Under:
    """Return what locks on lines of walls have under them, in the kinds of work that are given.

    A line's transfers are taken to be spread over its visits evenly, those in one hold being
    one. ``others``: as for `partywall.analyse.transfers.transfers`.
    """
    found = Under()
    walls = {
        number for lines, judged in work.values() for number in lines.number[judged.walls].tolist()
    }
    # The locks of each set that are on lines of walls.
    sets = [[lock for lock in held if lock >> LINE_SHIFT in walls] for held in recorded.sets]
    for kind, (lines, judged) in work.items():
        places = {int(lines.number[row]): int(row) for row in np.flatnonzero(judged.walls)}
        chosen = recorded.under[kinds_of(recorded.under["key"]) == kind]
        shares = found.shares[kind]
        parts = _parts(chosen, places, lines, others)
        for number, one in zip(numbers_of(chosen["key"]).tolist(), chosen, strict=True):
            row, held = places.get(number), sets[int(one["set"])]
            if row is None or not held:
                continue
            share = float(one["visits"]) * parts[row]
            # No more than all, whatever a file claims.
            share = min(share, 1.0 - shares.get(row, 0.0))
            moved = float(judged.moved[row]) * share
            for lock in held:
                found.of[lock].all += moved
                found.of[lock].word += moved * (lock >> LINE_SHIFT == number)
            found.of[held[-1]].last += moved
            shares[row] = shares.get(row, 0.0) + share
    return found


def _parts(chosen: Array, places: dict[int, int], lines: Lines, others: Array) -> dict[int, float]:
    """Return by row which share of a line's visits one of those under locks is.

    Visits in one hold with the one before are none of their own, and all of them are under a lock.
    """
    under: dict[int, float] = defaultdict(float)
    for number, visits in zip(
        numbers_of(chosen["key"]).tolist(), chosen["visits"].tolist(), strict=True
    ):
        if number in places:
            under[places[number]] += visits
    found = {}
    for row, visits in under.items():
        counts = [one[[row]] for one in counted(lines)]
        every = float(counts[0].sum() + counts[1].sum())
        whole = float(sum(one.sum() for one in in_holds(counts, others)))
        left = max(0.0, visits - (every - whole))
        found[row] = left / visits / whole if visits and whole else 0.0
    return found
