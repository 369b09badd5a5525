# SPDX-License-Identifier: GPL-2.0-or-later
"""Temporary folders that belong to a process, and what a killed one has left.

A number of a process means nothing in another PID namespace, and containers may
share a /tmp: whose folder it is says a lock on it, which the kernel lets go of with
the process.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path


class Folder:
    """A folder of one's own in the system's place for temporary files.

    ``path`` is there until `remove` or the end of this process. OSError if
    none can be made.
    """

    def __init__(self, kind: str) -> None:
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=f"partywall-{kind}-{os.getpid()}-"))
            # Who cleans up may have come first, and have removed it or be about to.
            try:
                self._held = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
            except FileNotFoundError:
                continue
            fcntl.flock(self._held, fcntl.LOCK_SH)
            if self.path.exists():
                return
            os.close(self._held)

    def remove(self) -> None:
        """Remove it with all that is in it. May be called twice."""
        shutil.rmtree(self.path, ignore_errors=True)
        self.let_go()

    def let_go(self) -> None:
        """Leave it to whoever cleans up next."""
        if self._held >= 0:
            os.close(self._held)
            self._held = -1


def clean_up(kind: str) -> None:
    """Remove the folders of a kind that no process holds any more."""
    for left in Path(tempfile.gettempdir()).glob(f"partywall-{kind}-[0-9]*-*"):
        # Held, gone, another user's, or on a file system without such locks: not ours.
        with contextlib.suppress(OSError):
            held = os.open(left, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(left, ignore_errors=True)
            finally:
                os.close(held)
