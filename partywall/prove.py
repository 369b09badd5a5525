# SPDX-License-Identifier: GPL-2.0-or-later
"""Proves that each patch of a series builds and boots by itself, and passes checkpatch."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from partywall import guest, image, qemu, workloads
from partywall.errors import EnvironmentProblem
from partywall.guest import Guest
from partywall.image import Topology
from partywall.kernels import Kernel, build, series
from partywall.progress import Progress

# New files belong to the maintainers of what they belong to; MAINTAINERS says who
# that is by folder, and names none for ours.
_IGNORED = "FILE_PATH_CHANGES"

_SHAPE = Topology(2, 1)


def complaints(tree: Path, patch: Path) -> list[str]:
    """What ``checkpatch --strict`` of a tree says against a patch, a line each."""
    done = subprocess.run(
        ["perl", "scripts/checkpatch.pl", "--strict", "--terse", "--ignore", _IGNORED, str(patch)],
        cwd=tree,
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.findall(r"^\S+:\d+: ((?:ERROR|WARNING|CHECK): .*)$", done.stdout, re.MULTILINE)
    if done.returncode and not found:
        raise EnvironmentProblem(f"checkpatch failed: {done.stderr.strip()[:160]}")
    return found


def boots(kernel: Kernel, progress: Progress) -> None:
    """EnvironmentProblem if containers can't be started on the kernel."""
    (workload,) = workloads.select(["signal"])
    parts, _ = guest.initramfs(
        image.base(kernel, workload, progress), image.job(workload, _SHAPE, confined=True)
    )
    settings = guest.Settings(
        qemu=qemu.find(),
        kernel_image=kernel.image,
        initramfs=parts,
        topology=_SHAPE,
        plugin=None,
        command_line=guest.command_line(kernel.release),
    )
    with Guest(settings) as machine, progress.step("booting it", guest.expected_seconds(_SHAPE)):
        machine.wait_for("ready")


def prove(progress: Progress) -> Iterator[str]:
    """Names of the patches, each after it was proven. PartywallError for the first that is not."""
    patches = series.read()
    for patch, tree, kernel in build.stepwise(patches, build.Variant(), progress):
        against = complaints(tree, patch.path)
        if against:
            raise EnvironmentProblem(f"{patch.name}: {against[0]}", "checkpatch --strict says so")
        boots(kernel, progress)
        yield patch.name
