# SPDX-License-Identifier: GPL-2.0-or-later
"""What operations leave behind: looks at a guest's memory around them.

Nothing is recorded. The guest's kernel keeps with each object who made it, and counts
objects exactly (``slub_debug=U``): its slabs are not what they are elsewhere, so lines
are measured in another guest.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from partywall import guest
from partywall.analyse import growth as analysis
from partywall.analyse import names
from partywall.core.errors import EnvironmentProblem, PartywallError
from partywall.core.progress import Progress
from partywall.core.topology import Topology
from partywall.guest import Guest, sitting
from partywall.guest.sitting import Round
from partywall.measure import run, sweep
from partywall.measure.plan import Plan
from partywall.measure.run import Call, Wanted
from partywall.measure.sitting import Sitting
from partywall.record import hooks
from partywall.record.plugin import recorder
from partywall.results.growth import Growth, Operation
from partywall.workloads import Workload

PARAMETERS = "slub_debug=U"

CONTAINERS = 2
"""Each operation leaves the same behind however many do it; two tell whose it is."""

LEAST_OPERATIONS = 64
"""In the first step, of each container: what is one in fifty shows in the second."""

_WHILE_THERE = ("before", "some", "more")
_WHEN_GONE = ("gone", "reclaimed")


@dataclass
class Found:
    """What became of each round, in their order, and what the guest said of its kernel."""

    version: str = "unknown"
    became: list[Operation | PartywallError] = field(default_factory=list)


def growth(wanted: Wanted, progress: Progress) -> Growth:
    """Measure what each of the workloads leaves behind.

    Raise what the first failed of if all did.
    """
    parameters = f"{wanted.parameters} {PARAMETERS}".strip()
    shape = wanted.topology or Topology(CONTAINERS, 1)
    wanted = replace(wanted, parameters=parameters, topology=shape)
    plan = sweep.plan_of(wanted)
    became: dict[str, Operation | PartywallError] = {}
    rounds = []
    for workload in wanted.workloads:
        try:
            replace(plan, workload=workload).check()
            rounds.append(Round(_long_enough(workload)))
        except PartywallError as error:
            became[workload.title] = error
    plugin = recorder(plan.qemu, progress)
    todo = sweep.sittings(plan, rounds)
    calls = [
        Call(f"guest {number} of {len(todo)}", plan.topology, measure, (one, plugin))
        for number, one in enumerate(todo, 1)
    ]
    versions = set()
    guests = run.side_by_side(calls, wanted.jobs, progress)
    for one, found in zip(todo, guests, strict=True):
        titles = [each.title for each in one.rounds]
        if isinstance(found, Found):
            became |= dict(zip(titles, found.became, strict=True))
            versions.add(found.version)
        else:
            became |= dict.fromkeys(titles, found)
    return _document(wanted, plan, [became[one.title] for one in wanted.workloads], versions)


def _long_enough(workload: Workload) -> Workload:
    """The workload with a step of operations for its window; a container's whole start is long."""
    window = workload.window if workload.bundle else max(workload.window, LEAST_OPERATIONS)
    return workload.model_copy(update={"window": window})


def _document(
    wanted: Wanted,
    plan: Plan,
    became: Sequence[Operation | PartywallError],
    versions: set[str],
) -> Growth:
    operations = [one for one in became if isinstance(one, Operation)]
    if not operations:
        title, first = wanted.workloads[0].title, became[0]
        assert isinstance(first, PartywallError)
        raise type(first)(f"{title}: {first.message}", first.hint)
    # Of a kernel and what it was measured with, as any result says it.
    said = run.whole(wanted, plan, versions, [])
    return Growth(
        created=said.created,
        kernel=said.kernel,
        environment=said.environment,
        containers=plan.topology.containers,
        least=analysis.LEAST,
        rate=analysis.RATE,
        operations=operations,
        failed=sweep.failures([Round(one) for one in wanted.workloads], became),
    )


def measure(wanted: Sitting, plugin: Path, memory: int, progress: Progress) -> Found:
    """Do all rounds in guests, in a process that does nothing else.

    ``plugin``, ``memory``: as for `partywall.measure.plan.measure`. As there, what ends a
    guest is a failure of the round that ran, and those after it have another guest.
    """
    found = Found()
    gc.disable()
    while len(found.became) < len(wanted.rounds):
        left = replace(wanted, rounds=wanted.rounds[len(found.became) :])
        try:
            _sit(left, plugin, memory, progress, found)
        except EnvironmentProblem as error:
            if not found.became:
                raise
            why = f"the guest after one that ended did not start: {error.message}"
            found.became += [EnvironmentProblem(why, error.hint)] * len(left.rounds)
    return found


def _sit(wanted: Sitting, plugin: Path, memory: int, progress: Progress, found: Found) -> None:
    plan, rounds = wanted.plan, wanted.rounds
    parts, _ = guest.initramfs(
        sitting.base(plan.kernel, rounds, progress, grow=True),
        sitting.job(rounds, plan.topology, confined=plan.confined, timeout=plan.timeout, grow=True),
    )
    watched = hooks.build(plan.kernel.vmlinux, rounds[0].workload)
    settings = replace(
        plan.settings(parts, watched, plugin, memory, rounds=len(rounds)),
        record=False,
        # One process, in no container, has the guest held.
        windows=1,
    )
    with Guest(settings) as machine:
        with progress.step(
            f"guest for {len(rounds)} rounds", guest.expected_seconds(plan.topology)
        ):
            try:
                machine.wait_for("ready")
            except EnvironmentProblem:
                names.check_build(machine.said("build"), plan.kernel)
                raise
        _Watch(machine, plan).rounds(rounds, found, progress)
        found.version = machine.said("version") or "unknown"


class _Watch:
    """Looks at a guest's memory, one after the other."""

    def __init__(self, machine: Guest, plan: Plan) -> None:
        self._machine, self._plan = machine, plan
        self._number = 0
        self._reads: tuple[analysis.Kernel, analysis.Makers] | None = None

    def rounds(self, rounds: Sequence[Round], found: Found, progress: Progress) -> None:
        """Add what becomes of each round; of the one that ends the guest, why."""
        grown: list[analysis.Growth | PartywallError] = []
        try:
            for number, each in enumerate(rounds):
                with progress.step(each.title):
                    grown.append(self._round(number, each))
            self._look("ended", *(one for one in grown if isinstance(one, analysis.Growth)))
        except EnvironmentProblem as error:
            # The guest is gone, or so far gone that no round can begin.
            if len(grown) < len(rounds):
                grown.append(error)
        found.became += [
            one if isinstance(one, PartywallError) else _operation(each, one)
            for each, one in zip(rounds, grown, strict=False)
        ]

    def _round(self, number: int, each: Round) -> analysis.Growth | PartywallError:
        total = each.workload.window * self._plan.topology.total
        growing: analysis.Growth | None = None
        for which in _WHILE_THERE:
            if not self._come(which):
                break
            kernel, makers = self._reading()
            growing = growing or analysis.Growth(kernel, makers, total)
            growing.during(analysis.look(kernel))
            self._go_on()
        why = self._machine.reported(f"round {number} failed:")
        for which in _WHEN_GONE:
            self._look(which, *([growing] if growing and why is None else []))
        if why is not None or growing is None:
            return EnvironmentProblem(f"the workload failed: {why or 'nobody says why'}")
        return growing

    def _look(self, which: str, *growing: analysis.Growth) -> None:
        """Wait for a look at what is left, and take it."""
        self._come(which)
        if growing:
            now = analysis.look(self._reading()[0])
            for one in growing:
                one.after(which, now)
        self._go_on()

    def _come(self, which: str) -> bool:
        """Wait until the guest is held for a look; whether it is this one.

        It is none of those while processes are there, if a round has failed.
        """
        path = self._machine.recording_of(self._number)
        self._machine.wait_until(path.exists)
        last = [line for line in self._machine.second.splitlines() if "PARTYWALL look" in line][-1]
        return last.split()[-1] == which

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
        left=grown.left,
    )
