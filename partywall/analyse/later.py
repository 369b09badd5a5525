# SPDX-License-Identifier: GPL-2.0-or-later
"""What was left for later: how much of it, and which lines nobody's moved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from partywall.record.recording import (
    ACCESS,
    ATOMIC,
    CALLBACK,
    LINE_SHIFT,
    WORK,
    Kind,
    Recording,
    kind_in,
)
from partywall.results.left import Left


def left(recorded: Recording, *, name: Callable[[int], str], operations: int) -> list[Left] | None:
    """Return how much was left and how much of it was done, by context; None if not counted.

    ``name``: of a context, by its number.
    """
    if recorded.left is None:
        return None
    return [
        Left(
            context=name(int(row["context"])),
            times=int(row["times"]) / operations,
            done=int(row["done"]) / operations,
        )
        for row in recorded.left
        if row["times"] or row["done"]
    ]


def unseen(recorded: Recording) -> npt.NDArray[Any]:
    """Return the numbers of lines that in the background are mostly used by what was left.

    By work items and callbacks of RCU, that is, that nobody was seen to leave; as
    `partywall.results.sites.is_unseen` counts uses.
    """
    uses = np.concatenate([np.zeros(0, ACCESS), *(party.accesses for party in recorded.parties)])
    uses = uses[kind_in(uses["context"]) == Kind.BACKGROUND]
    line, of = np.unique(uses["address"] >> np.uint64(LINE_SHIFT), return_inverse=True)
    both = uses["reads"].astype(np.float64), uses["writes"].astype(np.float64)
    times = np.where(uses["flags"] & ATOMIC > 0, np.maximum(*both), np.add(*both))
    times[~np.isin(uses["context"], (WORK, CALLBACK))] *= -1
    return line[np.bincount(of, times, minlength=len(line)) > 0]
