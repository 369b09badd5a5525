# SPDX-License-Identifier: GPL-2.0-or-later
"""Static programs for guests, compiled from C and kept."""

from __future__ import annotations

import hashlib
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from partywall.core import cache
from partywall.core.errors import EnvironmentProblem
from partywall.core.progress import Progress
from partywall.workloads.workload import DIRECTORY

COMPILER = ("gcc", "-std=gnu11", "-O2", "-static", "-Wall", "-Wextra", "-Werror")

# As others write it: whatever it makes a compiler warn of. Each write calls a function.
_ITERATIONS = (
    # The counter is written after each operation, not once after a loop of them.
    *("gcc", "-O2", "-fno-move-loop-stores", "-w", "-c", "-fno-pie", "-fsanitize=kernel-address"),
    *("--param", "asan-instrumentation-with-call-threshold=0"),
    *("--param", "asan-instrument-reads=0"),
    *("--param", "asan-stack=0", "--param", "asan-globals=0"),
)


def _compile(command: Sequence[str], name: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise EnvironmentProblem("gcc is not installed", "run make setup") from error
    if done.returncode:
        lines = done.stderr.splitlines()
        first = next((line for line in lines if re.search("error|undefined|multiple", line)), "")
        raise EnvironmentProblem(f"compiling {name} failed: {first}")


def compile_static(
    sources: list[Path], include: Path, progress: Progress, *, iterates: Path | None = None
) -> Path:
    """Return the path of a static program, compiled from C ``sources`` if it is not kept.

    It is made again if one of them, or a header in ``include``, changed. ``iterates``: a
    file with will-it-scale's interface to link with them. EnvironmentProblem with the
    compiler's first error.
    """
    digest = hashlib.sha256(" ".join(COMPILER if iterates is None else _ITERATIONS).encode())
    more = [] if iterates is None else [iterates]
    for path in sorted({*sources, *more, *include.glob("*.h")}):
        digest.update(path.read_bytes())

    def fill(directory: Path) -> None:
        objects = []
        if iterates is not None:
            objects = [str(directory / "iterates.o")]
            # A file may include others beside it.
            flags = [f"-I{iterates.parent}", "-o", *objects]
            _compile([*_ITERATIONS, *flags, str(iterates)], iterates.name)
        program = ["-o", str(directory / "program"), *map(str, sources), *objects]
        link = [] if iterates is None else ["-no-pie", "-pthread"]
        name = (iterates or sources[-1]).name
        _compile([*COMPILER, f"-I{include}", *link, *program], name)

    return cache.entry("program", digest.hexdigest(), fill, progress) / "program"


def build_workload(source: Path | None, progress: Progress) -> Path:
    """Return the static program of the workload in folder ``source``.

    A file: of what has will-it-scale's interface. None: the launcher for programs that don't
    use the harness.
    """
    harness = DIRECTORY / "harness"
    sources = [harness / "spread.c", harness / "barrier.c"]
    if source is not None and not source.is_dir():
        sources.append(harness / "iterations.c")
        return compile_static(sources, harness, progress, iterates=source)
    if source is None:
        sources.append(harness / "launch.c")
    else:
        sources += [harness / "main.c", harness / "timed.c", source / f"{source.name}.c"]
    return compile_static(sources, harness, progress)
