# SPDX-License-Identifier: GPL-2.0-or-later
"""What guests printed in tests that passed, so that the same guest need not run again.

A guest is the same if its kernel, all that it boots from, its processors and memory and the
emulator are. What it printed is judged anew each time, by the test as it is now. Kept is only
what tests passed with. So what one run of many shows is not found again by running tests again:
make soak looks for that, and ``pytest --anew`` boots all.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from dataclasses import asdict, fields
from functools import cache
from pathlib import Path
from typing import Literal

from machine import Job, Machine, Ran, run, settings

from partywall.core import cache as keep
from partywall.core.errors import EnvironmentProblem
from partywall.kernels import Kernel

KIND = "ran"

Outcome = Literal["passed", "failed", "skipped"]


@cache
def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def key(kernel: Kernel, job: Job) -> str:
    """Return a hash of what a guest's output depends on but chance, hex.

    Of the emulator that is its program and not the files that come with it.
    """
    how = settings(kernel, job)
    guest = Machine(how, kernel, job)
    try:
        folder = str(guest.directory)
        command = [word.replace(folder, "FOLDER") for word in guest.command()]
    finally:
        guest.close()
    named = [word.replace(str(kernel.image), "IMAGE") for word in command]
    parts = [
        *(field.name for field in fields(Ran)),
        *named,
        _hash(how.qemu.program),
        _hash(kernel.image),
        kernel.build_id,
    ]
    total = hashlib.sha256(json.dumps(parts).encode())
    for part in how.initramfs:
        total.update(part)
    return total.hexdigest()


class Kept:
    """Runs jobs, or has what they printed before.

    ``anew``: nothing is taken that was kept. Tests of one file may have guests in common: what
    one of them was given is kept when a test has passed, and nothing of it once one has failed.
    Of a test that looks for what shows by chance nothing is kept or taken.
    """

    def __init__(self, *, anew: bool) -> None:
        self.anew = anew
        self._run: dict[str, Ran] = {}
        self._chance = False
        self._taken: set[str] = set()
        self._of_file: set[str] = set()
        self._file = ""

    def begins(self, *, chance: bool) -> None:
        """A test begins; ``chance``: it looks for what shows by chance."""
        self._chance = chance

    def boot(self, kernel: Kernel, job: Job) -> Ran:
        """Return what the job printed on the kernel."""
        name = key(kernel, job)
        if not (self.anew or self._chance) and (kept := _read(name)) is not None:
            self._taken.add(name)
            return kept
        ran = self._run[name] = run(kernel, job)
        return ran

    def ended(self, file: str, outcome: Outcome) -> int:
        """Keep or drop what was run for a test of a file; return how many guests it did not run."""
        if file != self._file:
            self._of_file.clear()
            self._file = file
        self._of_file |= self._taken | self._run.keys()
        if outcome == "failed":
            for name in self._of_file:
                _drop(name)
        elif outcome == "passed" and not self._chance:
            for name, ran in self._run.items():
                _write(name, ran)
        taken = len(self._taken)
        self._taken.clear()
        self._run.clear()
        return taken


def _file(name: str) -> Path:
    return keep.root() / KIND / f"{name}.json"


def _read(name: str) -> Ran | None:
    """Return what was kept; None if nothing is, or what is there can't be read."""
    try:
        return Ran(**json.loads(_file(name).read_text()))
    except (OSError, ValueError, TypeError):
        return None


def _write(name: str, ran: Ran) -> None:
    # Nothing depends on it: what can't be kept is run again.
    with contextlib.suppress(EnvironmentProblem):
        keep.write_whole(_file(name), json.dumps(asdict(ran)))


def _drop(name: str) -> None:
    with contextlib.suppress(OSError):
        _file(name).unlink()
