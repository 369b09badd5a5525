# SPDX-License-Identifier: GPL-2.0-or-later
"""The map as Markdown: its tables, for a page of documentation or a report of a fault."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from partywall.advice.changes import changes
from partywall.advice.map import Cell, Map, Object, Operation, Reach
from partywall.report import map as view
from partywall.report.marked import code, heads
from partywall.report.words import count, plain, rate

VERDICTS = ("walls", "no wall", "isolated in its calls", "isolated")

CHANGES = 20
"""Operations that differ between kernels: who reads a page wants the largest."""


def render(found: Map, *, everything: bool) -> str:
    """Return the tables of the map. Equal maps give equal text."""
    return "\n".join(_lines(found, everything)) + "\n"


def _lines(found: Map, everything: bool) -> Iterator[str]:
    sharers = count(found.kernels[0].sharers, "container")
    yield f"Figures are transfers per operation, for {sharers}."
    if found.mix:
        weights = ", ".join(f"{code(title)} {rate(one)}" for title, one in found.mix.items())
        yield f"The mix, by weight: {weights}."
    if found.again:
        yield plain(view.apart(found)).replace("|", "")
    yield ""
    yield from _kernels(found)
    if len(found.kernels) > 1:
        yield from _changes(found, everything)
    yield from _objects(found, everything)
    yield from _operations(found, everything)
    yield from _memory(found, everything)
    yield from _waits(found, everything)
    yield from _failures(found)


def _kernels(found: Map) -> Iterator[str]:
    """How many operations have which verdict."""
    verdicts = [
        Counter(
            "not measured" if cell.failed is not None else cell.verdict
            for cell in _column(found, number)
            if cell is not None
        )
        for number in range(len(found.kernels))
    ]
    yield from heads("", *map(code, found.labels))
    yield _row("kernel", *(code(one.kernel.source) for one in found.kernels))
    yield _row("containers that ran", *map(view.made, found.kernels))
    if found.again:
        yield _row("measured", *(code(one.created) for one in found.kernels))
    measured = (sum(one.values()) - one["not measured"] for one in verdicts)
    yield _row("operations with a figure", *map(str, measured))
    for verdict in (*VERDICTS, "not measured"):
        if any(one[verdict] for one in verdicts):
            yield _row(verdict, *(str(one[verdict]) for one in verdicts))
    yield ""


def _changes(found: Map, everything: bool) -> Iterator[str]:
    """What differs between neighbouring kernels: how many, and the largest."""
    every = changes(found)
    yield "### What differs"
    yield ""
    for pair in pairwise(range(len(found.kernels))):
        before, after = pair
        labels = code(found.labels[before]), code(found.labels[after])
        those = [one for one in every if (one.before, one.after) == (before, after)]
        less = sum(one.now < one.was for one in those)
        figures = [[one.cells[kernel] for kernel in pair] for one in found.operations]
        both = sum(all(cell and cell.failed is None for cell in cells) for cells in figures)
        yield (
            f"From {labels[0]} to {labels[1]}, of {count(both, 'operation')} with a figure on "
            f"both: {less} move less, {len(those) - less} more, each by more than half a transfer "
            "and more than a tenth."
        )
        yield ""
    largest = list(dict.fromkeys(one.title for one in every))
    by_title = {one.title: one for one in found.operations}
    shown = largest if everything else largest[:CHANGES]
    if shown:
        yield from heads("operation", *map(code, found.labels))
        for title in shown:
            yield _row(code(title), *_cells(by_title[title]))
        yield from _more(largest[CHANGES:], "operation", len(found.kernels), everything)
    yield ""


def _objects(found: Map, everything: bool) -> Iterator[str]:
    yield f"### What costs most{', of the mix that was stated' if found.mix else ''}"
    yield ""
    for title, numbers in found.lacks.items():
        yield f"- {code(view.left_out(found, title, numbers))}"
    if found.lacks:
        yield ""
    shown = found.objects if everything else found.objects[: view.OBJECTS]
    told = "per operation of the mix" if found.mix else "transfers of operations"
    yield from heads("object", *(f"{code(one)}: {told}" for one in found.labels), "mended by")
    for one in shown:
        yield _row(code(one.name), *map(_reach, one.reach), _mends(one))
    yield from _more(found.objects[view.OBJECTS :], "object", len(found.kernels) + 1, everything)
    yield ""


def _reach(reach: Reach | None) -> str:
    """What an object costs on a kernel: in all, and of how many operations."""
    if reach is None:
        return "-"
    if reach.mix is not None:
        return rate(reach.mix)
    ends = rate(reach.least), rate(reach.most)
    each = ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"
    return f"{rate(reach.sum)} of {reach.operations}, each {each}"


def _mends(one: Object) -> str:
    return "; ".join(map(code, one.mends))


def _operations(found: Map, everything: bool) -> Iterator[str]:
    ranked = view.ranked(found)
    shown = ranked if everything else ranked[: view.OPERATIONS]
    yield "### Operations, those that move most first"
    yield ""
    several = len(found.kernels) > 1
    told_of = map(code, found.labels) if several else ("transfers", "memory", "waits")
    where = ", on the first kernel that has any" if several else ""
    yield from heads("operation", *told_of, f"its worst objects{where}")
    for one in shown:
        cells = list(_cells(one))
        if not several:
            cells += [plain(view.stays(one.cells[0])), plain(view.asleep(one.cells[0]))]
        walls = view.worst(one)
        told = ", ".join(f"{code(share.object)} {rate(share.transfers)}" for share in walls)
        yield _row(code(one.title), *cells, told)
    columns = len(found.kernels) + 1 if several else 4
    yield from _more(ranked[view.OPERATIONS :], "operation", columns, everything)
    yield ""


def _memory(found: Map, everything: bool) -> Iterator[str]:
    """What stays, in bytes of an operation."""
    left = view.left_behind(found)
    yield "### Memory that stays: bytes of an operation, what nobody pays for first"
    yield ""
    if not left:
        yield "not measured" if left is None else "none"
    else:
        yield from heads("operation", "kernel", "nobody's", "all", "most of what it leaves")
        for stay, title, label in left if everything else left[: view.OTHERS]:
            told = "; ".join(f"{who} {code(what)}" for who, what in view.kinds(stay))
            sizes = rate(stay.uncharged), rate(stay.bytes)
            yield _row(code(title), code(label), *sizes, told)
        yield from _more(left[view.OTHERS :], "row", 4, everything)
    yield ""


def _waits(found: Map, everything: bool) -> Iterator[str]:
    """Shared locks that are held asleep."""
    held = view.held(found)
    yield "### Waits behind somebody: a shared lock is held asleep"
    yield ""
    if not held:
        yield "not measured" if held is None else "none"
    else:
        yield from heads("operation", "kernel", "ms at most", "lock")
        for one, title, label in held if everything else held[: view.OTHERS]:
            yield _row(code(title), code(label), rate(one.ms), code(one.lock))
        yield from _more(held[view.OTHERS :], "row", 3, everything)
    yield ""


def _failures(found: Map) -> Iterator[str]:
    failed = view.failures(found)
    if failed:
        yield "### What could not be measured"
        yield ""
        yield from heads("operation", "kernel", "why")
        for title, label, why in failed:
            yield _row(code(title), code(label), code(why))
        yield ""


def _column(found: Map, number: int) -> Iterator[Cell | None]:
    return (operation.cells[number] for operation in found.operations)


def _cells(one: Operation) -> Iterator[str]:
    return map(view.figure, one.cells)


def _more(left: list[Any], noun: str, columns: int, everything: bool) -> Iterator[str]:
    """A last row that says how many are left out, if any are."""
    if left and not everything:
        yield _row(f"{count(len(left), f'more {noun}')}: --all", *[""] * columns)


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
