# SPDX-License-Identifier: GPL-2.0-or-later
"""What bounds throughput and can't be told from what was measured."""

from __future__ import annotations

from partywall.model import both
from partywall.record.functions import takes_lock
from partywall.record.recording import LINE_SIZE
from partywall.results.lines import Line
from partywall.results.result import WorkloadResult


def _is_lock(line: Line) -> bool:
    return any(takes_lock(site.function) for site in line.code)


def of(result: WorkloadResult) -> list[str]:
    """Return what else bounds a measured workload, in words."""
    found = []
    # Where the guest's clock was read it is known for how long holders sleep, and for who
    # sleeps and holds nothing nobody waits.
    timed = result.held is not None
    if not timed:
        found += [
            f"how long {call.function} takes ({call.per_op:.2g} per op)" for call in result.waits
        ]
    for lock in [] if timed else result.locks:
        for share, doing in ((lock.slept, "sleep"), (lock.waited, "wait for RCU")):
            if share:
                found.append(f"how long holders of {lock.name} {doing} ({share:.2g} per op)")
    for held in result.held.locks if result.held is not None else []:
        # A batch's sleep is shared by all that came until then, how many that are is not known.
        slept = sum(one.asleep_ns for one in held.alone if one.charged)
        if held.waited_ns and slept > held.ns - slept:
            found.append(
                f"for how many at once kernel threads sleep with {held.name} "
                f"({slept / 1e6:.2g} ms per op)"
            )
    known = {int(lock.address, 16) // LINE_SIZE for lock in result.locks}
    locks = dict.fromkeys(
        wall.object.name
        for wall in both.lines(result)
        if _is_lock(wall) and int(wall.address, 16) // LINE_SIZE not in known
    )
    found += [f"how long {name} is held" for name in locks]
    if result.topology.containers > 1 and result.inside:
        found.append(f"{len(result.inside)} lines that CPUs of one container share")
    return found
