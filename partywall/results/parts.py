# SPDX-License-Identifier: GPL-2.0-or-later
"""Saved results as a map takes them: parts of one kernel's put together, walls by one threshold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from partywall.core.errors import UsageProblem
from partywall.results.counts import Sums
from partywall.results.failures import Failure
from partywall.results.lines import Line, Wall
from partywall.results.result import Result, WorkloadResult
from partywall.results.setting import started


def between(result: Result) -> list[WorkloadResult]:
    """Return what was measured between containers."""
    return [one for one in result.workloads if one.scope == "between"]


def sharers(result: Result) -> int:
    """Return how many containers all figures are for; UsageProblem if not for as many."""
    numbers = {one.sharers for one in between(result)}
    if len(numbers) != 1:
        raise UsageProblem(
            f"{result.kernel.release}: a map is of containers, all as many",
            "make it with partywall map",
        )
    return numbers.pop()


def joined(results: Iterable[Result]) -> list[Result]:
    """Return results with those put together that are parts of one kernel's.

    Those are of one kernel, made alike, and have no operation in common. UsageProblem if
    one has an operation twice: only one of its figures could be shown.
    """
    found: list[Result] = []
    for result in results:
        _once(result)
        for number, other in enumerate(found):
            if _made(other) == _made(result) and not _asked(other) & _asked(result):
                found[number] = other.model_copy(
                    update={
                        "created": max(other.created, result.created),
                        "workloads": [*other.workloads, *result.workloads],
                        "failed": [*other.failed, *result.failed],
                    }
                )
                break
        else:
            found.append(result)
    return found


def threshold(results: Iterable[Result]) -> float:
    """Return the transfers that walls have more than; UsageProblem if these are not one."""
    numbers = sorted({one.threshold for result in results for one in between(result)})
    if len(numbers) > 1:
        told = " and ".join(f"{one:g}" for one in numbers)
        raise UsageProblem(
            f"walls of these maps have more than {told} transfers per operation",
            f"add --threshold {numbers[-1]:g}, which does for all of them",
        )
    return numbers[0]


def raised(result: Result, least: float) -> Result:
    """Return a result with the walls alone that have more than so many transfers per operation.

    UsageProblem if walls with fewer were not kept when it was made.
    """
    return result.model_copy(
        update={"workloads": [_raised(one, least, result) for one in result.workloads]}
    )


def _raised(workload: WorkloadResult, least: float, result: Result) -> WorkloadResult:
    if least < workload.threshold:
        raise UsageProblem(
            f"--threshold {least:g}: of {workload.title} on {result.kernel.release} "
            f"walls above {workload.threshold:g} alone were kept",
            f"give {workload.threshold:g} or more, or measure with {least:g}",
        )
    late = workload.deferred
    return workload.model_copy(
        update={
            "threshold": least,
            "deferred": late
            and late.model_copy(update=_above(least, late.objects, late.walls, late.sums)),
            **_above(least, workload.found, workload.walls, workload.sums),
        }
    )


def _above(
    least: float, objects: list[Wall], lines: list[Line], sums: Sums | None
) -> dict[str, object]:
    """The walls of one kind of work that have more than ``least``, their lines, and the sums."""
    walls = [one for one in objects if one.judged > least]
    names = {(one.kind, one.name) for one in walls}
    if sums is not None:
        less = sum(one.judged for one in objects) - sum(one.judged for one in walls)
        sums = Sums(walls=sums.walls - less, handed_over=sums.handed_over, rest=sums.rest + less)
    return {
        "objects": walls,
        "walls": [one for one in lines if (one.object.kind, one.object.name) in names],
        "sums": sums,
    }


def failed(result: Result) -> list[Failure]:
    """Return what could not be measured between containers."""
    return [one for one in result.failed if not one.within]


def _once(result: Result) -> None:
    titles = Counter([one.title for one in between(result)])
    titles.update(one.workload for one in failed(result))
    twice = [title for title, number in titles.items() if number > 1]
    if twice:
        shapes = {
            f"{one.topology.containers} x {one.topology.cpus}"
            for one in between(result)
            if one.title == twice[0]
        }
        told = f", as {' and '.join(sorted(shapes))}" if len(shapes) > 1 else ""
        raise UsageProblem(
            f"{result.kernel.release}: {twice[0]} is in one result twice{told}",
            "a map has one figure for an operation: measure each shape by itself",
        )


def _made(result: Result) -> tuple[object, ...]:
    """What parts of one kernel's have in common."""
    return (
        result.kernel,
        result.environment,
        result.measured_with,
        sharers(result),
        frozenset(one.topology for one in between(result)),
        frozenset(one.threshold for one in between(result)),
        started(one.confinement for one in between(result)),
    )


def _asked(result: Result) -> set[str]:
    return {one.title for one in result.workloads} | {one.workload for one in failed(result)}
