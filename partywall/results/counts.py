# SPDX-License-Identifier: GPL-2.0-or-later
"""What an operation runs, and what moves by the way: numbers without lines."""

from __future__ import annotations

from pydantic import Field

from partywall.results.document import Model


class Instructions(Model):
    """Instructions retired per operation, by where they ran."""

    kernel: float = Field(
        description="System calls, exceptions and charged kernel threads, spinning apart."
    )
    spinning: float = Field(
        default=0.0,
        description="In wait for a lock: how long is chance where one CPU runs at once.",
    )
    user: float
    background: float = Field(description="Interrupts, softirqs, kernel threads.")
    deferred: float = Field(default=0.0, description="Of these, what system calls put off.")

    @property
    def ran(self) -> float:
        """What an operation takes of its CPU's time, deferred work too, as locks are timed in."""
        return self.kernel + self.user + self.deferred


class CallCount(Model):
    """Calls per operation of a function the workload asked to count."""

    function: str
    per_op: float


class Passing(Model):
    """What moves and is no wall, by what it holds.

    Memory that is handed over: one container let go of it and another took it up, or
    a kernel thread. Nobody waits for all the others there, but together such lines may
    cost as much as a wall. Or lines that are shared and moved too seldom to tell.
    """

    name: str
    handed_over: bool = True
    lines: int
    transfers: float = Field(description="Per op, of all these lines together.")


class Sums(Model):
    """All transfers per op that the verdict is about, by where they are."""

    walls: float = Field(description="On walls.")
    handed_over: float = Field(description="On memory that one let go of and another took up.")
    rest: float = Field(description="On lines that are shared, but too seldom for a wall.")

    @property
    def all(self) -> float:
        """On all lines."""
        return self.walls + self.handed_over + self.rest
