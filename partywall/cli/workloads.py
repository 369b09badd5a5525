# SPDX-License-Identifier: GPL-2.0-or-later
"""The command that lists the workloads."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from partywall import workloads
from partywall.cli.options import Output, commands
from partywall.cli.readers import Reader


@commands.command("workloads", reader=Reader.PLATFORM, examples=("partywall workloads",))
def list_workloads() -> int:
    """List the workloads and their variants."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("workload", no_wrap=True)
    table.add_column("default", no_wrap=True)
    table.add_column("one operation", overflow="fold")
    for workload, default in workloads.load():
        table.add_row(workload.title, "yes" if default else "", Text(workload.operation))
    for workload, _ in workloads.load_servers():
        table.add_row(workload.title, "", Text(workload.operation))
    Output().print(table, highlight=False)
    return 0
