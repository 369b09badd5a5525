# SPDX-License-Identifier: GPL-2.0-or-later
"""The command that finds what operations leave behind in memory."""

from __future__ import annotations

from pathlib import Path

import click

from partywall import workloads
from partywall.cli.options import (
    OVER_LIMIT,
    RATE,
    commands,
    jobs_option,
    paged,
    progress_on_terminal,
    shape_of,
    timeout_option,
)
from partywall.core import cache
from partywall.kernels import Request, resolve
from partywall.measure import growth as measuring
from partywall.measure import run, sweep
from partywall.report import growth as view
from partywall.results import document


@commands.command()
@click.option(
    "--kernel",
    default="debian",
    show_default=True,
    metavar="KERNEL",
    help="As check takes it.",
)
@click.option(
    "--workload",
    "-w",
    "names",
    multiple=True,
    metavar="NAME[/VARIANT]",
    help="Operations, may be given again; all, in one place each, if not given.",
)
@click.option(
    "--containers",
    "-n",
    type=int,
    help=f"Containers.  [default: {measuring.CONTAINERS}]",
)
@click.option("--json", "as_json", is_flag=True, help="Print what was found as JSON.")
@click.option("--all", "everything", is_flag=True, help="Show every row.")
@click.option(
    "--fail-growth",
    type=RATE,
    metavar="BYTES",
    help="Exit with 1 if an operation leaves more behind that nobody is charged for.",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write what was found to FILE, as JSON, too.",
)
@timeout_option
@jobs_option
def growth(
    kernel: str,
    names: tuple[str, ...],
    containers: int | None,
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
    which container's memory cgroup is charged, and what takes it back: the end of the
    processes, reclaim, the end of the container, or nothing.
    """
    chosen = workloads.select(names) if names else sweep.usual(one for one, _ in workloads.load())
    with progress_on_terminal() as progress:
        wanted = run.Wanted(
            kernel=resolve(Request(kernel, None, None, None), progress),
            workloads=chosen,
            topology=shape_of(containers, None),
            timeout=timeout,
            jobs=run.default_jobs() if jobs is None else jobs,
        )
        found = measuring.growth(wanted, progress)
    if output is not None:
        cache.write_whole(output, document.dump(found))
    if as_json:
        click.echo(document.dump(found), nl=False)
    else:
        paged(lambda out: view.render(found, out, everything=everything))
    worst = max(one.uncharged for one in found.operations)
    return OVER_LIMIT if fail_growth is not None and worst > fail_growth else 0
