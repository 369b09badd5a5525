# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether a kernel starts containers at all."""

from __future__ import annotations

from partywall import workloads
from partywall.core.progress import Progress
from partywall.core.topology import Topology
from partywall.guest import image, qemu
from partywall.guest.boot import Guest, initramfs
from partywall.guest.settings import Settings, command_line, expected_seconds
from partywall.kernels import Kernel


def boots(kernel: Kernel, progress: Progress) -> None:
    """Start containers on a kernel, and end them. EnvironmentProblem if that fails."""
    shape = Topology(2, 1)
    (workload,) = workloads.select(["signal"])
    parts, _ = initramfs(
        image.base(kernel, workload, progress),
        image.job(workload, shape, confined=True),
        progress,
    )
    settings = Settings(
        qemu=qemu.find(),
        kernel_image=kernel.image,
        initramfs=parts,
        topology=shape,
        plugin=None,
        command_line=command_line(kernel.release),
    )
    with Guest(settings) as machine, progress.step("booting it", expected_seconds(shape)):
        machine.wait_for("ready")
