# SPDX-License-Identifier: GPL-2.0-or-later
"""Static programs for guests, compiled from C and kept."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

from partywall.core import cache
from partywall.core.errors import EnvironmentProblem
from partywall.core.progress import Progress
from partywall.workloads.workload import DIRECTORY

COMPILER = ("gcc", "-std=gnu11", "-O2", "-static", "-Wall", "-Wextra", "-Werror")


def compile_static(sources: list[Path], include: Path, progress: Progress) -> Path:
    """Return the path of a static program, compiled from C ``sources`` if it is not kept.

    It is made again if one of them, or a header in ``include``, changed.
    EnvironmentProblem with the compiler's first error.
    """
    digest = hashlib.sha256(" ".join(COMPILER).encode())
    for path in sorted({*sources, *include.glob("*.h")}):
        digest.update(path.read_bytes())

    def fill(directory: Path) -> None:
        command = [*COMPILER, f"-I{include}", "-o", str(directory / "program"), *map(str, sources)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError as error:
            raise EnvironmentProblem("gcc is not installed", "run make setup") from error
        if done.returncode:
            first = next((line for line in done.stderr.splitlines() if "error" in line), "")
            raise EnvironmentProblem(f"compiling {sources[-1].name} failed: {first}")

    return cache.entry("program", digest.hexdigest(), fill, progress) / "program"


def build_workload(source: Path | None, progress: Progress) -> Path:
    """Return the static program of the workload in folder ``source``.

    None: the launcher for programs that don't use the harness.
    """
    harness = DIRECTORY / "harness"
    sources = [harness / "spread.c", harness / "barrier.c"]
    if source is None:
        sources.append(harness / "launch.c")
    else:
        sources += [harness / "main.c", harness / "timed.c", source / f"{source.name}.c"]
    return compile_static(sources, harness, progress)
