# SPDX-License-Identifier: GPL-2.0-or-later
"""Memory that stays, at a terminal: what no container is charged for comes first."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, RenderableType

from partywall.report.blocks import columns, indent, more, print_blocks, text
from partywall.report.words import count, rate
from partywall.results.growth import Growth, Left, Verdict

SHOWN = 20
"""Rows of each verdict that are shown unless all are asked for."""

_TITLES: dict[Verdict, str] = {
    "growth": "Growth: memory that no container is charged for",
    "charged": "Charged: memory that a container's own limit bounds",
}
_NONE: dict[Verdict, str] = {
    "growth": "none: all that operations leave behind is charged to a container",
    "charged": "none",
}


def render(found: Growth, console: Console, *, everything: bool) -> None:
    """Print what operations leave behind, made for 80 columns or more."""
    print_blocks(_blocks(found, everything), console)


def _blocks(found: Growth, everything: bool) -> Iterator[RenderableType]:
    yield text(f"Linux {found.kernel.release} ({found.kernel.source})", "bold")
    yield text(
        f"What each operation of {count(found.containers, 'container')} leaves behind in memory: "
        f"at least {rate(found.rate)} objects an operation.",
        "dim",
    )
    for verdict, title in _TITLES.items():
        yield ""
        yield text(title, "bold")
        yield from _rows(found, verdict, everything)
    nothing = [one.title for one in found.operations if not one.left]
    yield ""
    every = count(len(found.operations), "operation")
    yield text(f"Nothing is left behind by {len(nothing)} of {every}")
    if found.failed:
        yield ""
        yield text(f"Not measured: {count(len(found.failed), 'operation')}", "bold")
        for one in found.failed:
            yield indent(text(f"{one.title}: {one.why}"), 2)


def _rows(found: Growth, verdict: Verdict, everything: bool) -> Iterator[RenderableType]:
    rows = [
        (one.title, left)
        for one in found.operations
        for left in one.left
        if left.verdict == verdict
    ]
    rows.sort(key=lambda row: -row[1].bytes)
    if not rows:
        yield indent(text(_NONE[verdict]), 2)
        return
    shown = rows if everything else rows[:SHOWN]
    table = columns(("bytes/op", "each", "charged"), "what, taken back by what, made by whom")
    for title, left in shown:
        name = text(f"{title}: {left.what}", "magenta")
        name.append("\n  ").append_text(text(_taken_back(left)))
        if left.made_by:
            name.append("\n  ").append_text(text(" < ".join(left.made_by), "dim"))
        table.add_row(rate(left.bytes), rate(left.objects), f"{left.charged:.0%}", name)
    yield table
    if rows[len(shown) :]:
        yield more(len(rows) - len(shown), "row")


def _taken_back(left: Left) -> str:
    """In words, what takes it back."""
    if left.back is None:
        return "not known what takes it back: the guest ended before"
    if left.back == "nothing":
        share = left.after["ended"]
        return f"taken back by nothing that was tried: {share:.0%} outlives its container"
    words = {
        "exit": "its processes' exit",
        "reclaim": "reclaim, and not by its processes' exit",
        "container's end": "its container's end, and not by reclaim",
    }
    return f"taken back by {words[left.back]}"
