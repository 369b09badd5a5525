# SPDX-License-Identifier: GPL-2.0-or-later
"""Memory that stays: what operations leave behind, who is charged, what takes it back."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from partywall.results.caps import Verdict as Reached
from partywall.results.document import Document, Model, reads
from partywall.results.failures import Failure
from partywall.results.memory import PAGE, Kind, Unsettled, unpaid
from partywall.results.setting import Environment, KernelId

SCHEMA: Final = "partywall.growth/2"

AFTER: Final = ("gone", "reclaimed", "stopped", "ended")
"""Looks at what is left: when the processes are gone, and their files and queues removed;
when caches were dropped (vm.drop_caches); when the containers are gone, their namespaces and
cgroups; and when their roots are unmounted as well."""

Back = Literal["exit", "reclaim", "container's end", "umount", "both", "nothing"]
"""'both': reclaim and a container's end, neither of which does it alone."""

Verdict = Literal["growth", "cap", "unlimited", "charged"]

_REST = 0.05
"""Of all objects of a kind: some of a slab or a batch may wait for others."""


class Left(Model):
    """Objects of one kind that each operation leaves behind."""

    kind: Kind
    what: str = Field(description="The slab cache, or what pages are for.")
    made_by: tuple[str, ...] = Field(
        description="Functions that made it, innermost first; none if it is not known."
    )
    objects: float = Field(description="Per operation; of pages, pages.")
    bytes: float = Field(description="Per operation, without what is lost between objects.")
    charged: float = Field(description="Share that some container's memory cgroup is charged for.")
    elsewhere: float | None = Field(
        default=None,
        description="Of the objects that some container is known to be charged for, the share "
        "that another one is than that on whose CPU it was made; None if that is not known.",
    )
    bookkeeping: bool = Field(
        default=False,
        description="Whether it is the kernel's books of who is charged, which nobody is charged "
        "for, and which what is charged bounds.",
    )
    after: dict[str, float] = Field(
        description="Share that is there when processes and their files are 'gone', when caches "
        "were 'reclaimed', when containers have 'stopped', and when they have 'ended' and their "
        "roots are unmounted; what was not looked at is left out, in what is older 'stopped'."
    )

    unreclaimed: dict[str, float] | None = Field(
        default=None,
        description="Share that is there when containers have 'stopped' and 'ended' in a guest in "
        "which nothing was 'reclaimed' before that, but then; null if that was not tried.",
    )

    @property
    def ways(self) -> list[Back]:
        """What takes it back, each by itself; none if not all was tried.

        Without `unreclaimed` no more than the first that does is known.
        """
        if self._gone("gone", self.after):
            return ["exit"]
        if self.unreclaimed is None:
            return self._first()
        found: list[Back] = ["reclaim"] if self._gone("reclaimed", self.after) else []
        if self._gone("stopped", self.unreclaimed):
            found.append("container's end")
        elif self._gone("ended", self.unreclaimed):
            found.append("umount")
        if found:
            return found
        # In whichever order.
        together = self._gone("reclaimed", self.unreclaimed) or self._gone("ended", self.after)
        return ["both"] if together else ["nothing"]

    def _first(self) -> list[Back]:
        """The first that takes it back, one after the other."""
        found: Back
        for which, found in (
            ("reclaimed", "reclaim"),
            ("stopped", "container's end"),
            # What is older did not look before both.
            ("ended", "umount" if "stopped" in self.after else "container's end"),
        ):
            if self._gone(which, self.after):
                return [found]
        return ["nothing"] if "ended" in self.after else []

    @staticmethod
    def _gone(which: str, after: dict[str, float]) -> bool:
        return which in after and after[which] <= _REST

    @property
    def back(self) -> Back | None:
        """What takes it back, the first that does; None if not all was tried."""
        return next(iter(self.ways), None)

    @property
    def verdict(self) -> Verdict:
        """'growth': memory of the machine that no container pays for.

        'unlimited': one pays for all of it, and it stays when its processes and their files are
        gone, until memory is short, the container ends, or for good. Who has no limit of memory
        can fill the machine with it.
        """
        if self.uncharged:
            return "growth"
        lasts = self.back not in (None, "exit") and not self.bookkeeping
        return "unlimited" if lasts else "charged"

    @property
    def uncharged(self) -> float:
        """Bytes per operation that no container is charged for, nor bounded by what one is."""
        return 0.0 if self.bookkeeping else self.bytes * (1 - self.charged)


class Bound(Model):
    """What became of one container that did an operation until it got no more.

    `partywall.results.bounds` takes it from what `partywall caps` found.
    """

    verdict: Reached = Field(
        description="'cap': one container can use up what all need; 'own': each container or "
        "process has a limit of its own; 'memory': its container's memory limit came first; "
        "'not reached': it was refused nothing, in the time that it had."
    )
    killed: bool = Field(
        description="A process of it was killed, within the container's own limit of memory."
    )
    reclaimed: bool = Field(
        description="At the container's limit of memory it could have more, by reclaim."
    )
    taken: int = Field(description="Operations that were done.")
    error: str | None = Field(description="What the next one failed with, as errno has it.")
    knob: str | None = Field(description="The limit of all, by name.")
    value: str | None = Field(description="What that was set to.")


class Raised(Model):
    """A counter of the machine that operations raise while their processes are there."""

    name: str = Field(description="The variable, and the field in it.")
    each: float = Field(description="By how much, per operation.")
    returned: float = Field(
        description="What goes down with processes and files, of what it was raised by."
    )
    limit: str | None = Field(
        default=None,
        description="The limit of all that it may be the count of, by name, or several; None if "
        "of none.",
    )
    filled: float | None = Field(
        default=None,
        description="How much of that limit one container's operations had when it got no more.",
    )
    alike: int | None = Field(
        default=None, description="Other counters of which that limit may be as well."
    )


class Operation(Model):
    """What one operation leaves behind."""

    title: str
    operation: str = Field(description="What one of them is.")
    count: int = Field(description="Operations of all containers: so many, then twice as many.")
    least: float = Field(description="Objects per operation, below which nothing is said.")
    kept: bool = Field(description="Whether it keeps what it makes, for which it is measured.")
    confirmed: bool = Field(
        description="Whether it grew again when far more were done; else it may have an end."
    )
    left: list[Left] = Field(description="The most bytes first.")
    unsettled: list[Unsettled] = Field(
        default_factory=list,
        description="What rises, and not as what grows with the operations does: the most bytes "
        "first. None in what is older.",
    )
    raised: list[Raised] = Field(description="Counters of the machine, by name.")
    bound: Bound | None = Field(
        default=None, description="What bounds it; None if it was not tried."
    )

    @property
    def uncharged(self) -> float:
        """Bytes of each operation that no container is charged for.

        Of what is kept, those that stay when processes and files are gone.
        """
        return sum(one.uncharged for one in self.staying)

    @property
    def staying(self) -> list[Left]:
        """What it leaves behind; of what is kept, what stays when processes and files are gone."""
        return [one for one in self.left if not (self.kept and one.back == "exit")]

    def verdict_of(self, left: Left) -> Verdict:
        """Return that of a kind that it leaves: a limit of all that ends the operation is a cap.

        Then one can use up what all need. The memory of the machine is no such limit, nor is
        one of each process or container, which may end and begin anew.
        """
        return "cap" if self._capped and left.verdict == "unlimited" else left.verdict

    @property
    def _capped(self) -> bool:
        return self.bound is not None and self.bound.verdict == "cap" and not self.bound.killed

    @property
    def unlimited(self) -> float:
        """Bytes of each operation that a container pays for, and nothing of its own bounds."""
        return sum(one.bytes for one in self.left if one.verdict == "unlimited")

    @property
    def unlimited_at_most(self) -> float:
        """The same, with what is charged and not settled, or was not followed to its end."""
        rises = sum(one.bytes for one in self.unsettled if one.charged)
        return self.unlimited + rises + self.unfollowed

    @property
    def unfollowed(self) -> float:
        """Bytes of each operation that are charged, and nobody saw what takes them back."""
        unseen = [one for one in self.left if one.back is None and not one.bookkeeping]
        return sum(one.bytes for one in unseen if not one.uncharged)

    @property
    def uncharged_at_most(self) -> float:
        """The same, with what is not settled."""
        return self.uncharged + unpaid(self.unsettled)

    @property
    def least_bytes(self) -> float:
        """Bytes per operation of one kind below which nothing is said."""
        return self.least * PAGE


class Growth(Document):
    """What operations leave behind on one kernel."""

    schema_: Annotated[Literal["partywall.growth/2"], reads("partywall.growth/1", SCHEMA)] = Field(
        default=SCHEMA, alias="schema"
    )
    created: str = Field(description="UTC, ISO 8601.")
    kernel: KernelId
    environment: Environment
    containers: int
    operations: list[Operation]
    failed: list[Failure]
