# SPDX-License-Identifier: GPL-2.0-or-later
"""The command that lays two kernels side by side."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import click

from partywall import workloads
from partywall.cli.limits import Limits, growth_option, held_option
from partywall.cli.options import (
    OVER_LIMIT,
    Output,
    all_option,
    commands,
    fail_above_option,
    html_options,
    jobs_option,
    json_option,
    only_to_measure,
    progress_on_terminal,
    results_option,
    say,
    shape_of,
    timeout_option,
    workload_options,
    write_html,
)
from partywall.cli.readers import Reader
from partywall.core.errors import PartywallError, UsageProblem
from partywall.kernels import Kernel, Request
from partywall.measure import run
from partywall.measure.ready import resolve, with_roots
from partywall.model import profiles
from partywall.report import compare as view
from partywall.results import compare, document, store
from partywall.results.named import narrowed
from partywall.results.result import Result

_TO_MEASURE = {
    "containers": "--containers",
    "cpus": "--cpus",
    "timeout": "--timeout",
    "jobs": "--jobs",
}
"""Options that say nothing of two saved results."""


def _ready(what: str) -> Result | Kernel:
    """The saved result that ``what`` is, or the kernel that it names."""
    if store.is_name(what):
        return store.load(Path(what))
    with progress_on_terminal() as progress:
        return resolve(Request(what), progress)


def _chosen(result: Result, what: str, names: tuple[str, ...]) -> Result:
    """What a saved result has of the workloads that are asked for."""
    try:
        return narrowed(result, names)
    except UsageProblem as problem:
        raise UsageProblem(f"{what}: {problem.message}", problem.hint) from problem


def _measured(
    wanted: run.Wanted, what: str, folder: Path
) -> tuple[Result | None, dict[str, PartywallError]]:
    """The result of what could be measured, saved, and by kernel and title what could not be."""
    with progress_on_terminal() as progress:
        outcome = run.check(wanted, progress)
    if outcome.result is not None:
        # Beside what is printed: there may be no comparison.
        click.echo(f"Saved as {store.save(outcome.result, folder)}", err=True)
    return outcome.result, {f"{what}: {title}": one for title, one in outcome.failures.items()}


def _failed(failures: dict[str, PartywallError]) -> int:
    """Say what failed; the exit status of the last one, 0 if nothing did."""
    status = 0
    for title, error in failures.items():
        say(type(error)(f"{title}: {error.message}", error.hint))
        status = error.exit_code
    return status


@commands.command(
    "compare", reader=Reader.PLATFORM, examples=("partywall compare debian:6.1 debian -w signal",)
)
@click.argument("before")
@click.argument("after")
@workload_options
@json_option("the comparison")
@all_option("every wall")
@fail_above_option("Exit with 1 if an object has more transfers per operation after.")
@held_option
@growth_option
@html_options
@results_option()
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
    fail_held: float | None,
    fail_growth: float | None,
    html_file: Path | None,
    profile_name: str,
    folder: Path,
    timeout: float,
    jobs: int | None,
) -> int:
    """Measure two kernels with the same workloads and show what changed.

    BEFORE and AFTER are kernels, as --kernel of check names them, trees of Linux
    and their images among them, or saved results (*.json, *.json.gz): partywall
    compare stock ~/linux. A workload that fails on one of them is left out, and
    named. Of two saved results -w chooses what is compared, patterns too.
    --fail-held and --fail-growth are of all that AFTER has of that.
    """
    profile = profiles.load(profile_name)
    both = [store.is_name(what) for what in (before, after)]
    if all(both):
        only_to_measure(_TO_MEASURE)
    # Of saved results any name is one that they have.
    chosen = [] if all(both) else workloads.select_any(names)
    shape = shape_of(containers, cpus)
    more: dict[str, Any] = {"timeout": timeout} | ({} if jobs is None else {"jobs": jobs})
    fails = Limits(inf, fail_held, fail_growth)
    if not store.is_name(after):
        fails.check(chosen, shape)
    every, failures = chosen, dict[str, PartywallError]()
    if not all(both):
        with progress_on_terminal() as progress:
            chosen, failures = with_roots(chosen, progress)
    more["rootless"] = run.unrooted(every, failures, shape)
    # Both are made ready first: nothing is measured if one can't be.
    found: list[Result] = []
    for what, ready in [(what, _ready(what)) for what in (before, after)]:
        if isinstance(ready, Result):
            found.append(ready)
            continue
        wanted = run.Wanted(kernel=ready, workloads=chosen, topology=shape, **more)
        result, failed = _measured(wanted, what, folder)
        failures |= failed
        if result is None:
            return _failed(failures)
        found.append(result)
    if all(both):
        found = [_chosen(found[0], before, names), _chosen(found[1], after, names)]
    try:
        compared = compare.compare(*found)
    except UsageProblem as error:
        if not failures:
            raise
        # That may be since what they had in common failed, or for a reason of its own.
        say(error)
        return _failed(failures)
    if as_json:
        click.echo(document.dump(compared), nl=False)
    else:
        view.render(compared, Output(), verbose=everything)
    if html_file is not None:
        write_html(html_file, found[0], found[1], profile)
    over = fail_above is not None and compared.worst > fail_above
    over = fails.broken_by(found[1]) or over
    if not failures and not over:
        bounds = replace(fails, transfers=inf if fail_above is None else fail_above)
        # Of what failed before, nothing after is held against it.
        for result in (found[1], found[0]):
            bounds.check_whole(result)
    return _failed(failures) or (OVER_LIMIT if over else 0)
