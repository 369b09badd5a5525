# SPDX-License-Identifier: GPL-2.0-or-later
"""A comparison for people at a terminal, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from partywall.report.blocks import columns, print_blocks
from partywall.report.words import plain, rate, topology
from partywall.results.compare import Change, Comparison, WorkloadChange
from partywall.results.held import ASLEEP_NS, LONG_NS

OBJECTS = 12
"""Objects with walls shown for each workload unless all are asked for."""

LOCK = 0.01
"""Share of an operation's instructions from which on a lock is shown."""


MEASURED = (
    "transfers/op as they were measured; report, --fail-above, --html and judged in --json have "
    "them between as many containers as verdicts are for"
)
"""What figures here are, where others differ."""


def render(comparison: Comparison, console: Console, *, verbose: bool = False) -> None:
    """Print the comparison. ``verbose``: every object, however many."""
    print_blocks(_blocks(comparison, verbose), console)


def _blocks(comparison: Comparison, verbose: bool) -> Iterator[RenderableType]:
    head = Table.grid(padding=(0, 2, 0, 0))
    head.add_column(style="dim", no_wrap=True)
    head.add_column(overflow="fold")
    for label, kernel in (("before", comparison.before), ("after", comparison.after)):
        head.add_row(label, Text(plain(f"{kernel.release} ({kernel.source})")))
    yield head
    yield ""
    yield _summary(comparison.workloads)
    if any(
        one.judged not in (None, one.transfers) for w in comparison.workloads for one in w.objects
    ):
        yield Text(MEASURED, "dim")
    yield from _calls(comparison.workloads)
    for workload in comparison.workloads:
        if workload.objects or workload.deferred or workload.held or _stays(workload):
            yield ""
            yield from _objects(workload, None if verbose else OBJECTS)
            yield from _locks(workload)
            yield from _held(workload, verbose)
            yield from _waits(workload, verbose)
            yield from _left(workload)
    if comparison.alone:
        yield ""
        yield Text(plain(f"only in one of the two: {', '.join(comparison.alone)}"))


def _arrow(change: Change) -> str:
    return f"{rate(change.before)} -> {rate(change.after)}"


def _percent(change: Change) -> str:
    """By how much it grew, ``-12.3%``; ``=`` if it did not."""
    if change.before == change.after:
        return "="
    share = change.relative
    return "new" if share is None else f"{share:+.1%}"


def _summary(workloads: list[WorkloadChange]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("workload", overflow="fold")
    table.add_column("topology", justify="right", no_wrap=True)
    table.add_column("walls", justify="right", no_wrap=True)
    table.add_column("transfers/op", justify="right", no_wrap=True)
    table.add_column("kernel instr/op", justify="right", no_wrap=True)
    for one in workloads:
        walls = f"{one.walls.before:.0f} -> {one.walls.after:.0f}"
        fewer = one.wall_transfers.after < one.wall_transfers.before
        more = one.wall_transfers.after > one.wall_transfers.before
        instructions = f"{one.instructions.after:,.0f} {_percent(one.instructions):>6}"
        table.add_row(
            Text(plain(one.title)),
            topology(one.topology),
            walls,
            Text(_arrow(one.wall_transfers), "green" if fewer else "red" if more else ""),
            instructions,
        )
    return table


def _calls(workloads: list[WorkloadChange]) -> Iterator[RenderableType]:
    if not any(one.calls for one in workloads):
        return
    yield ""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("calls/op", justify="right", no_wrap=True)
    table.add_column("function", overflow="fold")
    table.add_column("workload", overflow="fold")
    for one in workloads:
        for call in one.calls:
            table.add_row(
                _arrow(call.calls),
                Text(plain(call.function)),
                Text(plain(f"{one.title} {topology(one.topology)}")),
            )
    yield table


def _locks(workload: WorkloadChange) -> Iterator[RenderableType]:
    """Locks that hold up at least a hundredth of an operation, on either kernel."""
    least = LOCK * workload.instructions.before
    shown = [
        lock
        for lock in workload.locks
        if max(lock.instructions.before, lock.instructions.after) >= least
    ]
    if not shown:
        return
    table = columns(("instr/op",), "under the lock")
    for lock in shown:
        table.add_row(_arrow(lock.instructions), Text(plain(lock.object)))
    yield table


def _held(workload: WorkloadChange, verbose: bool) -> Iterator[RenderableType]:
    """Locks that are kept from others because somebody sleeps: for long, or all of them."""
    shown = [
        one
        for one in workload.held
        if verbose
        or max(one.asleep.before, one.asleep.after) >= ASLEEP_NS
        or max(one.longest.before, one.longest.after) >= LONG_NS
    ]
    if not shown:
        return
    table = columns(("asleep, ms/op", "kept at most, ms"), "lock")
    for one in shown:
        table.add_row(_arrow(_ms(one.asleep)), _arrow(_ms(one.longest)), Text(plain(one.object)))
    yield table


def _waits(workload: WorkloadChange, verbose: bool) -> Iterator[RenderableType]:
    """What waits for the whole machine, if the one waits there for longer: or all of it."""
    shown = [
        one for one in workload.waits if verbose or max(one.ns.before, one.ns.after) >= ASLEEP_NS
    ]
    if not shown:
        return
    table = columns(("waits/op", "ms/op"), "in")
    for one in shown:
        charged = ", charged" if one.charged else ""
        table.add_row(_arrow(one.times), _arrow(_ms(one.ns)), Text(plain(one.function + charged)))
    yield table


def _stays(workload: WorkloadChange) -> bool:
    return workload.left is not None and bool(workload.left.kinds)


def _left(workload: WorkloadChange) -> Iterator[RenderableType]:
    """What stays in memory on either kernel."""
    if workload.left is None or not _stays(workload):
        return
    table = columns(("bytes/op left",), "memory")
    for what, change in workload.left.kinds.items():
        table.add_row(_arrow(change), Text(plain(what)))
    if max(workload.left.uncharged.before, workload.left.uncharged.after):
        table.add_row(_arrow(workload.left.uncharged), "of all, charged to no container")
    yield table


def _ms(ns: Change) -> Change:
    return Change(before=ns.before / 1e6, after=ns.after / 1e6)


def _objects(workload: WorkloadChange, most: int | None) -> Iterator[RenderableType]:
    yield Text(plain(f"{workload.title}, {topology(workload.topology)}"), "bold")
    table = columns(("transfers/op", "lines"), "wall")
    every = [(change, "") for change in workload.objects]
    kind = "deferred: " if workload.both_deferred else "deferred, not judged before: "
    every += [(change, kind) for change in workload.deferred]
    for change, what in every[:most]:
        gone, new = not change.transfers.after, not change.transfers.before
        table.add_row(
            Text(_arrow(change.transfers), "green" if gone else "red" if new else ""),
            f"{change.lines.before:.0f} -> {change.lines.after:.0f}",
            Text(plain(f"{what}{change.object}")),
        )
    yield table
    rest = every[most:] if most is not None else []
    if rest:
        before = sum(change.transfers.before for change, _ in rest)
        after = sum(change.transfers.after for change, _ in rest)
        yield Text(
            f"and {len(rest)} more objects: {rate(before)} -> {rate(after)} (--all shows them)"
        )
