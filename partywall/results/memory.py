# SPDX-License-Identifier: GPL-2.0-or-later
"""What the operations of one workload leave behind in memory, as looks after its windows saw it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

from pydantic import Field

from partywall.results.document import Model

Kind = Literal["slab", "pages", "per-cpu"]
Verdict = Literal["nothing", "charged", "unsettled", "growth"]

PAGE: Final = 4096
"""Bytes."""


class Grown(Model):
    """One kind of memory of which there is more with each operation."""

    kind: Kind
    what: str = Field(description="The slab cache, or what pages are for.")
    objects: float = Field(description="Per operation; of pages, pages.")
    bytes: float = Field(description="Per operation, without what is lost between objects.")
    charged: float = Field(description="Share that some container's memory cgroup is charged for.")
    bookkeeping: bool = Field(
        default=False,
        description="Whether it is the kernel's books of who is charged, which nobody is charged "
        "for, and which what is charged bounds.",
    )
    more: list[int] = Field(
        description="Objects more than at the first look, at each of the others."
    )

    @property
    def uncharged(self) -> float:
        """Bytes per operation that no container is charged for, nor bounded by what one is."""
        return 0.0 if self.bookkeeping else self.bytes * (1 - self.charged)


class Unsettled(Model):
    """One kind of memory that rises between looks, and not as what grows with operations does."""

    kind: Kind
    what: str = Field(description="The slab cache, or what pages are for.")
    made_by: tuple[str, ...] = Field(
        default=(), description="Functions that made it, innermost first; none if not known."
    )
    charged: bool = Field(description="Whether a container is charged for it.")
    bytes: float = Field(description="Per operation at most: of the step that has more.")
    more: list[int] = Field(
        description="Objects more than at the first look, at each of the others."
    )


def unpaid(unsettled: Iterable[Unsettled]) -> float:
    """Return the bytes per operation, at most, that no container is charged for."""
    return sum(one.bytes for one in unsettled if not one.charged)


class Memory(Model):
    """What is left behind, by looks at all memory in the same guest when windows were over."""

    operations: int = Field(
        description="Of all containers between the first two looks; then twice as many."
    )
    least: float = Field(
        description="Objects per operation, below which nothing is said; of those larger than a "
        "page, pages."
    )
    grown: list[Grown] = Field(description="Most bytes first.")
    unsettled: list[Unsettled] = Field(
        default_factory=list, description="Most bytes first. None in results that are older."
    )

    @property
    def bytes(self) -> float:
        """Bytes per operation, whoever pays."""
        return sum(one.bytes for one in self.grown)

    @property
    def uncharged(self) -> float:
        """Bytes per operation that no container is charged for, known to grow."""
        return sum(one.uncharged for one in self.grown)

    @property
    def uncharged_at_most(self) -> float:
        """The same, with what is not settled."""
        return self.uncharged + unpaid(self.unsettled)

    @property
    def least_bytes(self) -> float:
        """Bytes per operation of one kind below which nothing is said."""
        return self.least * PAGE

    @property
    def verdict(self) -> Verdict:
        """'growth': memory of the machine that no container pays for.

        'unsettled': there may be some. 'nothing' is said only if looks could have seen it.
        """
        if self.uncharged:
            return "growth"
        if self.uncharged_at_most or (self.unsettled and not self.grown):
            return "unsettled"
        return "charged" if self.grown else "nothing"
