# SPDX-License-Identifier: GPL-2.0-or-later
"""What operations leave behind in memory, for people at a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType

from partywall.advice.map import Stays
from partywall.report.blocks import columns, indent, more, text
from partywall.report.words import count, rate
from partywall.results.growth import Operation
from partywall.results.memory import Grown, Memory, Unsettled
from partywall.results.result import WorkloadResult

SHOWN = 6
"""Kinds of memory that are shown unless all are asked for."""

BOOKS = "with it"
"""In a column of who is charged: the kernel's books of that, for which nobody is."""

NOT_LOOKED_AT = "docs/growth.md says what can't be looked at: leave it out, or --fail-growth"
TOO_SMALL = "looks can't tell less: ask for so many bytes or more, or leave the workload out"


def size(number: float) -> str:
    """So many bytes, in words.

    >>> [size(number) for number in (1, 18.38, 384)]
    ['1 byte', '18.4 bytes', '384 bytes']
    """
    return count(1, "byte") if number == 1 else f"{rate(number)} bytes"


def column(memory: Memory | Stays | None) -> str:
    """Return what stays of an operation in a word or two, as any table has it.

    A number is of bytes that nobody is charged for. "?" if that was not looked at, or if what
    rises is not settled.
    """
    if memory is None or memory.verdict == "unsettled":
        return "?"
    if memory.verdict == "growth":
        return f"{rate(memory.uncharged)} growth"
    return "-" if memory.verdict == "nothing" else "charged"


def brief(workload: WorkloadResult) -> str:
    """Return what stays of an operation in a word or two."""
    return column(workload.memory)


def verdict(workload: WorkloadResult) -> str | None:
    """Return what an operation leaves behind, in words; None if nothing."""
    memory = workload.memory
    if memory is None:
        return None
    said = []
    if memory.grown:
        said.append(f"leaves {size(memory.bytes)} behind, {_paid(memory)}")
    if memory.unsettled:
        most = sum(one.bytes for one in memory.unsettled)
        said.append(f"may leave {size(most)} {'more' if said else 'behind'} that rise unevenly")
    return "; ".join(said) or None


def _paid(memory: Memory) -> str:
    """Who is charged for what is left behind."""
    if memory.uncharged:
        return f"{size(memory.uncharged)} of them charged to no container"
    books = sum(one.bytes for one in memory.grown if one.bookkeeping)
    return f"charged{f', {size(books)} for the books' if books else ''}"


def over(workload: WorkloadResult, limit: float) -> list[Grown]:
    """Return what nobody is charged for, if it is more than so many bytes an operation."""
    memory = workload.memory
    if memory is None or memory.uncharged <= limit:
        return []
    return [one for one in memory.grown if one.uncharged]


def unsettled(memory: Memory | Operation, charged: bool | None = None) -> str:
    """Return what rises and is not settled, in words. ``charged``: this alone."""
    return ", ".join(
        f"{one.what} {size(one.bytes)} at most{'' if one.charged else ', charged to nobody'}"
        for one in memory.unsettled
        if charged in (None, one.charged)
    )


def unheld(workload: WorkloadResult, limit: float) -> tuple[str, str] | None:
    """Return why a limit of bytes that nobody is charged for can't be held, and a hint.

    None if it can, and if it is known to be broken.
    """
    memory = workload.memory
    if memory is None:
        return "was not measured", NOT_LOOKED_AT
    if memory.uncharged > limit:
        return None
    if memory.least_bytes > limit:
        return f"is not known below {size(memory.least_bytes)} an operation", TOO_SMALL
    if memory.uncharged_at_most > limit:
        named = workload.model_copy(update={"layers": "shared"}).title
        return (
            f"is not settled: {unsettled(memory, False)}",
            f"partywall growth -w {named} does more operations, and may settle it",
        )
    return None


def blocks(workload: WorkloadResult, verbose: bool) -> Iterator[RenderableType]:
    """What is left behind, the most bytes first, and what tells more of it."""
    memory = workload.memory
    if memory is None:
        return
    yield ""
    said = verdict(workload)
    if said is None:
        yield text(
            "memory: nothing is left behind that is more than "
            f"{size(memory.least_bytes)} an operation, or {rate(memory.least)} objects"
        )
        return
    yield text(f"memory: each operation {said}", "bold")
    shown = memory.grown if verbose else memory.grown[:SHOWN]
    table = columns(("bytes/op", "each", "charged"), "what")
    for one in shown:
        paid = BOOKS if one.bookkeeping else f"{one.charged:.0%}"
        table.add_row(rate(one.bytes), rate(one.objects), paid, text(one.what))
    rest = memory.unsettled if verbose else memory.unsettled[:SHOWN]
    for rises in rest:
        steps = " and ".join(f"{number:,}" for number in _steps(rises))
        what = text(rises.what).append_text(text(f"  not settled: {steps} more", "dim"))
        table.add_row(f"<{rate(rises.bytes)}", "?", f"{float(rises.charged):.0%}", what)
    yield indent(table, 2)
    left_out = len(memory.grown) + len(memory.unsettled) - len(shown) - len(rest)
    if left_out:
        yield more(left_out, "kind")
    named = workload.model_copy(update={"layers": "shared"}).title
    yield text(f"partywall growth -w {named} tells who made it and what takes it back", "dim")


def _steps(one: Unsettled) -> list[int]:
    """How many more there were in each step."""
    return [later - earlier for earlier, later in zip([0, *one.more], one.more, strict=False)]
