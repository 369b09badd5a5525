# SPDX-License-Identifier: GPL-2.0-or-later
"""What operations leave behind: looks at a guest's memory around them.

Nothing is recorded. The guest's kernel keeps with each object who made it, and counts
objects exactly (``slub_debug=U``): its slabs are not what they are elsewhere, so lines
are measured in another guest.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from partywall import guest
from partywall.analyse import growth as analysis
from partywall.analyse import names
from partywall.core.errors import EnvironmentProblem, PartywallError, UsageProblem
from partywall.core.progress import Progress
from partywall.core.topology import Topology
from partywall.guest import Guest, sitting
from partywall.guest.sitting import Growing, Round
from partywall.guest.snapshot import booted
from partywall.kernels import require
from partywall.measure import run, sweep
from partywall.measure.after import fault
from partywall.measure.plan import Plan
from partywall.measure.run import Wanted
from partywall.measure.sitting import Found, Sitting, in_turn, ready
from partywall.record import hooks
from partywall.results.growth import Growth, Left, Operation
from partywall.results.memory import PAGE, Unsettled
from partywall.workloads import Workload

PARAMETERS = "slub_debug=U"
_OPTIONS = ("CONFIG_SLUB_DEBUG", "CONFIG_STACKDEPOT", "CONFIG_MEMCG")

CONTAINERS = 2
"""Each operation leaves the same behind however many do it; two tell whose it is."""

AGAIN = 8
"""Times as many operations in which what grew has to grow again: what is taken back in
batches that are larger than a step has an end. What rose unevenly may be settled then."""

LEAST_OPERATIONS = 64
"""In the first step, of each container. Less than one object in 32 is not seen then."""

LEAST_STARTS = 8
"""The same of whole containers' starts, each of which takes a second."""

USUAL = 500
"""Operations in a window that a guest has `Plan.timeout` for."""

_LOOKS_TAKE = 15 * 60.0
"""On top of it, so that of a guest's own time a minute is for the looks: see
`partywall.guest.sitting.patience`."""

_MOST = 3 << 10
"""MiB of a guest. With more a PC has a hole in its memory, where no pages are."""

_NOT_READ = "memory could not be read"

_SHAPE = Topology(CONTAINERS, 1)

_WHILE_THERE = ("before", "some", "more")
_AT_THE_END = ("stopped", "ended")


def growth(wanted: Wanted, progress: Progress, operations: int | None = None) -> Growth:
    """Measure what each of the workloads leaves behind.

    ``operations``: of each container in the first step; None: a workload's window, or
    `LEAST_OPERATIONS`. Raise what the first failed of if all did; UsageProblem if the kernel
    does not keep who made an object.
    """
    require(wanted.kernel, _OPTIONS, "partywall growth")
    parameters = f"{wanted.parameters} {PARAMETERS}".strip()
    shape = wanted.topology or _SHAPE
    wanted = replace(wanted, parameters=parameters, topology=shape)
    if guest.memory(shape) > _MOST:
        raise UsageProblem(
            f"{shape.total} containers take more memory than can be looked at",
            f"ask for fewer with --containers: {CONTAINERS} show what each leaves behind",
        )
    plan = sweep.plan_of(wanted)
    first = [_long_enough(one, operations) for one in wanted.workloads]
    became, versions = _in_guests(wanted, plan, first, progress)
    if operations is None:
        grew = [
            one
            for one in first
            if isinstance(found := became[one.title], Operation)
            and (found.left or found.unsettled)
            and not one.keeps
        ]
        longer = [one.model_copy(update={"window": AGAIN * one.window}) for one in grew]
        again, more = _in_guests(wanted, plan, longer, progress, reclaims=False)
        versions |= more
        for title, found in again.items():
            # What could not do so many, for want of disk or time, stays as it was found.
            if isinstance(found, Operation):
                before = became[title]
                assert isinstance(before, Operation)
                became[title] = confirmed(before, found)
    return _document(wanted, plan, [became[one.title] for one in wanted.workloads], versions)


def least_bytes(workload: Workload, shape: Topology | None, operations: int | None) -> float:
    """Return the bytes of one kind an operation below which nothing will be said.

    ``operations``: as for `growth`; ``shape``: as it was asked for.
    """
    step = _long_enough(workload, operations).window
    return analysis.least(step * (shape or _SHAPE).total) * PAGE


def confirmed(before: Operation, again: Operation) -> Operation:
    """Return what rose in both, as it was found of more operations.

    What rose before and does not again has an end, or a batch. What grows now, and did not
    rise before, is not settled. Nothing was reclaimed ``again``: what is there when containers
    have ended is told of both.
    """
    known = {_kind(one) for one in before.left} | {_kind(one) for one in before.unsettled}
    new = [
        Unsettled(
            kind=one.kind,
            what=one.what,
            made_by=one.made_by,
            charged=not one.uncharged,
            bytes=one.bytes,
            more=[],
        )
        for one in again.left
        if _kind(one) not in known
    ]
    return again.model_copy(
        update={
            "left": [_both(before.left, one) for one in again.left if _kind(one) in known],
            "unsettled": sorted([*again.unsettled, *new], key=lambda one: -one.bytes),
            "confirmed": True,
        }
    )


def _both(before: Sequence[Left], again: Left) -> Left:
    """Return what grew again, with what became of it with reclaim before the end and after it.

    Of what had not grown before nobody tried the former.
    """
    alike = [one for one in before if _kind(one) == _kind(again)]
    first = min(alike, key=lambda one: abs(one.charged - again.charged), default=None)
    after = {} if first is None else dict(first.after)
    if "gone" in again.after:
        after["gone"] = min(after.get("gone", 1.0), again.after["gone"])
    later = {which: share for which, share in again.after.items() if which != "gone"}
    # A guest that ended before its last looks tells nothing.
    whole = {*_AT_THE_END, "reclaimed"} <= later.keys()
    return again.model_copy(update={"after": after, "unreclaimed": later if whole else None})


def _kind(one: Left | Unsettled) -> tuple[str, str, tuple[str, ...]]:
    return one.kind, one.what, one.made_by


def _in_guests(
    wanted: Wanted,
    plan: Plan,
    workloads: Sequence[Workload],
    progress: Progress,
    *,
    reclaims: bool = True,
) -> tuple[dict[str, Operation | PartywallError], set[str]]:
    """Return what became of each by its title, and what guests said of their kernel."""
    rounds = [Round(one) for one in workloads]
    measuring = partial(measure, Growing(reclaims))
    became, versions = sweep.in_guests(plan, rounds, wanted.jobs, progress, measuring)
    return dict(zip([one.title for one in workloads], became, strict=True)), versions


def _long_enough(workload: Workload, operations: int | None) -> Workload:
    """The workload with a step of operations for its window; a container's whole start is long."""
    least = LEAST_STARTS if workload.bundle else LEAST_OPERATIONS
    # What keeps what it makes soon comes to a limit.
    usual = workload.window if workload.keeps else max(workload.window, least)
    return workload.model_copy(update={"window": operations or usual})


def _document(
    wanted: Wanted,
    plan: Plan,
    became: Sequence[Operation | PartywallError],
    versions: set[str],
) -> Growth:
    rounds = [Round(one) for one in wanted.workloads]
    operations = sweep.measured(rounds, became, Operation)
    # Of a kernel and what it was measured with, as any result says it.
    said = run.whole(wanted, plan, versions, [])
    return Growth(
        created=said.created,
        kernel=said.kernel,
        environment=said.environment,
        containers=plan.topology.containers,
        operations=operations,
        failed=sweep.failures(rounds, became),
    )


def measure(
    growing: Growing, wanted: Sitting, plugin: Path, memory: int, progress: Progress
) -> Found[Operation]:
    """Do all rounds in guests, in a process that does nothing else.

    ``plugin``, ``memory``: as for `partywall.measure.plan.measure`; failures: as for
    `partywall.measure.sitting.in_turn`.
    """
    gc.disable()
    return in_turn(wanted, lambda left, found: _sit(growing, left, plugin, memory, progress, found))


def _sit(
    growing: Growing,
    wanted: Sitting,
    plugin: Path,
    memory: int,
    progress: Progress,
    found: Found[Operation],
) -> None:
    plan, rounds = wanted.plan, wanted.rounds
    # All sleep at each look, and there may be many more operations than in a window.
    longest = max(each.workload.window for each in rounds)
    timeout = plan.timeout * (1 + longest / USUAL) + _LOOKS_TAKE
    parts, _ = guest.initramfs(
        sitting.base(plan.kernel, rounds, progress, growing),
        sitting.job(
            rounds, plan.topology, confined=plan.confined, timeout=timeout, purpose=growing
        ),
        progress,
    )
    watched = hooks.build(plan.kernel.vmlinux, rounds[0].workload)
    settings = replace(
        plan.settings(parts, watched, plugin, memory, rounds=len(rounds)),
        record=False,
        timeout=max(plan.timeout, plan.timeout * longest / USUAL / 2),
        # One process, in no container, has the guest held.
        windows=1,
    )
    with Guest(booted(settings, progress)) as machine:
        ready(machine, wanted, progress)
        _Watch(machine, plan, growing).rounds(rounds, found, progress)
        found.version = machine.said("version") or "unknown"


class _Watch:
    """Looks at a guest's memory, one after the other."""

    def __init__(self, machine: Guest, plan: Plan, growing: Growing) -> None:
        self._machine, self._plan = machine, plan
        reclaimed = ("reclaimed",)
        self._when_gone = ("gone", *(reclaimed if growing.reclaims else ()))
        self._at_the_end = (*_AT_THE_END, *(() if growing.reclaims else reclaimed))
        self._number = 0
        self._last: tuple[int, analysis.Look] | None = None
        self._reads: tuple[analysis.Kernel, analysis.Makers] | None = None

    def rounds(self, rounds: Sequence[Round], found: Found[Operation], progress: Progress) -> None:
        """Add what becomes of each round; of the one that ends the guest, why."""
        grown: list[analysis.Growth | PartywallError] = []
        try:
            for number, each in enumerate(rounds):
                with progress.step(each.title):
                    grown.append(self._round(number, each))
            for which in self._at_the_end:
                self._come(which)
                for number, one in enumerate(grown):
                    if isinstance(one, analysis.Growth):
                        grown[number] = self._followed(one, which)
                self._go_on()
        except EnvironmentProblem as error:
            # The guest is gone, or so far gone that no round can begin.
            if len(grown) < len(rounds):
                grown.append(error)
        found.add(
            *(
                one if isinstance(one, PartywallError) else _operation(each, one)
                for each, one in zip(rounds, grown, strict=False)
            )
        )

    def _round(self, number: int, each: Round) -> analysis.Growth | PartywallError:
        total = each.workload.window * self._plan.topology.total
        growing: analysis.Growth | PartywallError | None = None
        for which in _WHILE_THERE:
            if self._comes() != which:
                # The round has failed, and nobody waits for this one.
                break
            growing = self._looked(growing, total)
            self._go_on()
        for which in self._when_gone:
            self._come(which)
            if isinstance(growing, analysis.Growth):
                growing = self._followed(growing, which)
            self._go_on()
        why = self._machine.reported(f"round {number} failed:")
        if why is not None or growing is None:
            return EnvironmentProblem(f"the workload failed: {why or 'nobody says why'}")
        return growing

    def _looked(
        self, growing: analysis.Growth | PartywallError | None, total: int
    ) -> analysis.Growth | PartywallError:
        """Return what has grown, with one more look while processes are there."""
        if isinstance(growing, PartywallError):
            return growing
        try:
            kernel, makers = self._reading()
            growing = growing or analysis.Growth(kernel, makers, total, self._plan.topology.cpus)
            growing.during(analysis.look(kernel))
        except Exception as error:
            return fault(_NOT_READ, error)
        return growing

    def _followed(self, growing: analysis.Growth, which: str) -> analysis.Growth | PartywallError:
        """Return what has grown, with a look at what is left of it."""
        try:
            if growing.grew:
                growing.after(which, self._what_is_left())
        except Exception as error:
            return fault(_NOT_READ, error)
        return growing

    def _what_is_left(self) -> analysis.Look:
        """Return the look at what is left now, which all that look have together."""
        if self._last is None or self._last[0] != self._number:
            self._last = self._number, analysis.look(self._reading()[0], counted=False)
        return self._last[1]

    def _comes(self) -> str:
        """Wait until the guest is held for a look; return which."""
        path = self._machine.recording_of(self._number)
        self._machine.wait_until(path.exists)
        # A kernel with one serial line says all on the first.
        said = self._machine.second or self._machine.console
        return str(re.findall(r"^PARTYWALL look (\w+)$", said, re.MULTILINE)[-1])

    def _come(self, which: str) -> None:
        """Wait for this look. EnvironmentProblem if it is another one."""
        comes = self._comes()
        if comes != which:
            raise EnvironmentProblem(
                f"memory is to be looked at {which!r}, and the guest says {comes!r}",
                "this is a fault of partywall's",
            )

    def _go_on(self) -> None:
        self._machine.recording_of(self._number).unlink()
        self._number += 1

    def _reading(self) -> tuple[analysis.Kernel, analysis.Makers]:
        if self._reads is None:
            self._reads = analysis.watch(names.attach(self._machine, self._plan.kernel))
        return self._reads


def _operation(each: Round, grown: analysis.Growth) -> Operation:
    return Operation(
        title=each.title,
        operation=each.workload.operation,
        count=grown.operations,
        least=round(analysis.least(grown.operations), 4),
        kept=each.workload.keeps,
        confirmed=False,
        left=grown.left,
        unsettled=grown.unsettled,
        raised=sorted(grown.raised, key=lambda one: one.name),
    )
