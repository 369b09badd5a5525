# SPDX-License-Identifier: GPL-2.0-or-later
"""From one recording, and the memory of the guest that made it, to a `WorkloadResult`."""

from __future__ import annotations

from typing import Any

import drgn
import numpy.typing as npt

from partywall.analyse import names, pairs, transfers, verdict
from partywall.analyse.beside import Side, touch
from partywall.analyse.judgement import Judgement
from partywall.analyse.shares import shares
from partywall.analyse.sharing import Uses
from partywall.analyse.work import Setting, Work, sums, worst_first
from partywall.core import elf
from partywall.core.topology import Scope, Topology
from partywall.kernels import Kernel
from partywall.record.hooks import Hooks
from partywall.record.recording import LINE_SHIFT, LINE_SIZE, Kind, Recording
from partywall.results import result
from partywall.results.counts import CallCount, Instructions
from partywall.results.touches import Touch
from partywall.workloads import Workload

Array = npt.NDArray[Any]

_BACKGROUND_LINES = 24


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
        setting = Setting(
            parties=self._parties,
            topology=topology,
            scope=self._scope,
            window=workload.window,
            operations=self._operations,
            threshold=threshold,
            at=self._at,
        )
        known = names.Knowledge(
            prog,
            elf.load_symbols(kernel.vmlinux),
            names.ContextNamer(prog, recorded.stacks.tolist(), watched.charged),
        )
        of, ran = (self._visits.moving(), self._parties, self._operations), topology.containers
        self._lines = transfers.analyse(*of, ran=ran, at=self._at)
        self._own = Work(recorded, Kind.FOREGROUND, self._lines, setting, known)
        late = transfers.late(*of, ran=ran, at=self._at)
        self._late = Work(recorded, Kind.DEFERRED, late, setting, known, before=self._own)
        self._sharers = setting.sharers
        self._background_uses = Uses(recorded, Kind.BACKGROUND)
        self._background_namer = names.LineNamer(known, self._background_uses)

    def _often(self, moved: Array, scope: Scope) -> Array:
        """Which lines move more often than chance has it, whoever moves them."""
        return verdict.often(
            moved,
            operations=self._operations,
            sharers=self._sharers(scope),
            threshold=self._threshold,
        )

    def conclude(self, confinement: str, digest: str) -> result.WorkloadResult:
        """Return the result. ``digest``: of the initramfs, hex SHA-256."""
        workload, lines, operations = self._workload, self._lines, self._operations
        own = self._own
        objects = own.objects()
        known = shares(own.total, objects)
        judged = own.judged(self._scope, objects)
        put_off = self._late.objects()
        judged_late = self._late.judged(self._scope, put_off)
        inner = judged if self._scope == "within" else None
        inside: list[result.Line] = []
        if self._scope == "between" and self._topology.cpus > 1:
            inner = own.judged("within", objects)
            only = inner.walls & ~judged.walls
            inside = [own.wall(row, inner, "within") for row in worst_first(inner.moved, only)]
        background, background_total = self._background()
        calls = self._calls()
        walls = own.walls(judged)
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
            sums=sums(judged),
            at=self._at,
            named=known.named,
            typed=known.typed,
            freed=known.freed,
            walls=[line for _, lines_ in walls for line in lines_],
            objects=[wall for wall, _ in walls],
            scope=self._scope,
            inside=inside,
            passing=own.passing(judged, objects),
            locks=self._locks(judged, judged_late),
            waits=[call for call in calls[len(self._watched.counted) :] if call.per_op],
            deferred=self._late.deferred(judged_late, put_off),
            background=background,
            background_transfers=background_total,
            pairs=pairs.of(
                self._visits,
                self._parties.others()[self._scope == "within"],
                operations=operations,
                sharers=self._sharers(self._scope),
                threshold=self._threshold,
                look=own.object_at,
            ),
        )

    def touches(self, sides: tuple[Side, Side]) -> tuple[Touch, Touch]:
        """Return what each of two groups of containers does to the other."""
        judged = [self._own.to_touch(), self._late.to_touch()]
        at = self._at or self._topology.containers
        visits = self._visits.moving()
        first, second = (
            touch(one, other, visits, self._parties, judged, at=at)
            for one, other in (sides, sides[::-1])
        )
        return first, second

    def _calls(self) -> list[CallCount]:
        """Calls of the functions that the workload counts, and then of those that wait for RCU."""
        return [
            CallCount(
                function=name,
                per_op=sum(p.calls[number] for p in self._recorded.parties) / self._operations,
            )
            for number, name in enumerate([*self._watched.counted, *self._watched.waits])
        ]

    def _locks(self, judged: Judgement, late: Judgement) -> list[result.Lock]:
        """Locks in lines of walls, those that most instructions run under first.

        They are timed in both kinds of work together.
        """
        namers = {
            line: work.namer
            for work, found in ((self._late, late), (self._own, judged))
            for line in work.lines.number[found.walls].tolist()
        }
        locks = []
        for lock in self._recorded.locks:
            address = int(lock["address"])
            namer = namers.get(address >> LINE_SHIFT)
            if namer is None:
                continue
            # Several globals may have a line together; a lock is the one at its address.
            name, field = namer.at(address)
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

    def _instructions(self) -> Instructions:
        parties, operations = self._recorded.parties, self._operations
        return Instructions(
            kernel=sum(p.kernel_instructions for p in parties) / operations,
            spinning=sum(p.spinning_instructions for p in parties) / operations,
            user=sum(p.user_instructions for p in parties) / operations,
            background=sum(p.background_instructions for p in parties) / operations,
            deferred=sum(p.deferred_instructions for p in parties) / operations,
        )

    def _background(self) -> tuple[list[result.Line], float]:
        """Lines that ticks, RCU and the scheduler move, and all their transfers per op."""
        lines = self._lines
        between = self._scope == "between"
        moved = lines.background_between if between else lines.background_within
        own = lines.between if between else lines.within
        chosen = self._often(moved, self._scope) & (own <= self._threshold)
        found = []
        for row in worst_first(moved, chosen)[:_BACKGROUND_LINES]:
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
