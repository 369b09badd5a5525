# SPDX-License-Identifier: GPL-2.0-or-later
"""Roots of different containers on one disk: a guest has one."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from partywall.core import cache
from partywall.core.errors import EnvironmentProblem
from partywall.core.progress import Progress
from partywall.guest.roots.disks import FORM, Disk, Start, kept, say, tool


@dataclass(frozen=True)
class Place:
    """Where a root is on a disk, a folder or all of it, and how its programs are started."""

    folder: str
    start: Start


def together(disks: Sequence[Disk], progress: Progress) -> tuple[Disk, list[Place]]:
    """Return a disk with the roots of all, made now if it is not kept, and where each is.

    Of one root alone that is its own disk.
    """
    # One disk, whichever comes first.
    files = sorted({disk.file for disk in disks})
    if len(files) == 1:
        return disks[0], [Place("", disk.start) for disk in disks]
    # A disk lies in a folder that is named by what is on it.
    keys = "\n".join(file.parent.name for file in files)

    def fill(work: Path) -> tuple[Path, Start]:
        top = work / "roots"
        top.mkdir()
        top.chmod(0o755)
        with progress.step(f"unpacking {len(files)} roots"):
            for number, file in enumerate(files):
                into = str(top / str(number))
                status, _, why = say([tool("unsquashfs"), "-q", "-n", "-d", into, str(file)])
                if status:
                    raise EnvironmentProblem(
                        f"unsquashfs failed: {why[:160]}", f"free space in {cache.root()}"
                    )
        return top, Start()

    digest = hashlib.sha256(f"{FORM} together\n{keys}\n".encode()).hexdigest()
    places = [Place(str(files.index(disk.file)), disk.start) for disk in disks]
    return kept(digest, fill, progress), places
