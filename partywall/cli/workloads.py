# SPDX-License-Identifier: GPL-2.0-or-later
"""The command that lists the workloads."""

from __future__ import annotations

from fnmatch import fnmatchcase

import click
from rich.table import Table
from rich.text import Text

from partywall import workloads
from partywall.cli.options import Output, commands
from partywall.cli.readers import Reader
from partywall.core.errors import UsageProblem
from partywall.workloads import Workload


@commands.command(
    "workloads",
    reader=Reader.PLATFORM,
    examples=("partywall workloads", "partywall workloads 'overlay/*' inotify"),
)
@click.argument("words", nargs=-1)
def list_workloads(words: tuple[str, ...]) -> int:
    """List the workloads and their variants.

    WORDS: only those whose name is one of these (or fits it, with * and ?), or that have
    one of them in their name or in what they do.
    """
    listed = [(one, default) for one, default in workloads.load() if _wanted(one, words)]
    servers = [one for one, _ in workloads.load_servers() if _wanted(one, words)]
    if not listed and not servers:
        raise UsageProblem(
            f"no workload has {' or '.join(words)} in its name or in what it does",
            "partywall workloads lists them all",
        )
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("workload", no_wrap=True)
    table.add_column("default", no_wrap=True)
    table.add_column("one operation", overflow="fold")
    for workload, default in listed:
        table.add_row(workload.title, "yes" if default else "", Text(workload.operation))
    for workload in servers:
        table.add_row(workload.title, "", Text(workload.operation))
    Output().print(table, highlight=False)
    return 0


def _wanted(one: Workload, words: tuple[str, ...]) -> bool:
    return not words or any(
        fnmatchcase(one.title, word) or word.lower() in f"{one.title} {one.operation}".lower()
        for word in words
    )
