# SPDX-License-Identifier: GPL-2.0-or-later
"""How long a cache line travels between this machine's CPUs.

Facts of caches from Documentation/ABI/testing/sysfs-devices-system-cpu of Linux.
"""

from __future__ import annotations

import itertools
import random
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from partywall.clock.cpus import SYSFS, Cpu
from partywall.core.errors import EnvironmentProblem
from partywall.core.progress import Progress
from partywall.workloads import compile_static

SOURCE = Path(__file__).resolve().parent / "files" / "transfer.c"

MOST = 96
"""Pairs that are measured at each level; which ones is drawn, always the same."""

_SECONDS = 0.05
"""What a pair takes, about; where others are at work, much longer."""

_PATIENCE = 20.0


@dataclass(frozen=True)
class Pair:
    """Two CPUs, and ns until one has a line that the other has written, both ways' mean."""

    one: int
    other: int
    nanoseconds: float


@dataclass(frozen=True)
class Group:
    """A level of a machine: cores of which it has ``cores``, and pairs that meet no nearer."""

    name: str
    cores: int
    pairs: list[tuple[int, int]]


def last_cache(cpu: Cpu, sysfs: Path = SYSFS) -> tuple[int, str]:
    """Return which cache of the last level a CPU has: its socket, and who shares it.

    The whole socket's if the kernel does not say.
    """
    found = []
    for index in (sysfs / f"cpu{cpu.number}" / "cache").glob("index*"):
        try:
            level = int((index / "level").read_text())
            found.append((level, (index / "shared_cpu_list").read_text().strip()))
        except (OSError, ValueError):
            continue
    return cpu.socket, max(found)[1] if found else ""


def groups(there: Sequence[Cpu], sysfs: Path = SYSFS) -> list[Group]:
    """Return the levels of which cores are in this machine, nearest first.

    One is left out that has no more cores than the one before, or parts of unequal size: a
    `Profile` is made of whole parts.
    """
    cores = [cpu for cpu in there if cpu.thread == 0]
    keys = {
        "last-level cache": {cpu.number: str(last_cache(cpu, sysfs)) for cpu in cores},
        "socket": {cpu.number: str(cpu.socket) for cpu in cores},
        "machine": {cpu.number: "" for cpu in cores},
    }
    found: list[Group] = []
    before: dict[int, str] | None = None
    for name, place in keys.items():
        sizes = {list(place.values()).count(key) for key in place.values()}
        size = max(sizes)
        if (len(sizes) > 1 or size < 2) and name != "machine":
            continue
        pairs = [
            (one.number, other.number)
            for one, other in itertools.combinations(cores, 2)
            if place[one.number] == place[other.number]
            and (before is None or before[one.number] != before[other.number])
        ]
        if pairs:
            found.append(Group(name, size, pairs))
            before = place
    return found


def threads(there: Sequence[Cpu]) -> list[tuple[int, int]]:
    """Return the pairs of CPUs that are threads of one core."""
    return [
        (one.number, other.number)
        for one, other in itertools.combinations(there, 2)
        if (one.socket, one.core) == (other.socket, other.core)
    ]


def drawn(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return as many of some pairs as are measured, the same each time."""
    if len(pairs) <= MOST:
        return list(pairs)
    return sorted(random.Random(1).sample(list(pairs), MOST))  # noqa: S311 - no secret


def measure(pairs: Sequence[tuple[int, int]], progress: Progress) -> list[Pair]:
    """Return how long a line travels between the CPUs of each pair, in their order.

    A CPU with itself: what the same costs where the line is there already.
    EnvironmentProblem if a CPU is not to be had, or others leave no time.
    """
    program = compile_static([SOURCE], SOURCE.parent, progress)
    found = []
    with progress.step("lines between CPUs", len(pairs) * _SECONDS) as step:
        for number, (one, other) in enumerate(pairs):
            found.append(Pair(one, other, _measured(program, one, other)))
            step.done = (number + 1) / len(pairs)
    return found


def _measured(program: Path, one: int, other: int) -> float:
    try:
        done = subprocess.run(
            [program],
            input=f"{one} {other}\n",
            capture_output=True,
            text=True,
            check=False,
            timeout=_PATIENCE,
        )
    except subprocess.TimeoutExpired as error:
        raise EnvironmentProblem(
            f"CPUs {one} and {other} do not come to run side by side",
            "others keep them busy: try again when they are idle",
        ) from error
    if done.returncode:
        raise EnvironmentProblem(f"measuring lines failed: {done.stderr.strip()[:160]}")
    _, _, there, back = done.stdout.split()
    return (float(there) + float(back)) / 2
