# SPDX-License-Identifier: GPL-2.0-or-later
"""The command that finds the walls of a kernel."""

from __future__ import annotations

from math import inf
from pathlib import Path
from typing import Literal

import click

from partywall.cli.limits import Limits, growth_option, held_option
from partywall.cli.lines import line_size_option, show_pairs
from partywall.cli.mixed import neighbours_of, with_option
from partywall.cli.options import (
    OVER_LIMIT,
    append_option,
    at_option,
    commands,
    fail_above_option,
    html_options,
    jobs_option,
    keep,
    kernel_options,
    one_view,
    output_option,
    progress_on_terminal,
    results_option,
    say,
    threshold_option,
    timeout_option,
    view_options,
    workload_options,
    write_html,
)
from partywall.cli.pairs import show as show_pairs_of
from partywall.cli.program import Program, program_options
from partywall.cli.readers import Reader
from partywall.cli.report import show
from partywall.core.errors import EnvironmentProblem, PartywallError, UsageProblem
from partywall.core.topology import Profiles
from partywall.kernels import Request
from partywall.measure import beside, run
from partywall.measure.ready import resolve, with_roots
from partywall.model import profiles
from partywall.report.terminal import Shown
from partywall.results import store


def _shown_by(output: Path | None, folder: Path) -> str:
    """Return the command that shows again what was saved."""
    if output is not None:
        return f"partywall report {output}"
    return "partywall report" + ("" if folder == store.FOLDER else f" --results {folder}")


@commands.command(
    "check",
    reader=Reader.PLATFORM,
    examples=(
        "partywall check -w signal",
        "partywall check --kernel debian:6.1 --html walls.html",
    ),
)
@kernel_options
@workload_options
@click.option("--unconfined", is_flag=True, help="No seccomp, AppArmor or masked paths.")
@append_option
@click.option(
    "--layers",
    type=click.Choice(["shared", "own", "both"]),
    default="shared",
    show_default=True,
    help="One image for all containers, or one of each one's own.",
)
@click.option(
    "--apparmor",
    type=click.Choice(["shared", "own", "none"]),
    default="shared",
    show_default=True,
    help="One AppArmor profile for all containers, one for each, or none.",
)
@click.option(
    "--volatile",
    is_flag=True,
    help="Containers' overlays are mounted with volatile: what is synced there is not written.",
)
@threshold_option
@at_option
@fail_above_option("Exit with 1 if a wall has more transfers per operation.")
@held_option
@growth_option
@line_size_option
@view_options
@html_options
@results_option()
@output_option
@timeout_option
@jobs_option
@with_option
@program_options
def check(
    kernel_name: str,
    vmlinux: Path | None,
    modules: Path | None,
    tree: Path | None,
    names: tuple[str, ...],
    containers: int | None,
    cpus: int | None,
    unconfined: bool,
    parameters: str,
    layers: Literal["shared", "own", "both"],
    apparmor: Profiles,
    volatile: bool,
    threshold: float,
    sharers: int,
    fail_above: float | None,
    fail_held: float | None,
    fail_growth: float | None,
    line_size: str,
    as_json: bool,
    as_ktap: bool,
    everything: bool,
    html_file: Path | None,
    profile_name: str,
    folder: Path,
    output: Path | None,
    timeout: float,
    jobs: int | None,
    neighbours: tuple[str, ...],
    program: Program,
) -> int:
    """Find the walls of a kernel.

    Runs each workload in containers of an emulated machine and shows the
    cache lines that they share, by name. With COMMAND (behind --) it runs
    your own program in the containers instead: a static one, or with
    --image, --debian or --rootfs any; with --client a server that is asked.
    --compose takes image, command and limits from a file.
    With --with half of the containers do something else, and what is told is
    what each half costs the other.
    """
    one_view(as_json, as_ktap)
    if apparmor != "shared" and unconfined:
        raise UsageProblem("--apparmor and --unconfined exclude each other", "leave one out")
    profile = profiles.load(profile_name)
    chosen = every = program.workloads(names)
    shape = program.shape(containers, cpus)
    fails = Limits(inf if fail_above is None else fail_above, fail_held, fail_growth)
    fails.check(chosen, shape)
    others = neighbours_of(neighbours, chosen) if neighbours else []
    with progress_on_terminal() as progress:
        rootless: dict[str, PartywallError] = {}
        if others:
            # Packages of both are one root, which is made when both are known.
            own = [one for one in (*chosen, *others) if one.root and one.root.kind != "debian"]
            _, rootless = with_roots(own, progress)
            for error in rootless.values():
                raise error
        else:
            chosen, rootless = with_roots(chosen, progress)
        kernel = resolve(Request(kernel_name, vmlinux, modules, tree), progress)
        wanted = run.Wanted(
            kernel=kernel,
            # Of those beside each other each is told what the other costs it.
            workloads=[*chosen, *(one for one in others if one not in chosen)],
            topology=shape,
            confined=not unconfined,
            threshold=threshold,
            at=sharers,
            timeout=timeout,
            parameters=parameters,
            layers=("shared", "own") if layers == "both" else (layers,),
            profiles=apparmor,
            volatile=volatile,
            rootless=run.unrooted(every, rootless, shape),
            **({} if jobs is None else {"jobs": jobs}),
        )
        both = beside.beside(wanted, wanted.workloads, progress) if others else None
        outcome = run.Outcome(None, {}) if others else run.check(wanted, progress)
    if both is not None:
        show_pairs_of(
            both, as_json=as_json, everything=everything, html_file=html_file, output=output
        )
        # What was not measured has not passed.
        return EnvironmentProblem.exit_code if both.failed else 0
    status = 0
    if outcome.result is not None:
        # What was measured is shown even if it can't be kept.
        saved: Path | None = None
        unsaved: PartywallError | None = None
        try:
            saved = keep(outcome.result, folder, output)
        except PartywallError as failure:
            unsaved = failure
        limits = Limits(threshold if fail_above is None else fail_above, fail_held, fail_growth)
        show(outcome.result, as_json, as_ktap, limits, profile, Shown(everything=everything))
        show_pairs(outcome.result, line_size, machine=as_json or as_ktap, everything=everything)
        if saved and not (as_json or as_ktap):
            again = _shown_by(output, folder)
            click.echo(f"\nSaved as {saved}; {again} shows it again.")
        if html_file is not None:
            try:
                write_html(html_file, outcome.result, None, profile)
            except PartywallError as failure:
                unsaved = failure
        if fails.broken_by(outcome.result):
            status = OVER_LIMIT
        if unsaved is not None:
            say(unsaved)
            status = unsaved.exit_code
    for title, error in (rootless | outcome.failures).items():
        say(type(error)(f"{title}: {error.message}", error.hint))
        status = error.exit_code
    return status
