# SPDX-License-Identifier: GPL-2.0-or-later
"""The command that shows a saved result."""

from __future__ import annotations

from math import inf
from pathlib import Path

import click

from partywall.analyse.verdict import THRESHOLD
from partywall.cli.limits import Limits, growth_option, held_option
from partywall.cli.lines import line_size_option, show_pairs
from partywall.cli.options import (
    FILE,
    OVER_LIMIT,
    Output,
    commands,
    fail_above_option,
    given,
    html_options,
    names_option,
    one_view,
    paged,
    results_option,
    view_options,
    write_html,
)
from partywall.cli.readers import Reader
from partywall.core.errors import UsageProblem
from partywall.model import profiles
from partywall.model.profiles import Profile
from partywall.report import ktap, saved, terminal
from partywall.report.terminal import Shown
from partywall.results import document, store
from partywall.results.result import Result


def show(
    result: Result,
    as_json: bool,
    as_ktap: bool,
    limits: Limits,
    profile: Profile,
    what: Shown,
) -> None:
    """Print a result in the view asked for. ``limits``: for KTAP."""
    if as_json:
        click.echo(document.dump(result), nl=False)
    elif as_ktap:
        click.echo(ktap.render(result, limits.transfers, limits.held, limits.growth), nl=False)
    else:
        paged(lambda console: terminal.render(result, console, profile, what))


@commands.command("report", reader=Reader.PLATFORM, examples=("partywall report --wall 1",))
@click.argument("file", type=FILE, required=False)
@line_size_option
@names_option("Show only this workload, or those of a pattern; may be given again.")
@click.option("--wall", type=int, metavar="N", help="Tell all of wall N, as the report numbers it.")
@click.option("--function", metavar="NAME", help="Tell all of the walls that this function uses.")
@view_options
@html_options
@fail_above_option("Exit with 1 if a wall has more transfers per operation.")
@held_option
@growth_option
@results_option("Where the newest is looked for.")
@click.option("--list", "listed", is_flag=True, help="List what is saved there, and no more.")
def report(
    file: Path | None,
    line_size: str,
    names: tuple[str, ...],
    wall: int | None,
    function: str | None,
    as_json: bool,
    as_ktap: bool,
    everything: bool,
    html_file: Path | None,
    profile_name: str,
    fail_above: float | None,
    fail_held: float | None,
    fail_growth: float | None,
    folder: Path,
    listed: bool,
) -> int:
    """Show a saved result, the newest one unless FILE is named."""
    one_view(as_json, as_ktap)
    if listed:
        others = {name for name in click.get_current_context().params if given(name)}
        if others - {"listed", "folder", "as_json"}:
            raise UsageProblem("--list goes alone", "leave out all but --results and --json")
        if as_json:
            click.echo(saved.as_json(store.entries(folder)))
        else:
            saved.render(store.entries(folder), Output())
        return 0
    failing = any(limit is not None for limit in (fail_above, fail_held, fail_growth))
    whole = as_json or as_ktap or html_file is not None or failing
    if whole and (names or wall is not None or function is not None):
        raise UsageProblem(
            "-w, --wall and --function choose what is shown at a terminal; the other views "
            "and what --fail-above, --fail-held and --fail-growth decide are of the whole result",
            "leave out the one or the other",
        )
    if wall is not None and function is not None:
        raise UsageProblem("--wall and --function exclude each other", "leave one out")
    if function == "":
        raise UsageProblem("--function is empty", "name a function of the kernel")
    if line_size != "64" and (wall is not None or function is not None):
        raise UsageProblem(
            "--line-size tells of all walls of a workload, --wall and --function of some",
            "leave one out",
        )
    profile = profiles.load(profile_name)
    result = store.load(file or store.newest(folder))
    limits = Limits(THRESHOLD if fail_above is None else fail_above, fail_held, fail_growth)
    what = terminal.Shown(names, everything, wall, function)
    show(result, as_json, as_ktap, limits, profile, what)
    show_pairs(result, line_size, names, machine=as_json or as_ktap, everything=everything)
    if html_file is not None:
        write_html(html_file, result, None, profile)
    fails = Limits(inf if fail_above is None else fail_above, fail_held, fail_growth)
    if fails.broken_by(result):
        return OVER_LIMIT
    fails.check_whole(result)
    return 0
