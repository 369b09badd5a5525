# SPDX-License-Identifier: GPL-2.0-or-later
"""What makes the exit status of a command that shows a result 1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import click

from partywall.cli.options import RATE
from partywall.core.errors import UsageProblem
from partywall.report import held, memory
from partywall.results.result import Result, WorkloadResult


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
        return _over(
            result,
            self.growth,
            memory.over,
            lambda one: one.memory is not None,
            "what {} leaves behind in memory was not measured",
            "docs/growth.md says what can't be looked at: leave it out, or --fail-growth",
        ) or _over(
            result,
            self.held,
            held.over,
            lambda one: one.held is not None,
            "for how long locks are held was not measured for {}",
            "check again, with QEMU 9.2 or later, or a QEMU that has modules: docs/waits.md",
        )


def _over(
    result: Result,
    limit: float | None,
    over: Callable[[WorkloadResult, float], Sequence[object]],
    measured: Callable[[WorkloadResult], bool],
    unknown: str,
    hint: str,
) -> bool:
    """Return whether any workload is over a limit; UsageProblem if that is not known of one."""
    if limit is None:
        return False
    if any(over(workload, limit) for workload in result.workloads):
        return True
    for workload in result.workloads:
        if not measured(workload):
            raise UsageProblem(unknown.format(workload.title), hint)
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
