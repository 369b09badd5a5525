# SPDX-License-Identifier: GPL-2.0-or-later
"""The lines of a type, who uses what in them, and the grouping that costs least."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, RenderableType
from rich.table import Table

from partywall.analyse.layout import KernelLayout, Layout, LineOfType
from partywall.report.blocks import columns, indent, more, print_blocks, text
from partywall.report.words import count, plain, rate, signed_hex

SHOWN = 8
"""Lines of a type that are shown, those that move most, unless all are asked for."""


def render(found: Layout, console: Console, *, everything: bool) -> None:
    """Print a type's lines, kernel by kernel."""
    print_blocks(_blocks(found, everything), console)


def _blocks(found: Layout, everything: bool) -> Iterator[RenderableType]:
    for number, kernel in enumerate(found.kernels):
        if number:
            yield ""
        yield from _kernel(found.type, kernel, everything)
    yield ""
    yield text(
        "Figures are per operation, those of workloads added up. A line's transfers are as "
        "measured; what fields cost in lines of their own, and now in one, is reckoned from "
        "visits, of containers that use the line alike. What two lines hold is not put "
        "together. Of a wall's lines the results hold the worst.",
        "dim",
    )


def _kernel(type_: str, kernel: KernelLayout, everything: bool) -> Iterator[RenderableType]:
    yield text(f"{type_}, {count(kernel.size, 'byte')}, on {kernel.kernel.release}", "bold")
    yield text(f"moved by {', '.join(kernel.workloads)}")
    worst = sorted(kernel.lines, key=lambda line: (-line.transfers, line.line))
    left = [] if everything else worst[SHOWN:]
    for line in kernel.lines:
        if line not in left:
            yield ""
            yield from _line(line)
    if left:
        yield more(len(left), "line", f"{rate(sum(one.transfers for one in left))} transfers/op")


def _line(line: LineOfType) -> Iterator[RenderableType]:
    where = "" if line.objects == 1 else f" in {count(line.objects, 'object')}"
    said = f"line {signed_hex(line.line)}{where}: {rate(line.transfers)} transfers/op"
    yield text(said, "bold")
    if line.fields:
        yield indent(_fields(line), 2)
    if line.now is not None and line.then is not None:
        if len(line.groups) > 1 and line.then < line.now:
            head = f"in {count(len(line.groups), 'line')}: {rate(line.then)} transfers/op, now "
            yield indent(text(f"{head}{rate(line.now)}", "bold yellow"), 2)
            for group in line.groups:
                yield indent(text(f"- {', '.join(group)}"), 4)
        else:
            yield indent(text(f"no grouping costs less: {rate(line.now)} transfers/op"), 2)
    if line.unknown:
        yield indent(
            text(f"not known which fields are used together: {', '.join(line.unknown)}"), 2
        )


def _fields(line: LineOfType) -> Table:
    table = columns(("offset", "size", "read", "write", "atomic"), "field, used by")
    for field in line.fields:
        name = text(field.path or "(the object)", "magenta")
        name.append(f"  {plain(', '.join(field.workloads))}", style="dim")
        table.add_row(
            f"{field.offset:#x}",
            f"{field.size}",
            rate(field.reads),
            rate(field.writes),
            rate(field.atomics),
            name,
        )
    return table
