# SPDX-License-Identifier: GPL-2.0-or-later
"""The command that says what this machine lacks."""

from __future__ import annotations

import json
from dataclasses import asdict

import click
from rich.table import Table
from rich.text import Text

from partywall.cli.options import Output, commands, json_option
from partywall.cli.readers import Reader
from partywall.core.errors import EnvironmentProblem
from partywall.measure import doctor


@commands.command("doctor", reader=Reader.PLATFORM, examples=("partywall doctor",))
@json_option("the findings")
def doctor_command(as_json: bool) -> int:
    """Say what this machine lacks, and the command that mends it.

    A check needs nothing of what builds kernels or reads images: where that is missing it
    says no, and is no failure.
    """
    found = doctor.look()
    if as_json:
        facts = [asdict(one) for one in found]
        click.echo(json.dumps(facts, indent=1))
    else:
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(no_wrap=True)
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        for one in found:
            state = Text("BAD", "bold red") if one.needed else Text("no", "yellow")
            if one.mend is None:
                state = Text("ok", "green")
            words = one.state if one.mend is None else f"{one.state}; mend it: {one.mend}"
            table.add_row(state, one.what, Text(words))
        Output().print(table, highlight=False)
    return EnvironmentProblem.exit_code if any(one.mend and one.needed for one in found) else 0
