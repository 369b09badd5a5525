# SPDX-License-Identifier: GPL-2.0-or-later
"""Roots of different containers on one disk: a guest has one."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from partywall.core.progress import Progress
from partywall.guest.roots.disks import FORM, Disk, Filled, Start, kept, unpack


@dataclass(frozen=True)
class Place:
    """Where a root is on a disk, and how its programs are started.

    ``folders``: its layers, the topmost first; none if it is all of the disk.
    """

    folders: tuple[str, ...]
    start: Start


def place(disk: Disk) -> Place:
    """Return where the root of a disk is on it."""
    return Place(() if disk.stack is None else disk.stack.folders, disk.start)


def together(disks: Sequence[Disk], progress: Progress) -> tuple[Disk, list[Place]]:
    """Return a disk with the roots of all, made now if it is not kept, and where each is.

    Of one root alone that is its own disk. Layers of one name are there once.
    """
    # One disk, whichever comes first.
    every = {disk.file: disk for disk in disks}
    files = sorted(every)
    if len(files) == 1:
        return disks[0], [place(disk) for disk in disks]
    # A disk lies in a folder that is named by what is on it.
    keys = "\n".join(file.parent.name for file in files)
    folders = {
        file: place(every[file]).folders or (f"root-{number}",) for number, file in enumerate(files)
    }

    def fill(work: Path) -> Filled:
        top = work / "roots"
        top.mkdir()
        top.chmod(0o755)
        with progress.step(f"unpacking {len(files)} roots"):
            for number, file in enumerate(files):
                if every[file].stack is None:
                    unpack(file, top / folders[file][0])
                    continue
                one = work / str(number)
                unpack(file, one)
                for name in folders[file]:
                    if not (top / name).exists():
                        (one / name).rename(top / name)
        return Filled(top, Start(), removes=any(every[file].stack for file in files))

    digest = hashlib.sha256(f"{FORM} together 3\n{keys}\n".encode()).hexdigest()
    places = [Place(folders[disk.file], disk.start) for disk in disks]
    return kept(digest, fill, progress), places
