# SPDX-License-Identifier: GPL-2.0-or-later
"""The command that finds what operations leave behind in memory."""

from __future__ import annotations

from pathlib import Path

import click

from partywall import workloads
from partywall.cli.options import (
    FILE,
    OVER_LIMIT,
    all_option,
    append_option,
    commands,
    containers_option,
    jobs_option,
    json_option,
    kernel_options,
    only_to_measure,
    operations_option,
    paged,
    progress_on_terminal,
    shape_of,
    timeout_option,
)
from partywall.core import cache
from partywall.core.errors import EnvironmentProblem
from partywall.kernels import Request, resolve
from partywall.measure import growth as measuring
from partywall.measure import run, sweep
from partywall.report import growth as view
from partywall.results import document, store
from partywall.results.growth import Growth

_TO_MEASURE = {
    "kernel_name": "--kernel",
    "vmlinux": "--vmlinux",
    "modules": "--modules",
    "tree": "--kernel-tree",
    "names": "--workload",
    "containers": "--containers",
    "operations": "--operations",
    "parameters": "--append",
    "timeout": "--timeout",
    "jobs": "--jobs",
}


@commands.command()
@click.argument("file", required=False, type=FILE)
@kernel_options
@operations_option
@containers_option(f".  [default: {measuring.CONTAINERS}]")
@click.option(
    "--operations",
    type=click.IntRange(8, 1_000_000),
    metavar="N",
    help="What each container does between the first two looks.  [default: a workload's window, "
    f"{measuring.LEAST_OPERATIONS} at least]",
)
@append_option
@json_option("what was found")
@all_option("every row")
@click.option(
    "--fail-growth",
    type=click.FloatRange(min=0),
    metavar="BYTES",
    help="Exit with 1 if an operation leaves more behind that nobody is charged for.",
)
@click.option(
    "--output",
    type=FILE,
    metavar="FILE",
    help="Write what was found to FILE, as JSON, too.",
)
@timeout_option
@jobs_option
def growth(
    file: Path | None,
    kernel_name: str,
    vmlinux: Path | None,
    modules: Path | None,
    tree: Path | None,
    names: tuple[str, ...],
    containers: int | None,
    operations: int | None,
    parameters: str,
    as_json: bool,
    everything: bool,
    fail_growth: float | None,
    output: Path | None,
    timeout: float,
    jobs: int | None,
) -> int:
    """Find what operations leave behind in memory, and who pays for it.

    Looks at all memory of a guest while nobody works: before an operation is done many
    times, after that, and after twice as many more. Of what grows it says who made it,
    how much of it some container's memory cgroup is charged for, and what takes it back:
    the end of the processes and of their files, reclaim, the end of the container, or
    nothing. What grows has to grow again when eight times as many are done. With FILE it
    shows what --output wrote, and measures nothing.
    """
    if file is not None:
        only_to_measure(_TO_MEASURE)
        found = store.load_as(file, Growth)
    else:
        library = [one for one, _ in workloads.load()]
        every = sweep.usual(library) + [one for one in library if one.keeps]
        with progress_on_terminal() as progress:
            wanted = run.Wanted(
                kernel=resolve(Request(kernel_name, vmlinux, modules, tree), progress),
                workloads=workloads.select(names) if names else every,
                topology=shape_of(containers, None),
                timeout=timeout,
                parameters=parameters,
                jobs=run.default_jobs() if jobs is None else jobs,
            )
            found = measuring.growth(wanted, progress, operations)
    if output is not None:
        cache.write_whole(output, document.dump(found))
    if as_json:
        click.echo(document.dump(found), nl=False)
    else:
        paged(lambda out: view.render(found, out, everything=everything))
    if fail_growth is None:
        return 0
    if max(one.uncharged for one in found.operations) > fail_growth:
        return OVER_LIMIT
    # What was not measured has not passed.
    return EnvironmentProblem.exit_code if found.failed else 0
