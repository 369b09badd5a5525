# SPDX-License-Identifier: GPL-2.0-or-later
"""Lines of 128 bytes for people at a terminal: what aligned pairs of lines would cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from partywall.report.blocks import print_blocks
from partywall.report.words import count, plain, rate, topology
from partywall.results.named import named
from partywall.results.pairs import PairsOfLines
from partywall.results.result import Result, WorkloadResult

SHOWN = 8
"""Pairs of each workload; all of those that are saved with --all."""


def render(
    result: Result, console: Console, names: Sequence[str] = (), *, everything: bool
) -> None:
    """Print what pairs of lines cost, workload by workload; of those of ``names``, if any."""
    print_blocks(_blocks(named(result, names), everything), console)


def _blocks(workloads: list[WorkloadResult], everything: bool) -> Iterator[RenderableType]:
    for one in workloads:
        yield ""
        title = f"{one.title}, {topology(one.topology)}, pairs of lines as one of 128 bytes"
        yield Text(plain(title), "bold")
        if one.pairs is None:
            yield Text("not known: this result was measured without them; check again")
            continue
        found = one.pairs
        yield Text(
            f"of all that moves, walls or not: {rate(found.apart)} transfers/op on lines of 64 "
            f"bytes, {rate(found.least)} to {rate(found.most)} on lines of 128"
        )
        if found.worse:
            yield _table(found, len(found.listed) if everything else SHOWN)
        else:
            yield Text("no pair costs more for certain")


def _table(found: PairsOfLines, shown: int) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("of 64", justify="right", no_wrap=True)
    table.add_column("of 128", no_wrap=True)
    table.add_column("its two lines", overflow="fold")
    for pair in found.listed[:shown]:
        names = [name or "nothing that counts" for name in (pair.first, pair.second)]
        lines = names[0] if names[0] == names[1] else " | ".join(names)
        table.add_row(
            rate(pair.apart), f"{rate(pair.least)} to {rate(pair.most)}", Text(plain(lines))
        )
    rest = found.worse - min(shown, len(found.listed))
    if rest > 0:
        table.add_row("", "", f"and {count(rest, 'pair')} more")
    return table
