# SPDX-License-Identifier: GPL-2.0-or-later
"""An ext4 with what a squashfs has, for kernels that know no other file system."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from partywall.core import cache
from partywall.core.errors import EnvironmentProblem
from partywall.core.progress import Progress
from partywall.guest.roots.disks import PIECE, remove, say, tool, unpack

_FORM = "1"
_BLOCK = 4096
_INODE = 256
_SPARE = 8 << 20
# The same each time; when a file changed is when it was unpacked, which nobody reads.
_SAME = "11111111-2222-3333-4444-555555555555"
_TIME = "E2FSPROGS_FAKE_TIME=1"


def _sizes(folder: Path) -> Iterator[int]:
    for path, folders, files in os.walk(folder):
        for name in (*folders, *files):
            yield os.lstat(os.path.join(path, name)).st_size  # noqa: PTH118


def made(squashfs: Path, key: str, progress: Progress) -> Path:
    """Return the file of an ext4; made now if it is not kept. ``key``: of what is in it."""

    def fill(draft: Path) -> None:
        work, into = draft / "work", draft / "root.ext4"
        # As for a stranger's image that is unpacked the first time.
        work.mkdir(0o700)
        try:
            with progress.step("making an ext4 of its root"):
                _make(squashfs, work / "root", into)
        finally:
            remove(work)

    return cache.entry("root-ext4", f"{key}-{_FORM}", fill, progress) / "root.ext4"


def _make(squashfs: Path, root: Path, into: Path) -> None:
    unpack(squashfs, root)
    sizes = list(_sizes(root))
    blocks = sum(-(-size // _BLOCK) for size in sizes)
    total = blocks * _BLOCK * 51 // 50 + len(sizes) * _INODE + _SPARE
    total = -(-total // PIECE) * PIECE
    command = [tool("mke2fs"), "-q", "-t", "ext4", "-b", str(_BLOCK), "-I", str(_INODE)]
    command += ["-N", str(len(sizes) + 64), "-m", "0", "-O", "^has_journal,^resize_inode"]
    command += ["-U", _SAME, "-E", f"hash_seed={_SAME},root_owner=0:0", "-d", str(root)]
    command = ["env", _TIME, *command, str(into), str(total // _BLOCK)]
    if os.geteuid():
        # All belongs to who unpacked it, and is to belong to root.
        command = [tool("unshare"), "--map-root-user", *command]
    _must(command)


def _must(command: list[str]) -> None:
    status, _, why = say(command)
    if status:
        raise EnvironmentProblem(
            f"making an ext4 of a root failed: {why[:160]}", f"free space in {cache.root()}"
        )
