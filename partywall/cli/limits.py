# SPDX-License-Identifier: GPL-2.0-or-later
"""What makes the exit status of a command that shows a result 1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import click

from partywall.analyse.growth import least
from partywall.cli.options import RATE
from partywall.core.errors import UsageProblem
from partywall.core.topology import Topology
from partywall.measure import after, run
from partywall.report import held, memory
from partywall.results.memory import PAGE
from partywall.results.result import Result
from partywall.workloads import Workload


@dataclass(frozen=True)
class Limits:
    """What fails: more transfers per operation, and locks that keep others out for longer.

    ``held`` in milliseconds; ``growth`` in bytes that an operation leaves behind and nobody is
    charged for; None for any.
    """

    transfers: float
    held: float | None = None
    growth: float | None = None

    def check(self, workloads: Sequence[Workload], shape: Topology | None) -> None:
        """UsageProblem if looks at these can't tell of so little, or there will be none.

        ``shape``: of all; None: as each workload has it.
        """
        if self.growth is None:
            return
        for workload in workloads:
            for topology in [shape] if shape else run.topologies(workload):
                step = after.step(workload, topology)
                if not step:
                    raise UsageProblem(
                        f"what {workload.title} leaves behind in memory can't be looked at",
                        memory.NOT_LOOKED_AT,
                    )
                resolves(workload.title, self.growth, least(step * topology.total) * PAGE)

    def broken_by(self, result: Result) -> bool:
        """Return whether a result has more of any.

        UsageProblem if it does not know what is to be bounded.
        """
        if result.worst > self.transfers:
            return True
        growth, held_for = self.growth, self.held
        over = growth is not None and any(memory.over(one, growth) for one in result.workloads)
        over |= held_for is not None and any(held.over(one, held_for) for one in result.workloads)
        if over:
            return True
        for one in result.workloads:
            if growth is not None and (why := memory.unheld(one, growth)):
                raise UsageProblem(f"what {one.title} leaves behind in memory {why[0]}", why[1])
            if held_for is not None and one.held is None:
                raise UsageProblem(
                    f"for how long locks are held was not measured for {one.title}",
                    "check again, with QEMU 9.2 or later, or one that has modules: docs/waits.md",
                )
        return False

    def check_whole(self, saved: Result) -> None:
        """UsageProblem if anything is bounded, and the result lacks what it was to have.

        What could not be measured is over no limit, and under none.
        """
        if self != Limits(inf) and saved.failed:
            first = saved.failed[0]
            raise UsageProblem(
                f"{first.title} could not be measured, so that nothing bounds it: {first.why}",
                "measure it again",
            )


def resolves(title: str, limit: float, fewest: float) -> None:
    """UsageProblem if a limit of bytes is below the fewest that looks at an operation can tell."""
    if limit < fewest:
        raise UsageProblem(
            f"what {title} leaves behind in memory is not known below "
            f"{memory.size(fewest)} an operation",
            memory.TOO_SMALL,
        )


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
    help="Exit with 1 if an operation leaves more bytes behind that no container is charged for; "
    "with 2 if that can't be told.",
)
