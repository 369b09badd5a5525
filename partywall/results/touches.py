# SPDX-License-Identifier: GPL-2.0-or-later
"""What neighbours who do one operation do to containers that do another."""

from __future__ import annotations

from math import inf
from typing import Annotated, Final, Literal

from pydantic import Field

from partywall.results.document import Document, Model, reads
from partywall.results.failures import Failure
from partywall.results.setting import Environment, KernelId

SCHEMA: Final = "partywall.beside/2"


MORE: Final = 8
"""Times as much as what was met too seldom to tell is no chance."""


class Touched(Model):
    """An object that both use."""

    object: str
    transfers: float = Field(description="Per operation of the victim.")


class Touch(Model):
    """One operation beside another: what the neighbours cause of the victim's transfers.

    For each operation of the victim, each of the neighbours does one of its own.
    """

    victim: str
    neighbour: str
    transfers: float = Field(description="Per operation of the victim, on what is shared.")
    objects: list[Touched] = Field(description="The worst first.")
    seldom: list[Touched] = Field(
        default_factory=list,
        description="Where they meet too seldom, or too little, to be told above.",
    )


class Beside(Document):
    """All pairs of operations that were run beside each other on one kernel."""

    schema_: Annotated[Literal["partywall.beside/2"], reads("partywall.beside/1", SCHEMA)] = Field(
        default=SCHEMA, alias="schema"
    )
    created: str = Field(description="UTC, ISO 8601.")
    kernel: KernelId
    environment: Environment
    at: int = Field(description="Containers: one victim, and neighbours who do the other.")
    threshold: float
    operations: dict[str, str] = Field(description="What each operation is, by title.")
    victims: list[str]
    neighbours: list[str]
    touches: list[Touch]
    failed: list[Failure]

    def of(self, victim: str, neighbour: str) -> Touch | None:
        """Return what was found of a pair; None if it could not be measured."""
        found = (t for t in self.touches if (t.victim, t.neighbour) == (victim, neighbour))
        return next(found, None)

    def alone(self, victim: str) -> float | None:
        """Return what neighbours do to it who do the same; None if that is not known."""
        touch = self.of(victim, victim)
        return None if touch is None else touch.transfers

    @property
    def new(self) -> list[Touch]:
        """What no operation shows by itself, the worst first.

        The victim meets others there at an object that it does not meet its like at, or
        `MORE` times less, too seldom to be told. Of those in `unknown` nothing can be said.
        """
        own = {t.victim: _least(t) for t in self.touches if _same(t)}
        found = [
            t.model_copy(update={"objects": fresh, "transfers": sum(o.transfers for o in fresh)})
            for t in self.touches
            if not _same(t) and t.victim in own
            if (fresh := [o for o in t.objects if o.transfers > own[t.victim].get(o.object, 0.0)])
        ]
        return sorted(found, key=lambda t: (-t.transfers, t.victim, t.neighbour))

    def why(self, victim: str, neighbour: str) -> str:
        """Return why a pair was not measured, which was run once for both; empty if it was."""
        titles = (f"{victim} beside {neighbour}", f"{neighbour} beside {victim}")
        return next((one.why for one in self.failed if one.title in titles), "")

    @property
    def unknown(self) -> list[str]:
        """Victims of which it is not known what they meet their like at.

        That could not be measured; a result of an older version may not have tried.
        """
        return [one for one in self.victims if self.of(one, one) is None]


def _least(like: Touch) -> dict[str, float]:
    """Return how much an object has to cost beside others to be new, by its name."""
    seldom = {one.object: one.transfers * MORE for one in like.seldom}
    return seldom | {one.object: inf for one in like.objects}


def _same(touch: Touch) -> bool:
    return touch.victim == touch.neighbour
