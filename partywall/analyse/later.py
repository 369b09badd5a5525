# SPDX-License-Identifier: GPL-2.0-or-later
"""What was left for later: how much of it, and which lines nobody's moved."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from partywall.record.recording import (
    ACCESS,
    ATOMIC,
    CALLBACK,
    LINE_SHIFT,
    THREAD_CONTAINER,
    WORK,
    WORKED,
    Kind,
    Recording,
    kind_in,
)
from partywall.results.left import Left

Array = npt.NDArray[Any]

CONTAINERS = THREAD_CONTAINER
"""In place of all containers."""


@dataclass(frozen=True)
class Later:
    """What is known of it. ``left``: see `left`.

    ``unfollowed``: what of it can't be known on this kernel; ``shares``: see `shares`.
    """

    left: list[Left] | None
    unfollowed: Iterable[str]
    shares: Callable[[Array], Array]


def left(
    recorded: Recording,
    *,
    context: Callable[[int], str],
    function: Callable[[int], str],
    operations: int,
) -> list[Left] | None:
    """Return how much was left by whom and how much of it was done; None if not counted.

    ``context``: its name, by its number; ``function``: the one that an address is in.
    """
    if recorded.left is None:
        return None
    rows: dict[tuple[str, str], list[Array]] = defaultdict(list)
    for row in recorded.left:
        if row["times"] or row["done"]:
            rows[context(int(row["context"])), function(int(row["site"]))].append(row)
    return [
        Left(
            context=where,
            by=by,
            times=sum(int(row["times"]) for row in found) / operations,
            done=sum(int(row["done"]) for row in found) / operations,
            # Calls in one function may be for the same containers or for others.
            containers=max(min(int(row["containers"]), CONTAINERS) for row in found),
        )
        for (where, by), found in sorted(rows.items())
    ]


def shares(recorded: Recording, numbers: Array) -> Array:
    """Return of deferred work's uses of each line, by its number, the share of what was left.

    Softirqs that a system call ran are the rest. 1 where uses are not known.
    """
    line, later, all_ = _uses(recorded, Kind.DEFERRED, lambda context: context >= WORKED)
    if not len(line):
        return np.ones(len(numbers))
    at = np.minimum(np.searchsorted(line, numbers), len(line) - 1)
    known = (line[at] == numbers) & (all_[at] > 0)
    return np.where(known, later[at] / np.where(known, all_[at], 1), 1.0)


def unseen(recorded: Recording) -> Array:
    """Return the numbers of lines that in the background are mostly used by what was left.

    By work items and callbacks of RCU, that is, that nobody was seen to leave; as
    `partywall.results.sites.is_unseen` counts uses.
    """
    line, later, all_ = _uses(
        recorded, Kind.BACKGROUND, lambda context: np.isin(context, (WORK, CALLBACK))
    )
    return np.asarray(line[2 * later > all_])


def _uses(
    recorded: Recording, kind: Kind, chosen: Callable[[Array], Array]
) -> tuple[Array, Array, Array]:
    """Lines that a kind of work uses; how often in chosen contexts, and in all."""
    uses = np.concatenate([np.zeros(0, ACCESS), *(party.accesses for party in recorded.parties)])
    uses = uses[kind_in(uses["context"]) == kind]
    line, of = np.unique(uses["address"] >> np.uint64(LINE_SHIFT), return_inverse=True)
    both = uses["reads"].astype(np.float64), uses["writes"].astype(np.float64)
    times = np.where(uses["flags"] & ATOMIC > 0, np.maximum(*both), np.add(*both))
    some = np.bincount(of, times * chosen(uses["context"]), minlength=len(line))
    return line, some, np.bincount(of, times, minlength=len(line))
