# SPDX-License-Identifier: GPL-2.0-or-later
"""What makes the exit status of a command that shows a result 1."""

from __future__ import annotations

from dataclasses import dataclass

import click

from partywall.cli.options import RATE
from partywall.report import held
from partywall.results.result import Result


@dataclass(frozen=True)
class Limits:
    """What fails: more transfers per operation, and locks that are held asleep for longer.

    ``held`` in milliseconds; None for any time.
    """

    transfers: float
    held: float | None = None

    def broken_by(self, result: Result) -> bool:
        """Return whether a result has more of either."""
        if result.worst > self.transfers:
            return True
        return self.held is not None and any(
            held.over(workload, self.held) for workload in result.workloads
        )


held_option = click.option(
    "--fail-held",
    type=RATE,
    metavar="MS",
    help="Exit with 1 if a lock that containers share is held for more milliseconds of the "
    "guest's time by a holder that sleeps.",
)
