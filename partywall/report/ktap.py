# SPDX-License-Identifier: GPL-2.0-or-later
"""A result in the Kernel Test Anything Protocol, version 1, for kernel CI.

Documentation/dev-tools/ktap.rst in the kernel's tree defines it. A workload
is a test; each of its walls over the limit is a failed subtest. One that could not be
measured has failed.
"""

from __future__ import annotations

from collections.abc import Iterator

from partywall.report import held, memory
from partywall.report.reserve import reserve
from partywall.report.words import busiest, count, function, plain, rate, sharers, signed_hex
from partywall.results.lines import Line, Wall
from partywall.results.result import Result, WorkloadResult

_CODE = 3
"""Functions that a diagnostic names; the full report has them all."""


def render(
    result: Result,
    fail_above: float,
    fail_held: float | None = None,
    fail_growth: float | None = None,
) -> str:
    """The result as KTAP.

    ``fail_above``: transfers per operation that a wall may have, all its lines together;
    with more, they and its workload are ``not ok``. ``fail_held``: milliseconds for which
    a lock may keep others out because somebody sleeps; ``fail_growth``: bytes that an operation may
    leave behind and nobody is charged for; None for any.
    """
    if not fail_above >= 0:
        raise ValueError(f"the limit must be 0 or more transfers per operation, not {fail_above}")
    kernel = result.kernel
    lines = [
        "KTAP version 1",
        f"1..{len(result.workloads) + len(result.failed)}",
        _diagnostic(f"kernel {kernel.release} ({kernel.source}), build ID {kernel.build_id}"),
        _diagnostic(f"limit {fail_above:g} transfers/op on one object"),
    ]
    if fail_held is not None:
        lines.append(
            _diagnostic(f"limit {fail_held:g} ms for a lock that is kept from others asleep")
        )
    if fail_growth is not None:
        lines.append(_diagnostic(f"limit {fail_growth:g} bytes/op that nobody is charged for"))
    for number, workload in enumerate(result.workloads, 1):
        lines += _workload(workload, number, fail_above, fail_held, fail_growth)
    for number, failure in enumerate(result.failed, len(result.workloads) + 1):
        lines.append(_diagnostic(f"{failure.title}: could not be measured: {failure.why}"))
        lines.append(f"not ok {number} {_description(failure.title)}")
    return "\n".join(lines) + "\n"


def _workload(
    workload: WorkloadResult,
    number: int,
    fail_above: float,
    fail_held: float | None,
    fail_growth: float | None,
) -> Iterator[str]:
    shape = workload.topology
    # A result may hold one workload in several topologies: tell the tests apart.
    name = f"{workload.title} {shape.containers}x{shape.cpus}"
    late = workload.deferred.walls if workload.deferred else []
    over = [
        *_over(workload.walls, workload.found, fail_above),
        *_over(late, workload.put_off, fail_above),
    ]
    objects = sum(wall.judged > fail_above for wall in workload.every_wall)
    over.sort(key=lambda wall: (-wall.judged, wall.object.name, wall.object.line))
    asleep = [] if fail_held is None else held.over(workload, fail_held)
    left = [] if fail_growth is None else memory.over(workload, fail_growth)
    # What is to be bounded and is not known does not pass.
    unknown = []
    if fail_growth is not None and (why := memory.unheld(workload, fail_growth)):
        unknown.append(f"memory {why[0]}")
    if fail_held is not None and workload.held is None:
        unknown.append("waits not measured")
    failed = len(over) + len(asleep) + len(left) + len(unknown)
    if failed:
        yield "  KTAP version 1"
        # KUnit's tool shows this name while the subtests go by.
        yield f"  # Subtest: {_description(name)}"
        yield f"  1..{failed}"
    for position, wall in enumerate(over, 1):
        for line in _wall(wall, position, shape.containers):
            yield f"  {line}"
    for position, lock in enumerate(asleep, len(over) + 1):
        yield f"  {_diagnostic(f'{lock.name}: {held.ms(lock.once_ns)} at most')}"
        yield f"  not ok {position} {_description(f'{lock.name} held')}"
    for position, kind in enumerate(left, len(over) + len(asleep) + 1):
        yield f"  {_diagnostic(f'{kind.what}: {memory.size(kind.uncharged)} charged to nobody')}"
        yield f"  not ok {position} {_description(f'{kind.what} left behind')}"
    for position, what in enumerate(unknown, failed - len(unknown) + 1):
        yield f"  not ok {position} {_description(what)}"
    yield _diagnostic(f"{name}: {_summary(workload, objects)}")
    yield _diagnostic(f"{name}: memory: {_of_kind(workload.memory, memory.verdict(workload))}")
    if workload.memory is not None and workload.memory.unsettled:
        rises = memory.unsettled(workload.memory)
        yield _diagnostic(f"{name}: memory: not settled: {rises}")
    yield _diagnostic(f"{name}: waits: {_of_kind(workload.held, held.verdict(workload))}")
    yield f"{'not ok' if failed else 'ok'} {number} {_description(name)}"


def _of_kind(measured: object, said: str | None) -> str:
    """What is said of waits or memory, nothing, or that nobody knows."""
    return "not measured" if measured is None else said or "none"


def _over(lines: list[Line], walls: list[Wall], fail_above: float) -> list[Line]:
    """The lines of walls over the limit."""
    objects = {(wall.kind, wall.name) for wall in walls if wall.judged > fail_above}
    return [line for line in lines if (line.object.kind, line.object.name) in objects]


def _summary(workload: WorkloadResult, over: int) -> str:
    return "; ".join([_verdict(workload, over), *reserve(workload)])


def _verdict(workload: WorkloadResult, over: int) -> str:
    if workload.isolated:
        return "isolated, no wall"
    if workload.isolated_itself:
        return "isolated in its calls, no wall"
    if workload.verdict == "no wall" and workload.sums is not None:
        moved = workload.sums.all + workload.added
        return f"no wall, {rate(moved)} transfers/op on what is none"
    walls = f"{count(len(workload.found), 'wall')}, {rate(workload.judged)} transfers/op"
    late = workload.deferred
    if late is not None and late.objects:
        walls += f"; deferred work {count(len(late.objects), 'wall')}, {rate(late.sums.walls)}"
    return f"{walls}, {over or 'none'} over the limit"


def _wall(wall: Line, number: int, containers: int) -> Iterator[str]:
    name = f"{wall.object.name} line {signed_hex(wall.object.line)}"
    shared = ", false sharing" if wall.false_sharing else ""
    yield _diagnostic(
        f"{name}: {rate(wall.judged)} transfers/op, {sharers(wall, containers)}{shared}"
    )
    for site in busiest(wall)[:_CODE]:
        source = f" at {site.source}" if site.source else ""
        yield _diagnostic(f"  {function(site)}{source}, {site.context}, {site.field}")
    yield f"not ok {number} {_description(name)}"


def _diagnostic(text: str) -> str:
    return f"# {plain(text)}"


def _description(name: str) -> str:
    """A name that a result line can carry.

    ``#`` would start a directive, and KTAP has no escape for it; the
    diagnostic above the result has the name as it is.
    """
    return plain(name).replace("#", "_").strip() or "unnamed"
