# SPDX-License-Identifier: GPL-2.0-or-later
"""Static programs for guests, compiled from C and kept."""

from __future__ import annotations

import hashlib
import re
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from partywall.core import cache as keep
from partywall.core import packages
from partywall.core.errors import EnvironmentProblem
from partywall.core.progress import Progress
from partywall.workloads.workload import DIRECTORY

COMPILER = ("gcc", "-std=gnu11", "-O2", "-static", "-Wall", "-Wextra", "-Werror")

# As others write it: whatever it makes a compiler warn of, and C whatever its name.
# Each write calls a function.
_ITERATIONS = (
    # The counter is written after each operation, not once after a loop of them.
    *("gcc", "-std=gnu11", "-O2", "-fno-move-loop-stores", "-w", "-fno-pie"),
    *("-fsanitize=kernel-address", "--param", "asan-instrumentation-with-call-threshold=0"),
    *("--param", "asan-instrument-reads=0"),
    *("--param", "asan-stack=0", "--param", "asan-globals=0"),
)
LINK = ("-no-pie", "-pthread")


def _run(command: Sequence[str], name: str, text: str = "") -> str:
    """Return what the compiler prints when it is given ``text``.

    EnvironmentProblem with its first error in the file of this ``name``.
    """
    try:
        done = subprocess.run(
            command,
            input=text,
            capture_output=True,
            check=False,
            encoding="utf-8",
            # A file may say something in another one.
            errors="surrogateescape",
        )
    except FileNotFoundError as error:
        raise EnvironmentProblem("gcc is not installed", packages.mend("check")) from error
    if done.returncode:
        lines = done.stderr.splitlines()
        mark = r"\berror: |undefined reference|multiple definition"
        first = next((line for line in lines if re.search(mark, line)), "")
        raise EnvironmentProblem(f"compiling {name} failed: {first}")
    return done.stdout


@cache
def compiler_version() -> str:
    """Return what the compiler says that it is."""
    return _run(["gcc", "--version"], "nothing")


def compile_static(
    sources: list[Path], include: Path, progress: Progress, *, iterates: Path | None = None
) -> Path:
    """Return the path of a static program, compiled from C ``sources`` if it is not kept.

    It is made again if one of them, a header in ``include``, the compiler or its flags changed.
    ``iterates``: a file with will-it-scale's interface to link with them; what it includes
    counts as well. EnvironmentProblem with the compiler's first error.
    """
    text, name, link, more = "", sources[-1].name, list[str](), list[str]()
    if iterates is not None:
        name, link, more = iterates.name, [*LINK], [*_ITERATIONS]
        text = _run([*more, "-x", "c", "-E", str(iterates)], name)
    digest = hashlib.sha256(" ".join([*COMPILER, *link, *more]).encode())
    digest.update(compiler_version().encode())
    digest.update(text.encode(errors="surrogateescape"))
    for path in sorted({*sources, *include.glob("*.h")}):
        digest.update(path.read_bytes())

    def fill(directory: Path) -> None:
        objects = []
        if iterates is not None:
            objects = [str(directory / "iterates.o")]
            _run([*_ITERATIONS, "-x", "cpp-output", "-c", "-o", *objects, "-"], name, text)
        program = ["-o", str(directory / "program"), *map(str, sources), *objects]
        _run([*COMPILER, f"-I{include}", *link, *program], name)

    return keep.entry("program", digest.hexdigest(), fill, progress) / "program"


def build_rounds(progress: Progress) -> Path:
    """Return the static program that runs others one after the other in a container."""
    harness = DIRECTORY / "harness"
    sources = [harness / name for name in ("spread.c", "barrier.c", "clean.c", "rounds.c")]
    return compile_static(sources, harness, progress)


def build_keeper(progress: Progress) -> Path:
    """Return the static program that has memory looked at, in no container."""
    harness = DIRECTORY / "harness"
    sources = [harness / name for name in ("spread.c", "barrier.c", "keeper.c")]
    return compile_static(sources, harness, progress)


def build_referee(progress: Progress) -> Path:
    """Return the static program that has one container take what it can, in no container."""
    harness = DIRECTORY / "harness"
    sources = [harness / name for name in ("spread.c", "barrier.c", "knobs.c", "referee.c")]
    return compile_static(sources, harness, progress)


def build_server(progress: Progress) -> Path:
    """Return the static program that starts a server and its client, and marks the window."""
    harness = DIRECTORY / "harness"
    names = ("spread.c", "barrier.c", "listens.c", "processes.c", "peer.c", "serve.c")
    return compile_static([harness / name for name in names], harness, progress)


def build_network(progress: Progress) -> Path:
    """Return the static program that makes what joins containers, in no container."""
    harness = DIRECTORY / "harness"
    sources = [harness / name for name in ("spread.c", "barrier.c", "network.c")]
    return compile_static(sources, harness, progress)


def build_taker(source: Path | None, progress: Progress) -> Path:
    """Return the static program that does operations of folder ``source`` when it is asked."""
    assert source is not None
    harness = DIRECTORY / "harness"
    sources = [harness / name for name in ("spread.c", "barrier.c", "clean.c", "take.c")]
    return compile_static([*sources, source / f"{source.name}.c"], harness, progress)


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
        sources += [harness / name for name in ("listens.c", "opened.c", "launch.c")]
    else:
        sources += [harness / "main.c", harness / "timed.c", source / f"{source.name}.c"]
    return compile_static(sources, harness, progress)
