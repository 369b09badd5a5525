# SPDX-License-Identifier: GPL-2.0-or-later
"""What a change of the kernel made worse or better: findings, for a kernel's CI.

`compare` has every figure of two results; this has only what changed by more
than chance does, and says which of it is a regression.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

from pydantic import Field

from partywall.core.topology import Topology
from partywall.results.compare import Change, WallChange, WorkloadChange, compare, keyed
from partywall.results.document import Document, Model
from partywall.results.result import Result, WorkloadResult
from partywall.results.setting import KernelId
from partywall.results.upgrade import FIRST

SCHEMA: Final = "partywall.diff/3"

_OLD = "{what}: one of the results is of an older Partywall; measure it again"

_MEASURED: Final[dict[str, Callable[[WorkloadResult], bool]]] = {
    "memory": lambda one: one.memory is not None,
    "waits": lambda one: one.held is not None,
}
"""What some results have and others have not."""

HALF: Final = 0.5
"""Of the time for which a lock was held at most: less is chance."""

What = Literal[
    "wall",
    "deferred wall",
    "handed over",
    "transfers",
    "deferred",
    "instructions",
    "calls",
    "lock",
    "memory",
    "held",
    "waits",
]
How = Literal["appeared", "went", "grew", "shrank"]


class Tolerance(Model):
    """What is still chance. A change counts if it is more than both say."""

    least: float = Field(default=0.25, ge=0, description="Transfers or calls per op.")
    share: float = Field(default=0.10, ge=0, description="Of what was there before.")
    bytes: float = Field(default=8.0, ge=0, description="Of memory that stays, per op.")
    held: float = Field(
        default=1.0,
        ge=0,
        description="Milliseconds for which a lock is kept from others asleep, at most.",
    )
    instructions: float = Field(
        default=0.05, ge=0, description="Share of an operation's instructions."
    )


class Finding(Model):
    """One change that matters."""

    workload: str
    topology: Topology
    what: What
    name: str = Field(
        description="Of the object, function or lock; 'kernel' or 'all lines' for all."
    )
    how: How
    per_op: Change = Field(
        description="Of memory bytes; of 'held' no rate, but milliseconds at most."
    )

    @property
    def regression(self) -> bool:
        """Whether it is for the worse."""
        return self.how in ("appeared", "grew")


class Difference(Document):
    """What changed from one result to another, regressions first."""

    schema_: Literal["partywall.diff/3"] = Field(default=SCHEMA, alias="schema")
    before: KernelId
    after: KernelId
    tolerance: Tolerance
    findings: list[Finding]
    alone: list[str] = Field(description="Workloads that only one of the results has.")
    missing: list[str] = Field(
        default=[],
        description="Of these, those of the former: not measured any more, or not in the same "
        "way. Empty in what is older.",
    )
    left_out: str | None = Field(default=None, description="What can't be compared, and why.")

    @property
    def others(self) -> list[str]:
        """Workloads that only one of the results has, but for those that are missing."""
        return [one for one in self.alone if one not in self.missing]

    @property
    def regressions(self) -> list[Finding]:
        """Findings for the worse."""
        return [finding for finding in self.findings if finding.regression]


def how(change: Change, least: float, share: float) -> How | None:
    """How a figure changed; None if by no more than ``least`` or ``share`` of what it was."""
    moved = abs(change.after - change.before)
    if moved <= least or moved <= share * change.before:
        return None
    if change.after > change.before:
        return "grew" if change.before else "appeared"
    return "shrank" if change.after else "went"


def _whole(wall: WallChange) -> Change:
    """All that moves of an object that is a wall in one of the results, wall or not.

    A lock that is no wall any more but is handed on as often did not go.
    """
    moved, other = wall.judged, wall.handed_over
    if moved is None or other is None:
        return wall.transfers
    return Change(before=moved.before + other.before, after=moved.after + other.after)


def _findings(one: WorkloadChange, tolerance: Tolerance, *, alike: bool) -> list[Finding]:
    """``alike``: both results count instructions the same way, and have locks."""
    found: list[Finding] = []

    def add(what: What, name: str, change: Change, least: float, share: float) -> None:
        changed = how(change, least, share)
        if changed is not None:
            found.append(
                Finding(
                    workload=one.title,
                    topology=one.topology,
                    what=what,
                    name=name,
                    how=changed,
                    per_op=change,
                )
            )

    more = one.sums is None or how(one.sums, tolerance.least, tolerance.share) == "grew"
    # Who shares was told by another rule: walls come and go by that alone.
    for wall in one.objects if one.alike else []:
        add("wall", wall.object, _whole(wall), tolerance.least, tolerance.share)
    for wall in one.deferred if one.both_deferred else []:
        add("deferred wall", wall.object, _whole(wall), tolerance.least, tolerance.share)
    for passing in one.passing:
        changed = passing.transfers
        # Where less moves in all, what is handed over instead of fought for is no loss.
        if more or changed.after < changed.before:
            add("handed over", passing.name, changed, tolerance.least, tolerance.share)
    if one.sums is not None:
        add("transfers", "all lines", one.sums, tolerance.least, tolerance.share)
    if one.put_off is not None:
        add("deferred", "all lines", one.put_off, tolerance.least, tolerance.share)
    for call in one.calls:
        add("calls", call.function, call.calls, tolerance.least, tolerance.share)
    for what, changed in one.left.kinds.items() if one.left else ():
        add("memory", what, changed, tolerance.bytes, tolerance.share)
    if one.left:
        unpaid = one.left.uncharged
        add("memory", "charged to no container", unpaid, tolerance.bytes, tolerance.share)
    for held in one.held:
        longest = Change(before=held.longest.before / 1e6, after=held.longest.after / 1e6)
        # What sleeps a few times in a window does so for as long as it happens to.
        add("held", held.object, longest, tolerance.held, HALF)
    for wait in one.waits:
        # How often a system call waits is the code's; for how long is chance, and the guest's.
        if wait.charged:
            continue
        add("waits", wait.function, wait.times, tolerance.least, tolerance.share)
    if not alike:
        return found
    ran = one.instructions
    add("instructions", "kernel", ran, 0.0, tolerance.instructions)
    for lock in one.locks:
        # What matters of a lock is the share of an operation that it keeps others out of.
        add("lock", lock.object, lock.instructions, tolerance.instructions * ran.before, 0.0)
    return found


def diff(before: Result, after: Result, tolerance: Tolerance) -> Difference:
    """What changed. UsageProblem if the results have no workload in common."""
    compared = compare(before, after)
    alike = (before.measured_with == FIRST) == (after.measured_with == FIRST)
    found = [
        finding for one in compared.workloads for finding in _findings(one, tolerance, alike=alike)
    ]
    found.sort(key=lambda finding: not finding.regression)
    left = [] if alike else ["locks", "instructions"]
    left += [] if all(one.alike for one in compared.workloads) else ["walls"]
    left += [] if all(one.both_deferred for one in compared.workloads) else ["deferred work"]
    said = [_OLD.format(what=", ".join(left))] if left else []
    known = keyed(before.workloads), keyed(after.workloads)
    both = [[side[key] for side in known] for key in known[0].keys() & known[1].keys()]
    said += [
        f"{what}: measured in one of the results alone"
        for what, has in _MEASURED.items()
        if any(has(old) != has(new) for old, new in both)
    ]
    apart = [new.title for old, new in both if old.one_after_another != new.one_after_another]
    if apart:
        said.append(
            "what is handed over, and all lines, as windows ran one after another in one of the "
            f"results: {', '.join(sorted(apart))}"
        )
    rising = [new.title for _, new in both if new.memory is not None and new.memory.unsettled]
    if rising:
        said.append(f"memory that is not settled: {', '.join(sorted(rising))}")
    return Difference(
        before=before.kernel,
        after=after.kernel,
        tolerance=tolerance,
        findings=found,
        alone=compared.alone,
        missing=compared.missing,
        left_out="; ".join(said) or None,
    )
