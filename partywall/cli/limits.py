# SPDX-License-Identifier: GPL-2.0-or-later
"""What makes the exit status of a command that shows a result 1."""

from __future__ import annotations

from dataclasses import dataclass

import click

from partywall.cli.options import RATE
from partywall.core.errors import UsageProblem
from partywall.report import held, memory
from partywall.results.result import Result


@dataclass(frozen=True)
class Limits:
    """What fails: more transfers per operation, and locks that keep others out for longer.

    ``held`` in milliseconds; ``growth`` in bytes that an operation leaves behind and nobody is
    charged for; None for any.
    """

    transfers: float
    held: float | None = None
    growth: float | None = None

    def broken_by(self, result: Result) -> bool:
        """Return whether a result has more of any.

        UsageProblem if it does not know what is to be bounded.
        """
        if result.worst > self.transfers:
            return True
        return self._grows(result) or self._holds(result)

    def _grows(self, result: Result) -> bool:
        if self.growth is None:
            return False
        if any(memory.over(workload, self.growth) for workload in result.workloads):
            return True
        unknown = [one.title for one in result.workloads if one.memory is None]
        if unknown:
            raise UsageProblem(
                f"what {unknown[0]} leaves behind in memory was not measured",
                "docs/growth.md says what can't be looked at: leave it out, or --fail-growth",
            )
        return False

    def _holds(self, result: Result) -> bool:
        if self.held is None:
            return False
        if any(held.over(workload, self.held) for workload in result.workloads):
            return True
        unknown = [one.title for one in result.workloads if one.held is None]
        if unknown:
            raise UsageProblem(
                f"for how long locks are held was not measured for {unknown[0]}",
                "check again, with QEMU 9.2 or later, or a QEMU that has modules: docs/waits.md",
            )
        return False


held_option = click.option(
    "--fail-held",
    type=RATE,
    metavar="MS",
    help="Exit with 1 if a lock that containers share keeps others out for more milliseconds of "
    "the guest's time, once: because a holder sleeps, or as long as one sleeps for it.",
)
growth_option = click.option(
    "--fail-growth",
    type=RATE,
    metavar="BYTES",
    help="Exit with 1 if an operation leaves more bytes behind that no container is charged for.",
)
