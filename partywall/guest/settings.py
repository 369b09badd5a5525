# SPDX-License-Identifier: GPL-2.0-or-later
"""What a guest is started with: its kernel, its machine, and how long it may take."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from partywall.core.topology import Topology
from partywall.guest.qemu import Qemu
from partywall.guest.roots import Fitted

Accel = Literal["icount", "threads", "kvm"]
"""How a guest runs: all vCPUs in turn and counted, which alone can be recorded;
emulated on as many host threads as vCPUs; or on the processor itself."""

ICOUNT_SHIFT = 1
MAX_CPUS = 240
VISIT_DISTANCE = 8

# What makes two runs the same: no random addresses nor random stacks, no clock of the host's.
# slab_nomerge keeps types of objects apart, so that a cache has one name;
# lpj spares each CPU a calibration against the timer (TCG's TSC runs at 1 GHz).
# The kernel's tests of its own ciphers go on beside init for seconds, into the windows.
COMMAND_LINE = (
    "console=ttyS0 quiet panic=-1 nokaslr norandmaps slab_nomerge nowatchdog "
    "randomize_kstack_offset=off tsc=reliable no_timer_check cpu_init_udelay=0 "
    "cryptomgr.notests=1 lpj=4000000"
)


def command_line(release: str, more: str = "") -> str:
    """The kernel's command line, with ``more`` parameters at its end.

    Kernels before 6.5 get their CPUs from init (see spin.c).
    """
    version = tuple(int(number) for number in re.findall(r"\d+", release)[:2])
    line = COMMAND_LINE if version >= (6, 5) else f"{COMMAND_LINE} maxcpus=1"
    return f"{line} {more}".rstrip()


@dataclass(frozen=True)
class Snapshot:
    """A guest that has booted: ``state``, as QEMU keeps it, and ``console``, what it has said.

    ``digest``: of its state, hex SHA-256.
    """

    state: Path
    console: Path
    digest: str | None = None


@dataclass(frozen=True)
class Settings:
    """What to boot and how.

    ``timeout`` in seconds, for boot and window each, and again by the guest's own
    clock from the start of its containers on; ``rounds``: how often windows are run, each
    with a recording of its own; 0: once, and the guest is held; ``silence`` in seconds of
    the emulator's time on a processor, for which a guest may say nothing while it boots;
    ``windows``: how many make a round, one of each vCPU if None; ``memory`` in MiB, by the
    number of vCPUs if None; ``second_line``: a second serial line, on which the guest can
    say what the kernel's messages must not land in; ``disk``: a root of
    containers; ``late``: containers say when what was recorded is written, not
    as the last window ends; ``looks``: seconds of the guest's own time that a round takes
    on top, for looks at its memory; ``initramfs``: archives, the first of which a kernel can
    boot with; ``snapshot``: the guest goes on from there, and gets the others then.
    """

    qemu: Qemu
    kernel_image: Path
    initramfs: tuple[bytes, ...]
    topology: Topology
    plugin: Path | None
    hooks: str = ""
    record: bool = True
    timeout: float = 300.0
    visit_distance: int = VISIT_DISTANCE
    memory_limit: int = 4096
    command_line: str = COMMAND_LINE
    accel: Accel = "icount"
    windows: int | None = None
    memory: int | None = None
    rounds: int = 0
    second_line: bool = False
    silence: float | None = None
    disk: Fitted | None = None
    late: bool = False
    looks: int = 0
    snapshot: Snapshot | None = None


def patience(timeout: float, looks: int = 0, rounds: int = 0) -> int:
    """Return the seconds of its own time after which a guest ends itself. As for `Settings`."""
    return min((int(timeout) + looks) * max(rounds, 1), 999999)


def expected_seconds(topology: Topology) -> float:
    """Roughly how long a guest takes from start to the end of a short window."""
    return 6.0 + 0.8 * topology.total


def memory(topology: Topology) -> int:
    """Return a guest's memory in MiB, if its settings do not say another."""
    return 768 + 32 * topology.total
