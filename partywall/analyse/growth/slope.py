# SPDX-License-Identifier: GPL-2.0-or-later
"""When something grows with the operations, when it does not, and when nobody can tell.

Looks come before a number of operations, after them, and after twice as many more. What is
larger than a page counts by its pages, so that looks see so many bytes of anything.
"""

from __future__ import annotations

from partywall.results.memory import PAGE

LEAST = 8
"""Objects in the second step: fewer may be what anything else made, or slabs that fill up."""

RATE = 0.02
"""Objects an operation: one in fifty. Less is what a longer window would have to show."""


def least(operations: int) -> float:
    """Return the objects per operation below which nothing is said; of large ones, pages.

    ``operations``: of all containers in the first step.
    """
    return max(RATE, LEAST / (2 * operations))


def per_operation(first: float, second: float, operations: int, size: float = 1.0) -> float:
    """Return how much there is more of for each operation; 0.0 if it does not grow.

    ``first``: how much more there was after so many operations of all containers;
    ``second``: how much more than that after twice as many; ``size``: bytes of one. What grows
    with the operations grows twice as much then, and what only fills up a cache less and less.
    Between one and a half times, less a batch such as a page of objects, and four times is
    said to.
    """
    rate, batch = second / (2 * operations), LEAST / _pages(size)
    if not _rises(second, operations, size) or not 1.5 * first - batch <= second <= 4 * first:
        return 0.0
    return rate


def at_most(first: float, second: float, operations: int, size: float = 1.0) -> float:
    """Return how much there may be more of for each operation, of what is not settled.

    That is what rises in the second step, and not as what grows with the operations does:
    it may come unevenly, fill up, or be hidden by what is freed meanwhile. 0.0 if it grows, or
    does not rise in the longer step by as much as can be told. As for `per_operation`.
    """
    if not _rises(second, operations, size) or per_operation(first, second, operations, size):
        return 0.0
    return max(first / operations, second / (2 * operations))


def _rises(second: float, operations: int, size: float) -> bool:
    return second / (2 * operations) >= least(operations) / _pages(size)


def _pages(size: float) -> float:
    """How many objects one of this size counts as: of what is larger than a page, its pages."""
    return max(1.0, size / PAGE)
