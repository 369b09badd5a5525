# SPDX-License-Identifier: GPL-2.0-or-later
"""Several workloads on one kernel, side by side, to one `Result`."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from partywall import __version__, guest
from partywall.analyse.verdict import AT, THRESHOLD
from partywall.core.apart import Apart
from partywall.core.errors import EnvironmentProblem, PartywallError
from partywall.core.progress import Progress
from partywall.core.topology import Layers, Profiles, Topology
from partywall.guest import image, peers, processor, qemu
from partywall.guest.qemu import Qemu
from partywall.kernels import Kernel
from partywall.measure import memory
from partywall.measure.plan import Measured, Plan, measure
from partywall.record import hooks
from partywall.record.plugin import recorder
from partywall.results.failures import Failure
from partywall.results.result import Result, WorkloadResult
from partywall.results.setting import Environment, KernelId
from partywall.workloads import Workload

DEFAULT_CONTAINERS = 8

T = TypeVar("T")


def default_jobs() -> int:
    """Return how many guests run side by side if nobody says, and there is room for them."""
    return max(1, min(len(os.sched_getaffinity(0)), 8))


@dataclass(frozen=True)
class Wanted:
    """What a check is asked for.

    ``topology`` None: as each workload suggests; ``at``: containers that the verdict is
    for; ``parameters``: for the kernel; ``layers``: each workload
    runs with each of these; ``profiles``: of AppArmor; ``volatile``: overlays sync nothing;
    ``jobs``: the most guests side by side, fewer if memory is short; ``rootless``: what is
    asked for as well, and has no root to run in.
    """

    kernel: Kernel
    workloads: Sequence[Workload]
    topology: Topology | None = None
    confined: bool = True
    threshold: float = THRESHOLD
    at: int = AT
    timeout: float = 300.0
    parameters: str = ""
    layers: Sequence[Layers] = ("shared",)
    profiles: Profiles = "shared"
    volatile: bool = False
    jobs: int = field(default_factory=default_jobs)
    rootless: Sequence[Failure] = ()

    def plan(
        self, machine: Qemu, workload: Workload, shape: Topology, layers: Layers = "shared"
    ) -> Plan:
        """Return how to measure one workload in one topology."""
        return Plan(
            kernel=self.kernel,
            qemu=machine,
            workload=workload,
            topology=peers.topology(workload, shape),
            confined=self.confined,
            threshold=self.threshold,
            at=self.at,
            timeout=self.timeout,
            parameters=self.parameters,
            layers=layers,
            profiles=self.profiles,
            volatile=self.volatile,
        )


@dataclass(frozen=True)
class Outcome:
    """What was measured, and what could not be, by title of the plan."""

    result: Result | None
    failures: dict[str, PartywallError]


def topologies(workload: Workload) -> list[Topology]:
    """The topologies a workload is worth measuring in."""
    shapes = {"between": Topology(DEFAULT_CONTAINERS, 1), "within": Topology(1, DEFAULT_CONTAINERS)}
    return [shapes[scope] for scope in workload.topologies]


def plans(wanted: Wanted) -> list[Plan]:
    """Everything to measure, each checked before anything boots."""
    machine = qemu.find()
    found = [
        wanted.plan(machine, workload, shape, layers)
        for workload in wanted.workloads
        for shape in ([wanted.topology] if wanted.topology else topologies(workload))
        for layers in wanted.layers
    ]
    for plan in found:
        plan.check()
    hooks.require(wanted.kernel.vmlinux)
    return found


def check(wanted: Wanted, progress: Progress) -> Outcome:
    """Measures all that is wanted; a workload that fails does not stop the others."""
    guest.clean_up()
    todo = plans(wanted)
    plugin = recorder(todo[0].qemu, progress)
    calls = [Call(plan.title, plan.topology, measure, (plan, plugin)) for plan in todo]
    became = side_by_side(calls, wanted.jobs, progress)
    failures = {
        plan.title: one
        for plan, one in zip(todo, became, strict=True)
        if isinstance(one, PartywallError)
    }
    measured = [one for one in became if isinstance(one, Measured)]
    if not measured:
        return Outcome(None, failures)
    versions = {one.version for one in measured}
    found = [one.result for one in measured]
    failed = [
        _failure(plan.workload, plan.topology, one, plan.layers)
        for plan, one in zip(todo, became, strict=True)
        if isinstance(one, PartywallError)
    ]
    return Outcome(whole(wanted, todo[0], versions, found, failed), failures)


def _failure(
    workload: Workload, shape: Topology, why: PartywallError, layers: Layers = "shared"
) -> Failure:
    own = ", own layers" if layers == "own" else ""
    title = f"{workload.title}{own} {shape.containers}x{shape.cpus}"
    return Failure(title=title, operation=workload.operation, why=why.message)


def unrooted(
    wanted: Sequence[Workload], why: Mapping[str, PartywallError], shape: Topology | None
) -> list[Failure]:
    """Return those of the workloads that have no root, for a result.

    ``why``: by `partywall.measure.ready.with_roots`; ``shape``: as `Wanted.topology`.
    """
    return [
        _failure(one, peers.topology(one, each), why[one.title])
        for one in wanted
        if one.title in why
        for each in ([shape] if shape else topologies(one))
    ]


@dataclass(frozen=True)
class Call(Generic[T]):
    """What measures in a process of its own.

    ``measure`` takes ``arguments``, MiB that its recorder may take, and progress.
    """

    title: str
    topology: Topology
    measure: Callable[..., T]
    arguments: tuple[Any, ...]


def side_by_side(
    calls: Sequence[Call[T]], most: int, progress: Progress
) -> list[T | PartywallError]:
    """Return what became of each call, ``most`` of them or fewer at the same time."""
    became: dict[int, T | PartywallError] = {}
    # What takes longest goes first, so that nothing long is left for the end.
    order = sorted(range(len(calls)), key=lambda n: (-calls[n].topology.total, n))
    free = memory.available()
    shapes = [call.topology for call in calls]
    jobs = memory.side_by_side(shapes, most, free)
    warning = memory.short(shapes, free)
    if warning is not None:
        progress.note(warning)
    apart = Apart(progress)
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        running: dict[Future[T], int] = {}
        for number in order:
            call = calls[number]
            room = memory.limit(call.topology, jobs, free)
            arguments = (*call.arguments, room)
            running[pool.submit(apart.call, call.measure, *arguments)] = number
        try:
            for done in as_completed(running):
                number = running[done]
                try:
                    became[number] = done.result()
                except PartywallError as error:
                    became[number] = error
                    progress.note(f"{calls[number].title}: failed")
        except BaseException:
            for future in running:
                future.cancel()
            apart.end()
            # Of those that did not clean up in time.
            guest.clean_up()
            raise
    return [became[number] for number in range(len(calls))]


def whole(
    wanted: Wanted,
    plan: Plan,
    versions: set[str],
    found: list[WorkloadResult],
    failed: Sequence[Failure] = (),
) -> Result:
    """Return what was found of one kernel as a result.

    ``plan``: any of those it was found by; ``versions``: what guests said of their kernel.
    """
    if len(versions) > 1:
        raise EnvironmentProblem(
            "the kernel's image changed while it was measured", "run the check again"
        )
    kernel = wanted.kernel
    return Result(
        created=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        kernel=KernelId(
            source=kernel.source,
            release=kernel.release,
            version=versions.pop(),
            build_id=kernel.build_id,
            image_sha256=kernel.image_sha256,
            config_sha256=kernel.config_sha256,
        ),
        environment=Environment(
            partywall=__version__,
            qemu=plan.qemu.version,
            plugin_abi=plan.qemu.plugin_abi,
            cpu_model=processor.NAME,
            icount_shift=guest.ICOUNT_SHIFT,
            command_line=guest.command_line(kernel.release, wanted.parameters),
            tools=image.tool_versions(),
            visit_distance=plan.visit_distance,
        ),
        workloads=found,
        failed=[*wanted.rootless, *failed],
    )
