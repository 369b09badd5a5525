# SPDX-License-Identifier: GPL-2.0-or-later
"""What the walls of a workload cost at one number of containers, by object."""

from __future__ import annotations

from dataclasses import dataclass

from partywall.model import both
from partywall.model.profiles import Profile
from partywall.model.queues import Range, predict
from partywall.record.recording import LINE_SIZE
from partywall.results.result import WorkloadResult


@dataclass(frozen=True)
class Cost:
    """What is expected of ``at`` containers, or CPUs of one, on a machine."""

    at: int
    of: str
    """What is counted: ``containers`` or ``CPUs``."""
    relative: Range
    """What each does, as a share of what one alone would do."""
    waits: dict[str, float]
    """Share of its time that each waits, by the name of the object."""
    bound: bool
    """Whether the walls may cost more than that: something that bounds it is not known."""


def cost(workload: WorkloadResult, profile: Profile, at: int) -> Cost:
    """Return what a workload's walls cost at a number of containers.

    ``at``: no more than the machine has cores; beyond them they share cores, which
    no wall causes. A lock costs what the object costs that it lies in.
    """
    processes = workload.topology.cpus if workload.scope == "between" else 1
    count = max(1, min(at, profile.cores // processes))
    found = predict(workload, profile, [count])
    homes = {int(wall.address, 16) // LINE_SIZE: wall.object.name for wall in both.lines(workload)}
    holders = {
        lock.name: homes.get(int(lock.address, 16) // LINE_SIZE, lock.object)
        for lock in workload.locks
    }
    waits: dict[str, float] = {}
    for station in found.stations:
        name = station.object
        if not station.transfers:
            name = holders.get(name, name)
        waits[name] = waits.get(name, 0.0) + station.waits[0]
    return Cost(count, found.of, found.points[0].relative, waits, bool(found.unknown))
