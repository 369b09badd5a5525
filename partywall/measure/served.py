# SPDX-License-Identifier: GPL-2.0-or-later
"""How many requests a window of a server had, by what its containers say."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from partywall.core.errors import EnvironmentProblem, PartywallError
from partywall.core.progress import Progress
from partywall.core.topology import Topology
from partywall.workloads import Workload

T = TypeVar("T")

_SAID = re.compile(r"^PARTYWALL requests (\d+) (\d+) (\d+)$", re.MULTILINE)

MOST = 0.75
"""Of the requests of all, those of one container.

The emulator gives CPUs uneven shares of a short time. What a container takes from others is
counted by its own visits, as long as these have as many in all: up to half of the requests it is
right, and what is said of more containers than were measured is right in any case.
"""

LEAST = 20
"""Requests of a container: of fewer, one more or less is too much."""

LONGER = (1, 2, 4)
"""How many times as long windows are tried. A guest that is booted again does the same again."""


class Uneven(EnvironmentProblem):
    """Containers had too uneven shares of the requests, or too few."""


def longer(workload: Workload, times: int) -> Workload:
    """Return a workload whose windows are so many times as long."""
    return workload.model_copy(update={"window": workload.window * times})


def evened(title: str, progress: Progress, measure: Callable[[int], T]) -> T:
    """Return what ``measure`` does with windows so many times as long, the first that are even.

    Uneven if the longest are not; of the first ones, if longer ones fail of anything else.
    """
    first: Uneven | None = None
    for times in LONGER:
        try:
            return measure(times)
        except Uneven as uneven:
            first = first or uneven
            if times != LONGER[-1]:
                progress.ahead(f"{title}: {uneven.message}; again with windows twice as long")
        except PartywallError as failure:
            if first is None:
                raise
            raise first from failure
    assert first is not None
    raise type(first)(
        f"{first.message}, and no better with windows {LONGER[-1]} times as long", first.hint
    )


def requests(console: str, topology: Topology, containers: range | None = None) -> int:
    """Return the requests of each CPU of a container in its window, on average.

    ``containers``: those that have the one server; all if None. Uneven if there
    are not enough of them to say anything of one, or one container did nearly all;
    EnvironmentProblem if a container said nothing.
    """
    told = {int(number): int(count) / 1000 for number, count, _ in _SAID.findall(console)}
    if len(told) != topology.containers:
        raise EnvironmentProblem(
            f"{topology.containers - len(told)} containers did not say how many requests "
            "their window had",
            "run it again",
        )
    mine = [told[number] for number in containers or range(topology.containers)]
    least, most = min(mine), max(mine)
    alone = len(mine) == 1
    if least < LEAST or (not alone and most > MOST * sum(mine)):
        raise Uneven(
            f"windows had {least:.0f} requests in one container and {most:.0f} in another",
            "take more containers with -n; of a program of yours, longer windows with --ops",
        )
    return max(1, round(sum(mine) / (len(mine) * topology.cpus)))
