# SPDX-License-Identifier: GPL-2.0-or-later
"""The map for people at a terminal: what costs most over all operations, then each of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from rich.console import Console, RenderableType
from rich.table import Table

from partywall.advice.map import (
    LETTERS,
    Asleep,
    Cell,
    Map,
    Mapped,
    Operation,
    Reach,
    Share,
    Stays,
    has_figure,
)
from partywall.report import memory
from partywall.report.blocks import columns, indent, more, print_blocks, text
from partywall.report.held import SHARED, once
from partywall.report.words import count, rate, topology

OBJECTS, OPERATIONS = 20, 30
"""Objects and operations that are shown unless all are asked for."""

WORST = 3
"""Objects that are named of an operation."""

MENDS = 2
"""Ways to mend an object: the same."""

UNKNOWN = "?: of some of its operations there is no figure on that kernel"
"""What a mark of an object's row says."""

KINDS = 3
"""Kinds of memory that are named of an operation, by who pays."""

WAITS = "Waits behind somebody: a lock is kept from others because one sleeps, ms at most"
"""Heading of a map's table."""

OTHERS = 12
"""Operations that leave memory behind, or sleep with a lock: the same."""


def render(found: Map, console: Console, *, everything: bool) -> None:
    """Print a map, made for 80 columns or more."""
    print_blocks(_blocks(found, everything), console)


def _blocks(found: Map, everything: bool) -> Iterator[RenderableType]:
    sharers = found.kernels[0].sharers
    for number, one in enumerate(found.kernels):
        cells = [operation.cells[number] for operation in found.operations]
        letter = f"{LETTERS[number]}  " if len(found.kernels) > 1 else ""
        yield text(f"{letter}Linux {one.kernel.release} ({one.kernel.source})", "bold")
        yield indent(text(_summary(cells)), 2)
        if one.lacks:
            yield indent(text(older(one)), 2)
        if letter.strip() in found.again:
            yield indent(text(f"measured {one.created}, {made(one)}"), 2)
    if found.again:
        yield text(apart(found), "dim")
    yield text(f"Figures are transfers per operation, for {count(sharers, 'container')}.", "dim")
    yield ""
    yield from _objects(found, everything)
    yield ""
    yield from _operations(found, everything)
    yield from _others(found, everything)
    yield from _failures(found)


def made(one: Mapped) -> str:
    """Return in what containers a kernel was measured."""
    return f"{topology(one.topology)}{'' if one.confined else ', unconfined'}"


def older(one: Mapped) -> str:
    """Return what a kernel's results lack that were saved by an older version."""
    return f"saved as {one.measured_with}, which lacks {', '.join(one.lacks)}"


def otherwise(found: Map) -> str:
    """Return that kernels were counted otherwise than others, if they were; or nothing."""
    if len({one.measured_with for one in found.kernels}) == 1:
        return ""
    return (
        "results of versions that count otherwise stand side by side: part of what differs is that"
    )


def apart(found: Map) -> str:
    """Return why one kernel has several columns."""
    return (
        f"{' and '.join(found.again)} are of kernels that are called alike, not put together: "
        "these differ, or have operations in common, or were measured otherwise."
    )


def left_out(found: Map, title: str, numbers: list[int]) -> str:
    """Return that the mix is without an operation, and why."""
    lacking = " and ".join(found.labels[number] for number in numbers)
    return f"without {title}, of which there is no figure on {lacking}"


def _summary(cells: list[Cell | None]) -> str:
    there = [cell for cell in cells if cell is not None and has_figure(cell)]
    verdicts = Counter(cell.verdict for cell in there)
    failed = sum(cell is not None and cell.failed is not None for cell in cells)
    said = [f"{verdicts.pop('walls', 0)} with walls", f"{verdicts.pop('isolated', 0)} isolated"]
    said += [f"{number} {verdict}" for verdict, number in sorted(verdicts.items())]
    rest = f"; {failed} more could not be measured" if failed else ""
    return f"{count(len(there), 'operation')}: {', '.join(said)}{rest}"


def _objects(found: Map, everything: bool) -> Iterator[RenderableType]:
    shown = found.objects if everything else found.objects[:OBJECTS]
    head = "What costs most over all operations"
    yield text(f"{head}, of the mix that you stated" if found.mix else head, "bold")
    for title, numbers in found.lacks.items():
        yield indent(text(left_out(found, title, numbers), "dim"), 2)
    several = len(found.kernels) > 1
    if said := otherwise(found):
        yield indent(text(said, "dim"), 2)
    if any(map(any, (one.unknown for one in shown))):
        yield indent(text(UNKNOWN, "dim"), 2)
    # With several kernels there is room for the most alone.
    told = ("mix",) if found.mix else ("ops", "most") if several else ("ops", "each", "sum")
    names = LETTERS[: len(found.kernels)] if several else ("",)
    headings = [f"{name} {what}".strip() for name in names for what in told]
    table = columns(headings, "object, and what mends it")
    for one in shown:
        cells = [
            word
            for reach, unknown in zip(one.reach, one.unknown, strict=True)
            for word in _reach(reach, unknown, told)
        ]
        name = text(one.name, "magenta")
        mends = one.mends if everything else one.mends[:MENDS]
        for mend in mends:
            name.append("\n  ").append_text(text(mend, "green"))
        if left := len(one.mends) - len(mends):
            name.append("\n  ").append_text(text(f"{count(left, 'more way')}; --all", "dim"))
        table.add_row(*cells, name)
    yield table
    if rest := found.objects[len(shown) :]:
        yield more(len(rest), "object")


def _reach(reach: Reach | None, unknown: int, told: tuple[str, ...]) -> Iterator[str]:
    for what in told:
        if reach is None:
            yield "?" if unknown else "-"
        elif what == "mix":
            yield rate(reach.mix or 0.0)
        elif what == "ops":
            yield operations(reach, unknown)
        elif what == "sum":
            yield rate(reach.sum)
        else:
            least, most = rate(reach.least), rate(reach.most)
            yield most if what == "most" or least == most else f"{least} to {most}"


def operations(reach: Reach, unknown: int) -> str:
    """Return of how many operations an object is a wall, marked if more may be."""
    return f"{reach.operations}{'?' if unknown else ''}"


def _operations(found: Map, everything: bool) -> Iterator[RenderableType]:
    measured = ranked(found)
    shown = measured if everything else measured[:OPERATIONS]
    yield text("Operations, those that move most first", "bold")
    several = len(found.kernels) > 1
    names = LETTERS[: len(found.kernels)] if several else ("transfers", "memory", "waits")
    table = columns(names, "operation, and its worst objects")
    for one in shown:
        name = text(one.title)
        told = ", ".join(f"{share.object} {rate(share.transfers)}" for share in worst(one))
        if told:
            name.append("\n  ").append_text(text(told, "dim"))
        (first, *_), cells = one.cells, [figure(cell) for cell in one.cells]
        # With several kernels there is room for lines alone; the other kinds come below.
        table.add_row(*cells, *(() if several else (stays(first), asleep(first))), name)
    yield table
    left = measured[len(shown) :]
    if left:
        yield more(len(left), "operation")


def ranked(found: Map) -> list[Operation]:
    """Return the operations that have a figure, those that move most first."""

    def most(one: Operation) -> float:
        return max((cell.transfers for cell in one.cells if cell), default=0.0)

    by_most = sorted(found.operations, key=lambda one: (-most(one), one.title))
    return [one for one in by_most if any(map(has_figure, one.cells))]


def worst(one: Operation) -> list[Share]:
    """Return the worst objects of an operation, on the kernel where it moves most."""
    there = [cell for cell in one.cells if cell and cell.walls]
    return max(there, key=lambda cell: cell.transfers).walls[:WORST] if there else []


def figure(cell: Cell | None) -> str:
    """Return what an operation moves in a word, as a table has it."""
    if cell is None:
        return "-"
    return "failed" if cell.failed is not None else rate(cell.transfers)


def failures(found: Map) -> list[tuple[str, str, str]]:
    """Return what could not be measured: the operation, on which kernel, and why."""
    return [
        (one.title, name, cell.failed)
        for one in found.operations
        for name, cell in zip(found.labels, one.cells, strict=True)
        if cell is not None and cell.failed is not None
    ]


def stays(cell: Cell | None) -> str:
    """Return what an operation leaves behind in a word or two; "?" if nobody knows."""
    return memory.column(cell.memory if cell else None)


def kinds(found: Stays) -> Iterator[tuple[str, str]]:
    """Yield what each operation leaves in words, and who pays for it: nobody first."""
    for who, what in (
        ("nobody pays for", found.unpaid),
        ("not settled, at most", found.unsettled),
        ("charged", found.paid),
    ):
        if what:
            yield who, ", ".join(f"{name} {rate(size)}" for name, size in [*what.items()][:KINDS])


def asleep(cell: Cell | None) -> str:
    """Return for how long a lock is kept from others at most, as `held.brief` does."""
    if cell is None or cell.waits is None:
        return "?"
    return once(cell.waits.ms * 1e6, shared=cell.waits.shared) if cell.waits.lock else "-"


def left_behind(found: Map) -> list[tuple[Stays, str, str]] | None:
    """Return what stays of which operation on which kernel, what nobody pays for first.

    None if that was not looked at.
    """
    looked = [(cell.memory, title, label) for title, label, cell in _cells(found) if cell.memory]
    left = [one for one in looked if one[0].verdict != "nothing"]
    left.sort(key=lambda one: (-one[0].uncharged, -one[0].bytes, one[1], one[2]))
    return left if looked else None


def held(found: Map) -> list[tuple[Asleep, str, str]] | None:
    """Return who sleeps with a shared lock on which kernel, longest first; None: not measured."""
    looked = [(cell.waits, title, label) for title, label, cell in _cells(found) if cell.waits]
    sleeps = [one for one in looked if one[0].lock]
    sleeps.sort(key=lambda one: (-one[0].ms, one[1], one[2]))
    return sleeps if looked else None


def not_looked(found: Map, what: Callable[[Cell], object]) -> str:
    """Return of how many operations on which kernels nobody looked; empty if at all.

    ``what``: of a cell what there is if somebody did, or None.
    """
    lacks = Counter(
        label for _, label, cell in _cells(found) if has_figure(cell) and what(cell) is None
    )
    told = [f"{count(number, 'operation')} on {label}" for label, number in lacks.items()]
    return f"not measured: {', '.join(told)}" if told else ""


def _cells(found: Map) -> list[tuple[str, str, Cell]]:
    """Operations with what their kernels are called, and their cells."""
    return [
        (one.title, label, cell)
        for one in found.operations
        for label, cell in zip(found.labels, one.cells, strict=True)
        if cell is not None
    ]


def _others(found: Map, everything: bool) -> Iterator[RenderableType]:
    """Operations that leave memory behind, and those that sleep with a lock, the worst first."""
    where = len(found.kernels) > 1
    left, waits = left_behind(found), held(found)
    yield ""
    yield text("Memory that stays: bytes of an operation, what nobody pays for first", "bold")
    table = columns(("nobody's", "all"), "operation, and most of what it leaves")
    for stay, title, label in (left or [])[: None if everything else OTHERS]:
        name = text(f"{title}{f' on {label}' if where else ''}")
        for who, told in kinds(stay):
            name.append("\n  ").append_text(text(f"{who}: {told}", "dim"))
        table.add_row(rate(stay.uncharged), rate(stay.bytes), name)
    yield from _listed(table, left, not_looked(found, memory_of), everything)
    yield ""
    yield text(f"{WAITS} ({SHARED}: by who shares it)", "bold")
    table = columns(("at most",), "operation, and the lock")
    for one, title, label in (waits or [])[: None if everything else OTHERS]:
        name = text(f"{title}{f' on {label}' if where else ''}  ")
        shared = SHARED if one.shared else ""
        table.add_row(f"{rate(one.ms)}{shared}", name.append_text(text(one.lock, "magenta")))
    yield from _listed(table, waits, not_looked(found, waits_of), everything)


def memory_of(cell: Cell) -> object:
    """Return what an operation leaves, or None if nobody looked: for `not_looked`."""
    return cell.memory


def waits_of(cell: Cell) -> object:
    """Return how it waits, the same."""
    return cell.waits


def _listed(
    table: Table, rows: Sequence[object] | None, unlooked: str, everything: bool
) -> Iterator[RenderableType]:
    """The rows of a table, or that there are none; and of what nobody looked."""
    if rows:
        yield table
        if len(rows) > OTHERS and not everything:
            yield more(len(rows) - OTHERS, "operation")
    elif rows is not None:
        yield indent(text("none"), 2)
    if unlooked or rows is None:
        yield indent(text("not measured" if rows is None else unlooked), 2)


def _failures(found: Map) -> Iterator[RenderableType]:
    failed = failures(found)
    if not failed:
        return
    yield ""
    yield text(f"Not measured: {len(failed)}", "bold")
    for title, release, why in failed:
        where = f" on {release}" if len(found.kernels) > 1 else ""
        yield indent(text(f"{title}{where}: {why}"), 2)
