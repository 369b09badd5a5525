# SPDX-License-Identifier: GPL-2.0-or-later
"""Commands that tell what there is: workloads, this machine's state, the schema."""

from __future__ import annotations

import json

import click
from rich.table import Table
from rich.text import Text

from partywall import workloads
from partywall.cli.options import Output, commands
from partywall.clock.bench import Bench
from partywall.core.errors import EnvironmentProblem
from partywall.measure import doctor
from partywall.model.predict import Outlook
from partywall.results import document
from partywall.results.compare import Comparison
from partywall.results.diff import Difference
from partywall.results.document import Document
from partywall.results.result import Result


@commands.command("workloads")
def list_workloads() -> int:
    """List the workloads and their variants."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("workload", no_wrap=True)
    table.add_column("default", no_wrap=True)
    table.add_column("one operation", overflow="fold")
    for workload, default in workloads.load():
        table.add_row(workload.title, "yes" if default else "", Text(workload.operation))
    Output().print(table, highlight=False)
    return 0


@commands.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def doctor_command(as_json: bool) -> int:
    """Say what this machine lacks, and the command that mends it."""
    found = doctor.look()
    if as_json:
        facts = [{"what": f.what, "state": f.state, "mend": f.mend} for f in found]
        click.echo(json.dumps(facts, indent=1))
    else:
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(no_wrap=True)
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        for one in found:
            state = Text("ok", "green") if one.mend is None else Text("BAD", "bold red")
            words = one.state if one.mend is None else f"{one.state}; mend it: {one.mend}"
            table.add_row(state, one.what, Text(words))
        Output().print(table, highlight=False)
    return EnvironmentProblem.exit_code if any(one.mend for one in found) else 0


_DOCUMENTS: dict[str, type[Document]] = {
    "result": Result,
    "compare": Comparison,
    "diff": Difference,
    "predict": Outlook,
    "bench": Bench,
}


@commands.command()
@click.argument("kind", type=click.Choice(list(_DOCUMENTS)), default="result")
def schema(kind: str) -> int:
    """Print the JSON schema of what a command prints with --json."""
    click.echo(json.dumps(document.schema(_DOCUMENTS[kind]), indent=1))
    return 0
