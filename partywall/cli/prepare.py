# SPDX-License-Identifier: GPL-2.0-or-later
"""The command that makes ready all that a check needs."""

from __future__ import annotations

from pathlib import Path

from partywall import workloads
from partywall.cli.options import commands, kernel_options, progress_on_terminal
from partywall.cli.readers import Reader
from partywall.guest import qemu
from partywall.kernels import Kernel, Request
from partywall.measure.ready import resolve
from partywall.record.plugin import recorder


@commands.command(
    "prepare", reader=Reader.CONTRIBUTOR, examples=("partywall prepare --kernel debian:6.1",)
)
@kernel_options
def prepare(kernel_name: str, vmlinux: Path | None, modules: Path | None, tree: Path | None) -> int:
    """Build and download all that a check needs."""
    with progress_on_terminal() as progress:
        recorder(qemu.find(), progress)
        for source in {workload.source for workload, _ in workloads.load()} | {None}:
            workloads.build_workload(source, progress)
        kernel: Kernel = resolve(Request(kernel_name, vmlinux, modules, tree), progress)
        progress.note(f"ready: {kernel.source}")
    return 0
