# SPDX-License-Identifier: GPL-2.0-or-later
"""A disk with the root file system of containers, and how programs are started there."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from partywall.core import cache, packages
from partywall.core.errors import EnvironmentProblem
from partywall.core.progress import Progress

FORM = "3"
"""Of what is kept: another one if disks are made differently."""

MOST = 16 << 30
"""Bytes that a root may take, so that what unpacks without end does end."""

PIECE = 16 << 20
"""Bytes: a memory device is some of them long."""

_STACK, _REMOVES = "stack.json", "removes"

PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Start(BaseModel):
    """How a root's programs are started, as the runtime specification says ``process``."""

    model_config = ConfigDict(frozen=True)

    args: tuple[str, ...] = ()
    entry: int = 0
    """How many of these are the entrypoint of an image; the others are its command."""
    env: tuple[str, ...] = (PATH,)
    home: bool = False
    """Whether HOME among these is the image's own word, and not that of its user."""
    cwd: str = "/"
    uid: int = 0
    gid: int = 0
    groups: tuple[int, ...] = ()


class Stack(BaseModel):
    """Layers that have a folder each, and users and groups as they have them together."""

    model_config = ConfigDict(frozen=True)

    folders: tuple[str, ...]
    """Their names on the disk, the topmost first."""
    passwd: str
    group: str


class Disk(BaseModel):
    """``file``: what the guest reads; ``start``: what its maker says of its programs.

    ``stack``: the layers of its root; None if that is all of the disk.
    """

    model_config = ConfigDict(frozen=True)

    file: Path
    start: Start
    stack: Stack | None = None


@dataclass(frozen=True)
class Filled:
    """What a disk is made from: the folder that is packed, and what is kept beside it."""

    root: Path
    start: Start
    stack: Stack | None = None
    removes: bool = False
    """It has layers, which remove names of those below them."""


def tool(name: str) -> str:
    """Return the path of a program of the system. EnvironmentProblem if it is not there."""
    path = packages.program(name)
    if path is None:
        raise EnvironmentProblem(f"{name} is not installed", packages.mend("roots"))
    return str(path)


def limit_files() -> None:
    """No file of this process and its children may be longer than a root may be."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST, MOST))


def say(command: Sequence[str]) -> tuple[int, str, str]:
    """Return a program's status, what it printed, and the last line that it complained with."""
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        preexec_fn=limit_files,
    )
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    return done.returncode, done.stdout, lines[-1].strip() if lines else "it says nothing"


def pack(folder: Path, into: Path) -> None:
    """Make the file of a disk from a folder."""
    # Not compressed: an emulated processor would take longer to unpack it than to copy it.
    command = [tool("mksquashfs"), str(folder), str(into), "-quiet", "-no-progress"]
    command += ["-noI", "-noD", "-noF", "-noX", "-no-exports", "-exit-on-error"]
    command += ["-one-file-system", "-mkfs-time", "0", "-reproducible"]
    if os.geteuid():
        # Who may not give files away has unpacked all as his own.
        command.append("-all-root")
    status, _, why = say(command)
    if status:
        raise EnvironmentProblem(f"mksquashfs failed: {why[:160]}", f"free space in {cache.root()}")
    size = into.stat().st_size
    os.truncate(into, -(-size // PIECE) * PIECE)


def unpack(disk: Path, into: Path) -> None:
    """Unpack the file of a disk into a folder that is not there yet."""
    command, hint = [tool("unsquashfs"), "-q", "-n"], f"free space in {cache.root()}"
    if os.geteuid() and (disk.parent / _REMOVES).exists():
        # Who is not root may remove a file of a layer below, but unsquashfs does not know of it.
        command = [tool("unshare"), "--map-root-user", *command, "-no-xattrs"]
        hint += ", or allow user namespaces, or run this as root"
    status, _, why = say([*command, "-d", str(into), str(disk)])
    if status:
        raise EnvironmentProblem(f"unsquashfs failed: {why[:160]}", hint)


def kept(key: str, fill: Callable[[Path], Filled], progress: Progress) -> Disk:
    """Return the disk of a key; ``fill`` unpacks it into a folder if it is not kept.

    ``fill``: returns the root within that folder, or elsewhere, and what is known of it.
    """

    def make(draft: Path) -> None:
        work = draft / "work"
        # Whoever may look into the cache may not run what a stranger's image has set-user-ID.
        work.mkdir(0o700)
        try:
            filled = fill(work)
            if os.geteuid() and filled.root.is_relative_to(work):
                readable(filled.root)
            with progress.step("making a disk of it"):
                pack(filled.root, draft / "root.squashfs")
        finally:
            remove(work)
        (draft / "start.json").write_text(filled.start.model_dump_json())
        if filled.stack is not None:
            (draft / _STACK).write_text(filled.stack.model_dump_json())
        if filled.stack is not None or filled.removes:
            (draft / _REMOVES).touch()

    place = cache.entry("root", key, make, progress)
    start = Start.model_validate_json((place / "start.json").read_text())
    stacked = place / _STACK
    stack = Stack.model_validate_json(stacked.read_text()) if stacked.exists() else None
    return Disk(file=place / "root.squashfs", start=start, stack=stack)


def remove(folder: Path) -> None:
    """Remove a folder, even if its own folders may not be read or written."""
    if os.geteuid():
        readable(folder)
    shutil.rmtree(folder, ignore_errors=True)


def readable(folder: Path) -> None:
    """Let the owner of all that is in a folder read it, and write its folders."""
    for path, folders, files in os.walk(folder):
        # Before the walk goes into them.
        for names, mode in ((folders, 0o700), (files, 0o400)):
            for name in names:
                one = Path(path) / name
                if not one.is_symlink():
                    one.chmod(one.stat().st_mode & 0o7777 | mode)
