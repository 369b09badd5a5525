# SPDX-License-Identifier: GPL-2.0-or-later
"""What would help a workload most, as `explain` tells it, and what came of running it."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field

from partywall.advice.mends import Option
from partywall.advice.remedies import Kind
from partywall.core.topology import Scope, Topology
from partywall.model.profiles import Profile
from partywall.model.queues import Range
from partywall.results.document import Document, Model
from partywall.results.failures import Failure
from partywall.results.setting import KernelId

SCHEMA: Final = "partywall.explain/1"


class Expected(Model):
    """What is expected of N containers, or of CPUs of one."""

    throughput: Range = Field(description="Operations per second of each.")
    relative: Range = Field(description="That, as a share of what one alone would do.")
    transfers: float = Field(description="Per operation on walls, among those that were measured.")

    def times(self, before: Expected) -> float:
        """Return by how much it is more."""
        return self.throughput.usual / before.throughput.usual


class Remedy(Model):
    """One thing to do, and what it brings alone."""

    kind: Kind
    name: str
    release: str | None = Field(default=None, description="Of Linux, if it is one.")
    option: Option | None = Field(default=None, description="Of containers, if it is one.")
    says: list[str] = Field(description="The mends that it brings, in words.")
    objects: list[str] = Field(description="Walls that it takes away, in part at least.")
    at_most: bool = Field(
        description="A mend takes a part, of which it is not known how large: no more than this."
    )
    after: Expected
    gain: float = Field(description="Throughput after, of that before.")
    adds: float = Field(
        description="Throughput with all mends that are known, of that without those of this one."
    )


class Left(Model):
    """A wall that stays, in part at least, with all remedies of the list."""

    object: str
    transfers: float = Field(description="That are left, per operation, as measured.")
    part: bool = Field(description="Remedies take a part of it.")
    known: list[str] = Field(
        description="Mends for it that are not among the remedies, in words: there it is hidden "
        "by another wall. Empty: nobody knows one."
    )
    gain: float = Field(description="If it alone were gone, of what is there now.")
    adds: float = Field(description="If it were gone with all remedies of the list there.")
    only: float = Field(
        description="What each does if what is left of this wall were the only one, as a share "
        "of what one alone would do: whatever other walls hide."
    )


class Explained(Model):
    """A workload in one topology."""

    title: str
    operation: str
    topology: Topology
    scope: Scope
    of: Literal["containers", "CPUs"]
    at: int = Field(description="Containers, or CPUs of one, that all figures are for.")
    now: Expected
    walls: int
    remedies: list[Remedy] = Field(description="What brings most first.")
    together: Expected | None = Field(description="All of these; null if there is none.")
    enough: list[list[str]] = Field(
        description="By name, remedies that together bring as much: none of them can be left out."
    )
    left: list[Left] = Field(description="What bounds most by itself first.")
    clean: Expected = Field(description="Without any wall.")
    unknown: list[str] = Field(description="What bounds throughput and is not in the figures.")


class Check(Model):
    """A workload as it was run with what a remedy brings, beside what was predicted.

    Transfers and instructions were measured. Throughput at N is the model's, of these.
    """

    title: str
    topology: Topology
    name: str = Field(description="What was run.")
    kernel: KernelId
    predicted: Expected
    measured: Expected
    beside: Expected | None = Field(
        default=None,
        description="Debian's source built as ours is, without the series; null if not run.",
    )
    now: Expected = Field(description="Of the result that is explained.")
    instructions: float = Field(description="That it runs of the kernel, per op, of those before.")
    still: list[str] = Field(description="Walls that were to be gone and are not.")
    new: list[str] = Field(description="Walls that were none before, most transfers first.")


class Checked(Model):
    """What was run, and what could not be."""

    checks: list[Check]
    failed: list[Failure]


class Explanation(Document):
    """What would help most, for each workload of a result."""

    schema_: Literal["partywall.explain/1"] = Field(default=SCHEMA, alias="schema")
    kernel: KernelId
    profile: Profile
    workloads: list[Explained]
    checked: Checked | None = Field(default=None, description="Null: nothing was run.")
