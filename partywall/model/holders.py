# SPDX-License-Identifier: GPL-2.0-or-later
"""What locks keep others out for, awake and asleep."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from partywall.results.result import WorkloadResult


@dataclass(frozen=True)
class Holding:
    """One lock: instructions per operation under it and no later one, and under it.

    ``asleep``: nanoseconds per operation for which its holder sleeps, for that one alone.
    """

    name: str
    own: float
    held: float
    asleep: float


def holdings(result: WorkloadResult) -> Iterator[Holding]:
    """Yield the locks under which anything runs, or whose holder sleeps; walls or not."""
    # What a kernel thread sleeps for once for all that came until then is none's own.
    locks = [lock for lock in result.held.asleep if lock.own_asleep_ns] if result.held else []
    asleep = {lock.address: lock for lock in locks}
    for lock in result.locks:
        slept = asleep.pop(lock.address).own_asleep_ns if lock.address in asleep else 0.0
        if lock.instructions or slept:
            yield Holding(lock.name, lock.own, lock.instructions, slept)
    for other in asleep.values():
        yield Holding(other.name, 0.0, 0.0, other.own_asleep_ns)
