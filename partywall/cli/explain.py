# SPDX-License-Identifier: GPL-2.0-or-later
"""The command that says what would help most."""

from __future__ import annotations

from pathlib import Path

import click

from partywall.advice import checked
from partywall.advice.explain import explain
from partywall.cli.options import (
    FILE,
    commands,
    json_option,
    names_option,
    paged,
    profile_option,
    progress_on_terminal,
    results_option,
)
from partywall.cli.readers import Reader
from partywall.model import profiles
from partywall.report import explain as view
from partywall.report.words import plain
from partywall.results import document, store
from partywall.results.named import named


@commands.command(
    "explain",
    reader=Reader.PLATFORM,
    examples=("partywall explain -w signal", "partywall explain RESULT.json --at 16 --check"),
)
@click.argument("file", type=FILE, required=False)
@names_option("Explain only this workload, or those of a pattern; may be given again.")
@click.option(
    "--at",
    type=click.IntRange(1, 100_000),
    metavar="N",
    help="Containers that figures are for; those of the result's verdict if not given, and no "
    "more than the machine has cores for.",
)
@click.option(
    "--check",
    "run_it",
    is_flag=True,
    help="Run what of it a guest can. If that is the series, its kernel and one without it are "
    "built first: half an hour, and 10 GB, unless they are there.",
)
@profile_option
@json_option("what would help")
@results_option("Where the newest is looked for.")
def explain_command(
    file: Path | None,
    names: tuple[str, ...],
    at: int | None,
    run_it: bool,
    profile_name: str,
    as_json: bool,
    folder: Path,
) -> int:
    """Say what would help the workloads of a saved result most.

    FILE is a saved result, the newest one if none is named. Told are the five things that bring
    most: a release of Linux, our series, a way to start containers, a parameter of the
    kernel; what each brings at N containers by the model; what bounds them then; and how
    it is done.
    """
    profile = profiles.load(profile_name)
    result = store.load(file or store.newest(folder))
    wanted = named(result, names)
    found = explain(result, profile, wanted, at)
    fewer = {one.at for one in found.workloads if at is not None and one.at < at}
    if fewer:
        told = " and ".join(map(str, sorted(fewer)))
        click.echo(
            f"{plain(profile.name)} has {profile.cores} cores: figures are for {told} containers",
            err=True,
        )
    status = 0
    if run_it:
        with progress_on_terminal() as progress:
            came, status = checked.check(result, found, wanted, progress)
        found = found.model_copy(update={"checked": came})
    if as_json:
        click.echo(document.dump(found), nl=False)
    else:
        paged(lambda console: view.render(found, console))
    return status
