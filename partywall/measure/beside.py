# SPDX-License-Identifier: GPL-2.0-or-later
"""Pairs of operations on one kernel: half of the containers do one, half the other."""

from __future__ import annotations

from collections.abc import Sequence

from partywall.core.errors import PartywallError, UsageProblem
from partywall.core.progress import Progress
from partywall.guest.sitting import Round
from partywall.measure import mixed, run, sitting, sweep
from partywall.measure.run import Wanted
from partywall.measure.unfinished import Unfinished
from partywall.results.touches import Beside
from partywall.workloads import Workload


def beside(
    wanted: Wanted,
    neighbours: Sequence[Workload],
    progress: Progress,
    kept: Unfinished | None = None,
) -> Beside:
    """Measure each of ``wanted.workloads`` beside each of the neighbours, and beside its like.

    One run of a pair says what each does to the other. Raise what the first pair failed
    of if all did; UsageProblem if there is but one container. ``kept``: as for
    `sweep.in_guests`; servers, of which each pair has a guest, are measured anew.
    """
    plan = sweep.plan_of(wanted)
    if plan.topology.containers < 2:
        raise UsageProblem("one container has no other beside it", "ask for more with --containers")
    rounds = rounds_of(wanted.workloads, neighbours, plan.topology.containers // 2)
    became: Sequence[object]
    if servers(wanted.workloads, neighbours):
        became, versions = mixed.in_guests(plan, rounds, wanted.jobs, progress)
    else:
        some, versions = sweep.in_guests(plan, rounds, wanted.jobs, progress, sitting.measure, kept)
        became = some
    found = [one for one in became if isinstance(one, tuple)]
    if not found:
        title, first = next(
            (each.title, one)
            for each, one in zip(rounds, became, strict=True)
            if isinstance(one, PartywallError)
        )
        raise type(first)(f"{title}: {first.message}", first.hint)
    # Of a kernel and what it was measured with, as any result says it.
    said = run.whole(wanted, plan, versions, [])
    victims = [one.title for one in wanted.workloads]
    others = [one.title for one in neighbours]
    touches = {
        (one.victim, one.neighbour): one
        for both in found
        for one in both
        if one.victim in victims and one.neighbour in (*others, one.victim)
    }
    every = {one.title: one.operation for one in (*wanted.workloads, *neighbours)}
    return Beside(
        created=said.created,
        kernel=said.kernel,
        environment=said.environment,
        at=wanted.at,
        threshold=wanted.threshold,
        operations=every,
        victims=victims,
        neighbours=others,
        touches=[touches[key] for key in sorted(touches)],
        failed=sweep.failures(rounds, became),
    )


def servers(victims: Sequence[Workload], neighbours: Sequence[Workload]) -> bool:
    """Return whether all are servers, with their clients, or all operations of the library.

    UsageProblem if it is neither: what opens their windows is not the same.
    """
    every = [*victims, *neighbours]
    for one in every:
        if one.service is not None:
            raise UsageProblem(
                f"{one.title} is a service of a file, which runs beside nothing else yet",
                "give its image and command by --image, --client and --",
            )
    if all(one.client for one in every):
        if len({one.peer for one in every}) > 1:
            raise UsageProblem(
                "clients of some have containers of their own, and those of others have not",
                "take servers that are asked from the same place, such as redis and nginx, or "
                "redis/get-peer and nginx/keep-peer",
            )
        return True
    for one in every:
        if not one.client and (one.source is None or not one.source.is_dir()):
            raise UsageProblem(
                f"{one.title} is a program that ends, and no server with a client",
                "say what asks it with --client, or take a workload of partywall workloads",
            )
    if any(one.client for one in every):
        raise UsageProblem(
            "a server and an operation of the library can't be in one guest yet",
            "take two servers, or two operations: partywall workloads shows them",
        )
    return False


def rounds_of(
    victims: Sequence[Workload], neighbours: Sequence[Workload], half: int
) -> list[Round]:
    """Return the rounds that it takes: each two operations once, in ``half`` containers each.

    What only a pair shows can't be told of a victim without its like beside it, so that
    is measured whether the victim is among the neighbours or not.
    """
    pairs: dict[frozenset[str], Round] = {}
    for victim in victims:
        for neighbour in (*neighbours, victim):
            key = frozenset((victim.title, neighbour.title))
            pairs.setdefault(key, Round(victim, neighbour, half))
    return list(pairs.values())
