# SPDX-License-Identifier: GPL-2.0-or-later
"""Proves that each patch of a series builds and boots by itself, and passes what checks it."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from partywall import guest, image, qemu, workloads
from partywall.errors import EnvironmentProblem
from partywall.guest import Guest
from partywall.image import Topology
from partywall.kernels import Kernel, build, series
from partywall.kernels.git import git
from partywall.progress import Progress

# New files belong to the maintainers of what they belong to; MAINTAINERS says who
# that is by folder, and names none for ours.
_IGNORED = "FILE_PATH_CHANGES"

_SHAPE = Topology(2, 1)

# Debug information and drivers are half of a build, and say nothing of a patch.
_VARIANT = build.Variant(("lean",))


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


def changed_lines(tree: Path) -> dict[str, set[int]]:
    """Lines of the newest commit, numbered as in the files it leaves, by file."""
    found: dict[str, set[int]] = {}
    lines: set[int] = set()
    for line in git(tree, "diff", "--unified=0", "--no-renames", "HEAD^", "HEAD").splitlines():
        if line.startswith("+++ "):
            lines = found.setdefault(line[6:], set()) if line.startswith("+++ b/") else set()
        elif hunk := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line):
            first, count = int(hunk[1]), int(hunk[2] or 1)
            lines.update(range(first, first + count))
    return found


def sparse_warnings(said: str, lines: dict[str, set[int]]) -> list[str]:
    """What sparse says of those lines, a line each."""
    found = re.findall(r"^((\S+?):(\d+):\d+: (?:warning|error): .*)$", said, re.MULTILINE)
    return [
        text
        for text, path, number in dict.fromkeys(found)
        if int(number) in lines.get(path.removeprefix("./"), ())
    ]


def sparse(make: build.Make) -> list[str]:
    """What sparse says of the newest commit's lines in a tree that was built in."""
    lines = changed_lines(make.tree)
    objects = [str(Path(path).with_suffix(".o")) for path in lines if path.endswith(".c")]
    objects = [name for name in objects if (make.tree / name).is_file()]
    if not objects:
        return []
    if shutil.which("sparse") is None:
        raise EnvironmentProblem("sparse is not installed", "run make setup")
    before = make.log.stat().st_size
    make("C=2", *objects)
    return sparse_warnings(make.log.read_bytes()[before:].decode(errors="replace"), lines)


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
    for patch, make, kernel in build.stepwise(patches, _VARIANT, progress):
        for tool, against in (
            ("checkpatch --strict", complaints(make.tree, patch.path)),
            ("sparse", sparse(make)),
        ):
            if against:
                raise EnvironmentProblem(f"{patch.name}: {against[0]}", f"{tool} says so")
        boots(kernel, progress)
        yield patch.name
