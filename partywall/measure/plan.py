# SPDX-License-Identifier: GPL-2.0-or-later
"""One workload in one topology on one kernel: what to measure, from boot to result."""

from __future__ import annotations

import gc
from dataclasses import dataclass, replace
from pathlib import Path

from partywall import guest
from partywall.analyse import names, verdict
from partywall.analyse.workload import Analysis
from partywall.core import capabilities
from partywall.core.errors import EnvironmentProblem, PartywallError, UsageProblem
from partywall.core.progress import Progress
from partywall.core.topology import Layers, Profiles, Topology
from partywall.guest import Guest, image, oci, roots
from partywall.guest.qemu import Qemu
from partywall.guest.rooted import patience
from partywall.guest.sitting import LOOKS_TAKE
from partywall.guest.snapshot import booted
from partywall.kernels import Kernel, require
from partywall.measure import after, served
from partywall.record import hooks, reading
from partywall.record.hooks import Hooks
from partywall.record.recording import Recording
from partywall.record.wanted import require_functions
from partywall.results.result import WorkloadResult
from partywall.results.setting import BARE, NO_APPARMOR, OWN_PROFILES, VOLATILE
from partywall.workloads import Workload


def possible(shape: Topology) -> None:
    """UsageProblem if no guest can have this topology, or there is nothing to share."""
    if shape.containers < 1 or shape.cpus < 1:
        raise UsageProblem(
            f"{shape.containers} containers x {shape.cpus} CPUs is nothing to measure",
            "both --containers and --cpus start at 1",
        )
    if shape.total < 2:
        raise UsageProblem(
            "one container with one CPU has no neighbour to share a line with",
            "ask for more with --containers or --cpus",
        )
    if shape.total > guest.MAX_CPUS:
        raise UsageProblem(
            f"{shape.containers} containers x {shape.cpus} CPUs are {shape.total} CPUs; "
            f"the emulated machine has at most {guest.MAX_CPUS}",
            "--at says for how many containers the verdict is: 8 that run show what 512 move",
        )


_MANY = 1_000_000
"""Places in memory and code that take a minute to name; most operations have a tenth of it."""


@dataclass(frozen=True)
class Plan:
    """What to measure and how.

    ``threshold``: transfers per operation; ``at``: containers that the verdict is for;
    ``lines_only``: neither memory nor waits are looked at, which benchmarks compare with.
    """

    kernel: Kernel
    qemu: Qemu
    workload: Workload
    topology: Topology
    confined: bool = True
    threshold: float = verdict.THRESHOLD
    at: int = verdict.AT
    timeout: float = 300.0
    visit_distance: int = guest.VISIT_DISTANCE
    parameters: str = ""
    layers: Layers = "shared"
    profiles: Profiles = "shared"
    volatile: bool = False
    lines_only: bool = False

    @property
    def title(self) -> str:
        """For progress: workload and topology."""
        own = ", own layers" if self.layers == "own" else ""
        return f"{self.workload.title} {self.topology.containers} x {self.topology.cpus}{own}"

    def check(self) -> None:
        """UsageProblem if this can't be measured, before anything is started."""
        possible(self.topology)
        require(self.kernel, self.workload.options, f"workload {self.workload.title}")
        if self.workload.root is not None:
            roots.choose(self.kernel)
        if self.workload.root is not None and self.layers == "own":
            raise UsageProblem(
                "--layers own copies our own image, and this one is on a disk", "leave it out"
            )
        if self.workload.lower_layers > 1 and self.layers == "own":
            raise UsageProblem(
                f"--layers own copies one layer, and {self.workload.title} is about several",
                "leave one out",
            )
        if self.workload.command:
            asked = [*self.workload.charge, *self.workload.count]
            require_functions(self.kernel.vmlinux, asked)

    @property
    def confinement(self) -> str:
        """How the containers are confined, in words."""
        workload = self.workload
        less = [] if workload.service is None else workload.service.less
        held = {*oci.CAPABILITIES, *workload.capabilities}
        if held >= {f"CAP_{name}" for name in capabilities.NAMES}:
            less.append("all capabilities")
        else:
            less += [f"+{name}" for name in workload.capabilities]
        if workload.root is not None:
            less.append("users of the machine")
        if self.volatile:
            less.append(VOLATILE)
        if not self.confined:
            return f"unconfined ({', '.join(less)})" if less else "unconfined"
        if workload.apparmor == "unconfined":
            less.append(NO_APPARMOR)
        elif self.profiles == "none":
            less.append(BARE)
        elif self.profiles == "own":
            less.append(OWN_PROFILES)
        if workload.seccomp == "unconfined":
            less.append("no seccomp")
        if workload.systempaths == "unconfined":
            less.append("all of /proc")
        return f"docker ({', '.join(less)})" if less else "docker"

    def step(self, workload: Workload) -> int:
        """Return operations around which memory is looked at after its windows, 0 for none."""
        return 0 if self.lines_only else after.step(workload, self.topology)

    def settings(
        self,
        initramfs: tuple[bytes, ...],
        watched: Hooks,
        plugin: Path,
        memory: int,
        *,
        rounds: int = 0,
        disk: roots.Fitted | None = None,
    ) -> guest.Settings:
        """Return the settings of a guest that is recorded.

        ``plugin``, ``memory``: as for `measure`; ``rounds``: as for `guest.Settings`;
        ``disk``: of the workload's root.
        """
        return guest.Settings(
            qemu=self.qemu,
            kernel_image=self.kernel.image,
            initramfs=initramfs,
            topology=self.topology,
            plugin=plugin,
            hooks=watched.text,
            command_line=guest.command_line(self.kernel.release, self.parameters),
            timeout=self.timeout,
            visit_distance=self.visit_distance,
            memory_limit=memory,
            rounds=rounds,
            second_line=bool(rounds),
            disk=disk,
            memory=self._memory(),
            late=bool(self.workload.client),
            looks=self.beside(rounds),
        )

    def _memory(self) -> int | None:
        """Return MiB of the guest's memory, None for the usual."""
        if not self.workload.room:
            return None
        # What is on a RAM disk is in the page cache as well.
        return guest.memory(self.topology) + 2 * self.workload.room * self.topology.containers

    def beside(self, rounds: int = 0) -> int:
        """Return seconds of the guest's own time that there are beside its timeout."""
        if self.workload.client:
            # The server's, and the client's.
            return 2 * patience(self.topology)
        if self.workload.opening is not None:
            return self.workload.opening.takes
        return LOOKS_TAKE if rounds or self.step(self.workload) else 0

    def analysis(self, recorded: Recording, watched: Hooks, learned: names.Learned) -> Analysis:
        """Return the analysis of a recording of this plan's workload."""
        return Analysis(
            recorded,
            watched,
            learned,
            workload=self.workload,
            topology=self.topology,
            threshold=self.threshold,
            at=self.at,
        )


@dataclass(frozen=True)
class Measured:
    """A workload's result, and what the guest said of its kernel."""

    result: WorkloadResult
    version: str


def prepared(
    plan: Plan, plugin: Path, memory: int, progress: Progress
) -> tuple[guest.Settings, Hooks, str]:
    """Return the settings of a plan's guest, what is watched in it, and its contents' hash.

    ``plugin``, ``memory``: as for `measure`. UsageProblem if there can't be its root.
    """
    workload, disk = plan.workload, None
    if workload.root is not None:
        made = roots.disk(workload.root, progress)
        disk = roots.fitted(made, plan.kernel, progress)
        start = roots.started(made, workload.service)
        disk = replace(disk, place=replace(disk.place, start=start))
    parts, digest = guest.initramfs(
        image.base(plan.kernel, workload, progress),
        image.job(
            workload,
            plan.topology,
            confined=plan.confined,
            layers=plan.layers,
            profiles=plan.profiles,
            volatile=plan.volatile,
            disk=disk,
            step=plan.step(workload),
            patience=guest.patience(plan.timeout, plan.beside()),
        ),
        progress,
    )
    watched = hooks.build(plan.kernel.vmlinux, workload, waits=not plan.lines_only)
    return plan.settings(parts, watched, plugin, memory, disk=disk), watched, digest


def measure(plan: Plan, plugin: Path, memory: int, progress: Progress) -> Measured:
    """Boot, run, record, analyse and name, in a process that does nothing else.

    ``plugin``: the recorder, built; ``memory``: MiB that it may take.
    UsageProblem if the plan can't be; EnvironmentProblem if the guest or its
    recording fails.
    """
    plan.check()
    # An analysis makes millions of objects that live until it is over, which the
    # collector would go through again and again; what is left ends with the process.
    gc.disable()
    if plan.workload.client:
        # The emulator may give one container most of a short time.
        def longer(times: int) -> Measured:
            as_long = replace(plan, workload=served.longer(plan.workload, times))
            return _measure(as_long, plugin, memory, progress)

        return served.evened(plan.title, progress, longer)
    return _measure(plan, plugin, memory, progress)


def _measure(plan: Plan, plugin: Path, memory: int, progress: Progress) -> Measured:
    step = plan.step(plan.workload)
    settings, watched, digest = prepared(plan, plugin, memory, progress)
    with Guest(booted(settings, progress)) as machine:
        recorded = record(machine, plan, plan.title, progress)
        if plan.workload.client:
            counted = {"window": served.requests(machine.console, plan.topology)}
            plan = replace(plan, workload=plan.workload.model_copy(update=counted))
        say_if_long(recorded, plan.workload.title, progress)
        with progress.step(f"{plan.title}: walls and their names"):
            learned = names.learn(machine, plan.kernel)
            judged = plan.analysis(recorded, watched, learned)
            found = judged.conclude(plan.confinement, digest, machine.went_on_from)
            found = found.model_copy(update={"layers": plan.layers})
        if step:
            with progress.step(f"{plan.title}: what it leaves behind"):
                looks = after.Looks(machine, lambda: learned.prog)
                left = looks.around(machine.recording, step * plan.topology.total)
            if isinstance(left, PartywallError):
                progress.note(f"{plan.title}: {left.message}")
            else:
                found = found.model_copy(update={"memory": left})
        return Measured(found, machine.said("version") or "unknown")


def record(machine: Guest, plan: Plan, title: str, progress: Progress) -> Recording:
    """Wait for the windows of a guest that was started, and return what was recorded in them.

    EnvironmentProblem as for `Guest.wait`, and if not every CPU had its one window.
    """
    with progress.step(f"{title}: guest", guest.expected_seconds(plan.topology)):
        try:
            recorded = reading.load(machine.wait())
        except EnvironmentProblem:
            # Addresses from another build mislead the recorder in any way.
            names.check_build(machine.said("build"), plan.kernel)
            raise
    check_windows(recorded, plan.topology)
    return recorded


def check_windows(recorded: Recording, topology: Topology) -> None:
    """EnvironmentProblem if not every CPU had its one window: averages would mean nothing."""
    cpus = [party for party in recorded.parties if not party.thread]
    again = [party.cpu for party in cpus if party.windows > 1]
    if again:
        raise EnvironmentProblem(
            f"{len(again)} CPUs ran more than one window, CPU {again[0]} the first of them",
            "the program must mark a start and a stop once on each CPU;"
            " --no-markers measures its whole run",
        )
    missing = [party.cpu for party in cpus if not party.windows]
    if len(cpus) != topology.total or missing:
        raise EnvironmentProblem(
            f"{len(missing) or topology.total - len(cpus)} CPUs ran no window",
            "is the program marked on every CPU? --no-markers measures its whole run",
        )


def say_if_long(recorded: Recording, title: str, progress: Progress) -> None:
    """Say so if a recording has so much in it that naming it takes long."""
    uses = sum(len(party.accesses) for party in recorded.parties)
    if uses > _MANY:
        progress.note(
            f"{title}: {uses:,} uses of memory are to be named, which takes minutes and 2 GiB; "
            "fewer --containers have fewer"
        )
