# SPDX-License-Identifier: GPL-2.0-or-later
"""Pairs of operations at a terminal: what only a neighbour who does something else shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console, RenderableType

from partywall.report.blocks import columns, indent, more, print_blocks, text
from partywall.report.words import count, rate
from partywall.results.touches import Beside, Touch

SHOWN = 20
"""Pairs of each kind that are shown unless all are asked for."""


def render(found: Beside, console: Console, *, everything: bool) -> None:
    """Print what was found of pairs, made for 80 columns or more."""
    print_blocks(_blocks(found, everything), console)


def _blocks(found: Beside, everything: bool) -> Iterator[RenderableType]:
    others = count(found.at - 1, "neighbour")
    yield text(f"Linux {found.kernel.release} ({found.kernel.source})", "bold")
    yield text(
        f"What {others} do to one container: transfers per operation of its own, for each of "
        "which each neighbour does one of theirs.",
        "dim",
    )
    yield ""
    yield text("What no operation shows by itself", "bold")
    if found.new:
        yield from _touches(found.new, found, everything)
    elif len(found.unknown) < len(found.victims):
        yield indent(text("nothing: each meets others only at what it meets its like at"), 2)
    if found.unknown:
        yield indent(text(not_known(found)), 2)
    yield ""
    yield text("All that others do", "bold")
    worst = sorted(found.touches, key=lambda one: (-one.transfers, one.victim, one.neighbour))
    yield from _touches([one for one in worst if one.transfers > 0], found, everything)
    if found.failed:
        yield ""
        yield text(f"Not measured: {count(len(found.failed), 'pair')}", "bold")
        for one in found.failed:
            yield indent(text(f"{one.title}: {one.why}"), 2)


def not_known(found: Beside) -> str:
    """Return of whom it can't be said what only a pair shows."""
    return f"not known of {', '.join(found.unknown)}: there is no figure of it beside its like"


def _touches(touches: Sequence[Touch], found: Beside, everything: bool) -> Iterator[RenderableType]:
    shown = touches if everything else touches[:SHOWN]
    table = columns(("transfers", "its like"), "who, beside whom, and where they meet")
    for one in shown:
        name = text(f"{one.victim} beside {one.neighbour}")
        told = ", ".join(f"{each.object} {rate(each.transfers)}" for each in one.objects[:3])
        name.append("\n  ").append_text(text(told, "magenta"))
        alone = found.alone(one.victim)
        table.add_row(rate(one.transfers), "-" if alone is None else rate(alone), name)
    yield table
    if touches[len(shown) :]:
        yield more(len(touches) - len(shown), "pair")
