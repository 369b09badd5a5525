# SPDX-License-Identifier: GPL-2.0-or-later
"""What bounds what grows: what `partywall growth` and `partywall caps` found, joined."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from partywall.core.errors import UsageProblem
from partywall.results.caps import Cap, Caps, Got
from partywall.results.growth import Bound, Growth, Operation

FULL = (0.9, 1.02)
"""How full a limit is when nobody gets more, by what one container's operations make of a counter:
the rest of the machine has some of it, and its neighbour had some."""


_NOTHING: dict[str, object] = {"limit": None, "filled": None, "alike": None}


def joined(growth: Growth, caps: Caps) -> Growth:
    """Return what operations leave behind, with what bounds it.

    A counter may be what a limit counts if each operation that ran into the limit made of
    it as much as the limit is (`FULL`), and none made more. UsageProblem if the caps are
    others: see `require_same`.
    """
    require_same(caps, growth.kernel.build_id)
    by = {one.title: _bound(one, one.taken) for one in caps.operations if one.taken is not None}
    known = _limits([(one, by[one.title]) for one in growth.operations if one.title in by])
    operations = [
        one.model_copy(
            update={
                "bound": by.get(one.title),
                "raised": [
                    counter.model_copy(update=_NOTHING | known.get(counter.name, {}))
                    for counter in one.raised
                ],
            }
        )
        for one in growth.operations
    ]
    return growth.model_copy(update={"operations": operations})


def require_same(caps: Caps, build_id: str) -> None:
    """Raise UsageProblem unless caps are of this kernel, and of Docker's default users."""
    if build_id != caps.kernel.build_id:
        raise UsageProblem(
            f"the caps are of another kernel: {caps.kernel.release} ({caps.kernel.source})",
            "measure both on one",
        )
    if caps.users != "host":
        raise UsageProblem(
            f"the caps are of containers with user namespaces (--users {caps.users})",
            "bounds are told as Docker's defaults have them: measure the caps without --users",
        )


def _bound(cap: Cap, taken: Got) -> Bound:
    return Bound(
        verdict=cap.verdict,
        killed=taken.killed and not taken.full,
        reclaimed=taken.reclaimed,
        taken=taken.done,
        error=taken.error,
        knob=cap.knob,
        value=cap.value,
    )


def _limits(tried: Sequence[tuple[Operation, Bound]]) -> dict[str, dict[str, object]]:
    """Return what is to be said of counters, by their names: fields of `Raised`."""
    # How high each operation brought it.
    made: dict[str, dict[str, float]] = defaultdict(dict)
    # What the kernel makes by its memory is not quite the same in each guest.
    ran_into: dict[str, dict[str, list[int]]] = defaultdict(dict)
    for operation, bound in tried:
        for counter in operation.raised:
            made[counter.name][operation.title] = counter.each * bound.taken
        if bound.knob is not None and bound.value is not None:
            ran_into[bound.knob][operation.title] = _numbers(bound.value)
    full: dict[str, dict[str, float]] = {
        knob: {
            name: share
            for name, high in made.items()
            if (share := _filled(high, values)) is not None
        }
        for knob, values in sorted(ran_into.items())
    }
    said: dict[str, dict[str, object]] = {}
    for name in made:
        may_be = {knob: shares[name] for knob, shares in full.items() if name in shares}
        if may_be:
            alike = {other for knob in may_be for other in full[knob]} - {name}
            said[name] = {
                "limit": " or ".join(may_be),
                "filled": round(max(may_be.values()), 3),
                "alike": len(alike),
            }
    return said


def _filled(high: dict[str, float], values: dict[str, list[int]]) -> float | None:
    """Return how full operations make a limit by a counter; None if it is not what that counts.

    ``values``: what it was set to, one or several numbers, for those that ran into it.
    """
    if not values.keys() <= high.keys():
        return None
    for place in range(min(map(len, values.values()))):
        limits = {title: numbers[place] for title, numbers in values.items()}
        shares = [high[title] / limit for title, limit in limits.items()]
        if min(shares) >= FULL[0] and max(high.values()) / max(limits.values()) <= FULL[1]:
            return max(shares)
    return None


def _numbers(value: str) -> list[int]:
    """Return those that a limit is set to: several, where it has a soft one and a hard one."""
    return [int(word) for word in value.split() if word.isdigit() and int(word)]
