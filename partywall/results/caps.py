# SPDX-License-Identifier: GPL-2.0-or-later
"""Shared caps: what one container can use up, and what its neighbour then gets."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from partywall.results.document import Document, Model, reads
from partywall.results.failures import Failure
from partywall.results.setting import Environment, KernelId

SCHEMA: Final = "partywall.caps/2"

Verdict = Literal["cap", "own", "memory", "not reached", "not tried"]


class Got(Model):
    """What a container got of what it asked for."""

    done: int = Field(description="Operations that were done.")
    error: str | None = Field(description="What the next one failed with, as errno has it.")
    killed: bool = Field(description="A process of it was killed.")
    full: bool = Field(description="The container came to its limit of memory.")
    reclaimed: bool = Field(
        default=False,
        description="It came to that limit, and could have more as what it had was reclaimed, or "
        "not even that. False in what is older.",
    )
    processes: int = Field(description="Those that got any; 0 where one alone tries.")


class Cap(Model):
    """What became of one operation's limit."""

    title: str
    operation: str = Field(description="What one of them is.")
    tries: int = Field(description="Operations that the neighbour asks for each time.")
    before: Got = Field(description="The neighbour, while nobody else has any.")
    taken: Got | None = Field(description="By the container that takes all that it can get.")
    beside: Got | None = Field(description="The neighbour, while it has that.")
    after: Got | None = Field(description="The neighbour, when its processes have ended.")
    knob: str | None = Field(
        description="The limit that, set to twice as much, lets the neighbour have its share: a "
        "sysctl, or a limit that a user's processes have together."
    )
    value: str | None = Field(description="What that is set to.")

    @property
    def verdict(self) -> Verdict:
        """'cap' if the neighbour gets less because of what another container has.

        Or if there was no memory for one that had not come to its own limit of it.
        """
        if self.taken is None or self.beside is None:
            return "not tried"
        if self.beside.done < self.tries:
            return "cap"
        if self.taken.full:
            return "memory"
        if self.taken.killed:
            return "cap"
        # What waits without end has come to no limit.
        return "own" if self.taken.error not in {None, "ETIMEDOUT"} else "not reached"

    @property
    def stays(self) -> bool:
        """Whether the neighbour still gets less when the other one's processes have ended."""
        return self.after is not None and self.after.done < self.tries


class Caps(Document):
    """What one container can use up of what all need, on one kernel."""

    schema_: Annotated[Literal["partywall.caps/2"], reads("partywall.caps/1", SCHEMA)] = Field(
        default=SCHEMA, alias="schema"
    )
    created: str = Field(description="UTC, ISO 8601.")
    kernel: KernelId
    environment: Environment
    users: Literal["host", "shared", "own"] = Field(
        description="Who root of a container is on the machine: its root, without user "
        "namespaces; with them one user, or another one for each container."
    )
    memory: int = Field(description="Of the machine, in MiB; a container may have two fifths.")
    operations: list[Cap]
    failed: list[Failure]
