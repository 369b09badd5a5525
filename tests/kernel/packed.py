# SPDX-License-Identifier: GPL-2.0-or-later
"""Guests that run on another machine: a folder to take there, and what comes back in it.

That machine needs QEMU and a shell, and has more CPUs: what races, races more.
"""

from __future__ import annotations

import hashlib
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import machine
from machine import Job, Ran

from partywall.core.cache import file_errors
from partywall.core.errors import EnvironmentProblem, UsageProblem
from partywall.guest import Guest
from partywall.kernels import Kernel

CONSOLE, TASKS, SAID = "console", "tasks", "said"

_SAYS_WHICH = "0-packed"
"""The task by which a guest says what it was packed with."""

# All at once, so that they take as long as one.
_ALL = """\
#!/bin/sh
# Runs the guests of this folder, all at once; each leaves its console and its tasks' words.
QEMU=$(command -v "${{QEMU:-qemu-system-x86_64}}") || {{
	echo "no ${{QEMU:-qemu-system-x86_64}} here: QEMU=/path/to/qemu-system-x86_64 $0" >&2
	exit 3
}}
case $QEMU in /*) ;; *) QEMU=$PWD/$QEMU ;; esac
export QEMU
CDPATH= cd -- "$(dirname -- "$0")" || exit 3
running=
for guest in {names}; do
	sh "$guest/run" &
	running="$running $!:$guest"
done
status=0
for one in $running; do
	wait "${{one%%:*}}" || {{
		status=3
		echo "${{one#*:}} did not end by itself: $(cat "${{one#*:}}/{said}")" >&2
	}}
done
exit $status
"""

_ONE = """\
CDPATH= cd -- "$(dirname -- "$0")" || exit 3
rm -f {console} {tasks} {said}
limit=
command -v timeout >/dev/null && limit="timeout {seconds}"
exec $limit "$QEMU" {words} >{said} 2>&1 </dev/null
"""


def write(folder: Path, guests: Sequence[tuple[str, Kernel]], job: Job) -> None:
    """Put guests there, by name; UsageProblem if the folder is not empty: nothing is removed."""
    for ran in folder.glob(f"*/{CONSOLE}"):
        raise UsageProblem(f"{ran.parent} holds what a guest said", "name another folder")
    with file_errors("packing guests", folder):
        if folder.is_dir() and any(folder.iterdir()):
            raise UsageProblem(f"{folder} is not empty", "name another folder, or remove it")
        for name, kernel in guests:
            place = folder / name
            place.mkdir(parents=True)
            what = _saying(kernel, job)
            shutil.copyfile(kernel.image, place / "kernel")
            (place / "initramfs").write_bytes(machine.initramfs(kernel, what))
            (place / "run").write_text(_script(kernel, what))
        names = " ".join(shlex.quote(name) for name, _ in guests)
        (folder / "run").write_text(_ALL.format(names=names, said=SAID))
        (folder / "run").chmod(0o755)


def _which(kernel: Kernel, job: Job) -> str:
    """What tells a guest from any other: its kernel, programs, tasks and size."""
    held = hashlib.sha256(machine.initramfs(kernel, job))
    held.update(f"{kernel.build_id} {job.cpus} {job.memory} {job.options}".encode())
    return held.hexdigest()


def _saying(kernel: Kernel, job: Job) -> Job:
    tasks = {_SAYS_WHICH: f"echo {_which(kernel, job)}", **job.tasks}
    return replace(job, tasks=tasks)


def _script(kernel: Kernel, job: Job) -> str:
    """What runs the guest as it would run here, with files of its folder."""
    settings = machine.settings(kernel, job)
    guest = Guest(settings)
    try:
        words = iter(guest.command())
    finally:
        guest.close()
    serial = iter((CONSOLE, TASKS))
    files = {"-kernel": "kernel", "-initrd": "initramfs"}
    line: list[str] = []
    for word in words:
        if word == str(settings.qemu.program):
            line = []
        elif word == "-qmp":
            # Nobody there asks it anything.
            next(words)
        elif word == "-serial":
            next(words)
            line += [word, f"file:{next(serial)}"]
        elif word in files:
            next(words)
            line += [word, files[word]]
        else:
            line.append(shlex.quote(word))
    return _ONE.format(
        console=CONSOLE,
        tasks=TASKS,
        said=SAID,
        seconds=round(job.timeout),
        words=" ".join(line),
    )


def read(folder: Path, name: str, kernel: Kernel, job: Job) -> Ran:
    """Return what a guest printed there. EnvironmentProblem if it did not, or another did."""
    place = folder / name
    with file_errors("reading what a guest said", place):
        console, tasks = (
            (place / which).read_bytes().decode(errors="replace").replace("\r", "")
            for which in (CONSOLE, TASKS)
        )
    ran = Ran(console, tasks)
    if ran.stale_code():
        raise EnvironmentProblem(
            f"{place}: a fault of the emulator ended it",
            "run it again there, with QEMU 8.1 or newer",
        )
    which = ran.output(_SAYS_WHICH).strip()
    if not which:
        raise EnvironmentProblem(
            f"{place}: the guest did not come to its tasks", f"its end is in {place / CONSOLE}"
        )
    if which != _which(kernel, job):
        raise EnvironmentProblem(
            f"{place}: it was packed with other options, or of another kernel",
            "say them again, or pack and run it anew",
        )
    return ran
