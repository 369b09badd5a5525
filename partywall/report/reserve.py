# SPDX-License-Identifier: GPL-2.0-or-later
"""Why what is said of a workload is not said of all that it has the kernel do."""

from __future__ import annotations

from collections.abc import Iterator

from partywall.report.words import busiest, percent, rate
from partywall.results.result import WorkloadResult
from partywall.results.sites import UNSEEN, WORK_ITEM


def reserve(workload: WorkloadResult) -> Iterator[str]:
    """Yield what the verdict is not about, in words: nothing if it is about all."""
    yield from _unseen(workload)
    for what in workload.unfollowed:
        yield f"{what} of system calls can't be followed on this kernel, and are background"
    for one in workload.unsampled:
        yield (
            f"not judged: {rate(one.later)} of {rate(one.times)} {one.context} for each operation, "
            "done after the windows"
        )


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
    said = (
        f"{rate(moved)} more are of work items and callbacks of RCU that nobody was seen to "
        f"leave: {' and '.join(named)}"
    )
    items = [function for function in named if found[function] == WORK_ITEM]
    # Work that is charged is what a kernel thread does; RCU's callbacks run in softirqs, too.
    yield f"{said} (--charge FUNCTION counts a work item's)" if items else said


def after(workload: WorkloadResult) -> Iterator[str]:
    """Yield how much of what was left ran in the windows, where a part of it did not.

    What that moved is in no figure.
    """
    for one in workload.done_later:
        share = percent(one.done / one.times)
        yield (
            f"{share} of {rate(one.times)} {one.context} for each operation: the rest was done "
            "after the windows, and is in no figure"
        )
