# SPDX-License-Identifier: GPL-2.0-or-later
"""A result for people at a terminal.

It begins with what walls cost and what mends them; then come the walls of each
workload, the worst first, each with the number that ``--wall`` takes. With many
workloads they are told in brief, so that all fit into a few screens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console, RenderableType
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from partywall.advice.mends import Advice
from partywall.analyse.verdict import AT
from partywall.core.errors import UsageProblem
from partywall.model.profiles import Profile
from partywall.report import callers, costs, deferred, detail, held, locks, memory
from partywall.report.blocks import Flow, columns, indent, more, print_blocks, text
from partywall.report.reserve import reserve
from partywall.report.walls import Wall, numbered, put_off
from partywall.report.words import (
    busiest,
    count,
    function,
    known,
    percent,
    rate,
    signed_hex,
)
from partywall.results.named import named
from partywall.results.result import Result, WorkloadResult

DETAILED = 3
"""Walls of a workload shown with fields and code unless all are asked for."""

LISTED = 20
"""Walls of a workload that are listed, if few workloads are shown."""

FEW = 2
"""Workloads up to which walls are told with all of their fields."""

PLACES = 4
"""Places in the code shown for each line unless all are asked for."""

BACKGROUND = 5
"""Lines of the background that are shown unless all are asked for."""

HANDED_OVER = 8
"""Kinds of memory handed over that are shown unless all are asked for."""


@dataclass(frozen=True)
class Shown:
    """What of a result is shown: all but details, unless told."""

    workloads: tuple[str, ...] = ()
    """Names, with or without variants; all if empty."""
    everything: bool = False
    """Every wall with every place in the code."""
    wall: int | None = None
    """Only the wall of this number, in full."""
    function: str | None = None
    """Only walls that this function uses."""


def render(result: Result, console: Console, profile: Profile, shown: Shown | None = None) -> None:
    """Print a result. ``profile``: the machine that costs are for.

    Made for 80 columns or more, whole from 60 on. UsageProblem if nothing is what
    is asked for.
    """
    print_blocks(list(_report(result, profile, shown or Shown())), console)


def _report(result: Result, profile: Profile, shown: Shown) -> Iterator[RenderableType]:
    if shown.wall is not None or shown.function is not None:
        advice = Advice(result)
        for found in _asked(result, shown):
            for wall in found:
                yield from _story(wall, advice, everything=shown.everything)
        return
    yield _header(result)
    yield ""
    if not result.workloads:
        yield "No workload was measured."
        return
    workloads = named(result, shown.workloads)
    walls, late = (_of(result, workloads, of) for of in (numbered, put_off))
    every = [[*found, *after] for found, after in zip(walls, late, strict=True)]
    yield from costs.blocks(result, list(zip(workloads, every, strict=True)), profile)
    in_full = shown.everything or len(walls) <= FEW
    for workload, found, after in zip(workloads, walls, late, strict=True):
        yield ""
        yield _title(workload)
        if in_full:
            yield from _workload(workload, found, after, shown.everything)
        else:
            yield from _brief(workload, found, after)


def _of(
    result: Result,
    kept: Sequence[WorkloadResult],
    walls_of: Callable[[Result], list[list[Wall]]],
) -> list[list[Wall]]:
    """The walls of each workload that is shown."""
    return [
        walls
        for workload, walls in zip(result.workloads, walls_of(result), strict=True)
        if any(workload is one for one in kept)
    ]


def _asked(result: Result, shown: Shown) -> list[list[Wall]]:
    """The walls that are asked for by number or function; UsageProblem if there is none."""
    kept = named(result, shown.workloads)
    every = [*_of(result, kept, numbered), *_of(result, kept, put_off)]
    if shown.wall is not None:
        there = [wall for walls in every for wall in walls]
        found = [wall for wall in there if wall.number == shown.wall]
        if not found:
            of = f" of {', '.join(shown.workloads)}" if shown.workloads else ""
            raise UsageProblem(f"there is no wall {shown.wall}{of}", _numbers(there))
        return [found]
    function = shown.function or ""
    found = [wall for walls in every for wall in walls if wall.touched_by(function)]
    if not found:
        raise UsageProblem(
            f"no wall is used by {function}",
            "name the function that has the access, an inline one, or a lock's caller",
        )
    return [found]


def _numbers(walls: list[Wall]) -> str:
    """Say which numbers walls have: those of one workload follow each other, of each kind."""
    numbers = sorted(wall.number for wall in walls)
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    if not spans:
        return "there are no walls"
    told = [str(low) if low == high else f"{low} to {high}" for low, high in spans]
    *before, last = told
    return f"they are {', '.join(before)} and {last}" if before else f"they are {last}"


# What was measured


def _header(result: Result) -> Table:
    kernel, environment = result.kernel, result.environment
    rows = {
        "kernel": f"{kernel.release} ({kernel.source}), build ID {kernel.build_id}",
        "emulator": f"QEMU {environment.qemu}, CPU {environment.cpu_model}, "
        f"{1 << environment.icount_shift} ns per instruction",
        "measured": f"{result.created} by Partywall {environment.partywall}",
    }
    if result.lacks:
        rows["lacks"] = f"{', '.join(result.lacks)}: saved as {result.measured_with}"
    if result.failed:
        rows["failed"] = "; ".join(f"{one.title}: {one.why}" for one in result.failed)
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style="dim")
    table.add_column(overflow="fold")
    for heading, words in rows.items():
        table.add_row(heading, text(words))
    return table


def _title(workload: WorkloadResult) -> Rule:
    shape = workload.topology
    where = f"{count(shape.containers, 'container')} x {count(shape.cpus, 'CPU')}"
    return Rule(
        text(f"{workload.title}, {where}", "bold"), characters="-", align="left", style="dim"
    )


# One workload


def _story(wall: Wall, advice: Advice, *, everything: bool) -> Iterator[RenderableType]:
    """All of one wall, with what mends it."""
    yield _title(wall.workload)
    yield from detail.wall(wall, None, verbose=everything)
    for mend in advice.on(wall.lines, wall.workload):
        yield indent(text(f"mend: {mend.words}", "green"), 2)
    yield ""


def _brief(
    workload: WorkloadResult, walls: list[Wall], late: list[Wall]
) -> Iterator[RenderableType]:
    """The worst walls in a few rows each, and how much there is besides."""
    limit = f"{costs.limit(workload)} transfers/op {costs.among(workload)}"
    words = costs.without_walls(workload) or f"more than {limit}"
    # The scheduler's part of what an operation has the kernel do is there as well.
    if workload.isolated_itself and workload.background_transfers > workload.threshold:
        words += f"; background {rate(workload.background_transfers)}"
    yield Text.assemble(costs.verdict(workload), f": {words}")
    if late and workload.deferred is not None:
        worst = f"{rate(late[0].transfers)} on {late[0].object.title}"
        yield text(
            f"deferred: {count(len(late), 'wall')}, "
            f"{rate(workload.deferred.sums.walls)} transfers/op; wall {late[0].number}: {worst}"
        )
    shown = walls[:DETAILED]
    if shown:
        table = columns(("wall", "transf/op"), "object; field and code of its worst line")
        for wall in shown:
            table.add_row(str(wall.number), rate(wall.transfers), detail.brief(wall))
        yield table
    rest = walls[len(shown) :]
    if rest:
        moved = sum(wall.transfers for wall in rest)
        yield text(
            f"{count(len(rest), 'more object')}, {rate(moved)} transfers/op: "
            f"--wall {rest[0].number} to {rest[-1].number}, or -w {workload.title}",
            "dim",
        )
    yield from _besides(workload, late)


def _besides(workload: WorkloadResult, late: list[Wall]) -> Iterator[RenderableType]:
    """What moves and is no wall, in a row."""
    said = [known(workload)] if workload.walls else []
    kinds = (
        locks.worst(workload, workload.at or AT),
        held.verdict(workload),
        memory.verdict(workload),
    )
    said += [words for words in kinds if words]
    sums = workload.sums
    moved = sum(one.transfers for one in workload.passing) if sums is None else sums.handed_over
    # What is less than a wall may be is in what -w tells.
    if moved > workload.threshold:
        said.append(f"handed over {rate(moved)} transfers/op")
    if sums is not None and sums.rest:
        said.append(f"too seldom for a wall {rate(sums.rest)}")
    if workload.inside:
        moved = sum(line.within for line in workload.inside)
        said.append(f"between CPUs of one container {rate(moved)}")
    if workload.background_transfers and not workload.isolated_itself:
        said.append(f"background {rate(workload.background_transfers)}")
    # As of what is handed over: what is less than a wall may be is in what -w tells.
    if not late and workload.added > workload.threshold:
        said.append(f"deferred work {rate(workload.added)}")
    if costs.without_walls(workload) is None and any(reserve(workload)):
        what = "" if workload.one_after_another else " that was left for later"
        said.append(f"not all{what} is judged: -w {workload.title}")
    if said:
        yield text("; ".join(said), "dim")


def _workload(
    workload: WorkloadResult, walls: list[Wall], late: list[Wall], verbose: bool
) -> Iterator[RenderableType]:
    yield text(workload.operation)
    yield _findings(workload)
    yield from _effort(workload)
    payers = callers.summary(walls)
    if payers is not None:
        yield text(payers)
    if len(walls) > DETAILED:
        yield ""
        yield from _overview(walls, verbose)
    for wall in walls if verbose else walls[:DETAILED]:
        yield ""
        yield from detail.wall(wall, None if verbose else PLACES, verbose=verbose)
    if len(walls) > DETAILED and not verbose:
        yield ""
        yield Text("--wall N tells all of one, --function NAME finds them, --all shows all")
    yield from deferred.blocks(workload, late, verbose)
    if workload.inside:
        yield ""
        yield from _inside(workload)
    yield from locks.blocks(workload, verbose)
    yield from held.blocks(workload, verbose)
    yield from memory.blocks(workload, verbose)
    yield from _passing(workload, verbose)
    yield from _background(workload, verbose)


def _inside(workload: WorkloadResult) -> Iterator[RenderableType]:
    """Lines that cost nothing between containers but do inside of each."""
    moved = sum(line.within for line in workload.inside)
    yield Text(
        f"between CPUs of one container: {count(len(workload.inside), 'line')}, "
        f"{rate(moved)} transfers/op",
        style="bold",
    )
    table = columns(("transf/op",), "line and the code that touches it most")
    for line in sorted(workload.inside, key=lambda line: -line.within):
        pieces = [text(f"{line.object.name} {signed_hex(line.object.line)}", "bold")]
        pieces += [text(function(site), "cyan") for site in busiest(line)[:1]]
        table.add_row(rate(line.within), Flow(*pieces))
    yield indent(table, 2)


def _passing(workload: WorkloadResult, verbose: bool) -> Iterator[RenderableType]:
    """What moves and is no wall, in two lists: handed over, and shared too seldom to tell."""
    for handed_over, heading in (
        (True, "handed over, no walls: {} that nobody comes back to"),
        (False, "shared, but too seldom for a wall: {}"),
    ):
        groups = [one for one in workload.passing if one.handed_over is handed_over]
        if not groups:
            continue
        moved = sum(group.transfers for group in groups)
        lines = count(sum(group.lines for group in groups), "line")
        yield ""
        yield text(heading.format(f"{rate(moved)} transfers/op on {lines}"))
        shown = groups if verbose else groups[:HANDED_OVER]
        table = columns(("transf/op", "lines"), "object")
        for group in shown:
            table.add_row(rate(group.transfers), f"{group.lines:,}", text(group.name))
        yield indent(table, 2)
        if len(groups) > len(shown):
            rest = sum(group.transfers for group in groups[len(shown) :])
            yield more(len(groups) - len(shown), "kind", f"{rate(rest)} transfers/op")


def _findings(workload: WorkloadResult) -> Text:
    words = costs.without_walls(workload) or (
        f"{rate(workload.judged)} transfers/op {costs.among(workload)}, on objects with more "
        f"than {costs.limit(workload)} each"
    )
    if workload.moved > 0:
        words += f"; {rate(workload.moved)} on all lines"
        if workload.deferred is not None and workload.deferred.sums.all:
            words += f", {rate(workload.deferred.sums.all)} more in deferred work"
        words += f". {known(workload)}"
    if costs.without_walls(workload) is None:
        words = "; ".join([words, *reserve(workload)])
    return Text.assemble(costs.verdict(workload), f": {words}")


def _effort(workload: WorkloadResult) -> Iterator[RenderableType]:
    ran = workload.instructions
    spinning = f", {rate(ran.spinning)} spinning" if ran.spinning else ""
    late = f"{rate(ran.deferred)} deferred, " if ran.deferred else ""
    background = rate(ran.background - ran.deferred)
    yield text(
        f"per op: {rate(ran.kernel)} kernel{spinning}, {rate(ran.user)} user, {late}"
        f"{background} background instructions, {rate(workload.accesses)} accesses",
        "dim",
    )
    if workload.calls:
        calls = ", ".join(f"{call.function} {rate(call.per_op)}" for call in workload.calls)
        yield text(f"calls/op: {calls}", "dim")
    yield text(
        f"{workload.operations:,} ops, {workload.window:,} per process "
        f"after {workload.warmup:,} to warm up; confinement: {workload.confinement}",
        "dim",
    )
    for line in workload.left_out:
        yield text(line, "dim")


def _overview(walls: list[Wall], verbose: bool) -> Iterator[RenderableType]:
    """A row or less for each wall."""
    table = columns(
        ("wall", "transf/op", "share", "lines"), "object and the code that uses it most"
    )
    total = sum(wall.transfers for wall in walls)
    shown = walls if verbose else walls[:LISTED]
    for wall in shown:
        pieces = detail.label(wall, text(wall.object.title, "bold"))
        code = [site for line in wall.lines for site in busiest(line)[:1]]
        if code:
            pieces.append(text(code[0].function, "cyan"))
        share = percent(wall.transfers / total) if total else ""
        table.add_row(
            str(wall.number), rate(wall.transfers), share, f"{wall.count:,}", Flow(*pieces)
        )
    yield table
    rest = walls[len(shown) :]
    if rest:
        moved = sum(wall.transfers for wall in rest)
        yield more(len(rest), "object", f"{rate(moved)} transfers/op")


# What the machine does by itself


def _background(workload: WorkloadResult, verbose: bool) -> Iterator[RenderableType]:
    if not workload.background:
        return
    yield ""
    yield text(
        "background (ticks, RCU, scheduler): "
        f"{count(len(workload.background), 'line')}, "
        f"{rate(workload.background_transfers)} transfers/op"
    )
    table = columns(("transf/op",), "line, code and context")
    ordered = sorted(workload.background, key=lambda line: -line.transfers)
    shown = ordered if verbose else ordered[:BACKGROUND]
    for line in shown:
        what = line.object
        pieces = [text(f"{what.name} {signed_hex(what.line)} ({what.kind})")]
        for site in busiest(line)[:1]:
            pieces += [text(function(site), "cyan"), text(site.context)]
        table.add_row(rate(line.transfers), Flow(*pieces))
    yield indent(table, 2)
    if len(ordered) > len(shown):
        yield more(len(ordered) - len(shown), "line")
