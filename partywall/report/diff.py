# SPDX-License-Identifier: GPL-2.0-or-later
"""What changed, for people at a terminal, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from partywall.report.blocks import print_blocks
from partywall.report.words import count, plain, rate, topology
from partywall.results.diff import Difference, Finding, What


def render(found: Difference, console: Console) -> None:
    """Print the difference."""
    print_blocks(_blocks(found), console)


def _blocks(found: Difference) -> Iterator[RenderableType]:
    yield Text(plain(f"{found.before.release} -> {found.after.release}"), "bold")
    worse = found.regressions
    better = [finding for finding in found.findings if not finding.regression]
    for words, style, group in (("worse", "red", worse), ("better", "green", better)):
        if group:
            yield ""
            yield _table(words, style, group)
    if not found.findings:
        what = "nothing of what both have" if found.missing or found.others else "nothing"
        yield f"{what} changed by more than chance does"
    if found.missing:
        yield ""
        said = f"{NOT_MEASURED}: {', '.join(found.missing)}"
        yield Text(plain(said), "bold red")
    if found.others:
        yield ""
        yield Text(plain(f"only in one of the two: {', '.join(found.others)}"))
    if found.left_out:
        yield ""
        yield Text(plain(f"left out: {found.left_out}"))
    if worse:
        yield ""
        yield Text(count(len(worse), "regression"), "bold red")


NOT_MEASURED = "not measured any more, or not in the same way"
"""Of workloads that the former result has."""

UNITS: dict[What, str] = {
    "wall": "transfers",
    "deferred wall": "deferred",
    "handed over": "handed over:",
    "transfers": "transfers on",
    "deferred": "deferred on",
    "instructions": "instr",
    "calls": "calls",
    "lock": "instr under",
    "memory": "bytes left in",
    "held": "ms at most asleep with",
    "waits": "waits in",
}
"""What a finding's figures count, before its name."""


def _table(words: str, style: str, findings: list[Finding]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column(words, no_wrap=True)
    table.add_column("per op", justify="right", no_wrap=True)
    table.add_column("of what", overflow="fold")
    for finding in findings:
        change = finding.per_op
        where = f"{finding.workload} {topology(finding.topology)}"
        table.add_row(
            Text(finding.how, style),
            f"{rate(change.before)} -> {rate(change.after)}",
            Text(plain(f"{UNITS[finding.what]} {finding.name}, {where}")),
        )
    return table
