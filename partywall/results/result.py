# SPDX-License-Identifier: GPL-2.0-or-later
"""The one value that passes from measurement to any view.

A `Result` is what a finished measurement knows: typed, versioned and
JSON-serialisable.  Every report, comparison and later command works from it
alone, so a saved result can be shown again without running a guest.

All rates are per operation of the workload, averaged over every process of
every container; addresses are hexadecimal strings (``"0xffff..."``) because
JSON numbers lose precision beyond 2**53.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Literal

from pydantic import Field, computed_field

from partywall.core.topology import Layers, Scope, Topology
from partywall.results import sites, upgrade
from partywall.results.counts import CallCount, Instructions, Passing, Sums
from partywall.results.document import Document, Model, described
from partywall.results.failures import Failure
from partywall.results.held import Held
from partywall.results.left import Left, factor, unsampled
from partywall.results.lines import Deferred, Line, Wall, walls_of
from partywall.results.locks import Lock
from partywall.results.memory import Memory
from partywall.results.pairs import PairsOfLines
from partywall.results.setting import Environment, KernelId
from partywall.results.sites import PLACE, Place

SCHEMA: Final = upgrade.CURRENT

IN_TURN: Final = 0.25
"""Share of a CPU's slices that come after others' work from which on returns tell something."""

OWN_LAYERS: Final = ", own layers"
"""What a title has at its end if each container has an image of its own."""

Verdict = Literal["isolated", "isolated in its calls", "no wall", "walls"]


class WorkloadResult(Model):
    """One workload in one topology on one kernel."""

    workload: str
    variant: str
    operation: str = Field(description="What one operation is, in words.")
    topology: Topology
    confinement: str = Field(description="'docker', 'docker, less …' or 'unconfined'.")
    left_out: list[str] = Field(
        default_factory=list,
        description="What a file of services says of it and the guest has otherwise, or not.",
    )
    layers: Layers = Field(default="shared", description="One image for all, or a copy for each.")
    initramfs_sha256: str = Field(description="Hash of all that the guest holds.")
    snapshot_sha256: str | None = Field(
        default=None,
        description="Hash of the snapshot that the guest went on from; null: it booted. Two of "
        "one kernel differ in when what happened, and so in some moves.",
    )
    warmup: int = Field(description="Operations per process before the window.")
    window: int = Field(description="Operations per process in the window.")
    operations: int = Field(description="In all windows together.")
    counted: bool = Field(
        default=False,
        description="A window was a stretch of time, and its operations were counted.",
    )
    threshold: float = Field(description="Transfers per op above which an object is a wall.")
    instructions: Instructions
    accesses: float = Field(description="Kernel loads and stores per op.")
    calls: list[CallCount]
    between: float = Field(description="All transfers per op between containers.")
    within: float = Field(description="All transfers per op inside containers.")
    named: float = Field(description="Share of all transfers that carry a name, 0..1.")
    typed: float | None = Field(default=None, description="On objects of known type, or with none.")
    freed: float | None = Field(default=None, description="On memory freed by the window's end.")
    at: int | None = Field(
        default=None,
        description="Containers that the verdict is for; null: those that ran, or the CPUs of one.",
    )
    between_at: float | None = Field(
        default=None, description="All transfers per op between that many containers."
    )
    limit: float | None = Field(
        default=None,
        description="Transfers per op from which on any wall can be told: more than the "
        "threshold where windows are short.",
    )
    sums: Sums | None = None
    in_turn: float | None = Field(
        default=None,
        description="Of the emulator's slices in which a CPU worked again, the share before which "
        "a CPU of another container did (within one: another CPU), of those with three slices or "
        "more; null: fewer than two had so many.",
    )
    walls: list[Line] = Field(description="Lines of walls, of each object the worst.")
    objects: list[Wall] = Field(
        default_factory=list, description="The walls: objects, most transfers first."
    )
    scope: Scope = Field(description="Which transfers make a wall in this topology.")
    inside: list[Line] = Field(
        default_factory=list,
        description="With several containers of several CPUs: lines that only the CPUs "
        "of one container share, over the threshold.",
    )
    passing: list[Passing] = Field(
        default_factory=list, description="Lines over the threshold that moved only now and then."
    )
    locks: list[Lock] = Field(
        default_factory=list, description="Locks in walls, most instructions under them first."
    )
    waits: list[CallCount] = Field(
        default_factory=list, description="Waits for RCU, by function, if there are any."
    )
    held: Held | None = Field(default=None, description="By the guest's clock; null: not measured.")
    memory: Memory | None = Field(
        default=None, description="What operations leave behind; null: not looked at."
    )
    deferred: Deferred | None = Field(
        default=None, description="What system calls put off; null: not judged, but background."
    )
    background: list[Line] = Field(
        description="Lines over the threshold because of ticks, RCU, scheduler."
    )
    background_transfers: float
    pairs: PairsOfLines | None = Field(
        default=None, description="What lines of 128 bytes would cost; null: not computed."
    )

    @computed_field  # type: ignore[prop-decorator]
    @property
    def verdict(self) -> Verdict:
        """What is to be said of it, with what it puts off.

        Isolated is what moves no more than the threshold in all, what is done after the windows
        reckoned in. That is said of its calls alone if more is moved by what nobody was seen to
        leave, or can't be on its kernel, or if too little was done in the windows of what it left.
        """
        if self.walls or self.put_off:
            return "walls"
        if self.at_most > self.threshold:
            return "no wall"
        unknown = self.unseen or self.unsampled or self.unfollowed or self.left is None
        return "isolated in its calls" if unknown else "isolated"

    @property
    def one_after_another(self) -> bool:
        """Whether windows ran so that nobody could be seen to come back.

        Then what is neither a variable nor a table may be shared, and is not told from what is
        handed over but where all visit it all through: it counts with all the transfers that it
        may have.
        """
        return self.in_turn is not None and self.in_turn < IN_TURN

    @property
    def every(self) -> float:
        """Transfers per op of all lines, deferred work too."""
        return (self.moved if self.sums is None else self.sums.all) + self.added

    @property
    def at_most(self) -> float:
        """The same with what was left and not done in the windows."""
        if self.deferred is None or self.left is None:
            return self.every
        return self.every + self.deferred.later * (factor(self.left, **self._ran) - 1)

    @property
    def _ran(self) -> dict[str, int]:
        return {"operations": self.operations, "containers": self.topology.containers}

    @property
    def isolated_itself(self) -> bool:
        """Whether its own and its deferred work together move no more than the threshold."""
        return self.verdict.startswith("isolated")

    @property
    def left(self) -> list[Left] | None:
        """What its system calls left for later; None if that was not counted."""
        return None if self.deferred is None else self.deferred.left

    @property
    def unsampled(self) -> list[Left]:
        """Of that, what was done too seldom in the windows for what it moves to be known."""
        return unsampled(self.left or [], **self._ran)

    @property
    def unfollowed(self) -> list[str]:
        """What of that can't be told from the background on its kernel."""
        return [] if self.deferred is None else self.deferred.unfollowed

    @property
    def unseen(self) -> list[Line]:
        """Lines of the background that are mostly used by what somebody left for later.

        Work items and callbacks of RCU, that is, which nobody was seen to leave.
        """
        return [line for line in self.background if sites.is_unseen(line.code)]

    @property
    def moved(self) -> float:
        """Transfers per op of all lines that the verdict is about."""
        if self.scope == "within":
            return self.within
        return self.between if self.between_at is None else self.between_at

    @property
    def isolated(self) -> bool:
        """True when all transfers together do not exceed the threshold."""
        return self.verdict == "isolated"

    @property
    def found(self) -> list[Wall]:
        """The walls: objects, also of a result that has lines alone."""
        return self.objects or walls_of(self.walls)

    @property
    def put_off(self) -> list[Wall]:
        """The walls of its deferred work; their transfers come on top of those `found`."""
        return [] if self.deferred is None else self.deferred.objects

    @property
    def added(self) -> float:
        """Transfers per op that deferred work adds, on walls or not."""
        return 0.0 if self.deferred is None else self.deferred.sums.all

    @property
    def every_wall(self) -> list[Wall]:
        """The walls of the workload's own work, and then those of its deferred work."""
        return [*self.found, *self.put_off]

    @property
    def every_line(self) -> list[Line]:
        """The lines of all these."""
        return [*self.walls, *(self.deferred.walls if self.deferred else [])]

    @property
    def wall_transfers(self) -> float:
        """Transfers per op on walls, in this result's scope, among those that ran."""
        return sum(w.transfers for w in self.found)

    @property
    def judged(self) -> float:
        """Transfers per op on walls that the verdict is about."""
        return sum(w.judged for w in self.found)

    @property
    def sharers(self) -> int:
        """How many containers the verdict is for, or CPUs of one."""
        if self.scope == "within":
            return self.topology.cpus
        return self.topology.containers if self.at is None else self.at

    @property
    def title(self) -> str:
        """Name for people: workload, variant unless it is the only one, layers if not shared."""
        name = self.workload if self.variant == "default" else f"{self.workload}/{self.variant}"
        return name if self.layers == "shared" else f"{name}{OWN_LAYERS}"


class Result(Document):
    """One kernel, measured with any number of workloads."""

    schema_: Literal["partywall.result/5"] = Field(default=SCHEMA, alias="schema")
    created: str = Field(description="UTC, ISO 8601. The only value two equal runs differ in.")
    measured_with: str | None = Field(
        default=None, description="Version that it was saved in, if an older one."
    )
    lacks: list[str] = Field(
        default_factory=list, description="What that version does not have, in words."
    )
    kernel: KernelId
    environment: Environment
    workloads: list[WorkloadResult]
    failed: list[Failure] = Field(
        default_factory=list, description="What was asked for and could not be measured."
    )

    @property
    def worst(self) -> float:
        """Largest transfers per op of any wall, for thresholds in CI."""
        return max((w.judged for r in self.workloads for w in r.every_wall), default=0.0)

    def parts(self) -> Iterator[tuple[str, Any]]:
        """Yield what is written by keys, workloads one at a time, each place in the code once."""
        places = sites.Places(PLACE)
        for key, value in Document.parts(self.model_copy(update={"workloads": []})):
            taken = (places.taken_out(one.model_dump()) for one in self.workloads)
            yield key, taken if key == "workloads" else value
        yield "sites", places.found

    @classmethod
    def described(cls) -> dict[str, Any]:
        """Return the JSON schema of what is written."""
        return sites.describe(super().described(), described(Place))
