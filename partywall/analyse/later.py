# SPDX-License-Identifier: GPL-2.0-or-later
"""What was left for later: how much of it, and which lines it uses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from partywall.analyse.sharing import Uses
from partywall.record.recording import CALLBACK, WORK, WORKED, Recording
from partywall.results.left import Left

Array = npt.NDArray[Any]


def left(
    recorded: Recording,
    *,
    context: Callable[[int], str],
    function: Callable[[int], str],
    operations: int,
    containers: int,
) -> list[Left] | None:
    """Return how much was left by whom and how much of it was done; None if not counted.

    Of each call by itself, as each may leave something else. ``context``: its name, by its
    number; ``function``: the one that an address is in; ``containers``: those that ran.
    """
    if recorded.left is None:
        return None
    found = [
        Left(
            context=context(int(row["context"])),
            by=function(int(row["site"])),
            late=bool(row["late"]),
            times=int(row["times"]) / operations,
            done=int(row["done"]) / operations,
            containers=min(int(row["containers"]), containers),
        )
        for row in recorded.left
        if row["times"] or row["done"]
    ]
    return sorted(found, key=lambda one: (one.context, one.by, one.late, -one.times, -one.done))


def softirqs(uses: Uses) -> Array:
    """Return the numbers of lines that of deferred work only softirqs use, which all ran.

    Where something that was left uses a line as well, a single write of that may be what moves
    all that is read there. ``uses``: of deferred work.
    """
    line, later, _ = uses.by_line(lambda context: context >= WORKED)
    return np.asarray(line[later == 0])


def unseen(uses: Uses) -> Array:
    """Return the numbers of lines that in the background are mostly used by what was left.

    By work items and callbacks of RCU, that is, that nobody was seen to leave; as
    `partywall.results.sites.is_unseen` counts uses. ``uses``: of the background.
    """
    line, later, every = uses.by_line(lambda context: np.isin(context, (WORK, CALLBACK)))
    return np.asarray(line[2 * later > every])
