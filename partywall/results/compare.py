# SPDX-License-Identifier: GPL-2.0-or-later
"""Two results side by side: what a change of the kernel did to each workload."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from typing import Final, Literal

from pydantic import Field

from partywall.core.errors import UsageProblem
from partywall.core.topology import Topology
from partywall.results.counts import Passing
from partywall.results.document import Document, Model
from partywall.results.lines import Wall
from partywall.results.result import Result, WorkloadResult
from partywall.results.setting import KernelId

SCHEMA: Final = "partywall.compare/4"


class Change(Model):
    """One figure before and after, per operation."""

    before: float
    after: float

    @property
    def relative(self) -> float | None:
        """After less before, as a share of before; None where that was 0."""
        return (self.after - self.before) / self.before if self.before else None


class WallChange(Model):
    """The walls on one object: transfers per operation, 0 if there is none."""

    object: str
    transfers: Change
    lines: Change = Field(description="Cache lines of the object that are walls.")
    judged: Change | None = Field(
        default=None,
        description="The same at the number of containers that both verdicts are for.",
    )
    handed_over: Change | None = Field(
        default=None, description="What else moves of it, and is no wall, at that number."
    )


class PassingChange(Model):
    """What moves and is no wall in either result, by what it holds."""

    name: str
    transfers: Change


class CallChange(Model):
    """Calls per operation of a function that the workload counts."""

    function: str
    calls: Change


class LockChange(Model):
    """Instructions per operation under a lock that containers share."""

    object: str = Field(description="And its field; locks of one name are added up.")
    instructions: Change


class HeldChange(Model):
    """A lock that somebody sleeps with, or for, on either kernel; nanoseconds of the guest's."""

    object: str = Field(description="And its field; locks of one name are added up.")
    asleep: Change = Field(description="Per operation, by who has it alone, or who shares it.")
    longest: Change = Field(description="Kept from others at most, once.")


class WaitChange(Model):
    """A function that waits for a grace period, a worker or all CPUs, whoever calls it."""

    function: str
    charged: bool = Field(
        description="In charged work, where it comes once for many operations: as many as chance "
        "has it."
    )
    times: Change = Field(description="Calls per operation; for a worker, those that slept.")
    ns: Change = Field(description="The same, of the guest's time.")


class LeftChange(Model):
    """What an operation leaves behind in memory, in bytes."""

    all: Change = Field(description="Whoever pays.")
    uncharged: Change = Field(description="What no container is charged for.")
    kinds: dict[str, Change] = Field(description="By slab cache or use; most bytes first.")


class WorkloadChange(Model):
    """One workload in one topology on both kernels."""

    title: str
    operation: str
    topology: Topology
    threshold: float
    walls: Change = Field(description="Number of walls.")
    wall_transfers: Change = Field(description="Transfers per op on walls.")
    all_transfers: Change = Field(description="Transfers per op on all lines, walls or not.")
    instructions: Change = Field(description="Kernel instructions per op.")
    calls: list[CallChange]
    objects: list[WallChange] = Field(description="Most transfers of either kernel first.")
    alike: bool = Field(
        default=True, description="Both or neither tell who shares by who comes back."
    )
    passing: list[PassingChange] = Field(
        default_factory=list,
        description="What is handed over or seldom moved, most transfers first.",
    )
    sums: Change | None = Field(
        default=None, description="All transfers per op that both verdicts are about."
    )
    deferred: list[WallChange] = Field(
        default_factory=list,
        description="Walls of deferred work, if that is judged after; those before, if in both.",
    )
    both_deferred: bool = Field(default=True, description="Both or neither judge deferred work.")
    put_off: Change | None = Field(
        default=None, description="All transfers per op of deferred work, as both verdicts have it."
    )
    locks: list[LockChange] = Field(
        default_factory=list, description="Most instructions on either kernel first."
    )
    held: list[HeldChange] = Field(
        default_factory=list, description="Longest asleep first; none if one was not timed."
    )
    waits: list[WaitChange] = Field(
        default_factory=list, description="Longest first; none if one was not timed."
    )
    left: LeftChange | None = Field(
        default=None, description="Memory that stays; null if one was not looked at."
    )


class Comparison(Document):
    """Two kernels on the same workloads."""

    schema_: Literal["partywall.compare/4"] = Field(default=SCHEMA, alias="schema")
    before: KernelId
    after: KernelId
    workloads: list[WorkloadChange]
    alone: list[str] = Field(description="Workloads that only one of the results has.")
    missing: list[str] = Field(
        default=[], description="Of these, those of the former. Empty in what is older."
    )

    @property
    def worst(self) -> float:
        """Transfers per op of the object with the most, after, as the verdicts have them."""
        every = [one for w in self.workloads for one in (*w.objects, *w.deferred)]
        return max(((one.judged or one.transfers).after for one in every), default=0.0)


def _by_object(walls: Iterable[Wall]) -> dict[str, tuple[float, int]]:
    """Transfers per op and number of lines, by the object's name.

    Addresses say nothing across kernels; an object that is made more than
    once, as one of a slab cache, is taken together with its like.
    """
    found: dict[str, tuple[float, int]] = defaultdict(lambda: (0.0, 0))
    for wall in walls:
        transfers, lines = found[wall.name]
        found[wall.name] = transfers + wall.transfers, lines + wall.lines
    return dict(found)


def _comparable(before: WorkloadResult, after: WorkloadResult) -> bool:
    """Tell whether both have all classes of what moves, at the same number, told alike.

    Where windows ran one after another what is handed over counts in full.
    """
    both = before.sums is not None and after.sums is not None and before.at == after.at
    return both and before.one_after_another == after.one_after_another


def _judged(walls: Iterable[Wall]) -> dict[str, float]:
    found: dict[str, float] = defaultdict(float)
    for wall in walls:
        found[wall.name] += wall.judged
    return found


def _moved(passing: Iterable[Passing]) -> dict[str, float]:
    """Transfers per op of what is no wall, by name."""
    found: dict[str, float] = defaultdict(float)
    for one in passing:
        found[one.name] += one.transfers
    return found


Found = tuple[list[Wall], list[Passing]]
"""What is a wall in one kind of work, and what else moves there."""


def _objects(before: Found, after: Found, *, comparable: bool) -> list[WallChange]:
    sides = before, after
    old, new = (_by_object(walls) for walls, _ in sides)
    judged, moved = [_judged(walls) for walls, _ in sides], [_moved(rest) for _, rest in sides]

    def change(figures: list[dict[str, float]], name: str) -> Change | None:
        if not comparable:
            return None
        return Change(before=figures[0].get(name, 0.0), after=figures[1].get(name, 0.0))

    changes = [
        WallChange(
            object=name,
            transfers=Change(before=old.get(name, (0, 0))[0], after=new.get(name, (0, 0))[0]),
            lines=Change(before=old.get(name, (0, 0))[1], after=new.get(name, (0, 0))[1]),
            judged=change(judged, name),
            handed_over=change(moved, name),
        )
        for name in {**old, **new}
    ]
    return sorted(changes, key=lambda o: (-max(o.transfers.before, o.transfers.after), o.object))


def _deferred(before: WorkloadResult, after: WorkloadResult) -> list[WallChange]:
    old, new = before.deferred, after.deferred
    if new is None:
        return []
    return _objects(
        ([], []) if old is None else (old.objects, old.passing),
        (new.objects, new.passing),
        comparable=_comparable(before, after),
    )


def _put_off(before: WorkloadResult, after: WorkloadResult) -> Change | None:
    old, new = before.deferred, after.deferred
    if old is None or new is None or not _comparable(before, after):
        return None
    return Change(before=old.sums.all, after=new.sums.all)


def _passing(before: WorkloadResult, after: WorkloadResult) -> list[PassingChange]:
    if not _comparable(before, after):
        return []
    old, new = _moved(before.passing), _moved(after.passing)
    walls = {wall.name for one in (before, after) for wall in one.found}
    changes = [
        PassingChange(name=name, transfers=Change(before=old.get(name, 0), after=new.get(name, 0)))
        for name in {**old, **new}
        if name not in walls
    ]
    return sorted(changes, key=lambda o: (-max(o.transfers.before, o.transfers.after), o.name))


def _sums(before: WorkloadResult, after: WorkloadResult) -> Change | None:
    if before.sums is None or after.sums is None or not _comparable(before, after):
        return None
    return Change(before=before.sums.all, after=after.sums.all)


def _calls(before: WorkloadResult, after: WorkloadResult) -> list[CallChange]:
    old = {call.function: call.per_op for call in before.calls}
    new = {call.function: call.per_op for call in after.calls}
    return [
        CallChange(function=name, calls=Change(before=old[name], after=new[name]))
        for name in old
        if name in new
    ]


def _locks(before: WorkloadResult, after: WorkloadResult) -> list[LockChange]:
    sides: tuple[dict[str, float], dict[str, float]] = (defaultdict(float), defaultdict(float))
    for found, result in zip(sides, (before, after), strict=True):
        for lock in result.locks:
            found[lock.name] += lock.instructions
    old, new = sides
    changes = [
        LockChange(
            object=name, instructions=Change(before=old.get(name, 0), after=new.get(name, 0))
        )
        for name in {**old, **new}
    ]
    return sorted(
        changes, key=lambda o: (-max(o.instructions.before, o.instructions.after), o.object)
    )


def _held(before: WorkloadResult, after: WorkloadResult) -> list[HeldChange]:
    if before.held is None or after.held is None:
        return []
    asleep: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    longest: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for side, held in enumerate((before.held, after.held)):
        for lock in held.locks:
            asleep[lock.name][side] += lock.kept_ns
            longest[lock.name][side] = max(longest[lock.name][side], lock.once_ns)
    slept = {name for name, both in longest.items() if any(both)}
    order = sorted(slept, key=lambda name: (-max(asleep[name]), name))
    return [
        HeldChange(
            object=name,
            asleep=Change(before=asleep[name][0], after=asleep[name][1]),
            longest=Change(before=longest[name][0], after=longest[name][1]),
        )
        for name in order
    ]


FOR_ALL: Final = ("rcu", "work", "stop")
"""What is waited for that the whole machine has to get on for."""


def _waits(before: WorkloadResult, after: WorkloadResult) -> list[WaitChange]:
    if before.held is None or after.held is None:
        return []
    sums: dict[tuple[str, bool], list[float]] = defaultdict(lambda: [0.0] * 4)
    for side, held in enumerate((before.held, after.held)):
        for wait in held.waits:
            if wait.kind in FOR_ALL:
                known = sums[wait.function, wait.charged]
                # What is flushed or cancelled is often idle, and nobody waits.
                known[side] += wait.slept if wait.kind == "work" else wait.times
                known[2 + side] += wait.ns
    return [
        WaitChange(
            function=function,
            charged=charged,
            times=Change(before=times[0], after=times[1]),
            ns=Change(before=times[2], after=times[3]),
        )
        for (function, charged), times in sorted(
            sums.items(), key=lambda one: (-max(one[1][2:]), one[0])
        )
    ]


_TOGETHER = re.compile(r", [0-9]+ together\Z")


def _left(before: WorkloadResult, after: WorkloadResult) -> LeftChange | None:
    old, new = before.memory, after.memory
    if old is None or new is None:
        return None
    kinds: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for side, memory in enumerate((old, new)):
        for one in memory.grown:
            # Older results have the kernel's own pages as one kind.
            kinds[_TOGETHER.sub("", one.what)][side] += one.bytes
    return LeftChange(
        all=Change(before=old.bytes, after=new.bytes),
        uncharged=Change(before=old.uncharged, after=new.uncharged),
        kinds={
            what: Change(before=kinds[what][0], after=kinds[what][1])
            for what in sorted(kinds, key=lambda what: (-max(kinds[what]), what))
        },
    )


def _workload(before: WorkloadResult, after: WorkloadResult) -> WorkloadChange:
    return WorkloadChange(
        title=before.title if before.title == after.title else f"{before.title} to {after.title}",
        operation=before.operation,
        topology=before.topology,
        threshold=before.threshold,
        walls=Change(before=len(before.found), after=len(after.found)),
        wall_transfers=Change(before=before.wall_transfers, after=after.wall_transfers),
        all_transfers=Change(
            before=before.between + before.within, after=after.between + after.within
        ),
        instructions=Change(before=before.instructions.kernel, after=after.instructions.kernel),
        calls=_calls(before, after),
        objects=_objects(
            (before.found, before.passing),
            (after.found, after.passing),
            comparable=_comparable(before, after),
        ),
        passing=_passing(before, after),
        sums=_sums(before, after),
        alike=(before.sums is None) == (after.sums is None),
        deferred=_deferred(before, after),
        both_deferred=(before.deferred is None) == (after.deferred is None),
        put_off=_put_off(before, after),
        locks=_locks(before, after),
        held=_held(before, after),
        waits=_waits(before, after),
        left=_left(before, after),
    )


Key = tuple[str, int, int, int, str, float]


def _named(key: Key) -> str:
    title, containers, cpus, *_ = key
    return f"{title} {containers} x {cpus}"


def keyed(results: Iterable[WorkloadResult], *, layers: bool = True) -> dict[Key, WorkloadResult]:
    """By all that has to be equal for two figures to be comparable. ``layers``: these, too."""
    return {
        (
            r.title if layers else r.model_copy(update={"layers": "shared"}).title,
            r.topology.containers,
            r.topology.cpus,
            # Of a server's requests hardly ever two windows have as many.
            0 if r.counted else r.window,
            r.confinement,
            r.threshold,
        ): r
        for r in results
    }


def compare(before: Result, after: Result) -> Comparison:
    """The two results by workload. UsageProblem if they share none.

    Workloads are the same if title, topology, window, confinement and
    threshold are, and layers, if any has the same; of servers the window may differ.
    """
    old, new = keyed(before.workloads), keyed(after.workloads)
    both = [key for key in old if key in new]
    if not both:
        # What one image for all costs is the difference between two such results.
        old = keyed(before.workloads, layers=False)
        new = keyed(after.workloads, layers=False)
        both = [key for key in old if key in new]
    if not both:
        raise UsageProblem(
            "the two results have no workload in common",
            "measure both with the same workloads, topology and confinement",
        )
    gone, come = ([_named(key) for key in side if key not in both] for side in (old, new))
    return Comparison(
        before=before.kernel,
        after=after.kernel,
        workloads=[_workload(old[key], new[key]) for key in both],
        alone=[*gone, *come],
        missing=gone,
    )
