# SPDX-License-Identifier: GPL-2.0-or-later
"""A directory of this machine as the root of containers."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

from partywall.core.errors import UsageProblem
from partywall.core.progress import Progress
from partywall.guest.roots.disks import FORM, Disk, Filled, Start, kept


def _key(folder: Path) -> str:
    """Return what tells states of a directory apart: its files by name, size and times."""
    total = hashlib.sha256(f"{FORM} {folder}\n".encode())

    def unreadable(error: OSError) -> None:
        raise UsageProblem(f"{error.filename}: {error.strerror}", "give a directory you can read")

    for path, folders, files in os.walk(folder, onerror=unreadable):
        folders.sort()
        for name in sorted([*folders, *files]):
            at = os.path.join(path, name)  # noqa: PTH118
            seen = os.lstat(at)
            facts = (seen.st_mode, seen.st_uid, seen.st_gid, seen.st_ctime_ns)
            size = 0 if stat.S_ISDIR(seen.st_mode) else seen.st_size
            total.update(f"{at} {facts} {size}\n".encode(errors="surrogateescape"))
    return total.hexdigest()


def disk(what: str, progress: Progress) -> Disk:
    """Return the disk of a directory."""
    folder = Path(what).resolve()
    if not folder.is_dir():
        raise UsageProblem(f"{what} is no directory", "--rootfs takes what is to be / there")
    if folder == Path("/"):
        raise UsageProblem("--rootfs / is all of this machine", "give a directory below it")
    with progress.step(f"looking at {what}"):
        key = _key(folder)
    return kept(key, lambda _: Filled(folder, Start()), progress)
