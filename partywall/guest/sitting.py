# SPDX-License-Identifier: GPL-2.0-or-later
"""Archives of a guest whose containers run one workload after the other, in rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from partywall.core.progress import Progress
from partywall.core.topology import Topology
from partywall.guest import image
from partywall.guest.image import PROGRAM_DIR
from partywall.guest.oci import USUAL, Confinement
from partywall.kernels import Kernel
from partywall.workloads import (
    Workload,
    build_keeper,
    build_referee,
    build_rounds,
    build_taker,
    build_workload,
)

DRIVER = "/usr/lib/partywall-rounds"

_BARRIER = "/run/barrier"

LOOKS_TAKE = 60
"""Seconds of the guest's own time, that all sleep for but ten, for looks at its memory."""

SHARE = 15
"""Seconds of a guest's timeout for each of its own time that a round may take."""


@dataclass(frozen=True)
class Taking:
    """What one container of two takes, and the other one tries: see `build_referee`.

    ``tries``: operations of the neighbour; ``seconds`` of the guest's time, in which as much
    is taken as can be had.
    """

    tries: int
    seconds: int


@dataclass(frozen=True)
class Growing:
    """What is wanted of looks at memory around an operation.

    ``reclaims``: caches are dropped when its processes are gone, and there is a look then; else
    when all containers have ended.
    """

    reclaims: bool


Purpose = Literal["windows"] | Growing | Taking
"""What rounds are run for: to record their windows; to look at memory around them; or to see
what one container can take."""


@dataclass(frozen=True)
class Round:
    """What the containers do at the same time: all one workload, or some another one.

    ``beside``: what those from number ``first`` on do, if not the same.
    """

    workload: Workload
    beside: Workload | None = None
    first: int = 0

    def of(self, container: int) -> Workload:
        """Return what a container does."""
        if self.beside is not None and container >= self.first:
            return self.beside
        return self.workload

    @property
    def title(self) -> str:
        """For people: the workload, and the other one if there is any."""
        if self.beside is None:
            return self.workload.title
        return f"{self.workload.title} beside {self.beside.title}"

    @property
    def workloads(self) -> tuple[Workload, ...]:
        """One or two."""
        return (self.workload,) if self.beside is None else (self.workload, self.beside)


def base(
    kernel: Kernel, rounds: Sequence[Round], progress: Progress, purpose: Purpose = "windows"
) -> bytes:
    """Return the archive that depends on the kernel and the programs of all rounds."""
    everything = [workload for each in rounds for workload in each.workloads]
    modules = sorted({name for workload in everything for name in workload.modules})
    archive = image.system(kernel, modules, progress)
    build = build_workload
    if isinstance(purpose, Growing):
        archive.file("sbin/keeper", build_keeper(progress).read_bytes(), 0o755)
    elif isinstance(purpose, Taking):
        archive.file("sbin/referee", build_referee(progress).read_bytes(), 0o755)
        build = build_taker
    programs = {DRIVER: build_rounds(progress).read_bytes()}
    for workload in everything:
        path = f"{PROGRAM_DIR}/{workload.name}"
        if path not in programs:
            programs[path] = build(workload.source, progress).read_bytes()
    image.layer(archive, programs, everything)
    return archive.pack()


def patience(topology: Topology, timeout: float) -> int:
    """Return the seconds of the guest's own time in which a round has to be over.

    Of all containers together, which take turns; it runs on while all sleep, so that
    these are over sooner than ``timeout``, in seconds, which holds for a round as well.
    """
    # With 8 containers and the usual timeout 20 s, twenty times what any operation of ours takes.
    share = max(topology.total / 8, 1.0) / SHARE
    return max(1, round(timeout * min(share, 1.0)))


def job(
    rounds: Sequence[Round],
    topology: Topology,
    *,
    confined: bool,
    timeout: float,
    purpose: Purpose = "windows",
    confinement: Confinement = USUAL,
    steps: Sequence[int] = (),
) -> bytes:
    """Return the archive that tells the guest which containers to make.

    All workloads are confined alike, as the first says. ``timeout``: as for `patience`;
    ``steps``: operations around which memory is looked at after a round's windows, 0 for none.
    """
    steps = steps or [0] * len(rounds)
    every = [
        image.Contained(
            [
                DRIVER,
                *(
                    word
                    for each, step in zip(rounds, steps, strict=True)
                    for word in (*_words(each.of(number)), str(step))
                ),
            ]
        )
        for number in range(topology.containers)
    ]
    looks = LOOKS_TAKE if any(steps) else 0
    told = {"PW_PATIENCE": str(patience(topology, timeout) + looks)}
    if isinstance(purpose, Growing):
        told["PW_GROW"] = "1"
    archive = image.containers(
        rounds[0].workload, topology, every, told, confined=confined, more=confinement
    )
    if not isinstance(purpose, str):
        archive.file("job/outside", f"{_outside(purpose, len(rounds), topology)}\n".encode())
    archive.file("job/rounds", f"{len(rounds)}\n".encode())
    return archive.pack()


def _words(workload: Workload) -> list[str]:
    """What the driver is told of a round."""
    return [
        f"{PROGRAM_DIR}/{workload.name}",
        workload.variant,
        str(workload.warmup),
        str(workload.window),
        str(int(workload.fresh_cpus)),
    ]


def _outside(purpose: Growing | Taking, rounds: int, topology: Topology) -> str:
    """Return the command that looks on, in no container."""
    if isinstance(purpose, Taking):
        return f"referee {_BARRIER} {rounds} {purpose.tries} {purpose.seconds}"
    numbers = " ".join(map(str, range(topology.containers)))
    reclaims = "reclaim" if purpose.reclaims else "keep"
    return f"keeper {_BARRIER} {rounds} {topology.total} {reclaims} {numbers}"
