# SPDX-License-Identifier: GPL-2.0-or-later
"""What the operations of one workload leave behind in memory, as looks after its windows saw it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from partywall.results.document import Model

Verdict = Literal["nothing", "charged", "growth"]

REST = 0.05
"""Of all bytes: some of a slab may be another's."""


class Grown(Model):
    """One kind of memory of which there is more with each operation."""

    kind: Literal["slab", "pages", "per-cpu"]
    what: str = Field(description="The slab cache, or what pages are for.")
    objects: float = Field(description="Per operation; of pages, pages.")
    bytes: float = Field(description="Per operation, without what is lost between objects.")
    charged: float = Field(description="Share that some container's memory cgroup is charged for.")
    more: list[int] = Field(
        description="Objects more than at the first look, at each of the others."
    )

    @property
    def uncharged(self) -> float:
        """Bytes per operation that no container is charged for."""
        return self.bytes * (1 - self.charged)


class Memory(Model):
    """What is left behind, by looks at all memory in the same guest when windows were over."""

    operations: int = Field(
        description="Of all containers between the first two looks; then twice as many."
    )
    least: float = Field(description="Objects per operation, below which nothing is said.")
    grown: list[Grown] = Field(description="Most bytes first.")

    @property
    def bytes(self) -> float:
        """Bytes per operation, whoever pays."""
        return sum(one.bytes for one in self.grown)

    @property
    def uncharged(self) -> float:
        """Bytes per operation that no container is charged for."""
        return sum(one.uncharged for one in self.grown)

    @property
    def verdict(self) -> Verdict:
        """'growth': memory of the machine that no container pays for."""
        if not self.grown:
            return "nothing"
        return "growth" if self.uncharged > REST * self.bytes else "charged"
