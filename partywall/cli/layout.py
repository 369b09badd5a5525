# SPDX-License-Identifier: GPL-2.0-or-later
"""The command that says how a type could be laid out."""

from __future__ import annotations

from pathlib import Path

import click

from partywall.analyse.layout import layout
from partywall.cli.options import (
    FILE,
    Output,
    all_option,
    commands,
    json_option,
    results_option,
)
from partywall.cli.readers import Reader
from partywall.core.errors import UsageProblem
from partywall.report import layout as view
from partywall.results import document, store
from partywall.results.result import Result


@commands.command("layout", reader=Reader.KERNEL, examples=("partywall layout ucounts",))
@click.argument("type_", metavar="TYPE")
@click.argument("files", metavar="[FILE]...", type=FILE, nargs=-1)
@json_option("it")
@all_option("every line that moves")
@results_option("Where saved results are looked for.")
def layout_command(
    type_: str, files: tuple[Path, ...], as_json: bool, everything: bool, folder: Path
) -> int:
    """Say who uses what of a C type, and which grouping of its fields costs least.

    TYPE is a type of the kernel, such as cred or 'struct cred'. Each FILE is a saved
    result; without one it is all that are saved, of what was measured again the newest.
    """
    found = layout([store.load(file) for file in files] or _all(folder), type_)
    if as_json:
        click.echo(document.dump(found), nl=False)
    else:
        view.render(found, Output(), everything=everything)
    return 0


def _all(folder: Path) -> list[Result]:
    """All results of a folder, the newest last. What is none is said, and left out."""
    store.newest(folder)
    results = []
    for path in store.saved(folder):
        try:
            results.append(store.load(path))
        except UsageProblem as problem:
            click.echo(f"partywall: left out: {problem.message}", err=True)
    return results
