# SPDX-License-Identifier: GPL-2.0-or-later
"""How much memory there is, how many guests it holds, and what each may record.

All sizes in MiB. The rule, of `check` as of `doctor`: what is available is shared
out evenly among the guests that run side by side, and of its share a guest's
recorder may have what is left beside the guest.
"""

from __future__ import annotations

from pathlib import Path

from partywall import guest
from partywall.core.topology import Topology

RECORDED = 256
"""The least that a recorder is given. None of the five workloads needs more; of all the
library's, `namespace/all` among eight containers fills 431 MB, and its analysis takes 6.3 GB."""


def available(proc: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup")) -> int:
    """Return what programs can have without swapping, here and in this process' cgroup."""
    found = {}
    for line in (proc / "meminfo").read_text().splitlines():
        name, _, value = line.partition(":")
        found[name] = int(value.split()[0]) >> 10
    free = found["MemAvailable"]
    try:
        own = (proc / "self/cgroup").read_text().partition("0::/")[2].splitlines()
    except OSError:
        own = []
    place = cgroups.joinpath(*own[:1])
    for folder in (place, *place.parents):
        if folder.is_relative_to(cgroups):
            free = min(free, _left(folder, free))
    return free


def _left(cgroup: Path, otherwise: int) -> int:
    """What a cgroup's limit leaves; files that were read and nobody uses count as free."""
    try:
        limit = int((cgroup / "memory.max").read_text())
        used = int((cgroup / "memory.current").read_text())
        stat = (cgroup / "memory.stat").read_text().splitlines()
    except (OSError, ValueError):
        # No such controller, the root, or "max".
        return otherwise
    files = sum(int(line.split()[1]) for line in stat if line.startswith("inactive_file "))
    return max(0, limit - used + files) >> 20


def beside(shape: Topology) -> int:
    """Return what a guest takes beside its recorder's tables.

    That is its memory's size. It touches about half of it; the other half is for QEMU
    and for the analysis: the five workloads with 8 CPUs take 0.5 GiB for the one and
    0.5 GiB for the other.
    """
    return guest.memory(shape)


def side_by_side(shapes: list[Topology], jobs: int, free: int) -> int:
    """Return how many of these guests, at most ``jobs``, run side by side; at least one."""
    return max(1, min(jobs, len(shapes), free // _need(shapes)))


def short(shapes: list[Topology], free: int) -> str | None:
    """Return what to say if the largest guest may not fit, which takes less than it may."""
    need = _need(shapes)
    if free >= need:
        return None
    return (
        f"{free:,} MiB of memory are available, and a guest with its recorder may take {need:,}; "
        "end other programs, or ask for fewer containers, if it is ended"
    )


def _need(shapes: list[Topology]) -> int:
    return max(map(beside, shapes)) + RECORDED


def limit(shape: Topology, jobs: int, free: int) -> int:
    """Return what the recorder of one of ``jobs`` guests may take; at least `RECORDED`."""
    return max(RECORDED, free // jobs - beside(shape))
