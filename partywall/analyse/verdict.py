# SPDX-License-Identifier: GPL-2.0-or-later
"""What is a wall: the lines that all who share the kernel run into."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

THRESHOLD = 0.01
"""Transfers per operation above which a line may be a wall, unless told."""

AT = 64
"""Number of containers that the verdict is for, unless told."""

# Less than any line can lack of one move for each: rates are quotients of whole numbers.
_ROUNDING = 1e-6


def often(moved: Array, *, operations: int, sharers: int, threshold: float) -> Array:
    """Return which lines move more often than chance has it; bool, shape (lines,).

    ``moved``: transfers per operation, shape (lines,); ``operations``: in all
    windows together; ``sharers``: how many containers share the kernel, or CPUs a
    container; ``threshold``: transfers per operation. In a short window a line that
    moved once passes the threshold, so it has to move once for each sharer besides.
    """
    over = np.asarray(moved > threshold)
    return np.asarray(over & (moved * operations >= sharers - _ROUNDING))


def sharers_of(visited: Array, groups: Array, sharers: int) -> Array:
    """Return how many sharers visit each line; int, shape (lines,).

    ``visited``: which parties visit which lines; bool, shape (lines, parties);
    ``groups``: the sharer that each party belongs to, shape (parties,), -1 for none.
    """
    found = np.zeros(len(visited), np.int64)
    for number in range(sharers):
        found += visited[:, groups == number].any(axis=1)
    return found


def walls(
    moved: Array,
    moved_at: Array,
    visited: Array,
    groups: Array,
    *,
    operations: int,
    sharers: int,
    threshold: float,
) -> Array:
    """Return which lines are walls; bool, shape (lines,). Arguments as above.

    ``moved``: as it was seen; ``moved_at``: at the number of containers that the
    verdict is for, which has to be over the threshold.

    Memory that one container let go of and another took up, or a kernel thread
    frees, moves as well and is none: a wall is touched by half of the sharers at
    least, and by two.
    """
    enough = sharers_of(visited, groups, sharers) >= max(2, sharers / 2)
    seen = often(moved, operations=operations, sharers=sharers, threshold=0.0)
    return np.asarray(enough & seen & (moved_at > threshold))
