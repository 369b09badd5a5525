# SPDX-License-Identifier: GPL-2.0-or-later
"""From one recording, and the memory of the guest that made it, to a `WorkloadResult`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from partywall.analyse import later, names, pairs, transfers, under, verdict
from partywall.analyse.beside import Costs, Side, touch
from partywall.analyse.held import HeldLocks, taken_by_several, used_by_several
from partywall.analyse.judgement import Judgement, in_turn
from partywall.analyse.shares import shares
from partywall.analyse.sharing import Uses
from partywall.analyse.work import Setting, Work, sums, worst_first
from partywall.core.topology import Scope, Topology
from partywall.record.functions import in_source, only_sets_bit
from partywall.record.hooks import Hooks
from partywall.record.recording import LINE_SHIFT, LINE_SIZE, Kind, Recording
from partywall.results import result
from partywall.results.counts import CallCount, Instructions
from partywall.results.held import Held
from partywall.results.left import Left
from partywall.results.lines import Line
from partywall.results.locks import Lock
from partywall.results.touches import Touch
from partywall.workloads import Workload

Array = npt.NDArray[Any]

BACKGROUND_LINES = 24
"""Of those that the background moves, how many are listed."""


class Analysis:
    """From one recording, and the memory of the guest that made it, to a result."""

    def __init__(
        self,
        recorded: Recording,
        watched: Hooks,
        learned: names.Learned,
        *,
        workload: Workload,
        topology: Topology,
        threshold: float,
        at: int,
    ) -> None:
        self._recorded, self._watched, self._workload = recorded, watched, workload
        scope: Scope = "between" if topology.containers > 1 else "within"
        self._setting = setting = Setting(
            parties=transfers.Parties.of(recorded, topology.cpus),
            topology=topology,
            scope=scope,
            window=workload.window,
            operations=workload.window * topology.total,
            threshold=threshold,
            # CPUs of one container are as many as they are.
            at=at if scope == "between" else None,
        )
        visits = transfers.visits(recorded, watched.stack_size)
        others = setting.parties.others()[scope == "within"]
        self._paired = pairs.paired(visits, others, setting.operations)
        self._symbols = learned.symbols
        stacks = recorded.stacks.tolist()
        known = names.Knowledge(learned, names.ContextNamer(learned.prog, stacks, watched.charged))
        self._code = known.code
        self._contexts = known.contexts
        of = (visits.moving(), setting.parties, setting.operations)
        # Of a namespace's, with all their parties, they take 2 GB.
        del visits
        ran = topology.containers
        self._lines = transfers.analyse(*of, ran=ran, at=setting.at)
        self._own = Work(recorded, Kind.FOREGROUND, self._lines, setting, known)
        late = transfers.late(*of, ran=ran, at=setting.at)
        self._late = Work(recorded, Kind.DEFERRED, late, setting, known, before=self._own)
        self._background_uses = Uses(recorded, Kind.BACKGROUND)
        self._background_namer = names.LineNamer(known, self._background_uses)

    def conclude(
        self, confinement: str, digest: str, snapshot: str | None = None
    ) -> result.WorkloadResult:
        """Return the result. ``digest``, ``snapshot``: of the initramfs and of what the guest went
        on from, hex SHA-256.
        """
        workload, setting, lines, own = self._workload, self._setting, self._lines, self._own
        scope, topology, operations = setting.scope, setting.topology, setting.operations
        objects = own.objects()
        known = shares(own.total, objects)
        judged = own.judged(scope, objects)
        put_off = self._late.objects()
        judged_late = self._late.judged(scope, put_off)
        inner = judged if scope == "within" else None
        inside: list[Line] = []
        if scope == "between" and topology.cpus > 1:
            inner = own.judged("within", objects)
            only = inner.walls & ~judged.walls
            inside = [own.wall(row, inner, "within") for row in worst_first(inner.moved, only)]
        background, background_total = self._background()
        calls = self._calls()
        beneath = under.under(
            self._recorded,
            {
                Kind.FOREGROUND: (own.lines, judged),
                Kind.DEFERRED: (self._late.lines, judged_late),
            },
            setting.parties.others()[scope == "within"],
        )
        walls = own.walls(judged, beneath.shares[Kind.FOREGROUND])
        return result.WorkloadResult(
            workload=workload.name,
            variant=workload.variant,
            operation=workload.operation,
            topology=topology,
            confinement=confinement,
            left_out=[] if workload.service is None else list(workload.service.left_out),
            initramfs_sha256=digest,
            snapshot_sha256=snapshot,
            warmup=workload.warmup,
            window=workload.window,
            operations=operations,
            counted=bool(workload.client),
            threshold=setting.threshold,
            instructions=self._instructions(),
            accesses=sum(p.foreground_accesses for p in self._recorded.parties) / operations,
            calls=calls[: len(self._watched.counted)],
            between=float((judged.moved if scope == "between" else lines.between).sum()),
            between_at=None if setting.at is None else float(judged.moved_at.sum()),
            within=float((lines.within if inner is None else inner.moved).sum()),
            limit=verdict.limit(setting.threshold, setting.window),
            sums=sums(judged),
            in_turn=in_turn(self._recorded, scope),
            at=setting.at,
            named=known.named,
            typed=known.typed,
            freed=known.freed,
            walls=[line for _, lines_ in walls for line in lines_],
            objects=[wall for wall, _ in walls],
            scope=scope,
            inside=inside,
            passing=own.passing(judged, objects),
            locks=self._locks(judged, judged_late, beneath),
            waits=[call for call in calls[len(self._watched.counted) :] if call.per_op],
            held=self._held(judged),
            deferred=self._late.deferred(
                judged_late,
                put_off,
                beneath.shares[Kind.DEFERRED],
                self._left(),
                self._watched.unfollowed,
            ),
            background=background,
            background_transfers=background_total,
            pairs=pairs.of(
                self._paired,
                operations=operations,
                sharers=setting.sharers(scope),
                threshold=setting.threshold,
                look=own.object_at,
            ),
        )

    def touches(self, sides: tuple[Side, Side]) -> tuple[Touch, Touch]:
        """Return what each of two groups of containers does to the other.

        What is much for an operation depends on how many a window has: each victim's its own.
        """
        return self._touch(sides), self._touch(sides[::-1])

    def _touch(self, sides: tuple[Side, Side]) -> Touch:
        """Return what the second one does to the first."""
        victim, works, setting = sides[0], (self._own, self._late), self._setting
        if victim.window != setting.window:
            operations = victim.window * setting.topology.total
            setting = replace(setting, window=victim.window, operations=operations)
            of = (self._lines, setting.parties, operations)
            ran, at = setting.topology.containers, setting.at
            own = transfers.analyse(*of, ran=ran, at=at)
            late = transfers.late(*of, ran=ran, at=at)
            works = self._own.told_by(own, setting), self._late.told_by(late, setting)
        at = setting.at or setting.topology.containers
        costs = Costs(*sides, self._lines, setting.parties, at=at)
        judged = [work.to_touch(costs) for work in works]
        return touch(costs, judged, threshold=setting.threshold)

    def _left(self) -> list[Left] | None:
        """How much was left for later, and how much of it was done in the windows."""
        return later.left(
            self._recorded,
            context=self._contexts.name,
            function=lambda address: in_source(self._code.name(address).function),
            operations=self._setting.operations,
            containers=self._setting.topology.containers,
        )

    def _calls(self) -> list[CallCount]:
        """Calls of the functions that the workload counts, and then of those that wait for RCU."""
        return [
            CallCount(
                function=name,
                per_op=sum(p.calls[number] for p in self._recorded.parties)
                / self._setting.operations,
            )
            for number, name in enumerate([*self._watched.counted, *self._watched.waits])
        ]

    def _locks(self, judged: Judgement, late: Judgement, beneath: under.Under) -> list[Lock]:
        """Locks in lines of walls, those that most instructions run under first.

        They are timed in both kinds of work together.
        """
        namers = {
            line: work.namer
            for work, found in ((self._late, late), (self._own, judged))
            for line in work.lines.number[found.walls].tolist()
        }
        locks, operations = [], self._setting.operations
        for lock in self._recorded.locks:
            address = int(lock["address"])
            namer = namers.get(address >> LINE_SHIFT)
            if namer is None:
                continue
            # Several globals may have a line together; a lock is the one at its address.
            name, field = namer.at(address)
            rates = {
                name: float(lock[name]) / operations
                for name in ("exclusive", "shared", "own", "slept", "waited")
            }
            locks.append(
                Lock(
                    address=f"{address:#x}",
                    object=name,
                    field=field,
                    instructions=float(lock["all"]) / operations,
                    transfers=beneath.of[address].all,
                    last_transfers=beneath.of[address].last,
                    word_transfers=beneath.of[address].word,
                    **rates,
                )
            )
        return sorted(locks, key=lambda lock: (-lock.instructions, lock.address))

    def _held(self, judged: Judgement) -> Held | None:
        """For how long locks are held that containers share, or the CPUs of one."""
        recorded, own = self._recorded, self._own
        containers = self._setting.scope == "between"
        cpus = self._setting.topology.cpus
        parties = self._setting.parties
        shared = taken_by_several(recorded.holds, cpus, containers=containers)
        shared |= used_by_several(recorded, parties.container if containers else parties.cpu)
        # What one lets go of and another takes up is each one's own.
        handed = judged.sharing == verdict.HANDED_OVER
        passed = set(own.lines.number[handed].tolist())

        def shown(address: int) -> bool:
            if address not in shared:
                return False
            lasting = own.object_at(address & -LINE_SIZE).kind in ("global", "module")
            return lasting or address >> LINE_SHIFT not in passed

        return HeldLocks(
            recorded,
            self._watched.sleeps,
            operations=self._setting.operations,
            name=own.namer.at,
            code=lambda address: in_source(self._code.name(address).function),
            # What drgn is asked for is where a call returns to, behind the instruction.
            flag=lambda address: only_sets_bit(self._code.name(address + 1).inlined),
        ).conclude(shown)

    def _instructions(self) -> Instructions:
        parties, operations = self._recorded.parties, self._setting.operations
        return Instructions(
            kernel=sum(p.kernel_instructions for p in parties) / operations,
            spinning=sum(p.spinning_instructions for p in parties) / operations,
            user=sum(p.user_instructions for p in parties) / operations,
            background=sum(p.background_instructions for p in parties) / operations,
            deferred=sum(p.deferred_instructions for p in parties) / operations,
        )

    def _background(self) -> tuple[list[Line], float]:
        """Lines that ticks, RCU and the scheduler move, and all their transfers per op."""
        lines, setting = self._lines, self._setting
        operations = setting.operations
        between = setting.scope == "between"
        moved = lines.background_between if between else lines.background_within
        own = lines.between if between else lines.within
        often = verdict.often(
            moved,
            operations=operations,
            sharers=setting.sharers(setting.scope),
            threshold=setting.threshold,
        )
        chosen = often & (own <= setting.threshold)
        # What somebody left for later is told however much the rest moves.
        mostly = np.isin(lines.number, later.unseen(self._background_uses))
        of_later = worst_first(moved, chosen & mostly)[:BACKGROUND_LINES]
        rows = set(worst_first(moved, chosen)[:BACKGROUND_LINES]) | set(of_later)
        found = []
        for row in worst_first(moved, np.isin(np.arange(len(moved)), list(rows))):
            address = int(lines.number[row]) << LINE_SHIFT
            named = self._background_namer.line(address, operations)
            uses = list(self._background_uses(address, address + LINE_SIZE))
            writes = sum(use.writes for use in uses) / operations
            reads = sum(use.reads for use in uses) / operations
            found.append(
                Line(
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
