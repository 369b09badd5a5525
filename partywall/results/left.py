# SPDX-License-Identifier: GPL-2.0-or-later
"""What system calls left for later, and how much of it ran while somebody looked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from pydantic import Field

from partywall.results.document import Model

SAMPLE: Final = 32
"""Times that something has to be done for what it moves to be a sample of all that was left."""

MOST: Final = 0.9
"""Share of what was left that is as good as all of it, however little it is."""


class Left(Model):
    """What one function left for later, because of one system call. Rates are per operation."""

    context: str = Field(description="In which it is done: 'RCU callback of close'.")
    by: str = Field(description="The function that left it, by one call.")
    late: bool = Field(description="It did so in what was left itself.")
    times: float = Field(description="How often it was left in the windows.")
    done: float = Field(description="How often it was done by their end.")
    containers: int = Field(description="For how many containers it was done, of those that ran.")

    @property
    def later(self) -> float:
        """How often it was not done in the windows."""
        return max(0.0, self.times - self.done)

    def sampled(self, *, operations: int, containers: int) -> bool:
        """Return whether what was done of it shows what all of it does.

        It has to be done for half of the ``containers`` that ran, as what one alone does moves
        nothing between them. ``operations``: of all in the windows.
        """
        if self.done >= MOST * self.times:
            return True
        return self.done * operations >= SAMPLE and 2 * self.containers >= containers


def most_first(left: Iterable[Left]) -> list[Left]:
    """Return it by how often it was not done."""
    return sorted(left, key=lambda one: (-one.later, one.context, one.by))


def unsampled(left: Sequence[Left], *, operations: int, containers: int) -> list[Left]:
    """Return that of which too little was done to judge it, most first."""
    ran = {"operations": operations, "containers": containers}
    return most_first(one for one in left if not one.sampled(**ran))


def factor(left: Sequence[Left], *, operations: int, containers: int) -> float:
    """Return how many times as much is moved in all as in the windows, at most.

    What was done is taken for a sample of what was left, and that of which the least was done
    for all of it. Of what is left in what was left itself, less was left than will be.
    """
    missing = unsampled(left, operations=operations, containers=containers)
    worst = {False: 1.0, True: 1.0}
    for one in left:
        if one.later and one not in missing:
            worst[one.late] = max(worst[one.late], one.times / one.done)
    return worst[False] * worst[True]
