# SPDX-License-Identifier: GPL-2.0-or-later
"""A benchmark for people at a terminal, in the form of the mailing lists' tables, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from partywall.clock.bench import Bench, Series
from partywall.model.queues import Prediction
from partywall.report.blocks import print_blocks
from partywall.report.predict import speed
from partywall.report.words import percent, plain


def render(found: Bench, expected: Prediction | None, console: Console) -> None:
    """Print the benchmark, beside what the model expects if that is given."""
    print_blocks(_blocks(found, expected), console)


def _blocks(found: Bench, expected: Prediction | None) -> Iterator[RenderableType]:
    head = Table.grid(padding=(0, 2, 0, 0))
    head.add_column(style="dim", no_wrap=True)
    head.add_column(overflow="fold")
    head.add_row("workload", Text(plain(f"{found.workload}: {found.operation}")))
    head.add_row("processor", Text(plain(found.processor)))
    head.add_row("CPUs", Text(plain(f"{found.placement}; {found.cpus} for each container")))
    runs = len(found.series[0].points[0].runs)
    head.add_row("runs", f"{runs} of {found.seconds:g} s each, medians")
    yield head
    for warning in found.warnings:
        yield Text(plain(f"mind: {warning}"), "yellow")
    for series in found.series:
        yield ""
        yield Text(plain(f"{series.kernel}, on {series.runs_on}"), "bold")
        yield Text(_posted(series))
        yield _table(series, found.series[0], expected)
    if found.constant is not None:
        told = found.constant
        yield ""
        yield Text(
            plain(
                f"for a machine's file: one container's time over {told.instructions:,.0f} "
                f"instructions/op, counted on {told.counted_on}; quickest, middle, slowest run"
            )
        )
        yield Text(told.line)


def _posted(series: Series) -> str:
    """As the posts have it: a row of numbers of containers, a row of throughput of each."""
    counts = [str(point.containers) for point in series.points]
    rates = [f"{point.median:.0f}" for point in series.points]
    widths = [max(map(len, pair)) for pair in zip(counts, rates, strict=True)]

    def row(name: str, cells: list[str]) -> str:
        padded = [cell.rjust(width) for cell, width in zip(cells, widths, strict=True)]
        return f"| {name} | {' | '.join(padded)} |"

    return f"{row('containers', counts)}\n{row('throughput', rates)}"


def _table(series: Series, first: Series, expected: Prediction | None) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("containers", justify="right", no_wrap=True)
    table.add_column("op/s of each", justify="right", no_wrap=True)
    table.add_column("runs from to", no_wrap=True)
    table.add_column("of the first", justify="right", no_wrap=True)
    if series is not first:
        table.add_column("times", justify="right", no_wrap=True)
    if expected is not None:
        table.add_column("expected", justify="right", no_wrap=True)
        table.add_column("at least to at most", no_wrap=True)
    known = {point.containers: point for point in expected.points} if expected else {}
    base = series.points[0].median
    first_told = known.get(series.points[0].containers)
    alone = first_told.relative.usual if first_told else 1.0
    for number, point in enumerate(series.points):
        cells = [
            str(point.containers),
            speed(point.median),
            f"{speed(min(point.runs))} to {speed(max(point.runs))}",
            percent(point.median / base) if point.median <= base else f"{point.median / base:.0%}",
        ]
        if series is not first:
            cells.append(f"{point.median / first.points[number].median:.2f}")
        told = known.get(point.containers)
        if expected is not None:
            cells += (
                [
                    percent(told.relative.usual / alone),
                    f"{percent(told.relative.low / alone)} to "
                    f"{percent(told.relative.high / alone)}",
                ]
                if told
                else ["", ""]
            )
        table.add_row(*cells)
    return table
