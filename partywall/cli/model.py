# SPDX-License-Identifier: GPL-2.0-or-later
"""The command that lays the model beside what others measured."""

from __future__ import annotations

from pathlib import Path

import click

from partywall.cli.options import FILE, Output, commands, json_option
from partywall.cli.readers import Reader
from partywall.model import profiles, signal
from partywall.model.predict import trial
from partywall.report import predict as view
from partywall.results import document, store


@commands.command(
    "model", reader=Reader.PLATFORM, examples=("partywall model --profile milan-2x48",)
)
@click.argument("file", type=FILE, required=False)
@click.option("--profile", "profile_name", metavar="NAME|FILE.toml", help="Only this machine.")
@json_option("the figures")
def model_command(file: Path | None, profile_name: str | None, as_json: bool) -> int:
    """Lay the model beside what others measured and published, machine by machine.

    With FILE, a saved result, what a signal costs is taken from there.
    """
    chosen = [profile_name] if profile_name else profiles.names()
    cost = signal.stored() if file is None else signal.measured(store.load(file), str(file))
    found = trial([profiles.load(name) for name in chosen], cost)
    if as_json:
        click.echo(document.dump(found), nl=False)
    else:
        view.render_trial(found, Output())
    return 0
