# SPDX-License-Identifier: GPL-2.0-or-later
"""Guests that run on another machine: a folder to take there, and what comes back in it.

That machine needs QEMU and a shell, and has more CPUs: what races, races more.
"""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import machine
from machine import Job, Ran

from partywall.core.cache import file_errors
from partywall.core.errors import EnvironmentProblem
from partywall.guest import Guest
from partywall.kernels import Kernel

CONSOLE, TASKS = "console", "tasks"

# All at once, so that they take as long as one.
ALL = """\
#!/bin/sh
# Runs the guests of this folder, all at once; each leaves its console and its tasks' words.
cd "$(dirname "$0")" || exit 1
for guest in */run; do sh "$guest" & done
wait
"""


def write(folder: Path, name: str, kernel: Kernel, job: Job) -> None:
    """Put a guest there. ``name``: its folder's below ``folder``."""
    place = folder / name
    with file_errors("packing a guest", folder):
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        shutil.copyfile(kernel.image, place / "kernel")
        (place / "initramfs").write_bytes(machine.initramfs(kernel, job))
        (place / "run").write_text(_script(machine.settings(kernel, job)))
        (folder / "run").write_text(ALL)
        (folder / "run").chmod(0o755)


def _script(settings: machine.Settings) -> str:
    """What runs the guest as it would run here, with files of its folder."""
    guest = Guest(settings)
    try:
        words = guest.command()
    finally:
        guest.close()
    program = words.index(str(settings.qemu.program))
    serial = iter((CONSOLE, TASKS))
    ours = {"-kernel": "kernel", "-initrd": "initramfs", "-seed": "$$"}
    line = ["${QEMU:-qemu-system-x86_64}"]
    pairs = iter(words[program + 1 :])
    for word in pairs:
        if word == "-qmp":
            # Nobody here asks it anything.
            next(pairs)
        elif word == "-serial":
            next(pairs)
            line += [word, f"file:{next(serial)}"]
        elif word in ours:
            next(pairs)
            line += [word, ours[word]]
        else:
            line.append(shlex.quote(word))
    return f'cd "$(dirname "$0")" || exit 1\nexec {" ".join(line)} >said 2>&1 </dev/null\n'


def read(folder: Path, name: str, kernel: Kernel) -> Ran:
    """Return what a guest printed there. EnvironmentProblem if it did not, or another did."""
    place = folder / name
    with file_errors("reading what a guest said", place):
        console, tasks = (
            (place / which).read_bytes().decode(errors="replace").replace("\r", "")
            for which in (CONSOLE, TASKS)
        )
    ran = Ran(console, tasks)
    if ran.build_id() not in (None, kernel.build_id):
        raise EnvironmentProblem(
            f"{place}: that was another kernel than {name} is now", "pack and run it again"
        )
    return ran
