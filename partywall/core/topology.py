# SPDX-License-Identifier: GPL-2.0-or-later
"""How many containers there are, and where between them a line can move."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

Layers = Literal["shared", "own"]
"""Whether containers' roots have one lower layer, as replicas of an image do, or a copy each."""

Profiles = Literal["shared", "own", "none"]
"""Whether containers have one AppArmor profile, as Docker gives them, one each, or none."""

Scope = Literal["between", "within"]
"""Where a transfer crosses: between containers, or between CPUs of one."""


# As strict as the documents that it is a part of.
@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Topology:
    """How many containers, and how large each."""

    containers: int
    cpus: Annotated[int, Field(description="CPUs (and workload processes) per container.")]

    @property
    def total(self) -> int:
        """CPUs of all containers; CPUs ``i * cpus`` and up are those of container i."""
        return self.containers * self.cpus
