# SPDX-License-Identifier: GPL-2.0-or-later
"""What is saved, for people at a terminal."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table

from partywall.report.blocks import print_blocks, text
from partywall.results.store import Entry


def render(entries: Iterable[Entry], console: Console) -> None:
    """Print a row or two for each file, the newest last."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for heading in ("measured", "kernel", "workloads and file"):
        table.add_column(heading, overflow="fold")
    for entry in entries:
        held = ", ".join(entry.workloads) or "no workload"
        if entry.problem is not None:
            held = entry.problem
        table.add_row(text(entry.created or "-"), text(entry.release or "-"), text(held))
        table.add_row("", "", text(str(entry.path), "dim"))
    print_blocks([table], console)
