# SPDX-License-Identifier: GPL-2.0-or-later
"""The command that finds the commit which built a wall."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

import click

from partywall import workloads
from partywall.cli.options import (
    FOLDER,
    RATE,
    commands,
    containers_option,
    cpus_option,
    given,
    jobs_option,
    json_option,
    progress_on_terminal,
    results_option,
    shape_of,
    timeout_option,
)
from partywall.cli.readers import Reader
from partywall.core.errors import UsageProblem
from partywall.core.progress import Progress
from partywall.core.topology import Topology
from partywall.kernels import bisect as history
from partywall.kernels import build
from partywall.measure import bisect, run
from partywall.report import bisect as view
from partywall.results import document, store
from partywall.results.bisect import Commit, Where
from partywall.results.diff import Tolerance
from partywall.results.result import Result
from partywall.workloads import Workload

_USUAL = Tolerance()


class _Bench:
    """Builds and measures what is checked out."""

    def __init__(
        self,
        tree: Path,
        steps: build.Commits,
        chosen: list[Workload],
        shape: Topology | None,
        more: dict[str, Any],
        progress: Progress,
    ) -> None:
        self._tree, self._steps, self._chosen = tree, steps, chosen
        self._shape, self._more, self._progress = shape, more, progress

    def __call__(self, at: Commit, where: Where | None) -> Result:
        """Return all that is wanted of a commit; the error of the first that failed."""
        kernel = self._steps.kernel(f"commit {at.short} of {self._tree}")
        chosen, shape = self._chosen, self._shape
        if where is not None:
            chosen = [one for one in chosen if one.title == where[0]]
            shape = where[1]
        wanted = run.Wanted(kernel=kernel, workloads=chosen, topology=shape, **self._more)
        outcome = run.check(wanted, self._progress)
        for title, error in outcome.failures.items():
            raise type(error)(f"{title}: {error.message}", error.hint)
        assert outcome.result is not None
        return outcome.result


@commands.command(
    "bisect",
    reader=Reader.KERNEL,
    examples=("partywall bisect v6.12 v6.13 --tree ~/linux -w signal --object init_ucounts",),
)
@click.argument("good")
@click.argument("bad")
@click.argument("paths", nargs=-1, metavar="[-- PATH...]")
@click.option(
    "--tree", type=FOLDER, required=True, metavar="DIR", help="A git tree of Linux that has both."
)
@click.option(
    "--workload", "-w", "name", required=True, metavar="NAME[/VARIANT]", help="Workload to run."
)
@click.option(
    "--object",
    "pattern",
    required=True,
    metavar="NAME",
    help="Object of the wall, as a report names it, or its type; * stands for anything.",
)
@containers_option("; the workload's own if not given.")
@cpus_option
@click.option(
    "--least",
    type=RATE,
    default=_USUAL.least,
    show_default=True,
    help="Transfers per operation by which GOOD and BAD may differ by chance.",
)
@json_option("what was found")
@results_option()
@timeout_option
@jobs_option
def bisect_command(
    good: str,
    bad: str,
    paths: tuple[str, ...],
    tree: Path,
    name: str,
    pattern: str,
    containers: int | None,
    cpus: int | None,
    least: float,
    as_json: bool,
    folder: Path,
    timeout: float,
    jobs: int | None,
) -> int:
    """Find the commit between GOOD and BAD that built a wall, or took it down.

    Both are built and measured, then by git's bisection what lies between them. A
    commit is as GOOD or as BAD by its transfers per operation on the object: the limit
    is half-way. One that can't be built or booted is skipped. With PATH only commits
    that change one of these are looked at. Your checkout is left as it is.
    """
    chosen = workloads.select([name])
    shape = shape_of(containers, cpus)
    tree = history.repository(tree)
    ends = [history.commit(tree, one) for one in (good, bad)]
    first, _ = bisect.order(tree, *ends)
    options = ["-w", shlex.quote(name)]
    options += ["-n", str(containers)] if containers is not None else []
    options += ["-c", str(cpus)] if cpus is not None else []
    options += ["--timeout", f"{timeout:g}"] if given("timeout") else []
    more: dict[str, Any] = {"timeout": timeout} | ({} if jobs is None else {"jobs": jobs})
    with progress_on_terminal() as progress:

        def told(text: str) -> None:
            # A bisection takes hours: where no terminal shows steps, a log has them.
            if sys.stderr.isatty():
                progress.note(text)
            else:
                click.echo(text, err=True)

        with build.commits(tree, first, progress) as steps:
            asked = bisect.Asked(
                tree=tree,
                place=steps.make.tree,
                good=ends[0],
                bad=ends[1],
                object=pattern,
                options=tuple(options),
                paths=paths,
                tolerance=Tolerance(least=least),
                least=least if given("least") else None,
            )
            bench = _Bench(tree, steps, chosen, shape, more, progress)
            found = bisect.run(asked, bench, lambda result: store.save(result, folder), told)
    if as_json:
        click.echo(document.dump(found), nl=False)
    else:
        click.echo(view.render(found), nl=False)
    return 0 if found.differ else UsageProblem.exit_code
