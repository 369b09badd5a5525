# SPDX-License-Identifier: GPL-2.0-or-later
"""What system calls left for later, and how much of it ran while somebody looked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pydantic import Field

from partywall.results.document import Model

SAMPLE: Final = 32
"""Times that something has to be done for what it moves to be a sample of all that was left."""


class Left(Model):
    """What one system call left for later in one way. Rates are per operation."""

    context: str = Field(description="In which it is done: 'RCU callback of close'.")
    times: float = Field(description="How often it was left in the windows.")
    done: float = Field(description="How often it was done by their end.")

    @property
    def later(self) -> float:
        """How often it was done after the windows, or never."""
        return max(0.0, self.times - self.done)


def unsampled(left: Iterable[Left], *, threshold: float, operations: int) -> list[Left]:
    """Return what is left more often than the threshold and was done too seldom to be judged."""
    often = [one for one in left if one.later > threshold]
    return [one for one in often if one.done * operations < SAMPLE]


def factor(left: Iterable[Left], *, threshold: float, operations: int) -> float:
    """Return how many times as much is moved in all as in the windows, at most.

    What was done there is taken for a sample of what was left, and the kind of which the
    least was done for all of them.
    """
    left = list(left)
    missing = unsampled(left, threshold=threshold, operations=operations)
    often = [one for one in left if one.later > threshold and one not in missing]
    return max((one.times / one.done for one in often), default=1.0)
