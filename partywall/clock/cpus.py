# SPDX-License-Identifier: GPL-2.0-or-later
"""This machine's CPUs: which are threads of one core, in which socket, and what disturbs them.

Facts from Documentation/ABI/testing/sysfs-devices-system-cpu of Linux.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from partywall.core.errors import UsageProblem

SYSFS = Path("/sys/devices/system/cpu")
PROC = Path("/proc")

# Those that a program reads without the kernel.
_FAST_CLOCKS = ("tsc", "kvm-clock", "hyperv_clocksource_tsc_page")

Placement = Literal["spread", "packed"]


@dataclass(frozen=True, order=True)
class Cpu:
    """One logical CPU. ``thread``: its place among the threads of its core."""

    thread: int
    socket: int
    core: int
    number: int


def _number(path: Path, otherwise: int) -> int:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return otherwise


def allowed(sysfs: Path = SYSFS, usable: set[int] | None = None) -> list[Cpu]:
    """The CPUs that this process may run on, by number."""
    found = []
    threads: dict[tuple[int, int], int] = {}
    for number in sorted(os.sched_getaffinity(0) if usable is None else usable):
        topology = sysfs / f"cpu{number}" / "topology"
        socket = max(0, _number(topology / "physical_package_id", 0))
        core = _number(topology / "core_id", number)
        thread = threads.get((socket, core), 0)
        threads[socket, core] = thread + 1
        found.append(Cpu(thread, socket, core, number))
    return found


def choose(there: list[Cpu], count: int, placement: Placement) -> list[Cpu]:
    """``count`` CPUs: whole cores first, over all sockets in turn or one after the other.

    A second thread of a core is taken only when every core has one at work.
    UsageProblem if there are not so many.
    """
    if count > len(there):
        raise UsageProblem(
            f"{count} CPUs are needed and this machine lends {len(there)}",
            "ask for fewer with --containers and --cpus",
        )
    sockets: dict[tuple[int, int], list[Cpu]] = {}
    for cpu in sorted(there):
        sockets.setdefault((cpu.thread, cpu.socket), []).append(cpu)
    if placement == "packed":
        order = [cpu for key in sorted(sockets) for cpu in sockets[key]]
        return order[:count]
    order = []
    for thread in sorted({key[0] for key in sockets}):
        groups = [sockets[key] for key in sorted(sockets) if key[0] == thread]
        for row in range(max(map(len, groups))):
            order += [group[row] for group in groups if row < len(group)]
    return order[:count]


def describe(chosen: list[Cpu]) -> str:
    """What was chosen, in words."""
    sockets = len({cpu.socket for cpu in chosen})
    cores = len({(cpu.socket, cpu.core) for cpu in chosen})
    words = f"{len(chosen)} CPUs on {cores} cores of {sockets} sockets"
    return f"{words}, two threads on some" if cores < len(chosen) else words


def model(proc: Path = PROC) -> str:
    """The processor's name, as it gives it."""
    try:
        for line in (proc / "cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return "unknown processor"


def disturbances(chosen: list[Cpu], sysfs: Path = SYSFS) -> list[str]:
    """What makes this machine's figures vary, before anything is run."""
    found = []
    governors = set()
    for cpu in chosen:
        try:
            path = sysfs / f"cpu{cpu.number}" / "cpufreq" / "scaling_governor"
            governors.add(path.read_text().strip())
        except OSError:
            continue
    if governors - {"performance"}:
        found.append(
            f"the frequency is scaled (governor {', '.join(sorted(governors))}): "
            "cpupower frequency-set -g performance steadies it"
        )
    clock = sysfs.parent / "clocksource" / "clocksource0" / "current_clocksource"
    try:
        source = clock.read_text().strip()
    except OSError:
        source = ""
    if source and source not in _FAST_CLOCKS:
        found.append(f"the clock ({source}) is slow to read, and all CPUs read the same one")
    turbo = {"intel_pstate/no_turbo": "0", "cpufreq/boost": "1"}
    for name, on in turbo.items():
        try:
            if (sysfs / name).read_text().strip() == on:
                found.append("turbo is on: few busy cores run faster than many")
                break
        except OSError:
            continue
    return found


@dataclass(frozen=True)
class Times:
    """Jiffies that CPUs have spent, from /proc/stat."""

    busy: int
    stolen: int
    total: int


def times(chosen: list[Cpu], proc: Path = PROC) -> Times:
    """Time so far of some CPUs together; nothing if the kernel does not say."""
    busy = stolen = total = 0
    names = {f"cpu{cpu.number}" for cpu in chosen}
    try:
        lines = (proc / "stat").read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        name, *words = line.split()
        if name in names:
            user, nice, system, idle, iowait, irq, softirq, steal = map(int, words[:8])
            busy += user + nice + system + irq + softirq
            stolen += steal
            total += user + nice + system + idle + iowait + irq + softirq + steal
    return Times(busy, stolen, total)


def busy_share(chosen: list[Cpu], seconds: float = 0.5, proc: Path = PROC) -> float:
    """Share of their time that others keep some CPUs busy, 0..1, as measured now."""
    before = times(chosen, proc)
    time.sleep(seconds)
    after = times(chosen, proc)
    passed = after.total - before.total
    return (after.busy + after.stolen - before.busy - before.stolen) / passed if passed else 0.0
