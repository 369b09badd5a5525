# SPDX-License-Identifier: GPL-2.0-or-later
"""What an operation runs: instructions by where they ran, calls of functions."""

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
    deferred: float = Field(default=0.0, description="Of these, softirqs that system calls ran.")

    @property
    def ran(self) -> float:
        """What an operation takes of its CPU's time, deferred work too, as locks are timed in."""
        return self.kernel + self.user + self.deferred


class CallCount(Model):
    """Calls per operation of a function the workload asked to count."""

    function: str
    per_op: float
