# SPDX-License-Identifier: GPL-2.0-or-later
"""Commands that say what walls cost on a large machine."""

from __future__ import annotations

from pathlib import Path

import click

from partywall.cli.options import (
    FILE,
    Output,
    commands,
    json_option,
    profile_option,
    results_option,
)
from partywall.cli.readers import Reader
from partywall.core.errors import UsageProblem
from partywall.model import profiles
from partywall.model.predict import outlook
from partywall.report import predict as view
from partywall.results import document, store

MOST = 4096


def parse_counts(text: str) -> list[int]:
    """Numbers of containers, ``1,8,64``, in order and each once. UsageProblem if it is no list."""
    try:
        found = sorted({int(word) for word in text.split(",")})
    except ValueError:
        found = []
    if not found or found[0] < 1 or found[-1] > MOST:
        raise UsageProblem(
            f"'{text}' is no list of numbers of containers", f"as 1,8,64; 1 to {MOST} each"
        )
    return found


@commands.command(
    "predict", reader=Reader.PLATFORM, examples=("partywall predict --profile milan-2x48",)
)
@click.argument("file", type=FILE, required=False)
@click.argument("after", type=FILE, required=False)
@profile_option
@click.option(
    "--containers",
    "-n",
    "counts",
    metavar="N,…",
    help="Numbers of containers; 1, 2, 4, … up to the machine's cores if not given.",
)
@json_option("the predictions")
@results_option("Where saved results are looked for.")
def predict_command(
    file: Path | None,
    after: Path | None,
    profile_name: str,
    counts: str | None,
    as_json: bool,
    folder: Path,
) -> int:
    """Say what the walls of a saved result cost on a large machine.

    FILE is a saved result, the newest one if none is named; with AFTER, another
    one, both side by side.
    """
    profile = profiles.load(profile_name)
    chosen = None if counts is None else parse_counts(counts)
    before = store.load(file or store.newest(folder))
    found = outlook(before, store.load(after) if after else None, profile, chosen)
    if as_json:
        click.echo(document.dump(found), nl=False)
    else:
        view.render(found, Output())
    return 0
