# SPDX-License-Identifier: GPL-2.0-or-later
"""A result for people at a terminal.

The order is that of ``perf c2c``: line, offset in the line, code, containers.
Names come last in every row, numbers before them. So a name that is too long
for the terminal goes on in the next row with nothing else in between, and none
needs to be cut. What we draw ourselves is ASCII and is said in words, colour
only repeats it: a report reads the same in a file or a mail.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from partywall.report import locks
from partywall.report.words import (
    SCOPES,
    Walled,
    accesses,
    busiest,
    by_object,
    count,
    function,
    known,
    percent,
    plain,
    rate,
    sharers,
    signed_hex,
    topology,
)
from partywall.results.result import FieldUse, Line, Result, Site, WorkloadResult

# Spaces at a line's end, between them and it nothing but codes of colour.
_TRAILING = re.compile(r" +((?:\x1b\[[0-9;]*m)*)$")

WIDEST = 120
"""Columns used at most: a row that is longer is harder to follow."""

DETAILED = 12
"""Walls of a workload shown with fields and code unless all are asked for."""


def render(result: Result, console: Console, *, top_sites: int = 6, verbose: bool = False) -> None:
    """Print the result.

    ``top_sites``: places in the code shown for each wall. ``verbose``: every
    wall and every place, however many. Made for 80 columns or more, whole
    from 60 on.
    """
    print_blocks(_report(result, top_sites, verbose), console)


def print_blocks(blocks: Iterable[RenderableType], console: Console) -> None:
    """Prints blocks below each other, no wider than `WIDEST`, without trailing spaces."""
    width = min(console.width, WIDEST)
    for block in blocks:
        with console.capture() as capture:
            console.print(block, width=width, highlight=False)
        # Tables pad their rows, which shows when a report is pasted elsewhere.
        lines = [_TRAILING.sub(r"\1", line) for line in capture.get().split("\n")]
        console.file.write("\n".join(lines))
    console.file.flush()


def _report(result: Result, top_sites: int, verbose: bool) -> Iterator[RenderableType]:
    yield _header(result)
    yield ""
    if not result.workloads:
        yield "No workload was measured."
        return
    yield _summary(result.workloads)
    yield from _calls(result.workloads)
    for workload in result.workloads:
        yield ""
        yield from _workload(workload, None if verbose else top_sites, verbose)


BACKGROUND = 5
"""Lines of the background that are shown unless all are asked for."""

HANDED_OVER = 8
"""Kinds of memory handed over that are shown unless all are asked for."""


# Building blocks


def text(words: str, style: str = "") -> Text:
    """Return text as it is: no markup in it, nothing unprintable, never cut off."""
    return Text(plain(words), style=style, overflow="fold")


def _indent(block: RenderableType, columns: int) -> Padding:
    return Padding(block, (0, 0, 0, columns), expand=False)


class _Flow:
    """Pieces of text on one row while they fit; the next rows are indented.

    A piece is broken only if it is wider than a row of its own, so that what
    belongs together stays together at any width.
    """

    indent = 2

    def __init__(self, *pieces: Text) -> None:
        self.pieces = pieces

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        row, used, indent = Text(overflow="fold"), 0, 0
        for piece in self.pieces:
            if used and indent + used + 2 + piece.cell_len > options.max_width:
                yield _indent(row, indent)
                row, used, indent = Text(overflow="fold"), 0, self.indent
            if used:
                row.append("  ")
            row.append_text(piece)
            used = row.cell_len
        yield _indent(row, indent)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        whole = sum(piece.cell_len + 2 for piece in self.pieces) - 2
        return Measurement(min(whole, 20), whole).with_maximum(options.max_width)


def _table(numbers: Iterable[str], name: str) -> Table:
    """A table with columns of numbers, then one of names."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for heading in numbers:
        # Wide enough for any rate, so that tables below each other line up.
        table.add_column(heading, justify="right", no_wrap=True, min_width=5, overflow="fold")
    table.add_column(name, overflow="fold")
    return table


# What was measured


def _header(result: Result) -> Table:
    kernel, environment = result.kernel, result.environment
    shapes = dict.fromkeys(topology(workload.topology) for workload in result.workloads)
    rows = {
        "kernel": f"{kernel.release} ({kernel.source}), build ID {kernel.build_id}",
        "emulator": f"QEMU {environment.qemu}, CPU {environment.cpu_model}, "
        f"{1 << environment.icount_shift} ns per instruction",
        "topology": f"{', '.join(shapes) or 'none'} (containers x CPUs of each)",
        "measured": f"{result.created} by Partywall {environment.partywall}",
    }
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style="dim")
    table.add_column(overflow="fold")
    for heading, words in rows.items():
        table.add_row(heading, text(words))
    return table


def _summary(workloads: list[WorkloadResult]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("workload", overflow="fold")
    # Here the name comes first, so the rest stands at the end of a long one.
    for heading in ("topology", "verdict", "transfers/op", "kernel instr/op"):
        table.add_column(heading, justify="right", no_wrap=True, vertical="bottom")
    for workload in workloads:
        table.add_row(
            text(workload.title, "bold"),
            topology(workload.topology),
            _verdict(workload),
            rate(workload.judged),
            rate(workload.instructions.kernel),
        )
    return table


def _verdict(workload: WorkloadResult) -> Text:
    if workload.isolated:
        return Text("isolated", style="green")
    if not workload.walls:
        return Text("no wall", style="yellow")
    return Text(count(len(workload.found), "wall"), style="bold red")


def _calls(workloads: list[WorkloadResult]) -> Iterator[RenderableType]:
    counted = [workload for workload in workloads if workload.calls]
    if not counted:
        return
    yield ""
    yield Text("calls/op", style="bold")
    for workload in counted:
        calls = ", ".join(f"{call.function} {rate(call.per_op)}" for call in workload.calls)
        yield _indent(text(f"{workload.title}: {calls}"), 2)


# One workload


def _workload(
    workload: WorkloadResult, top_sites: int | None, verbose: bool
) -> Iterator[RenderableType]:
    shape = workload.topology
    where = f"{count(shape.containers, 'container')} x {count(shape.cpus, 'CPU')}"
    yield Rule(
        text(f"{workload.title}, {where}", "bold"), characters="-", align="left", style="dim"
    )
    yield text(workload.operation)
    yield _findings(workload)
    yield from _effort(workload)
    groups = by_object(workload.walls)
    hidden = 0 if verbose else max(0, len(workload.walls) - DETAILED)
    if len(workload.walls) > DETAILED:
        yield ""
        yield from _overview(workload, groups)
    left = len(workload.walls) - hidden
    for walled in groups:
        if left <= 0:
            break
        yield ""
        yield from _object(walled, walled.lines[:left], workload, top_sites)
        left -= len(walled.lines)
    if hidden:
        worst_first = [line for walled in groups for line in walled.lines]
        total = sum(line.judged for line in worst_first[-hidden:])
        yield ""
        yield Text(
            f"{count(hidden, 'more wall')}, {rate(total)} transfers/op together; "
            "--all shows them in full",
            style="bold",
        )
    if workload.inside:
        yield ""
        yield from _inside(workload)
    yield from locks.blocks(workload, verbose)
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
    table = _table(("transf/op",), "line and the code that touches it most")
    for line in sorted(workload.inside, key=lambda line: -line.within):
        pieces = [text(f"{line.object.name} {signed_hex(line.object.line)}", "bold")]
        pieces += [text(function(site), "cyan") for site in busiest(line)[:1]]
        table.add_row(rate(line.within), _Flow(*pieces))
    yield _indent(table, 2)


def _passing(workload: WorkloadResult, verbose: bool) -> Iterator[RenderableType]:
    """Memory that goes from one container to another, a little of it at a time."""
    groups = workload.passing
    if not groups:
        return
    moved, lines = sum(group.transfers for group in groups), sum(group.lines for group in groups)
    yield ""
    yield text(
        f"handed over, no walls: {rate(moved)} transfers/op on {count(lines, 'line')} that "
        "nobody comes back to, or that are used too seldom to tell"
    )
    shown = groups if verbose else groups[:HANDED_OVER]
    table = _table(("transf/op", "lines"), "object")
    for group in shown:
        table.add_row(rate(group.transfers), f"{group.lines:,}", text(group.name))
    yield _indent(table, 2)
    if len(groups) > len(shown):
        rest = sum(group.transfers for group in groups[len(shown) :])
        words = f"{count(len(groups) - len(shown), 'more kind')}, {rate(rest)} transfers/op"
        yield _indent(Text(f"{words}; --all shows them", style="dim"), 2)


def _findings(workload: WorkloadResult) -> Text:
    scope = SCOPES[workload.scope]
    moved = workload.between if workload.scope == "between" else workload.within
    if workload.at is not None:
        scope = f"between {workload.at} containers"
        moved = moved if workload.between_at is None else workload.between_at
    limit = f"{workload.threshold:g}"
    if workload.isolated:
        words = f": no more than {limit} transfers/op {scope}"
    elif not workload.walls and workload.sums is not None:
        words = f", but {rate(workload.sums.handed_over)} transfers/op handed over {scope}"
    else:
        words = (
            f": {rate(workload.judged)} transfers/op {scope}, on lines with more than {limit} each"
        )
    if moved > 0:
        words += f"; {rate(moved)} on all lines. {known(workload)}"
    return Text.assemble(_verdict(workload), words)


def _effort(workload: WorkloadResult) -> Iterator[RenderableType]:
    ran = workload.instructions
    spinning = f", {rate(ran.spinning)} spinning" if ran.spinning else ""
    yield text(
        f"per op: {rate(ran.kernel)} kernel{spinning}, {rate(ran.user)} user, "
        f"{rate(ran.background)} background instructions, {rate(workload.accesses)} accesses",
        "dim",
    )
    yield text(
        f"{workload.operations:,} ops, {workload.window:,} per process "
        f"after {workload.warmup:,} to warm up; confinement: {workload.confinement}",
        "dim",
    )


def _overview(workload: WorkloadResult, groups: list[Walled]) -> Iterator[RenderableType]:
    """Every wall in a row or less: objects of one name and kind share a row."""
    rows: dict[tuple[str, str], list[Line]] = {}
    for walled in groups:
        rows.setdefault((walled.object.name, walled.object.kind), []).extend(walled.lines)
    table = _table(("transf/op", "share", "lines"), "object and the code that touches it most")
    total = workload.judged
    for (name, _), lines in sorted(
        rows.items(), key=lambda row: -sum(line.judged for line in row[1])
    ):
        transfers = sum(line.judged for line in lines)
        pieces = [text(name, "bold")]
        if any(line.false_sharing for line in lines):
            pieces.append(Text("FALSE SHARING", style="bold yellow"))
        sites = [site for line in lines for site in line.code]
        if sites:
            pieces.append(text(max(sites, key=accesses).function, "cyan"))
        share = percent(transfers / total) if total else ""
        table.add_row(rate(transfers), share, f"{len(lines):,}", _Flow(*pieces))
    yield table


# One object: line, offset in line, code, containers


def _object(
    walled: Walled, lines: tuple[Line, ...], workload: WorkloadResult, top_sites: int | None
) -> Iterator[RenderableType]:
    what = walled.object
    heading = Text(f"{rate(walled.transfers)} transfers/op on ", style="bold", overflow="fold")
    heading.append_text(text(what.title, "bold red"))
    yield heading
    facts: list[str] = [what.kind]
    if what.type is not None and what.type not in what.name:
        facts.append(what.type)
    facts.append(f"{count(what.size, 'byte')} at {what.address}")
    facts.append(count(len(walled.lines), "line"))
    if what.state == "freed":
        facts.append("freed")
    if what.detail:
        facts.append(what.detail)
    yield _indent(text(", ".join(facts)), 2)
    for position, line in enumerate(lines):
        if position:
            yield ""
        yield from _line(line, workload, top_sites)


def _line(line: Line, workload: WorkloadResult, top_sites: int | None) -> Iterator[RenderableType]:
    said = Text(overflow="fold")
    said.append(f"line {signed_hex(line.object.line)}", style="bold")
    said.append(f": {rate(line.judged)} transfers/op, ")
    said.append(sharers(line, workload.topology.containers))
    other = line.within if workload.scope == "between" else line.between
    if other > workload.threshold:
        elsewhere = SCOPES["within" if workload.scope == "between" else "between"]
        said.append(f"; {rate(other)} more {elsewhere}")
    yield _indent(said, 2)
    if line.false_sharing:
        words = "FALSE SHARING: some CPUs pay for a field that they do not use"
        yield _indent(Text(words, style="bold yellow"), 2)
    if line.fields:
        yield _indent(_fields(line.fields), 4)
    sites = busiest(line)
    shown = sites[:top_sites]
    if shown:
        yield _indent(_code(shown), 4)
    if len(sites) > len(shown):
        rest = sum(accesses(site) for site in sites[len(shown) :])
        words = f"{count(len(sites) - len(shown), 'more place')}, {rate(rest)} accesses/op"
        yield _indent(Text(f"{words}; --all shows them", style="dim"), 4)


def _fields(fields: list[FieldUse]) -> Table:
    table = _table(("read", "write", "atomic", "share", "offset", "size"), "field")
    for use in sorted(fields, key=lambda use: (use.offset, use.path)):
        table.add_row(
            rate(use.reads),
            rate(use.writes),
            rate(use.atomics),
            percent(use.share),
            f"{use.offset:#x}",
            f"{use.size}",
            text(use.path, "magenta"),
        )
    return table


def _code(sites: list[Site]) -> Table:
    table = _table(("read", "write", "atomic"), "function, field, source, context")
    for site in sites:
        pieces = [text(function(site), "cyan")]
        if site.field:
            pieces.append(text(site.field, "magenta"))
        if site.source:
            pieces.append(text(site.source, "dim"))
        if site.caller:
            pieces.append(text(f"from {site.caller}", "cyan"))
            if site.caller_source:
                pieces.append(text(site.caller_source, "dim"))
        pieces.append(text(site.context))
        for position, name in enumerate(site.inlined):
            pieces.append(text(f"{'in' if position else 'inline'} {name}", "dim"))
        table.add_row(rate(site.reads), rate(site.writes), rate(site.atomics), _Flow(*pieces))
    return table


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
    table = _table(("transf/op",), "line, code and context")
    ordered = sorted(workload.background, key=lambda line: -line.transfers)
    shown = ordered if verbose else ordered[:BACKGROUND]
    for line in shown:
        what = line.object
        pieces = [text(f"{what.name} {signed_hex(what.line)} ({what.kind})")]
        for site in busiest(line)[:1]:
            pieces += [text(function(site), "cyan"), text(site.context)]
        table.add_row(rate(line.transfers), _Flow(*pieces))
    yield _indent(table, 2)
    if len(ordered) > len(shown):
        words = f"{count(len(ordered) - len(shown), 'more line')}; --all shows them"
        yield _indent(Text(words, style="dim"), 2)
