# SPDX-License-Identifier: GPL-2.0-or-later
"""What operations leave behind in memory, for people at a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType

from partywall.report.blocks import columns, indent, more, text
from partywall.report.words import count, rate
from partywall.results.memory import Grown
from partywall.results.result import WorkloadResult

SHOWN = 6
"""Kinds of memory that are shown unless all are asked for."""


def size(number: float) -> str:
    """So many bytes, in words.

    >>> [size(number) for number in (1, 18.38, 384)]
    ['1 byte', '18.4 bytes', '384 bytes']
    """
    return count(1, "byte") if number == 1 else f"{rate(number)} bytes"


def brief(workload: WorkloadResult) -> str:
    """Return what stays of an operation in a word or two; "?" if that was not looked at.

    Bytes are those that nobody is charged for, where that is the verdict.
    """
    memory = workload.memory
    if memory is None:
        return "?"
    if memory.verdict == "nothing":
        return "-"
    stays = memory.uncharged if memory.verdict == "growth" else memory.bytes
    return f"{rate(stays)} {memory.verdict}"


def verdict(workload: WorkloadResult) -> str | None:
    """Return what an operation leaves behind, in words; None if nothing."""
    memory = workload.memory
    if memory is None or not memory.grown:
        return None
    paid = f"{size(memory.uncharged)} of them charged to no container"
    if not memory.uncharged:
        paid = "charged to a container"
    return f"leaves {size(memory.bytes)} behind, {paid}"


def over(workload: WorkloadResult, limit: float) -> list[Grown]:
    """Return what nobody is charged for, if it is more than so many bytes an operation."""
    memory = workload.memory
    if memory is None or memory.uncharged <= limit:
        return []
    return [one for one in memory.grown if one.uncharged]


def blocks(workload: WorkloadResult, verbose: bool) -> Iterator[RenderableType]:
    """What is left behind, the most bytes first, and what tells more of it."""
    memory = workload.memory
    if memory is None:
        return
    yield ""
    said = verdict(workload)
    if said is None:
        yield text(
            f"memory: nothing is left behind that is more than {rate(memory.least)} "
            "objects an operation"
        )
        return
    yield text(f"memory: each operation {said}", "bold")
    shown = memory.grown if verbose else memory.grown[:SHOWN]
    table = columns(("bytes/op", "each", "charged"), "what")
    for one in shown:
        table.add_row(rate(one.bytes), rate(one.objects), f"{one.charged:.0%}", text(one.what))
    yield indent(table, 2)
    if len(memory.grown) > len(shown):
        yield more(len(memory.grown) - len(shown), "kind")
    named = workload.model_copy(update={"layers": "shared"}).title
    yield text(f"partywall growth -w {named} tells who made it and what takes it back", "dim")
