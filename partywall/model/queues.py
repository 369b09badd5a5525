# SPDX-License-Identifier: GPL-2.0-or-later
"""From transfers and instructions per operation to throughput at N containers.

A closed queueing network: each container is a customer that computes for its
instructions' time, alone, and then visits each cache line that is a wall, which
serves those who write it one at a time, for as long as a transfer takes; those who
only read it wait for writers and are then served side by side. A lock serves for as
long as it is held as well, and as what is fetched meanwhile takes. Its throughput is that
of mean value analysis (Reiser and Lavenberg, Journal of the ACM 27(2), 1980), and no
more than the lock that is held longest lets through (Amdahl). docs/model.md says what is
assumed and what that leaves out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from pydantic import Field

from partywall.core.topology import Topology
from partywall.model import both, unknowns
from partywall.model.holders import holdings, unlocked
from partywall.model.load import Load, Queue, Work, line_queue, load
from partywall.model.profiles import Profile
from partywall.record.recording import LINE_SIZE
from partywall.results.document import Model
from partywall.results.lines import Line, Wall
from partywall.results.result import WorkloadResult

COUNTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
"""Numbers of containers, up to what a machine has cores for, unless told."""

LATENCY_SPREAD = 0.2
"""The quickest and slowest pair of cores beside the median that was published."""

ONCE = frozenset(("global", "module"))
"""Kinds of objects of which there are no more among more containers."""

Placement = Literal["spread", "packed"]


class Range(Model):
    """A figure with what it may at least and at most be."""

    low: float
    usual: float
    high: float


class Point(Model):
    """What is expected of N containers."""

    containers: int
    throughput: Range = Field(description="Operations per second of each container.")
    relative: Range = Field(description="That, as a share of what one alone would do.")
    stalled: Range = Field(description="Share of its time that each waits for lines, 0..1.")
    core: float = Field(
        description="Share of a core that each process has: below 1 where there are more "
        "processes than cores. What that costs is in the figures, and is no wall's."
    )


class Station(Model):
    """A line or a lock that containers queue for."""

    object: str = Field(description="And the lock's field.")
    line: int = Field(description="Offset of the line in the object; 0 for a lock.")
    lines: int = Field(
        default=1, description="Over 1: the object's other lines, which share transfers evenly."
    )
    transfers: float = Field(description="Per op; 0 for a lock, whose line is a station too.")
    reads: float = Field(
        default=0.0, description="Of these, those of visits that only read: nobody waits for them."
    )
    deferred: float = Field(default=0.0, description="Of these, those that deferred work adds.")
    own: float = Field(default=0.0, description="Instructions per op under it and no later lock.")
    held: float = Field(default=0.0, description="Instructions per op while it is held.")
    moved: float = Field(default=0.0, description="Transfers per op while it is held.")
    asleep: float = Field(
        default=0.0, description="Nanoseconds per op for which its holder sleeps, of the guest's."
    )
    waits: list[float] = Field(
        default_factory=list,
        description="Share of each container's time that it waits here, 0..1, at each point.",
    )


class Prediction(Model):
    """Throughput of one workload on one kernel and machine, by number of containers.

    With one container of several CPUs it is the CPUs that are counted.
    """

    workload: str
    topology: Topology
    profile: str
    cores: int
    of: Literal["containers", "CPUs"]
    points: list[Point]
    stations: list[Station] = Field(description="Most transfers first.")
    handed_over: float = Field(description="Transfers per op of lines that nobody queues for.")
    unknown: list[str] = Field(description="What bounds throughput and is not in the figures.")


def usual_counts(profile: Profile, processes: int = 1) -> list[int]:
    """Return numbers of containers of so many processes that each have cores of their own.

    Powers of 2 and as many as there is room for; one, if there is not room for one.
    """
    room = max(1, profile.cores // processes)
    return [count for count in COUNTS if count < room] + [room]


def neighbours(profile: Profile, count: int, placement: Placement) -> list[float]:
    """Probabilities that another of ``count`` cores in use is at each level, nearest first.

    Spread: as many in each part of the machine. Packed: one part filled after
    the other. ``count`` beyond the machine's cores is taken as all of them.
    """
    count = min(count, profile.cores)
    if count < 2:
        return [1.0] + [0.0] * (len(profile.levels) - 1)
    within = []
    for level in profile.levels:
        if placement == "packed":
            full, rest = divmod(count, level.cores)
            pairs = full * level.cores * (level.cores - 1) + rest * (rest - 1)
            within.append(pairs / (count * (count - 1)))
        else:
            parts = profile.cores // level.cores
            least, more = divmod(count, parts)
            pairs = more * (least + 1) * least + (parts - more) * least * (least - 1)
            within.append(pairs / (count * (count - 1)))
    return [float(p) for p in np.diff([0.0, *within])]


def transfer_ns(profile: Profile, count: int, placement: Placement) -> float:
    """Mean time to fetch a line from another of ``count`` cores, each as likely, in ns."""
    chances = neighbours(profile, count, placement)
    return sum(p * level.transfer_ns for p, level in zip(chances, profile.levels, strict=True))


def _range(values: Sequence[float]) -> Range:
    """Of three, the first being the usual one."""
    return Range(low=min(values), usual=values[0], high=max(values))


def predict_work(work: Work, profile: Profile, counts: Sequence[int] | None = None) -> list[Point]:
    """What is expected of ``work`` on a machine, at `usual_counts` of containers if None."""
    if counts is None:
        counts = usual_counts(profile, work.processes)
    least, usual, most = profile.instruction_ns
    points = []
    for count in counts:
        busy = count * work.processes
        spread = transfer_ns(profile, busy, "spread")
        packed = transfer_ns(profile, busy, "packed")
        slow = max(spread, packed) * (1 + LATENCY_SPREAD)
        fast = min(spread, packed) * (1 - LATENCY_SPREAD)
        speeds, shares, stalls = [], [], []
        # The pairs that are furthest apart, in speed and in how much of it is lost.
        for instruction, transfer in (
            (usual, spread),
            (least, fast),
            (most, slow),
            (least, slow),
            (most, fast),
        ):
            found = load(work, count, profile.cores, instruction, transfer)
            speeds.append(found.each * work.processes * 1e9)
            # Rounded: what one alone does is all of it.
            shares.append(round(found.each * found.alone, 9))
            stalls.append(found.stalled)
        points.append(
            Point(
                containers=count,
                throughput=_range(speeds),
                relative=_range(shares),
                stalled=_range(stalls),
                core=min(1.0, profile.cores / busy),
            )
        )
    return points


@dataclass(frozen=True)
class _Asked:
    """What is asked of a station, and what makes that: hardly anybody wants to see it."""

    queue: Queue
    object: str
    transfers: float = 0.0
    line: int = 0
    deferred: float = 0.0

    def station(self, waits: list[float]) -> Station:
        """Return it with the share of time that it is waited for, at each point."""
        queue = self.queue
        return Station(
            object=self.object,
            line=self.line,
            lines=queue.lines,
            transfers=self.transfers,
            reads=queue.reads,
            deferred=self.deferred,
            own=queue.own,
            held=queue.held,
            moved=queue.moved,
            asleep=queue.asleep,
            waits=waits,
        )


def _asked(result: WorkloadResult) -> Iterator[_Asked]:
    """Walls of a measured workload, most transfers first, then the locks in them."""
    shape = result.topology
    others = shape.total - shape.cpus if result.scope == "between" else shape.cpus - 1
    late = result.deferred.walls if result.deferred else []
    put_off = {line.address: line.transfers for line in late}
    lines = both.lines(result)
    for wall in lines:
        yield _Asked(
            line_queue(
                wall.transfers,
                wall.write_visits,
                wall.read_visits,
                others,
                wall.locked,
                few_of=_few_of([wall], result),
            ),
            object=wall.object.name,
            line=wall.object.line,
            transfers=wall.transfers,
            deferred=put_off.get(wall.address, 0.0),
        )
    for number, (walls, parts) in enumerate(both.walls(result)):
        for name, transfers, queue in _others(result, walls, parts, others):
            deferred = transfers if number else 0.0
            yield _Asked(queue, object=name, transfers=transfers, deferred=deferred)
    at = {int(line.address, 16): line for line in lines}
    for lock in holdings(result):
        word = at.get(lock.address & -LINE_SIZE)
        queue = Queue(
            0.0,
            own=lock.own,
            held=lock.held,
            asleep=lock.asleep,
            last=lock.last,
            moved=lock.moved,
            last_moved=lock.last_moved,
            wanted=lock.wanted,
            few_of=_few_of([word] if word else [], result),
        )
        yield _Asked(queue, object=lock.name)


def _few_of(lines: list[Line], result: WorkloadResult) -> int:
    """Return of how many containers few share each of an object's lines; 0 if more do.

    Of a lock it is the line of its word that tells. A variable of the kernel's own is there once,
    among however many, and who comes to it is whoever needs it.

    Lines of a table are visited by few in a window, and by others in the next: they are shared
    by all, as the table is.
    """
    number = result.topology.containers
    if result.scope != "between" or not lines:
        return 0
    few = all(
        line.sharing == "some"
        and line.object.kind not in ONCE
        and 2 * len({*line.writers, *line.readers}) < number
        for line in lines
    )
    return number if few else 0


def _others(
    result: WorkloadResult, walls: Iterable[Wall], lines: Iterable[Line], others: int
) -> Iterator[tuple[str, float, Queue]]:
    """Yield the lines of each wall that are not listed one by one, taken to be alike.

    That is its name, their transfers together, and what is asked of them. ``lines``: those that
    are listed, of all walls; how many transfers are reads' is taken from these.
    """
    lines_of: dict[tuple[str, str], list[Line]] = defaultdict(list)
    for line in lines:
        lines_of[line.object.kind, line.object.name].append(line)
    # Which of several walls of one name a line is of is not known: all of them are one.
    named: dict[tuple[str, str], list[Wall]] = defaultdict(list)
    for wall in walls:
        named[wall.kind, wall.name].append(wall)
    for name, alike in named.items():
        listed = lines_of[name]
        many = sum(wall.lines for wall in alike) - len(listed)
        transfers = sum(wall.transfers for wall in alike) - sum(one.transfers for one in listed)
        if many <= 0 or transfers <= 0:
            continue
        known = sum(one.transfers for one in listed)
        scale = transfers / known if known else 0.0
        writing = sum(one.write_visits for one in listed) * scale
        reading = sum(one.read_visits for one in listed) * scale
        locked = sum(wall.locked for wall in alike) - sum(one.locked for one in listed)
        locked = max(0.0, locked)
        yield (
            name[1],
            transfers,
            line_queue(
                transfers,
                writing,
                reading,
                others,
                min(locked, transfers),
                lines=many,
                few_of=_few_of(listed, result),
            ),
        )


def work_of(result: WorkloadResult, queues: Iterable[Queue] | None = None) -> Work:
    """Return the operation of a measured workload, as the model sees it.

    ``queues``: what it asks for, if that is at hand.
    """
    if queues is None:
        queues = (one.queue for one in _asked(result))
    return Work(
        # An operation of none, as a file may claim, would take no time at all.
        instructions=max(1.0, result.instructions.ran),
        queues=tuple(queues),
        alone=both.elsewhere(result),
        waits=unlocked(result),
        # Within one container it is its CPUs that are counted, a process on each.
        processes=result.topology.cpus if result.scope == "between" else 1,
    )


def usual_load(work: Work, profile: Profile, count: int) -> Load:
    """Return what is usually to be expected of so many containers on a machine."""
    transfer = transfer_ns(profile, count * work.processes, "spread")
    return load(work, count, profile.cores, profile.instruction_ns[1], transfer)


def predict(
    result: WorkloadResult, profile: Profile, counts: Sequence[int] | None = None
) -> Prediction:
    """What is expected of a measured workload on a machine, at `usual_counts` if None."""
    asked = list(_asked(result))
    work = work_of(result, (one.queue for one in asked))
    if counts is None:
        counts = usual_counts(profile, work.processes)
    usual = [usual_load(work, profile, count) for count in counts]
    return Prediction(
        workload=result.title,
        topology=result.topology,
        profile=profile.name,
        cores=profile.cores,
        of="containers" if result.scope == "between" else "CPUs",
        points=predict_work(work, profile, counts),
        stations=[
            one.station([found.at_lines[number] for found in usual])
            for number, one in enumerate(asked)
        ],
        handed_over=work.alone,
        unknown=unknowns.of(result),
    )
