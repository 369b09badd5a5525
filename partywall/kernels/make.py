# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs make in a kernel's tree: by which compiler, in which environment, with what progress."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from partywall.core import cache, packages
from partywall.core.errors import EnvironmentProblem

CC = Path(__file__).resolve().parent / "cc"

# Where a local variable is at each instruction is an eighth of a compilation, and asked for
# only where objects are named: without it debug information has one place for all of a
# function, which is often another variable's. The code is the same.
_FLAGS = "KCFLAGS=-fno-var-tracking -fno-var-tracking-assignments"

ENVIRONMENT = {
    "KBUILD_BUILD_TIMESTAMP": "Thu Jan  1 00:00:00 UTC 2026",
    "KBUILD_BUILD_USER": "partywall",
    "KBUILD_BUILD_HOST": "partywall",
    "KBUILD_BUILD_VERSION": "1",
    "LC_ALL": "C",
}


def compiler_version(name: str = "gcc") -> str:
    """What a compiler says it is. EnvironmentProblem if there is none of the name."""
    try:
        done = subprocess.run([name, "--version"], capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise EnvironmentProblem(f"{name} is not installed", packages.mend("kernels")) from error
    return done.stdout.splitlines()[0]


def environment() -> dict[str, str]:
    """What a build's processes get: builds of the same inputs come out the same."""
    # What a calling make wants of its children is not meant for this one.
    inherited = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS")}
    # By the headers that gcc names, not by preprocessing beforehand: that made a first
    # build a third longer.
    own = {
        "CCACHE_DEPEND": "1",
        "CCACHE_DIR": str(cache.root() / "ccache"),
        "CCACHE_MAXSIZE": "6G",
        "CCACHE_NOCOMPRESS": "1",
    }
    return inherited | ENVIRONMENT | own


def cached(compiler: str) -> str:
    """Return the command that runs a compiler, behind ccache where there is one."""
    return f"{shlex.quote(str(CC))} {compiler}" if shutil.which("ccache") else compiler


class Make:
    """``make`` in a tree, with a log, and progress by the lines it prints.

    ``words``: what each call is given besides, such as ``ARCH=i386``. ``settings``: of its
    environment. ``whole``: with all that a distribution has, which no guest asks for.
    ``named``: with where local variables are, if there is debug information.
    """

    def __init__(
        self,
        tree: Path,
        log: Path,
        output: Path | None = None,
        *,
        compiler: str = "gcc",
        words: Sequence[str] = (),
        settings: Mapping[str, str] | None = None,
        whole: bool = False,
        named: bool = False,
    ) -> None:
        self.tree, self.log, self.output = tree, log, output
        self._settings = settings or {}
        self._words = ["make", f"-j{len(os.sched_getaffinity(0)) + 1}"]
        self._words += [
            f"CC={cached(compiler)}",
            *([] if whole else ["DEPMOD=true"]),
            *words,
        ]
        # Clang knows no such flags.
        if compiler.endswith("gcc") and not (whole or named):
            self._words.append(_FLAGS)
        if output is not None:
            self._words.append(f"O={output}")

    def __call__(self, *arguments: str, told: Callable[[int], None] = lambda lines: None) -> None:
        """Runs make. EnvironmentProblem with its first error and where the log is."""
        with self.log.open("ab") as out:
            process = subprocess.Popen(
                [*self._words, *arguments],
                cwd=self.tree,
                env={**environment(), **self._settings},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                while process.poll() is None:
                    told(self.lines())
                    time.sleep(0.3)
            except BaseException:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                raise
            finally:
                process.wait()
        if process.returncode:
            why = first_error(self.log.read_text(errors="replace"))
            raise EnvironmentProblem(
                f"building in {self.tree} failed: {why}", f"the whole log is {self.log}"
            )

    def lines(self) -> int:
        """Lines in the log so far."""
        return self.log.read_bytes().count(b"\n")


def first_error(log: str) -> str:
    """The line of a build's log that says what is wrong."""
    for pattern in (
        r": (fatal )?error: ",
        r"undefined reference",
        r"^error:|[Ee]rror: ",
        r"\*\*\* ",
    ):
        for line in log.splitlines():
            if re.search(pattern, line):
                return line.strip()[:200]
    return (log.strip().splitlines() or ["it said nothing"])[-1][:200]
