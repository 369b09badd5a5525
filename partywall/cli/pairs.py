# SPDX-License-Identifier: GPL-2.0-or-later
"""Pairs of operations shown: what was measured just now, or what was saved."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from partywall.cli.options import paged, say
from partywall.core import cache
from partywall.core.errors import PartywallError, UsageProblem
from partywall.report import beside as view
from partywall.results import document, store
from partywall.results.touches import Beside


def show(
    found: Beside,
    *,
    as_json: bool,
    everything: bool,
    html_file: Path | None,
    output: Path | None = None,
) -> None:
    """Write what is asked for, and print what was found.

    It is written first, as who reads may end the program, and shown if it can't be kept.
    """
    unsaved: list[PartywallError] = []
    try:
        if output is not None:
            store.write(found, output)
    except PartywallError as failure:
        unsaved.append(failure)
    try:
        if html_file is not None:
            # Templates take a while to load.
            from partywall.report.html import beside as page  # noqa: PLC0415

            cache.write_whole(html_file, page.render(found))
    except PartywallError as failure:
        unsaved.append(failure)
    if as_json:
        click.echo(document.dump(found), nl=False)
    else:
        paged(lambda console: view.render(found, console, everything=everything))
    for one in unsaved[:-1]:
        say(one)
    if unsaved:
        raise unsaved[-1]


def saved(files: Sequence[Path]) -> Beside | None:
    """Return the pairs that a file holds; None if none of the files does.

    UsageProblem if there are other files beside it.
    """
    if not any(store.begins_as(file, "partywall.beside/") for file in files):
        return None
    if len(files) > 1:
        raise UsageProblem(
            "a file of pairs is shown by itself, and there are others", "name one of them"
        )
    return store.load_as(files[0], Beside)
