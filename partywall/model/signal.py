# SPDX-License-Identifier: GPL-2.0-or-later
"""What a signal costs on Debian's kernel: what goes into the model that is held against a post."""

from __future__ import annotations

import tomllib
from pathlib import Path

from pydantic import Field

from partywall.core.errors import UsageProblem
from partywall.model import published
from partywall.model.load import Work, line_queue
from partywall.results.document import Model
from partywall.results.result import Result

_FILE = Path(__file__).resolve().parent / "signal.toml"

OBJECT = "init_ucounts"
"""What was published was measured without AppArmor: its wall is left out."""


class SignalLine(Model):
    """One line that all containers write. Rates are per signal."""

    transfers: float
    write_visits: float
    read_visits: float


class SignalCost(Model):
    """A signal that a process sends to itself, as it was measured."""

    command: str = Field(description="What gave these figures.")
    kernel: str
    containers: int = Field(description="Of one CPU each.")
    kernel_instructions: float
    user_instructions: float
    lines: list[SignalLine] = Field(description=f"Walls on {OBJECT}.")

    @property
    def work(self) -> Work:
        """The operation as the model sees it."""
        others = self.containers - 1
        return Work(
            instructions=self.kernel_instructions + self.user_instructions,
            queues=tuple(
                line_queue(line.transfers, line.write_visits, line.read_visits, others)
                for line in self.lines
            ),
        )


def stored() -> SignalCost:
    """Return the figures of Debian's kernel that come with this program."""
    return SignalCost.model_validate(tomllib.loads(_FILE.read_text()))


def measured(result: Result, name: str) -> SignalCost:
    """Return those of a saved result. ``name``: of its file.

    UsageProblem if it has no signals in several containers of one CPU.
    """
    wanted = (published.SIGNALS.workload, published.SIGNALS.scope)
    for one in result.workloads:
        if (one.title, one.scope) == wanted and one.topology.cpus == 1:
            return SignalCost(
                command=name,
                kernel=f"{result.kernel.release} ({result.kernel.source})",
                containers=one.topology.containers,
                kernel_instructions=one.instructions.kernel,
                user_instructions=one.instructions.user,
                lines=[
                    SignalLine(
                        transfers=wall.transfers,
                        write_visits=wall.write_visits,
                        read_visits=wall.read_visits,
                    )
                    for wall in one.walls
                    if wall.object.name == OBJECT
                ],
            )
    raise UsageProblem(
        f"{name} has no signals in several containers of one CPU",
        "measure them: partywall check -w signal",
    )
