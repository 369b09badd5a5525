# SPDX-License-Identifier: GPL-2.0-or-later
"""What bounds what grows: what `partywall growth` and `partywall caps` found, joined."""

from __future__ import annotations

from partywall.core.errors import UsageProblem
from partywall.results.caps import Cap, Caps
from partywall.results.growth import Bound, Growth, Operation, Raised

FULL = (0.9, 1.02)
"""How full a limit is when nobody gets more, by what one container's operations make a counter:
the rest of the machine has some of it, and its neighbour had some."""


def joined(growth: Growth, caps: Caps) -> Growth:
    """Return what operations leave behind, with what bounds it.

    A counter counts towards a limit if both were found by themselves, and the operations that
    reached the limit make of the counter what the limit is: see `FULL`. UsageProblem if the
    caps are others.
    """
    require_same(caps, growth.kernel.build_id)
    by = {one.title: one for one in caps.operations}
    operations = [_bounded(one, by.get(one.title)) for one in growth.operations]
    return growth.model_copy(update={"operations": operations})


def require_same(caps: Caps, build_id: str) -> None:
    """Raise UsageProblem unless caps are of this kernel, and of users as for what grows."""
    if build_id != caps.kernel.build_id:
        raise UsageProblem(
            f"the caps are of another kernel: {caps.kernel.release} ({caps.kernel.source})",
            "measure both on one",
        )
    if caps.users != "host":
        raise UsageProblem(
            f"the caps are of containers with user namespaces (--users {caps.users})",
            "what grows is measured without; so measure the caps",
        )


def _bounded(operation: Operation, cap: Cap | None) -> Operation:
    if cap is None or cap.taken is None:
        return operation
    bound = Bound(
        verdict=cap.verdict,
        taken=cap.taken.done,
        error=cap.taken.error,
        knob=cap.knob,
        value=cap.value,
    )
    raised = [_counted(one, bound) for one in operation.raised]
    return operation.model_copy(update={"bound": bound, "raised": raised})


def _counted(counter: Raised, bound: Bound) -> Raised:
    """Return a counter with its limit, if it is what the limit is of."""
    filled = [
        counter.each * bound.taken / value
        for value in _numbers(bound.value)
        if bound.knob is not None and FULL[0] <= counter.each * bound.taken / value <= FULL[1]
    ]
    if not filled:
        return counter
    return counter.model_copy(update={"limit": bound.knob, "filled": round(max(filled), 3)})


def _numbers(value: str | None) -> list[int]:
    """Return those that a limit is set to: several, where it has a soft one and a hard one."""
    return [int(word) for word in (value or "").split() if word.isdigit() and int(word)]
