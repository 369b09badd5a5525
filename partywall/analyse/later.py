# SPDX-License-Identifier: GPL-2.0-or-later
"""What was left for later: how much of it, and which lines nobody's moved."""

from __future__ import annotations

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
    WORK,
    WORKED,
    Kind,
    Recording,
    kind_in,
)
from partywall.results.left import Left

Array = npt.NDArray[Any]


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
    containers: int,
) -> list[Left] | None:
    """Return how much was left by whom and how much of it was done; None if not counted.

    Of each call by itself, as each may leave something else. ``context``: its name, by its
    number; ``function``: the one that an address is in; ``containers``: those that ran.
    """
    if recorded.left is None:
        return None
    found = [
        Left(
            context=context(int(row["context"])),
            by=function(int(row["site"])),
            late=bool(row["late"]),
            times=int(row["times"]) / operations,
            done=int(row["done"]) / operations,
            containers=min(int(row["containers"]), containers),
        )
        for row in recorded.left
        if row["times"] or row["done"]
    ]
    return sorted(found, key=lambda one: (one.context, one.by, one.late, -one.times, -one.done))


def shares(recorded: Recording, numbers: Array) -> Array:
    """Return of each line, by its number, how much of what deferred work moves is to be scaled.

    1 where what was left uses it at all, as a single write moves what many reads fetch, or where
    uses are not known; 0 where softirqs that system calls ran are alone.
    """
    line, later, all_ = _uses(recorded, Kind.DEFERRED, lambda context: context >= WORKED)
    alone = line[(later == 0) & (all_ > 0)]
    return np.where(np.isin(numbers, alone), 0.0, 1.0)


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
