# SPDX-License-Identifier: GPL-2.0-or-later
"""From one recording, and the memory of the guest that made it, to a `WorkloadResult`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import drgn
import numpy as np
import numpy.typing as npt

from partywall.analyse import names, pairs, transfers, verdict
from partywall.analyse.beside import Side, touch
from partywall.analyse.judgement import Judgement
from partywall.analyse.layout import patterns
from partywall.analyse.shares import shares
from partywall.analyse.sharing import Patterns, Uses, groups_of, part_of, split_saves
from partywall.core import elf
from partywall.core.topology import Scope, Topology
from partywall.kernels import Kernel
from partywall.record.hooks import Hooks
from partywall.record.recording import LINE_SHIFT, LINE_SIZE, Recording
from partywall.results import result
from partywall.results.touches import Touch
from partywall.workloads import Workload

Array = npt.NDArray[Any]

# Of all transfers, the share whose lines are looked up in the guest's memory.
# What is left are lines that moved once or twice each.
_TO_NAME = 0.999
_BACKGROUND_LINES = 24
# Of an object that is a wall, the lines that are listed with fields and code: those over
# the threshold, in any case and at most so many.
_LEAST, _MOST = 16, 128


class Analysis:
    """From one recording, and the memory of the guest that made it, to a result."""

    def __init__(
        self,
        recorded: Recording,
        watched: Hooks,
        prog: drgn.Program,
        *,
        kernel: Kernel,
        workload: Workload,
        topology: Topology,
        threshold: float,
        at: int,
    ) -> None:
        self._recorded, self._watched = recorded, watched
        self._workload, self._topology, self._threshold = workload, topology, threshold
        self._operations = workload.window * topology.total
        self._parties = transfers.Parties.of(recorded, topology.cpus)
        self._scope: Scope = "between" if topology.containers > 1 else "within"
        # CPUs of one container are as many as they are.
        self._at = at if self._scope == "between" else None
        self._visits = transfers.visits(recorded)
        self._lines = transfers.analyse(
            self._visits.moving(),
            self._parties,
            self._operations,
            ran=topology.containers,
            at=self._at,
        )
        known = names.Knowledge(
            prog,
            elf.load_symbols(kernel.vmlinux),
            names.ContextNamer(prog, recorded.stacks.tolist(), watched.charged),
        )
        self._uses, self._patterns = Uses(recorded, foreground=True), Patterns(recorded)
        self._background_uses = Uses(recorded, foreground=False)
        self._busiest = self._uses.busiest()
        self._namer = names.LineNamer(known, self._uses)
        self._background_namer = names.LineNamer(known, self._background_uses)
        self._named: dict[int, names.Named] = {}
        lines = self._lines
        # By this a line is worth looking up: what it moves in either number of containers.
        self._total = np.maximum(lines.between, lines.between_at) + lines.within

    def _often(self, moved: Array, scope: Scope) -> Array:
        """Which lines move more often than chance has it, whoever moves them."""
        return verdict.often(
            moved,
            operations=self._operations,
            sharers=self._sharers(scope),
            threshold=self._threshold,
        )

    def _judged(self, scope: Scope, objects: dict[int, result.LineObject]) -> Judgement:
        return Judgement(
            self._lines,
            self._parties,
            self._topology,
            scope,
            window=self._workload.window,
            threshold=self._threshold,
            objects=objects,
            look=lambda row: self._name(row).object,
        )

    def _name(self, row: int) -> names.Named:
        """Object, fields and code of a line."""
        if row not in self._named:
            address = int(self._lines.number[row]) << LINE_SHIFT
            self._named[row] = self._namer.line(address, self._operations)
        return self._named[row]

    def _object_at(self, line: int) -> result.LineObject:
        """What is used most in the line at an address."""
        return self._namer.object_of(self._busiest.get(line, line))

    def _sharers(self, scope: Scope) -> int:
        return self._topology.containers if scope == "between" else self._topology.cpus

    def conclude(self, confinement: str, digest: str) -> result.WorkloadResult:
        """Return the result. ``digest``: of the initramfs, hex SHA-256."""
        workload, lines, operations = self._workload, self._lines, self._operations
        objects = self._objects(self._total)
        known = shares(self._total, objects)
        judged = self._judged(self._scope, objects)
        inner = judged if self._scope == "within" else None
        inside: list[result.Line] = []
        if self._scope == "between" and self._topology.cpus > 1:
            inner = self._judged("within", objects)
            only = inner.walls & ~judged.walls
            inside = [self._wall(row, inner, "within") for row in _worst_first(inner.moved, only)]
        handed = judged.sharing == verdict.HANDED_OVER
        background, background_total = self._background()
        calls = self._calls()
        walls = self._walls(judged)
        return result.WorkloadResult(
            workload=workload.name,
            variant=workload.variant,
            operation=workload.operation,
            topology=self._topology,
            confinement=confinement,
            initramfs_sha256=digest,
            warmup=workload.warmup,
            window=workload.window,
            operations=operations,
            threshold=self._threshold,
            instructions=self._instructions(),
            accesses=sum(p.foreground_accesses for p in self._recorded.parties) / operations,
            calls=calls[: len(self._watched.counted)],
            between=float((judged.moved if self._scope == "between" else lines.between).sum()),
            between_at=None if self._at is None else float(judged.moved_at.sum()),
            within=float((lines.within if inner is None else inner.moved).sum()),
            limit=verdict.limit(self._threshold, workload.window),
            sums=result.Sums(
                walls=float(judged.moved_at[judged.walls].sum()),
                handed_over=float(judged.moved_at[handed].sum()),
                rest=float(judged.moved_at[~handed & ~judged.walls].sum()),
            ),
            at=self._at,
            named=known.named,
            typed=known.typed,
            freed=known.freed,
            walls=[line for _, lines_ in walls for line in lines_],
            objects=[wall for wall, _ in walls],
            scope=self._scope,
            inside=inside,
            passing=self._passing(judged, objects),
            locks=self._locks(lines.number[judged.walls]),
            waits=[call for call in calls[len(self._watched.counted) :] if call.per_op],
            background=background,
            background_transfers=background_total,
            pairs=pairs.of(
                self._visits,
                self._parties.others()[self._scope == "within"],
                operations=operations,
                sharers=self._sharers(self._scope),
                threshold=self._threshold,
                look=self._object_at,
            ),
        )

    def touches(self, sides: tuple[Side, Side]) -> tuple[Touch, Touch]:
        """Return what each of two groups of containers does to the other."""
        lines = self._lines
        judged = self._judged("between", self._objects(self._total))

        def name(row: int) -> str:
            return self._name(row).object.name

        at = self._at or self._topology.containers
        first, second = (
            touch(one, other, lines, self._parties, judged, at=at, name=name)
            for one, other in (sides, sides[::-1])
        )
        return first, second

    def _calls(self) -> list[result.CallCount]:
        """Calls of the functions that the workload counts, and then of those that wait for RCU."""
        return [
            result.CallCount(
                function=name,
                per_op=sum(p.calls[number] for p in self._recorded.parties) / self._operations,
            )
            for number, name in enumerate([*self._watched.counted, *self._watched.waits])
        ]

    def _locks(self, walls: Array) -> list[result.Lock]:
        """Locks in lines of these numbers, those that most instructions run under first."""
        lines = set(walls.tolist())
        locks = []
        for lock in self._recorded.locks:
            address = int(lock["address"])
            if address >> LINE_SHIFT not in lines:
                continue
            # Several globals may have a line together; a lock is the one at its address.
            name, field = self._namer.at(address)
            rates = {
                name: float(lock[name]) / self._operations
                for name in ("exclusive", "shared", "own", "slept", "waited")
            }
            locks.append(
                result.Lock(
                    address=f"{address:#x}",
                    object=name,
                    field=field,
                    instructions=float(lock["all"]) / self._operations,
                    **rates,
                )
            )
        return sorted(locks, key=lambda lock: (-lock.instructions, lock.address))

    def _instructions(self) -> result.Instructions:
        parties, operations = self._recorded.parties, self._operations
        return result.Instructions(
            kernel=sum(p.kernel_instructions for p in parties) / operations,
            spinning=sum(p.spinning_instructions for p in parties) / operations,
            user=sum(p.user_instructions for p in parties) / operations,
            background=sum(p.background_instructions for p in parties) / operations,
            deferred=sum(p.deferred_instructions for p in parties) / operations,
        )

    def _others(self, scope: Scope, *, at: bool) -> Array:
        """As in `transfers.transfers`; ``at``: at the number that the verdict is for."""
        between, within = self._parties.others()
        if scope == "within":
            return within
        if not at or self._at is None:
            return between
        return np.asarray(between * self._parties.at(self._topology.containers, self._at))

    def _walls(self, judged: Judgement) -> list[tuple[result.Wall, list[result.Line]]]:
        """The objects that are walls, with their worst lines."""
        groups: dict[int, list[int]] = defaultdict(list)
        for row in _worst_first(judged.moved_at, judged.walls):
            groups[int(judged.objects[row])].append(row)
        found = []
        for rows in groups.values():
            over = int((judged.moved_at[rows] > self._threshold).sum())
            most = min(max(over, _LEAST), _MOST)
            listed = [self._wall(row, judged, self._scope) for row in rows[:most]]
            what = listed[0].object
            back = np.flatnonzero(judged.back[rows].any(axis=0))
            wall = result.Wall(
                kind=what.kind,
                name=what.name,
                type=what.type,
                lines=len(rows),
                transfers=float(judged.moved[rows].sum()),
                transfers_at=float(judged.moved_at[rows].sum()) if self._at else None,
                sharing="all" if (judged.sharing[rows] == verdict.ALL).any() else "some",
                sharers=[int(n) for n in back] if self._scope == "between" else [],
                split_saves=sum(line.split_saves for line in listed),
            )
            found.append((wall, listed))
        return sorted(found, key=lambda one: (-one[0].judged, one[0].name, one[1][0].address))

    def _wall(self, row: int, judged: Judgement, scope: Scope) -> result.Line:
        lines, operations = self._lines, self._operations
        address = int(lines.number[row]) << LINE_SHIFT
        named = self._name(row)
        reads, writes = lines.reads[row], lines.writes[row]
        writers, readers = self._containers(reads, writes)
        moved_at = float(judged.moved_at[row])
        all_ = judged.sharing[row] == verdict.ALL
        saves = self._saves(address, named, self._others(scope, at=bool(all_)))
        splits = _can_split(named.object)
        return result.Line(
            address=f"{address:#x}",
            object=named.object,
            transfers=float(judged.moved[row]),
            transfers_at=moved_at if scope == "between" else None,
            between=float(lines.between[row]),
            within=float(lines.within[row]),
            write_visits=float(writes.sum()) / operations,
            read_visits=float(reads.sum()) / operations,
            false_sharing=saves > self._threshold and saves >= result.SPLITS * moved_at,
            split_saves=saves,
            sharing="all" if all_ else "some",
            fields=named.fields,
            visits=patterns(self._patterns(address), operations) if splits else [],
            code=named.code,
            writers=writers,
            readers=readers,
        )

    def _saves(self, address: int, named: names.Named, others: Array) -> float:
        """What splitting a line saves, per operation: nothing where it can't be split."""
        what = named.object
        if not _can_split(what):
            return 0.0
        groups = groups_of(
            (use.offset, use.size, part_of(use.path, what.type)) for use in named.fields
        )
        return split_saves(self._patterns(address), groups, others) / self._operations

    def _containers(self, reads: Array, writes: Array) -> tuple[list[int], list[int]]:
        """Containers that write, and that only read, by their parties' visits."""
        container = self._parties.container
        writers = {int(c) for c in container[writes > 0] if c >= 0}
        readers = {int(c) for c in container[reads > 0] if c >= 0} - writers
        return sorted(writers), sorted(readers)

    def _objects(self, total: Array) -> dict[int, result.LineObject]:
        """Row -> object, the lines that move most first, up to `_TO_NAME` of all."""
        objects: dict[int, result.LineObject] = {}
        left = float(total.sum()) * (1 - _TO_NAME)
        order = _worst_first(total, total > 0)
        small = len(order)
        while small and (left := left - float(total[order[small - 1]])) >= 0:
            small -= 1
        for row in order[:small]:
            objects[row] = self._object_at(int(self._lines.number[row]) << LINE_SHIFT)
        return objects

    def _passing(
        self, judged: Judgement, objects: dict[int, result.LineObject]
    ) -> list[result.Passing]:
        """What moves more than the threshold and is no wall, by what it holds."""
        moved = judged.moved_at
        groups: dict[tuple[str, bool], list[float]] = defaultdict(list)
        for row in np.flatnonzero(~judged.walls & (moved > 0)).tolist():
            what = objects.get(row)
            name = "not looked up" if what is None else what.name
            handed = bool(judged.sharing[row] == verdict.HANDED_OVER)
            groups[name, handed].append(float(moved[row]))
        found = [
            result.Passing(name=name, handed_over=handed, lines=len(group), transfers=sum(group))
            for (name, handed), group in groups.items()
        ]
        return sorted(
            (group for group in found if group.transfers > self._threshold),
            key=lambda group: (-group.transfers, group.name, group.handed_over),
        )

    def _background(self) -> tuple[list[result.Line], float]:
        """Lines that ticks, RCU and the scheduler move, and all their transfers per op."""
        lines = self._lines
        between = self._scope == "between"
        moved = lines.background_between if between else lines.background_within
        own = lines.between if between else lines.within
        chosen = self._often(moved, self._scope) & (own <= self._threshold)
        found = []
        for row in _worst_first(moved, chosen)[:_BACKGROUND_LINES]:
            address = int(lines.number[row]) << LINE_SHIFT
            named = self._background_namer.line(address, self._operations)
            uses = list(self._background_uses(address, address + LINE_SIZE))
            writes = sum(use.writes for use in uses) / self._operations
            reads = sum(use.reads for use in uses) / self._operations
            found.append(
                result.Line(
                    address=f"{address:#x}",
                    object=named.object,
                    transfers=float(moved[row]),
                    between=float(lines.background_between[row]),
                    within=float(lines.background_within[row]),
                    write_visits=writes,
                    read_visits=reads,
                    false_sharing=False,
                    fields=named.fields,
                    code=named.code,
                    writers=[],
                    readers=[],
                )
            )
        return found, float(moved.sum())


def _can_split(what: result.LineObject) -> bool:
    """Whether an object's fields can get lines of their own: they are known to be its own."""
    return what.kind not in ("page", "unnamed") and what.state != "freed"


def _worst_first(moved: Array, chosen: Iterable[bool] | Array) -> list[int]:
    """Rows that are chosen, most transfers first, then by address."""
    rows = np.flatnonzero(np.asarray(chosen))
    order = np.lexsort((rows, -moved[rows]))
    return [int(row) for row in rows[order]]
