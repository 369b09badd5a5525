# SPDX-License-Identifier: GPL-2.0-or-later
"""Predictions for people at a terminal, and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from partywall.model.predict import Outlook, Pair, Trial
from partywall.model.queues import Point, Prediction, Range, Station
from partywall.report.blocks import print_blocks
from partywall.report.words import count, percent, plain, rate, topology

STATIONS = 4
"""Lines that bound a workload that are named."""


def render(found: Outlook, console: Console) -> None:
    """Print the predictions."""
    print_blocks(_blocks(found), console)


def speed(value: float) -> str:
    """Operations per second, with three digits.

    >>> [speed(x) for x in (381432.1, 12152, 73.25, 0.1234, 0)]
    ['381,000', '12,200', '73.2', '0.123', '0']
    """
    if value <= 0:
        return "0"
    if value >= 1000:
        digits = len(f"{value:.0f}") - 3
        return f"{round(value, -digits):,.0f}"
    return f"{value:.3g}"


def _head(found: Outlook) -> Table:
    head = Table.grid(padding=(0, 2, 0, 0))
    head.add_column(style="dim", no_wrap=True)
    head.add_column(overflow="fold")
    kernels = [("kernel", found.before)]
    if found.after:
        kernels = [("before", found.before), ("after", found.after)]
    for label, kernel in kernels:
        head.add_row(label, Text(plain(f"{kernel.release} ({kernel.source})")))
    profile = found.profile
    head.add_row("machine", Text(plain(f"{profile.name}: {profile.description}")))
    return head


def _blocks(found: Outlook) -> Iterator[RenderableType]:
    yield _head(found)
    for pair in found.workloads:
        yield ""
        shape = topology(pair.before.topology)
        yield Text(plain(f"{pair.title}, measured as {shape}: {pair.operation}"), "bold")
        yield _both(pair.before, pair.after) if pair.after else _one(pair.before)
        yield from _notes(pair)
    if found.alone:
        yield ""
        yield Text(plain(f"only in the second: {', '.join(found.alone)}"))


def _span(found: Range, say: Any) -> str:
    return f"{say(found.low)} to {say(found.high)}"


def _columns(first: str, *names: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column(first, justify="right", no_wrap=True)
    for name in names:
        right = name not in ("at least to at most", "of one alone, both")
        table.add_column(
            name.removesuffix(", both"), justify="right" if right else "left", no_wrap=True
        )
    return table


def _of_core(points: Sequence[Point]) -> bool:
    """Whether any number of containers has to share cores, which a column then tells."""
    return any(point.core < 1 for point in points)


def _one(prediction: Prediction) -> Table:
    points = prediction.points
    names = ["op/s of each", "at least to at most", "of one alone", "lost"]
    table = _columns(prediction.of, *names, *(["of a core"] if _of_core(points) else []))
    for point in points:
        table.add_row(
            str(point.containers),
            speed(point.throughput.usual),
            _span(point.throughput, speed),
            percent(point.relative.usual),
            percent(point.stalled.usual),
            *([percent(point.core)] if _of_core(points) else []),
        )
    return table


def _both(before: Prediction, after: Prediction) -> Table:
    points = before.points
    names = ["op/s of each", "after", "times", "of one alone, both"]
    table = _columns(before.of, *names, *(["of a core"] if _of_core(points) else []))
    for old, new in zip(points, after.points, strict=True):
        table.add_row(
            str(old.containers),
            speed(old.throughput.usual),
            speed(new.throughput.usual),
            f"{new.throughput.usual / old.throughput.usual:.2f}",
            f"{percent(old.relative.usual)} -> {percent(new.relative.usual)}",
            *([percent(old.core)] if _of_core(points) else []),
        )
    return table


def queued(stations: Iterable[Station]) -> list[tuple[str, float, int]]:
    """Return what is queued for by name, transfers per op and lines, most transfers first.

    Objects of one name, such as struct pages of one kind, are one.
    """
    found: dict[str, tuple[float, int]] = {}
    for station in stations:
        if station.transfers:
            transfers, lines = found.get(station.object, (0.0, 0))
            found[station.object] = (transfers + station.transfers, lines + station.lines)
    return sorted(
        ((name, *figures) for name, figures in found.items()), key=lambda one: (-one[1], one[0])
    )


def _notes(pair: Pair) -> Iterator[RenderableType]:
    sides = [("", pair.before)]
    if pair.after:
        sides = [("before: ", pair.before), ("after: ", pair.after)]
    for label, one in sides:
        objects = queued(one.stations)
        named = [
            f"{rate(transfers)} on {name}" + (f" ({lines:,} lines)" if lines > 1 else "")
            for name, transfers, lines in objects[:STATIONS]
        ]
        rest = objects[STATIONS:]
        if rest:
            moved = sum(transfers for _, transfers, _ in rest)
            named.append(f"{rate(moved)} on {count(sum(n for *_, n in rest), 'line')} more")
        said = ", ".join(named) or "no line"
        put_off = sum(station.deferred for station in one.stations)
        if put_off >= 0.01:
            said += f"; {rate(put_off)} of these in deferred work"
        yield Text(plain(f"{label}transfers/op that are queued for: {said}"))
        held = max(one.stations, key=lambda station: station.held, default=None)
        if held is not None and held.held >= 1:
            yield Text(
                plain(f"{label}instructions/op under one lock: {rate(held.held)}, {held.object}")
            )
        fetched = max(one.stations, key=lambda station: station.moved, default=None)
        if fetched is not None and fetched.moved >= 0.01:
            yield Text(
                plain(
                    f"{label}transfers/op under one lock: {rate(fetched.moved)}, {fetched.object}"
                )
            )
        asleep = max(one.stations, key=lambda station: station.asleep, default=None)
        if asleep is not None and asleep.asleep >= 1_000:
            yield Text(
                plain(
                    f"{label}asleep under one lock: {rate(asleep.asleep / 1e6)} ms/op of the "
                    f"guest's time, {asleep.object}: all together at most "
                    f"{speed(1e9 / asleep.asleep)} op/s"
                )
            )
        if one.handed_over >= 0.01:
            yield Text(f"{label}and {rate(one.handed_over)} that nobody queues for")
        if one.unknown:
            yield Text(plain(f"{label}all op/s may be less; not known: {'; '.join(one.unknown)}"))
    if _of_core(pair.before.points):
        yield Text(
            f"below 100% of a core: more than the machine's {pair.before.cores} cores, which "
            "they share; that is no wall"
        )


def render_trial(found: Trial, console: Console) -> None:
    """Print what others measured beside the model's figures."""
    print_blocks(_trial(found), console)


def _trial(found: Trial) -> Iterator[RenderableType]:
    cost = found.signal
    instructions = rate(cost.kernel_instructions + cost.user_instructions)
    moved = ", ".join(rate(line.transfers) for line in cost.lines) or "none"
    head = Table.grid(padding=(0, 2, 0, 0))
    head.add_column(style="dim", no_wrap=True)
    head.add_column(overflow="fold")
    head.add_row("signal", f"{instructions} instructions; transfers on each line: {moved}")
    head.add_row("kernel", Text(plain(cost.kernel)))
    head.add_row("by", Text(plain(cost.command)))
    head.add_row("shares", "throughput of each container, of what one alone has")
    yield head
    for machine in found.signals:
        yield ""
        profile = machine.profile
        yield Text(plain(f"signals, {profile.name}: {profile.description}"), "bold")
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
        for name in ("containers", "published op/s", "share", "predicted", "error"):
            table.add_column(name, justify="right", no_wrap=True)
        table.add_column("at least to at most", no_wrap=True)
        for check in machine.checks:
            table.add_row(
                f"{check.count}{'*' if check.count > profile.cores else ' '}",
                "" if check.rate is None else f"{check.rate:,.0f}",
                percent(check.published),
                percent(check.predicted),
                f"{check.error:+.0%}",
                f"{percent(check.low)} to {percent(check.high)}",
            )
        yield table
        if any(check.count > profile.cores for check in machine.checks):
            yield Text(f"* more than the machine's {profile.cores} cores, which they share")
    yield ""
    yield Text("stalls in overlayfs, any machine", "bold")
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for name in ("cores", "published", "predicted", "error"):
        table.add_column(name, justify="right", no_wrap=True)
    for number, check in enumerate(found.stalls):
        table.add_row(
            str(check.count),
            f"{check.published:.1%}",
            f"{check.predicted:.1%}",
            "given" if number == 0 else f"{check.error:+.0%}",
        )
    yield table
    if found.ours:
        yield ""
        yield Text(plain(f"measured by us: {found.machine}"), "bold")
        yield _ours(found)


def _ours(found: Trial) -> Table:
    """Shares of one alone, by number of containers: measured, and predicted."""
    numbers = sorted({number for row in found.ours for number in row.measured})
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("measured, predicted at", no_wrap=True)
    for number in numbers:
        table.add_column(f"{number}", justify="right", no_wrap=True)
    for row in found.ours:
        cells = [
            f"{row.measured[number]:.0%} {row.predicted[number]:.0%}"
            if number in row.measured
            else ""
            for number in numbers
        ]
        table.add_row(plain(row.workload), *cells)
    return table
