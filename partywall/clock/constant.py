# SPDX-License-Identifier: GPL-2.0-or-later
"""The model's one constant: how long an instruction of the kernel takes on a machine."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from partywall.core.errors import UsageProblem
from partywall.results.document import Model
from partywall.results.result import Result, WorkloadResult


class Constant(Model):
    """One container's time by the clock, over instructions that were counted: ns for each."""

    instructions: float = Field(description="Per operation, of kernel and program.")
    counted_on: str = Field(description="Kernel of the result that counted them.")
    least: float = Field(description="ns per instruction in the quickest run.")
    usual: float = Field(description="ns per instruction in the run in the middle.")
    most: float = Field(description="ns per instruction in the slowest run.")

    @property
    def line(self) -> str:
        """What a machine's file says of it."""
        return f"instruction_ns = [{self.least:.3f}, {self.usual:.3f}, {self.most:.3f}]"


def counted(result: Result, title: str, name: str) -> WorkloadResult:
    """Return the workload of a saved result whose instructions are to be divided by.

    ``title``: what runs by the clock; ``name``: of the file. UsageProblem if it is not there.
    """
    same = [one for one in result.workloads if one.title == title]
    # Between containers where there is a choice: one of several CPUs may do more for each.
    same.sort(key=lambda one: (one.topology.cpus, one.scope))
    if not same:
        raise UsageProblem(
            f"{name} does not say how many instructions {title} takes",
            f"measure it: partywall check -w {title}",
        )
    return same[0]


def alone(counts: Sequence[int], cpus: int) -> None:
    """UsageProblem if no container of one CPU is to run alone, as the constant needs."""
    if 1 not in counts or cpus != 1:
        raise UsageProblem(
            "the time of an instruction is that of one container of one CPU, alone",
            "take 1 among -n, and --cpus 1",
        )


def constant(rates: Sequence[float], middle: float, kernel: str, one: WorkloadResult) -> Constant:
    """Return the constant. ``rates``: operations per second of one container, run by run."""
    instructions = one.instructions.ran
    if instructions <= 0 or min(rates) <= 0:
        raise UsageProblem(
            f"{one.title} has no instructions or did nothing in a run",
            "take longer runs: --seconds",
        )
    return Constant(
        instructions=instructions,
        counted_on=kernel,
        least=1e9 / max(rates) / instructions,
        usual=1e9 / middle / instructions,
        most=1e9 / min(rates) / instructions,
    )


def doubts(one: WorkloadResult, counted_on: str, ran_on: str) -> list[str]:
    """Return what makes the constant more or less than the time of an instruction."""
    found = []
    if one.waits or any(lock.slept or lock.waited for lock in one.locks):
        found.append(
            f"operations of {one.title} sleep or wait for RCU, which is in the constant as well"
        )
    if ran_on != counted_on:
        found.append(
            f"instructions are those of {counted_on}, the time is that of {ran_on}: "
            "another kernel may take more or fewer"
        )
    return found
