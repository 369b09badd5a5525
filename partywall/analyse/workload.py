# SPDX-License-Identifier: GPL-2.0-or-later
"""From one recording, and the guest that made it, to a `WorkloadResult`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from partywall.analyse import names, transfers, verdict
from partywall.analyse.sharing import Uses, false_sharing
from partywall.core import elf
from partywall.core.topology import Scope, Topology
from partywall.guest import Guest
from partywall.kernels import Kernel
from partywall.record.hooks import Hooks
from partywall.record.recording import LINE_SHIFT, LINE_SIZE, Recording
from partywall.results import result
from partywall.workloads import Workload

Array = npt.NDArray[Any]

# Of all transfers, the share whose lines are looked up in the guest's memory.
# What is left are lines that moved once or twice each.
_TO_NAME = 0.999
_BACKGROUND_LINES = 24


class Analysis:
    """From one recording, and the guest that made it, to a result."""

    def __init__(
        self,
        recorded: Recording,
        watched: Hooks,
        machine: Guest,
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
        self._lines = transfers.analyse(
            recorded, self._parties, self._operations, ran=topology.containers, at=self._at
        )
        prog = names.attach(machine, kernel)
        known = names.Knowledge(
            prog,
            elf.load_symbols(kernel.vmlinux),
            names.ContextNamer(prog, recorded.stacks.tolist(), watched.charged),
        )
        self._uses = Uses(recorded, foreground=True)
        self._background_uses = Uses(recorded, foreground=False)
        self._namer = names.LineNamer(known, self._uses)
        self._background_namer = names.LineNamer(known, self._background_uses)

    def _often(self, moved: Array, scope: Scope) -> Array:
        """Which lines move more often than chance has it, whoever moves them."""
        return verdict.often(
            moved,
            operations=self._operations,
            sharers=self._sharers(scope),
            threshold=self._threshold,
        )

    def _walls(self, moved: Array, scope: Scope) -> Array:
        """Which lines are walls, with ``moved`` transfers per operation in a scope."""
        lines, parties = self._lines, self._parties
        groups = parties.container if scope == "between" else parties.cpu % self._topology.cpus
        return verdict.walls(
            moved,
            lines.between_at if scope == "between" else moved,
            lines.reads + lines.writes > 0,
            np.where(parties.container >= 0, groups, -1),
            operations=self._operations,
            sharers=self._sharers(scope),
            threshold=self._threshold,
        )

    def _sharers(self, scope: Scope) -> int:
        return self._topology.containers if scope == "between" else self._topology.cpus

    def conclude(self, confinement: str, digest: str) -> result.WorkloadResult:
        """Return the result. ``digest``: of the initramfs, hex SHA-256."""
        workload, lines, operations = self._workload, self._lines, self._operations
        between, within = lines.between, lines.within
        moved = between if self._scope == "between" else within
        shared = self._walls(moved, self._scope)
        found = [self._wall(row, self._scope) for row in _worst_first(moved, shared)]
        inside: list[result.Line] = []
        if self._scope == "between" and self._topology.cpus > 1:
            only = self._walls(within, "within") & ~shared
            inside = [self._wall(row, "within") for row in _worst_first(within, only)]
        total = between + within
        done = {line.address: line.object for line in [*found, *inside]}
        objects = self._objects(total, done)
        named = sum(float(total[row]) for row, what in objects.items() if what.kind != "unnamed")
        sum_total = float(total.sum())
        over = (moved > self._threshold) & ~shared
        background, background_total = self._background()
        calls = self._calls()
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
            between=float(between.sum()),
            between_at=None if self._at is None else float(lines.between_at.sum()),
            within=float(within.sum()),
            at=self._at,
            named=named / sum_total if sum_total else 1.0,
            walls=found,
            scope=self._scope,
            inside=inside,
            passing=self._passing(moved, over, objects),
            locks=self._locks(found),
            waits=[call for call in calls[len(self._watched.counted) :] if call.per_op],
            background=background,
            background_transfers=background_total,
        )

    def _calls(self) -> list[result.CallCount]:
        """Calls of the functions that the workload counts, and then of those that wait for RCU."""
        return [
            result.CallCount(
                function=name,
                per_op=sum(p.calls[number] for p in self._recorded.parties) / self._operations,
            )
            for number, name in enumerate([*self._watched.counted, *self._watched.waits])
        ]

    def _locks(self, found: list[result.Line]) -> list[result.Lock]:
        """Locks in the walls, those that most instructions run under first."""
        lines = {int(line.address, 16): line for line in found}
        locks = []
        for lock in self._recorded.locks:
            address = int(lock["address"])
            line = lines.get(address & -LINE_SIZE)
            if line is None:
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
        )

    def _others(self, scope: Scope) -> Array:
        between, within = self._parties.others()
        return between if scope == "between" else within

    def _wall(self, row: int, scope: Scope) -> result.Line:
        lines, operations = self._lines, self._operations
        address = int(lines.number[row]) << LINE_SHIFT
        named = self._namer.line(address, operations)
        reads, writes = lines.reads[row], lines.writes[row]
        others = self._others(scope)
        moved = float((lines.between if scope == "between" else lines.within)[row])
        reading = float(np.minimum(reads, writes @ others.astype(np.int64)).sum())
        writers, readers = self._containers(reads, writes)
        return result.Line(
            address=f"{address:#x}",
            object=named.object,
            transfers=moved,
            transfers_at=float(lines.between_at[row]) if scope == "between" else None,
            between=float(lines.between[row]),
            within=float(lines.within[row]),
            write_visits=float(writes.sum()) / operations,
            read_visits=float(reads.sum()) / operations,
            false_sharing=false_sharing(
                self._uses,
                address,
                [(use.offset, use.size) for use in named.fields],
                others,
                moved * operations,
                reading,
                self._threshold * operations,
            ),
            fields=named.fields,
            code=named.code,
            writers=writers,
            readers=readers,
        )

    def _containers(self, reads: Array, writes: Array) -> tuple[list[int], list[int]]:
        """Containers that write, and that only read, by their parties' visits."""
        container = self._parties.container
        writers = {int(c) for c in container[writes > 0] if c >= 0}
        readers = {int(c) for c in container[reads > 0] if c >= 0} - writers
        return sorted(writers), sorted(readers)

    def _objects(
        self, total: Array, done: dict[str, result.LineObject]
    ) -> dict[int, result.LineObject]:
        """Row -> object, the lines that move most first, up to `_TO_NAME` of all."""
        objects: dict[int, result.LineObject] = {}
        busiest = self._uses.busiest()
        left = float(total.sum()) * (1 - _TO_NAME)
        order = _worst_first(total, total > 0)
        small = len(order)
        while small and (left := left - float(total[order[small - 1]])) >= 0:
            small -= 1
        for row in order[:small]:
            address = int(self._lines.number[row]) << LINE_SHIFT
            known = done.get(f"{address:#x}")
            objects[row] = known or self._namer.object_of(busiest.get(address, address))
        return objects

    def _passing(
        self, moved: Array, over: Array, objects: dict[int, result.LineObject]
    ) -> list[result.Passing]:
        """Lines over the threshold that are no walls, by what they hold."""
        groups: dict[str, list[float]] = defaultdict(list)
        for row in _worst_first(moved, over):
            what = objects.get(row)
            groups["not looked up" if what is None else what.name].append(float(moved[row]))
        return sorted(
            (
                result.Passing(name=name, lines=len(group), transfers=sum(group))
                for name, group in groups.items()
            ),
            key=lambda group: (-group.transfers, group.name),
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


def _worst_first(moved: Array, chosen: Iterable[bool] | Array) -> list[int]:
    """Rows that are chosen, most transfers first, then by address."""
    rows = np.flatnonzero(np.asarray(chosen))
    order = np.lexsort((rows, -moved[rows]))
    return [int(row) for row in rows[order]]
