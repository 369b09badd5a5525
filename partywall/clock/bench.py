# SPDX-License-Identifier: GPL-2.0-or-later
"""Throughput of containers by the clock: on the running kernel, or on others in guests.

Every series takes its turn in every round, so that what disturbs the machine for
a while disturbs all of them.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import platform
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from pydantic import Field

from partywall import guest
from partywall.clock import cpus, native
from partywall.clock.constant import Constant, constant, doubts
from partywall.clock.cpus import Cpu, Placement
from partywall.clock.native import Count
from partywall.core.errors import EnvironmentProblem, UsageProblem
from partywall.core.progress import Progress
from partywall.core.topology import Topology
from partywall.guest import Guest, Settings, emulator, image, qemu
from partywall.kernels import Kernel, require
from partywall.results.document import Document, Model
from partywall.results.result import Result, WorkloadResult
from partywall.workloads import Workload

SCHEMA: Final = "partywall.bench/2"
Accel = Literal["kvm", "threads"]

BUSY = 0.05
"""Share of the CPUs' time that others take from which on a warning is due."""

STOLEN = 0.01
_EMULATED = "emulated threads"


class Point(Model):
    """N containers side by side. Figures are operations per second of each."""

    containers: int
    runs: list[float] = Field(description="Mean over the containers, run by run.")
    slowest: float = Field(description="The slowest container of any run.")

    @property
    def median(self) -> float:
        """The run in the middle."""
        return statistics.median(self.runs)


class Series(Model):
    """One kernel."""

    kernel: str = Field(description="uname -r, and its source if it ran in a guest.")
    runs_on: str = Field(description="'this machine', 'KVM' or 'emulated threads'.")
    points: list[Point]


class Bench(Document):
    """What was measured by the clock, and on what."""

    schema_: Literal["partywall.bench/2"] = Field(default=SCHEMA, alias="schema")
    created: str = Field(description="UTC, ISO 8601.")
    workload: str
    operation: str
    processor: str
    placement: str = Field(description="Which CPUs were chosen, in words.")
    cpus: int = Field(description="CPUs (and workload processes) per container.")
    seconds: float = Field(description="Of each run.")
    series: list[Series]
    constant: Constant | None = Field(
        default=None, description="Of the first series, if instructions per operation were given."
    )
    warnings: list[str]


@dataclass(frozen=True)
class Wanted:
    """What to measure. ``kernels``: none for the running one."""

    workload: Workload
    counts: Sequence[int]
    cpus: int = 1
    seconds: float = 2.0
    runs: int = 5
    placement: Placement = "spread"
    kernels: Sequence[Kernel] = ()
    accel: Accel | None = None
    timeout: float = 300.0


Runner = Callable[[list[list[int]]], list[Count]]


def each(counts: list[Count], per_container: int) -> list[float]:
    """Operations per second of each container, those of its processes added up."""
    rates = {one.process: one.operations / one.nanoseconds * 1e9 for one in counts}
    total = len(rates) // per_container
    return [
        sum(rates[number * per_container + slot] for slot in range(per_container))
        for number in range(total)
    ]


def _groups(chosen: list[Cpu], per_container: int) -> list[list[int]]:
    numbers = [cpu.number for cpu in chosen]
    return [numbers[n : n + per_container] for n in range(0, len(numbers), per_container)]


def _in_guest(wanted: Wanted, kernel: Kernel, accel: Accel, progress: Progress) -> Runner:
    """Runs containers in a guest of as many vCPUs as they have CPUs."""
    require(kernel, wanted.workload.options, f"workload {wanted.workload.title}")
    base = image.base(kernel, wanted.workload, progress)
    milliseconds = round(wanted.seconds * 1000)

    def run(groups: list[list[int]]) -> list[Count]:
        shape = Topology(len(groups), wanted.cpus)
        parts, _ = guest.initramfs(
            base,
            image.job(wanted.workload, shape, confined=True, milliseconds=milliseconds),
            progress,
        )
        settings = Settings(
            qemu=qemu.find(),
            kernel_image=kernel.image,
            initramfs=parts,
            topology=shape,
            plugin=None,
            command_line=guest.command_line(kernel.release),
            accel=accel,
            timeout=wanted.timeout + wanted.seconds,
        )
        return _counts(settings)

    return run


def _counts(settings: Settings, attempts: int = emulator.ATTEMPTS) -> list[Count]:
    """Boot a guest until all have counted; again where the emulator brought it down."""
    with Guest(settings) as machine:

        def counted() -> list[Count]:
            return native.parse(machine.console.encode())

        try:
            machine.wait_until(lambda: len(counted()) == settings.topology.total)
            return counted()
        except EnvironmentProblem:
            if attempts == 1 or not emulator.stale_code(machine.console):
                raise
    return _counts(settings, attempts - 1)


def accelerator(asked: Accel | None) -> Accel:
    """KVM where a guest proves that it works, emulation otherwise."""
    if asked == "threads":
        return "threads"
    if qemu.kvm_works(qemu.find().program):
        return "kvm"
    if asked == "kvm":
        raise EnvironmentProblem("KVM runs no guest here", "leave --accel out, or take threads")
    return "threads"


@contextlib.contextmanager
def _runners(
    wanted: Wanted, warnings: list[str], progress: Progress
) -> Iterator[list[tuple[str, str, Runner]]]:
    """Name, what it runs on and how, for each series."""
    if not wanted.kernels:
        milliseconds = round(wanted.seconds * 1000)
        with native.machine(wanted.workload, progress) as machine:
            warnings += machine.notes
            yield [
                (
                    platform.release(),
                    "this machine",
                    lambda groups: machine.run(groups, milliseconds),
                )
            ]
        return
    accel = accelerator(wanted.accel)
    words = "KVM" if accel == "kvm" else _EMULATED
    yield [
        (f"{kernel.release} ({kernel.source})", words, _in_guest(wanted, kernel, accel, progress))
        for kernel in wanted.kernels
    ]


def check(wanted: Wanted, *, guests: bool) -> list[Cpu]:
    """The CPUs to use, best first; UsageProblem if there are too few, or no root is at hand.

    ``guests``: it is to run in guests, for which no root is needed.
    """
    if wanted.cpus < 1:
        raise UsageProblem(f"{wanted.cpus} CPUs per container are none", "--cpus starts at 1")
    if wanted.workload.counted:
        raise UsageProblem(
            f"{wanted.workload.title} can't run by the clock: each operation uses something up",
            "check and compare count its operations",
        )
    if wanted.workload.guests_only and not guests:
        raise UsageProblem(
            f"{wanted.workload.title} changes cgroups or network devices, and is not run on "
            "this machine's own kernel",
            "name a kernel with --kernel: in guests it runs",
        )
    chosen = cpus.choose(cpus.allowed(), max(wanted.counts) * wanted.cpus, wanted.placement)
    if not guests:
        native.possible()
    return chosen


def bench(wanted: Wanted, progress: Progress) -> Bench:
    """Measures all that is wanted, round by round."""
    chosen = check(wanted, guests=bool(wanted.kernels))
    warnings = cpus.disturbances(chosen)
    busy = cpus.busy_share(chosen)
    if busy > BUSY:
        warnings.append(f"other programs keep these CPUs busy for {busy:.0%} of their time")
    before = cpus.times(chosen)
    rates: dict[tuple[int, int], list[list[float]]] = {}
    with _runners(wanted, warnings, progress) as runners:
        total = wanted.runs * len(wanted.counts) * len(runners)
        with progress.step(f"{wanted.workload.title}: runs", total * (wanted.seconds + 1)) as step:
            done = 0
            for _ in range(wanted.runs):
                for count in wanted.counts:
                    groups = _groups(chosen[: count * wanted.cpus], wanted.cpus)
                    for number, (_, _, run) in enumerate(runners):
                        found = each(run(groups), wanted.cpus)
                        rates.setdefault((number, count), []).append(found)
                        done += 1
                        step.done = done / total
        names = [(name, words) for name, words, _ in runners]
    if any(words == _EMULATED for _, words in names):
        warnings.append("emulated threads say how kernels compare, not how fast hardware is")
    after = cpus.times(chosen)
    passed = after.total - before.total
    if passed and (after.stolen - before.stolen) / passed > STOLEN:
        share = (after.stolen - before.stolen) / passed
        warnings.append(f"the host took {share:.0%} of these CPUs' time away (steal)")
    placement = f"{wanted.placement}: {cpus.describe(chosen)}, of {os.cpu_count()} there are"
    if wanted.kernels:
        placement = f"{len(chosen)} of guests, whose threads Linux places on {os.cpu_count()}"
    return Bench(
        created=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        workload=wanted.workload.title,
        operation=wanted.workload.operation,
        processor=cpus.model(),
        placement=placement,
        cpus=wanted.cpus,
        seconds=wanted.seconds,
        series=[
            Series(
                kernel=name,
                runs_on=words,
                points=[
                    Point(
                        containers=count,
                        runs=[statistics.mean(run) for run in rates[number, count]],
                        slowest=min(min(run) for run in rates[number, count]),
                    )
                    for count in wanted.counts
                ],
            )
            for number, (name, words) in enumerate(names)
        ],
        warnings=warnings,
    )


def with_constant(found: Bench, result: Result, one: WorkloadResult) -> Bench:
    """Return the benchmark with the time of an instruction of its first series.

    ``one``: the workload of ``result`` that counted instructions per operation.
    """
    series = found.series[0]
    (alone,) = (point for point in series.points if point.containers == 1)
    release = series.kernel.split(" ")[0]
    return found.model_copy(
        update={
            "constant": constant(alone.runs, alone.median, result.kernel.release, one),
            "warnings": [*found.warnings, *doubts(one, result.kernel.release, release)],
        }
    )
