# SPDX-License-Identifier: GPL-2.0-or-later
"""Why what is said of a workload is not said of all that it has the kernel do."""

from __future__ import annotations

from collections.abc import Iterator

from partywall.report.words import busiest, percent, plain, rate
from partywall.results.left import Left, most_first
from partywall.results.result import WorkloadResult
from partywall.results.sites import UNSEEN, WORK_ITEM

LISTED = 3
"""Of what was left and not done, how much is told by name."""


def reserve(workload: WorkloadResult) -> Iterator[str]:
    """Yield what the verdict is not about, in words: nothing if it is about all."""
    yield from _unseen(workload)
    # What moves no more even with all that may be shared is isolated.
    if workload.one_after_another and workload.at_most > workload.threshold:
        yield plain(
            f"windows ran one after another (in turn: {percent(workload.in_turn or 0.0)}), so that "
            "memory which is shared is not told from memory that is handed over, and all of it is "
            "counted; another number of containers, or PAUSE in a program, may have them take turns"
        )
    for what in workload.unfollowed:
        yield plain(f"{what} of system calls can't be followed on this kernel, and are background")
    if workload.left is None and workload.deferred is not None:
        yield "how much was left for after the windows was not counted"
    if workload.every <= workload.threshold < workload.at_most:
        yield f"up to {rate(workload.at_most)} with what was done after the windows"
    missing = workload.unsampled
    for one in missing[:LISTED]:
        yield f"not judged, as {percent(one.done / one.times)} was done in the windows: {_of(one)}"
    if missing[LISTED:]:
        yield f"and {len(missing) - LISTED} more that functions left"


def after(workload: WorkloadResult) -> list[str]:
    """Return how much of what was left ran in the windows, where a part of it did not.

    What that moved is in no figure.
    """
    missing = most_first(one for one in workload.left or [] if one.later)
    said = [f"{percent(one.done / one.times)} of {_of(one)}" for one in missing[:LISTED]]
    if missing[LISTED:]:
        said.append(f"and of {len(missing) - LISTED} more")
    if said:
        said[-1] += ": the rest was not done in the windows, and is in no figure"
    return said


def _of(one: Left) -> str:
    return plain(f"{rate(one.times)} {one.context} for each operation, left by {one.by}()")


def _unseen(workload: WorkloadResult) -> Iterator[str]:
    """Yield what is moved by work items and callbacks of RCU that nobody was seen to leave."""
    moved = sum(line.transfers for line in workload.unseen)
    if not moved:
        return
    found: dict[str, str] = {}
    for line in workload.unseen:
        sites = [site for site in busiest(line) if site.context in UNSEEN]
        found |= {site.function: site.context for site in sites[:1]}
    named = list(found)[:2]
    said = plain(
        f"{rate(moved)} more are of work items and callbacks of RCU that nobody was seen to "
        f"leave: {' and '.join(named)}"
    )
    items = [function for function in named if found[function] == WORK_ITEM]
    # Work that is charged is what a kernel thread does; RCU's callbacks run in softirqs, too.
    yield f"{said} (--charge FUNCTION counts a work item's)" if items else said
