# SPDX-License-Identifier: GPL-2.0-or-later
"""Deferred work at a terminal: what a container's own system calls put off, and that shares."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from partywall.report import detail
from partywall.report.blocks import Flow, columns, indent, more, text
from partywall.report.reserve import after
from partywall.report.walls import Wall
from partywall.report.words import busiest, count, rate
from partywall.results.lines import Deferred
from partywall.results.result import WorkloadResult

WHAT = "what its system calls put off"
"""What it is, in words."""

LISTED = 5
"""Walls that are listed unless all are asked for."""


def blocks(workload: WorkloadResult, walls: list[Wall], verbose: bool) -> Iterator[RenderableType]:
    """Yield the walls of a workload's deferred work, a row each, and what else moves there.

    ``walls``: of it, as `partywall.report.walls.put_off` has them; ``verbose``: all of them,
    in full.
    """
    late, missing = workload.deferred, after(workload)
    if late is None or not (late.sums.all or missing):
        return
    yield ""
    yield Text(f"deferred work ({WHAT}): {summary(late)}", "bold")
    for words in missing:
        yield indent(text(words, "dim"), 2)
    if walls:
        yield indent(_table(walls if verbose else walls[:LISTED]), 2)
    rest = [] if verbose else walls[LISTED:]
    if rest:
        yield more(len(rest), "object", f"{rate(sum(w.transfers for w in rest))} transfers/op")
    for wall in walls if verbose else []:
        yield ""
        yield from detail.wall(wall, None, verbose=True)


def summary(late: Deferred) -> str:
    """Return what deferred work moves on top of a workload's own, by what it is."""
    said = [f"{rate(late.sums.walls)} transfers/op on {count(len(late.objects), 'wall')}"]
    if not late.objects:
        said = ["no wall"]
    if late.sums.handed_over:
        said.append(f"{rate(late.sums.handed_over)} handed over")
    if late.sums.rest:
        said.append(f"{rate(late.sums.rest)} shared too seldom for a wall")
    return ", ".join(said)


def _table(walls: list[Wall]) -> RenderableType:
    table = columns(("wall", "transf/op", "lines"), "object and the code that uses it most")
    for wall in walls:
        pieces = detail.label(wall, text(wall.object.title, "bold"))
        worst = wall.lines[0]
        for uses in (worst, worst.in_calls):
            for site in busiest(uses)[:1] if uses else []:
                pieces += [text(site.function, "cyan"), text(site.context)]
        table.add_row(str(wall.number), rate(wall.transfers), f"{wall.count:,}", Flow(*pieces))
    return table
