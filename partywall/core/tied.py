# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs that do not outlive the one that has started them, however that ends."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

TIED: Final = ("setpriv", "--pdeathsig", "KILL")
"""What a command begins with that is killed when the process ends that has started it."""


def checked(command: Sequence[str], parent: int | None = None) -> list[str]:
    """Return a command that begins with `TIED`, and ends at once if it has come too late.

    Whoever is killed before setpriv has asked for the signal leaves a program that never gets
    one; after that a look at whose child it is tells. ``parent``: who has to be there, this
    process if None. Whoever knows a command by its words knows it without this, as it has a
    process' number.
    """
    words = len(TIED)
    if tuple(command[:words]) != TIED:
        raise ValueError(f"not tied to who starts it: {command}")
    look = ("sh", "-c", '[ "$PPID" = "$0" ] && exec "$@"', str(parent or os.getpid()))
    return [*TIED, *look, *command[words:]]
