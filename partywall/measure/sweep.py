# SPDX-License-Identifier: GPL-2.0-or-later
"""Many workloads on one kernel, in few guests, to one `Result`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from partywall import guest
from partywall.core.errors import PartywallError, UsageProblem
from partywall.core.progress import Progress
from partywall.core.topology import Topology
from partywall.guest import qemu
from partywall.guest.sitting import Round
from partywall.measure import run, sitting
from partywall.measure.identity import key_of
from partywall.measure.plan import Plan
from partywall.measure.run import Call, Outcome, Wanted
from partywall.measure.sitting import Found, Sitting
from partywall.measure.unfinished import Keeping, Unfinished
from partywall.record import hooks
from partywall.record.plugin import recorder
from partywall.results.failures import Failure
from partywall.results.result import WorkloadResult
from partywall.workloads import Workload

T = TypeVar("T")

LONGEST = 32
"""Rounds of a sitting. What a guest ages by is bounded, and what is lost if it dies.
A number of its own, so that results do not depend on how many guests run side by side."""

_OTHER_PLACES = ("-volume", "-tmpfs")


def usual(workloads: Iterable[Workload]) -> list[Workload]:
    """Return those that a map has unless told otherwise.

    One place of those with several; and no whole start of a container, which moves as much
    as all the rest, of which the map has the parts; nor what keeps what it makes.
    """
    return [
        one
        for one in workloads
        if not (one.variant.endswith(_OTHER_PLACES) or one.bundle or one.keeps)
    ]


def sittings(plan: Plan, rounds: Sequence[Round]) -> list[Sitting]:
    """Return rounds in guests: those that are confined alike, in their order."""
    groups: dict[tuple[object, ...], list[Round]] = defaultdict(list)
    for one in rounds:
        groups[sitting.alike(one.workload)].append(one)
    return [
        Sitting(replace(plan, workload=part[0].workload), tuple(part))
        for group in groups.values()
        for part in _parts(group)
    ]


def _parts(group: list[Round]) -> Iterator[list[Round]]:
    """Parts as long as each other, and no longer than may be.

    What writes the image finds it as the last one left it, if that was in the same guest:
    it is once in a part, and has one of its own if need be.
    """
    again = [one for one in group if _writes(one)][1:]
    first = [one for one in group if one not in again]
    count = -(-len(first) // LONGEST)
    for number in range(count):
        part = first[number * len(first) // count : (number + 1) * len(first) // count]
        if again and len(part) < LONGEST and not any(map(_writes, part)):
            part.append(again.pop(0))
        yield part
    yield from ([one] for one in again)


def _writes(one: Round) -> bool:
    """Whether it changes the image: only files that are made for this can be written."""
    return any(workload.lower_files for workload in one.workloads)


def sweep(wanted: Wanted, progress: Progress, kept: Unfinished | None = None) -> Outcome:
    """Measure all workloads that are wanted, each between containers.

    ``wanted.topology`` None: 8 containers of one CPU; ``wanted.layers`` is not looked at.
    ``kept``: as for `in_guests`.
    """
    plan = plan_of(wanted)
    rounds = [Round(workload) for workload in wanted.workloads]
    became, versions = in_guests(plan, rounds, wanted.jobs, progress, sitting.measure, kept)
    results = [one for one in became if isinstance(one, WorkloadResult)]
    errors = {
        each.title: one
        for each, one in zip(rounds, became, strict=True)
        if isinstance(one, PartywallError)
    }
    if not results:
        return Outcome(None, errors)
    failed = failures(rounds, became)
    return Outcome(run.whole(wanted, plan, versions, results, failed), errors)


def plan_of(wanted: Wanted) -> Plan:
    """Return how to measure what is wanted, with its first workload."""
    guest.clean_up()
    hooks.require(wanted.kernel.vmlinux)
    shape = wanted.topology or Topology(run.DEFAULT_CONTAINERS, 1)
    return wanted.plan(qemu.find(), wanted.workloads[0], shape)


def in_guests(
    plan: Plan,
    rounds: Sequence[Round],
    jobs: int,
    progress: Progress,
    measure: Callable[[Sitting, Path, int, Progress], Found[T]],
    kept: Unfinished | None = None,
) -> tuple[list[T | PartywallError], set[str]]:
    """Return what became of each round, and what guests said of their kernel.

    ``measure``: does it, in a process that does nothing else; as `sitting.measure`.
    ``kept``: guests that were done before are not done again, and those that are now are kept.
    """
    became: dict[str, T | PartywallError] = {}
    possible = []
    for each in rounds:
        try:
            for workload in each.workloads:
                replace(plan, workload=workload).check()
            if len({sitting.alike(workload) for workload in each.workloads}) > 1:
                raise UsageProblem(
                    "the two are confined differently, and all containers of a guest alike",
                    "choose operations that need the same capabilities and kernel modules",
                )
            possible.append(each)
        except PartywallError as error:
            became[each.title] = error
    if not possible:
        return [became[each.title] for each in rounds], set()
    plugin = recorder(plan.qemu, progress)
    todo = sittings(plan, possible)
    keys = [key_of(one, plugin, progress) for one in todo] if kept else []
    done = [kept.found(key) for key in keys] if kept else [None] * len(todo)
    missing = [number for number, before in enumerate(done) if before is None]
    if len(missing) < len(todo):
        progress.ahead(
            f"going on: {len(todo) - len(missing)} of {len(todo)} guests were done when this was "
            "asked for before"
        )
    # What needs capabilities makes namespaces and mounts, which moves most and takes longest: as
    # one of the last it would run alone.
    missing.sort(key=lambda number: not todo[number].plan.workload.capabilities)
    calls = [
        Call(
            f"guest {number + 1} of {len(todo)}",
            plan.topology,
            Keeping(measure, keys[number]) if kept else measure,
            (todo[number], plugin),
        )
        for number in missing
    ]
    versions = set()
    guests = run.side_by_side(calls, jobs, progress)
    now = dict(zip(missing, guests, strict=True))
    for number, one in enumerate(todo):
        found = now.get(number, done[number])
        assert found is not None
        titles = [each.title for each in one.rounds]
        if isinstance(found, Found):
            became |= dict(zip(titles, found.results(), strict=True))
            versions.add(found.version)
        else:
            became |= dict.fromkeys(titles, found)
    return [became[each.title] for each in rounds], versions


def measured(rounds: Sequence[Round], became: Sequence[object], kind: type[T]) -> list[T]:
    """Return those that were measured. Raise what the first failed of if none was."""
    found = [one for one in became if isinstance(one, kind)]
    if not found:
        first = became[0]
        assert isinstance(first, PartywallError)
        raise type(first)(f"{rounds[0].title}: {first.message}", first.hint)
    return found


def failures(rounds: Sequence[Round], became: Sequence[object]) -> list[Failure]:
    """Return the rounds that could not be measured, and why."""
    return [
        Failure(title=each.title, operation=each.workload.operation, why=one.message)
        for each, one in zip(rounds, became, strict=True)
        if isinstance(one, PartywallError)
    ]
