# SPDX-License-Identifier: GPL-2.0-or-later
"""What locks keep others out for, awake and asleep."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from partywall.results.result import WorkloadResult

DELAYS = frozenset(("rcu", "work", "stop", "memory", "device"))
"""Kinds of waits that delay an operation: the others are for what its own processes do."""

HAND_OVER = 3
"""Transfers of a lock's line each time that it is taken while somebody waits: its holder
fetches it to let go, who waits fetches it to see that, and again to take it."""


@dataclass(frozen=True)
class Holding:
    """One lock: instructions per operation under it and no later one, and under it.

    ``address``: of its word.
    ``asleep``: nanoseconds per operation for which its holder sleeps, for that one alone;
    ``last``: of these, those for no lock, while none was held that was taken later.
    ``moved`` and ``last_moved``: transfers per operation, likewise; ``wanted``: how many
    more it takes to hand it over to who waits.
    """

    name: str
    address: int
    own: float
    held: float
    asleep: float
    last: float
    moved: float = 0.0
    last_moved: float = 0.0
    wanted: float = 0.0


def holdings(result: WorkloadResult) -> Iterator[Holding]:
    """Yield the locks under which anything runs, or whose holder sleeps; walls or not."""
    # What a kernel thread sleeps for once for all that came until then is none's own.
    locks = [lock for lock in result.held.asleep if lock.own_asleep_ns] if result.held else []
    asleep = {lock.address: lock for lock in locks}
    for lock in result.locks:
        found = asleep.pop(lock.address, None)
        slept, last = (found.own_asleep_ns, found.last_asleep_ns) if found else (0.0, 0.0)
        moved, last_moved = lock.transfers, lock.last_transfers
        if lock.instructions or slept or moved:
            # A result of a version that saw no transfers under locks has all of them at lines.
            wanted = max(0.0, HAND_OVER * lock.exclusive - lock.word_transfers) if moved else 0.0
            held = (lock.own, lock.instructions, slept, last)
            address = int(lock.address, 16)
            yield Holding(lock.name, address, *held, moved, last_moved, wanted)
    for other in asleep.values():
        slept, last = other.own_asleep_ns, other.last_asleep_ns
        yield Holding(other.name, int(other.address, 16), 0.0, 0.0, slept, last)


def unlocked(result: WorkloadResult) -> float:
    """Return the nanoseconds per operation that it waits for by itself, and nobody behind it.

    For a grace period, a worker, memory or a device, with no lock or with one of its own. Charged
    work is not in it, which waits once for many.
    """
    if result.held is None:
        return 0.0
    own = [wait for wait in result.held.waits if not wait.charged and wait.kind in DELAYS]
    served = sum(lock.last_asleep_ns for lock in result.held.asleep)
    rest = sum(wait.asleep_ns for wait in own) - served
    return max(sum(wait.unlocked_ns for wait in own), rest)
