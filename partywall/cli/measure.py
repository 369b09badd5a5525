# SPDX-License-Identifier: GPL-2.0-or-later
"""Commands that measure, and that show what was measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from partywall import workloads
from partywall.analyse.verdict import THRESHOLD
from partywall.cli.options import (
    FILE,
    FOLDER,
    OVER_LIMIT,
    RATE,
    Output,
    commands,
    html_options,
    jobs_option,
    kernel_options,
    one_view,
    progress_on_terminal,
    results_option,
    say,
    shape_of,
    timeout_option,
    view_options,
    workload_options,
    write_html,
)
from partywall.core.errors import PartywallError, UsageProblem
from partywall.kernels import Kernel, Request, resolve
from partywall.measure import run
from partywall.model import profiles
from partywall.report import compare as view
from partywall.report import ktap, terminal
from partywall.results import compare, document, store
from partywall.results.result import Result
from partywall.workloads import Workload


@commands.command()
@kernel_options
@workload_options
@click.option("--unconfined", is_flag=True, help="No seccomp, AppArmor or masked paths.")
@click.option(
    "--append",
    "parameters",
    default="",
    metavar="TEXT",
    help="Parameters for the kernel, such as sysctl.fs.neg-dentry-pc=1.",
)
@click.option(
    "--threshold",
    type=RATE,
    default=THRESHOLD,
    show_default=True,
    help="Transfers per operation above which a line is a wall.",
)
@click.option(
    "--fail-above",
    type=RATE,
    metavar="X",
    help="Exit with 1 if a wall has more transfers per operation.",
)
@view_options
@html_options
@results_option
@timeout_option
@jobs_option
@click.option(
    "--markers/--no-markers",
    "marked",
    default=None,
    help="Whether COMMAND marks its window itself; looked up in it if not given.",
)
@click.option(
    "--ops",
    type=click.IntRange(min=1),
    help="Operations that COMMAND does in its window (or in all).",
)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
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
    threshold: float,
    fail_above: float | None,
    as_json: bool,
    as_ktap: bool,
    everything: bool,
    html_file: Path | None,
    profile_name: str,
    folder: Path,
    timeout: float,
    jobs: int | None,
    marked: bool | None,
    ops: int | None,
    command: tuple[str, ...],
) -> int:
    """Find the walls of a kernel.

    Runs each workload in containers of an emulated machine and shows the
    cache lines that they share, by name. With COMMAND (behind --) it runs
    your own static program in the containers instead.
    """
    one_view(as_json, as_ktap)
    profile = profiles.load(profile_name)
    chosen = _chosen(names, command, marked, ops)
    shape = shape_of(containers, cpus)
    with progress_on_terminal() as progress:
        kernel = resolve(Request(kernel_name, vmlinux, modules, tree), progress)
        wanted = run.Wanted(
            kernel=kernel,
            workloads=chosen,
            topology=shape,
            confined=not unconfined,
            threshold=threshold,
            timeout=timeout,
            parameters=parameters,
            **({} if jobs is None else {"jobs": jobs}),
        )
        outcome = run.check(wanted, progress)
    status = 0
    if outcome.result is not None:
        # What was measured is shown even if it can't be kept.
        saved: Path | None = None
        unsaved: PartywallError | None = None
        try:
            saved = store.save(outcome.result, folder)
        except PartywallError as failure:
            unsaved = failure
        limit = threshold if fail_above is None else fail_above
        _show(outcome.result, as_json, as_ktap, limit, everything)
        if saved and not (as_json or as_ktap):
            click.echo(f"\nSaved as {saved}; partywall report shows it again.")
        if html_file is not None:
            try:
                write_html(html_file, outcome.result, None, profile)
            except PartywallError as failure:
                unsaved = failure
        if fail_above is not None and outcome.result.worst > fail_above:
            status = OVER_LIMIT
        if unsaved is not None:
            say(unsaved)
            status = unsaved.exit_code
    for title, error in outcome.failures.items():
        say(type(error)(f"{title}: {error.message}", error.hint))
        status = error.exit_code
    return status


def _chosen(
    names: tuple[str, ...], command: tuple[str, ...], marked: bool | None, ops: int | None
) -> list[Workload]:
    if not command:
        if marked is not None or ops is not None:
            raise UsageProblem(
                "--markers and --ops belong to a program of yours", "name it behind --"
            )
        return workloads.select(names)
    if names:
        raise UsageProblem("--workload and COMMAND exclude each other", "leave one out")
    return [workloads.from_command(list(command), marked=marked, window=ops or 1)]


def _ready(what: str) -> Result | Kernel:
    """The saved result that ``what`` is, or the kernel that it names."""
    if what.endswith(".json"):
        return store.load(Path(what))
    with progress_on_terminal() as progress:
        return resolve(Request(what), progress)


def _measured(wanted: run.Wanted, what: str, folder: Path) -> Result:
    """The result of all that is wanted, saved; the error of the first that failed."""
    with progress_on_terminal() as progress:
        outcome = run.check(wanted, progress)
    for title, error in outcome.failures.items():
        raise type(error)(f"{what}: {title}: {error.message}", error.hint)
    assert outcome.result is not None
    store.save(outcome.result, folder)
    return outcome.result


@commands.command("compare")
@click.argument("before")
@click.argument("after")
@workload_options
@click.option("--json", "as_json", is_flag=True, help="Print the comparison as JSON.")
@click.option("--all", "everything", is_flag=True, help="Show every wall.")
@click.option(
    "--fail-above",
    type=RATE,
    metavar="X",
    help="Exit with 1 if an object has more transfers per operation after.",
)
@html_options
@results_option
@timeout_option
@jobs_option
def compare_command(
    before: str,
    after: str,
    names: tuple[str, ...],
    containers: int | None,
    cpus: int | None,
    as_json: bool,
    everything: bool,
    fail_above: float | None,
    html_file: Path | None,
    profile_name: str,
    folder: Path,
    timeout: float,
    jobs: int | None,
) -> int:
    """Measure two kernels with the same workloads and show what changed.

    BEFORE and AFTER are kernels, as --kernel of check names them, or saved
    results (*.json): partywall compare stock partywall.
    """
    profile = profiles.load(profile_name)
    chosen = workloads.select(names)
    shape = shape_of(containers, cpus)
    more: dict[str, Any] = {"timeout": timeout} | ({} if jobs is None else {"jobs": jobs})
    # Both are made ready first: nothing is measured if one can't be.
    found: list[Result] = []
    for what, ready in [(what, _ready(what)) for what in (before, after)]:
        if isinstance(ready, Result):
            found.append(ready)
            continue
        wanted = run.Wanted(kernel=ready, workloads=chosen, topology=shape, **more)
        found.append(_measured(wanted, what, folder))
    compared = compare.compare(*found)
    if as_json:
        click.echo(document.dump(compared), nl=False)
    else:
        view.render(compared, Output(), verbose=everything)
    if html_file is not None:
        old, new = found
        write_html(html_file, old, new, profile)
    return OVER_LIMIT if fail_above is not None and compared.worst > fail_above else 0


def _show(result: Result, as_json: bool, as_ktap: bool, limit: float, everything: bool) -> None:
    if as_json:
        click.echo(document.dump(result), nl=False)
    elif as_ktap:
        click.echo(ktap.render(result, limit), nl=False)
    else:
        terminal.render(result, Output(), verbose=everything)


@commands.command()
@click.argument("file", type=FILE, required=False)
@view_options
@html_options
@click.option("--fail-above", type=RATE, metavar="X", help="As for check.")
@click.option("--results", "folder", type=FOLDER, default=store.FOLDER, show_default=True)
def report(
    file: Path | None,
    as_json: bool,
    as_ktap: bool,
    everything: bool,
    html_file: Path | None,
    profile_name: str,
    fail_above: float | None,
    folder: Path,
) -> int:
    """Show a saved result, the newest one unless FILE is named."""
    one_view(as_json, as_ktap)
    profile = profiles.load(profile_name)
    result = store.load(file or store.newest(folder))
    _show(result, as_json, as_ktap, THRESHOLD if fail_above is None else fail_above, everything)
    if html_file is not None:
        write_html(html_file, result, None, profile)
    return OVER_LIMIT if fail_above is not None and result.worst > fail_above else 0
