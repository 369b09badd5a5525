# SPDX-License-Identifier: GPL-2.0-or-later
"""The map as Markdown: its tables, for a page of documentation or a report of a fault."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from partywall.advice.changes import changes, pairs
from partywall.advice.map import Map, Object, Operation, Reach, Stays
from partywall.report import map as view
from partywall.report.marked import code, heads, row
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
        yield view.apart(found)
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
            for cell in (one.cells[number] for one in found.operations)
            if cell is not None
        )
        for number in range(len(found.kernels))
    ]
    yield from heads("", *map(code, found.labels))
    yield row("kernel", *(code(one.kernel.source) for one in found.kernels))
    yield row("containers that ran", *map(view.made, found.kernels))
    if found.again:
        yield row("measured", *(code(one.created) for one in found.kernels))
    if any(one.lacks for one in found.kernels):
        yield row("older results", *(view.older(one) if one.lacks else "" for one in found.kernels))
    measured = (sum(one.values()) - one["not measured"] for one in verdicts)
    yield row("operations with a figure", *map(str, measured))
    for verdict in (*VERDICTS, "not measured"):
        if any(one[verdict] for one in verdicts):
            yield row(verdict, *(str(one[verdict]) for one in verdicts))
    yield ""


def _changes(found: Map, everything: bool) -> Iterator[str]:
    """What differs between neighbouring kernels: how many, and the largest."""
    every = changes(found)
    yield "### What differs"
    yield ""
    if said := view.otherwise(found):
        yield f"- {said}"
        yield ""
    for pair in pairs(found, every):
        labels = code(found.labels[pair.before]), code(found.labels[pair.after])
        both = count(pair.both, "operation")
        yield (
            f"From {labels[0]} to {labels[1]}, of {both} with a figure on both{pair.between}: "
            f"{pair.less} move less, {pair.more} more, each by more than half a transfer "
            f"and more than a tenth; of {pair.turned} a wall of more than that half came or went."
        )
        yield ""
    largest = list(dict.fromkeys(one.title for one in every))
    by_title = {one.title: one for one in found.operations}
    if not largest:
        yield ""
        return
    objects: dict[str, list[str]] = {}
    for one in every:
        if one.objects:
            objects.setdefault(one.title, []).append(one.objects)
    rows = (
        [code(title), *_cells(by_title[title]), "; ".join(map(code, objects.get(title, ())))]
        for title in largest
    )
    columns = ["operation", *map(code, found.labels), "walls that came or went"]
    yield from _table(columns, rows, None if everything else CHANGES, "operation")


def _objects(found: Map, everything: bool) -> Iterator[str]:
    yield f"### What costs most{', of the mix that was stated' if found.mix else ''}"
    yield ""
    for title, numbers in found.lacks.items():
        yield f"- {code(view.left_out(found, title, numbers))}"
    if any(map(any, (one.unknown for one in found.objects))):
        yield f"- {view.UNKNOWN}"
    if found.lacks or any(map(any, (one.unknown for one in found.objects))):
        yield ""
    told = "per operation of the mix" if found.mix else "transfers of operations"
    columns = ["object", *(f"{code(one)}: {told}" for one in found.labels), "mended by"]
    rows = (
        [code(one.name), *map(_reach, one.reach, one.unknown), _mends(one)] for one in found.objects
    )
    yield from _table(columns, rows, None if everything else view.OBJECTS, "object")


def _reach(reach: Reach | None, unknown: int) -> str:
    """What an object costs on a kernel: in all, and of how many operations."""
    if reach is None:
        return "?" if unknown else "-"
    if reach.mix is not None:
        return rate(reach.mix)
    ends = rate(reach.least), rate(reach.most)
    each = ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"
    return f"{rate(reach.sum)} of {view.operations(reach, unknown)}, each {each}"


def _mends(one: Object) -> str:
    return "; ".join(map(code, one.mends))


def _operations(found: Map, everything: bool) -> Iterator[str]:
    yield "### Operations, those that move most first"
    yield ""
    several = len(found.kernels) > 1
    told_of = map(code, found.labels) if several else ("transfers", "memory", "waits")
    where = ", on the kernel where it moves most" if several else ""
    columns = ["operation", *told_of, f"its worst objects{where}"]
    rows = (_operation(one, several) for one in view.ranked(found))
    yield from _table(columns, rows, None if everything else view.OPERATIONS, "operation")


def _operation(one: Operation, several: bool) -> list[str]:
    cells = list(_cells(one))
    if not several:
        cells += [plain(view.stays(one.cells[0])), plain(view.asleep(one.cells[0]))]
    walls = view.worst(one)
    told = ", ".join(f"{code(share.object)} {rate(share.transfers)}" for share in walls)
    return [code(one.title), *cells, told]


def _memory(found: Map, everything: bool) -> Iterator[str]:
    """What stays, in bytes of an operation."""
    yield "### Memory that stays: bytes of an operation, what nobody pays for first"
    yield ""
    columns = ("operation", "kernel", "nobody's", "all", "most of what it leaves")
    left = view.left_behind(found)
    rows = (
        None
        if left is None
        else [
            (code(title), code(label), rate(stay.uncharged), rate(stay.bytes), _kinds(stay))
            for stay, title, label in left
        ]
    )
    yield from _looked_at(columns, rows, view.not_looked(found, view.memory_of), everything)


def _kinds(stay: Stays) -> str:
    return "; ".join(f"{who} {code(what)}" for who, what in view.kinds(stay))


def _waits(found: Map, everything: bool) -> Iterator[str]:
    """Locks that are kept from others because somebody sleeps."""
    yield f"### {view.WAITS}"
    yield ""
    held = view.held(found)
    rows = (
        None
        if held is None
        else [
            (code(title), code(label), rate(one.ms), "yes" if one.shared else "", code(one.lock))
            for one, title, label in held
        ]
    )
    yield from _looked_at(
        ("operation", "kernel", "ms at most", "by who shares it", "lock"),
        rows,
        view.not_looked(found, view.waits_of),
        everything,
    )


def _looked_at(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]] | None,
    unlooked: str,
    everything: bool,
) -> Iterator[str]:
    """A table of what was looked at, or that there is nothing; and of what nobody looked."""
    if rows:
        yield from _table(columns, rows, None if everything else view.OTHERS, "row")
    elif rows is not None:
        yield "none"
        yield ""
    if unlooked or rows is None:
        yield "not measured" if rows is None else unlooked
        yield ""


def _failures(found: Map) -> Iterator[str]:
    failed = view.failures(found)
    if failed:
        yield "### What could not be measured"
        yield ""
        rows = (tuple(map(code, one)) for one in failed)
        yield from _table(("operation", "kernel", "why"), rows, None, "row")


def _cells(one: Operation) -> Iterator[str]:
    return map(view.figure, one.cells)


def _table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], shown: int | None, noun: str
) -> Iterator[str]:
    """A table, and an empty line; the last row says how many are left out, if any are.

    ``shown``: rows at most, all if None.
    """
    every = list(rows)
    yield from heads(*columns)
    for cells in every[:shown]:
        yield row(*cells)
    left = len(every) - len(every[:shown])
    if left:
        yield row(f"{count(left, f'more {noun}')}: --all", *[""] * (len(columns) - 1))
    yield ""
