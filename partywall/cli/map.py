# SPDX-License-Identifier: GPL-2.0-or-later
"""The command that maps what containers share, over all operations of a kernel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from partywall import workloads
from partywall.advice import map as maps
from partywall.advice.map import Map
from partywall.cli import pairs
from partywall.cli.options import (
    FILE,
    all_option,
    at_option,
    commands,
    containers_option,
    given,
    html_option,
    jobs_option,
    json_option,
    keep,
    only_to_measure,
    operations_option,
    output_option,
    paged,
    progress_on_terminal,
    results_option,
    say,
    shape_of,
    threshold_option,
    timeout_option,
)
from partywall.cli.readers import Reader
from partywall.core import cache
from partywall.core.errors import PartywallError, UsageProblem
from partywall.core.progress import Progress
from partywall.kernels import Request
from partywall.measure import beside, run, sweep
from partywall.measure.ready import resolve
from partywall.measure.unfinished import Unfinished
from partywall.report import map as view
from partywall.report import map_markdown
from partywall.results import document, parts, store
from partywall.results.result import Result
from partywall.results.touches import Beside
from partywall.workloads import Workload


@commands.command(
    "map", reader=Reader.PLATFORM, examples=("partywall map -w descriptor --html map.html",)
)
@click.argument("files", metavar="[FILE]...", type=FILE, nargs=-1)
@click.option(
    "--kernel",
    "kernels",
    multiple=True,
    metavar="KERNEL",
    help="As check takes it; may be given again.  [default: debian]",
)
@operations_option
@containers_option(".  [default: 8]")
@at_option
@threshold_option
@click.option(
    "--mix",
    "mix",
    multiple=True,
    metavar="OPERATION=WEIGHT",
    help="How often an operation is done; objects are ranked by what the mix pays.",
)
@click.option(
    "--beside",
    "neighbours",
    multiple=True,
    metavar="NAME[/VARIANT]",
    help="What half of the containers do, beside each operation of -w in the other half.",
)
@json_option("the map")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print its tables as Markdown.")
@all_option("every object and operation")
@html_option("a page of it")
@results_option()
@output_option
@timeout_option
@jobs_option
def map_command(
    files: tuple[Path, ...],
    kernels: tuple[str, ...],
    names: tuple[str, ...],
    containers: int | None,
    sharers: int,
    threshold: float,
    mix: tuple[str, ...],
    neighbours: tuple[str, ...],
    as_json: bool,
    as_markdown: bool,
    everything: bool,
    html_file: Path | None,
    folder: Path,
    output: Path | None,
    timeout: float,
    jobs: int | None,
) -> int:
    """Map what containers share: all operations, on one kernel or several.

    Boots few guests and does one operation after the other in each. With FILE, saved
    results of partywall map, it shows these and measures nothing; one of --beside is shown by
    itself. A map that is interrupted goes on, from the last guest that was done, when it is
    asked for again.
    """
    weights = _weights(mix)
    if as_json and as_markdown:
        raise UsageProblem("--json and --markdown exclude each other", "leave one out")
    if files:
        only_to_measure(_TO_MEASURE)
    maps.check_number(len(kernels))
    if output is not None and (files or len(kernels) > 1):
        raise UsageProblem(
            "--output is for what is measured of one kernel",
            "measure each kernel by itself; partywall map FILE... shows them together",
        )
    asked, kept = _Asked(containers, threshold, sharers, timeout, jobs), Unfinished()
    if neighbours:
        if given("folder"):
            raise UsageProblem(
                "--beside keeps no result in a folder",
                "leave out --results; --output FILE keeps it",
            )
        if files or mix or as_markdown or not names or len(kernels) > 1:
            raise UsageProblem(
                "--beside takes one kernel and -w, and no files, --mix or --markdown",
                "such as partywall map -w signal -w fork --beside descriptor/eventfd",
            )
        found = _beside(asked, (*kernels, "debian")[0], names, neighbours, kept)
        pairs.show(
            found, as_json=as_json, everything=everything, html_file=html_file, output=output
        )
        kept.over()
        return 0
    status = 0
    if files:
        if kernels or names:
            raise UsageProblem(
                "saved results have their kernels and operations",
                "leave out --kernel and -w, or the files",
            )
        if (both := pairs.saved(files)) is not None:
            if mix or as_markdown or given("threshold"):
                raise UsageProblem(
                    "--mix, --markdown and --threshold are for maps, and that file holds pairs",
                    "leave them out",
                )
            pairs.show(both, as_json=as_json, everything=everything, html_file=html_file)
            return 0
        results = [store.load(file) for file in files]
        if given("threshold"):
            results = [parts.raised(result, threshold) for result in results]
    else:
        chosen = workloads.select(names) if names else sweep.usual(_every())
        maps.check_mix(weights, [one.title for one in chosen])
        results, status = _each(asked, kernels or ("debian",), chosen, (folder, output), kept)
        if not results:
            return status
    drawn = maps.draw(results, weights)
    if as_json:
        click.echo(document.dump(drawn), nl=False)
    elif as_markdown:
        click.echo(map_markdown.render(drawn, everything=everything), nl=False)
    else:
        paged(lambda out: view.render(drawn, out, everything=everything))
    if html_file is not None:
        _write(html_file, drawn)
    return status


_TO_MEASURE = {
    "containers": "--containers",
    "sharers": "--at",
    "timeout": "--timeout",
    "jobs": "--jobs",
    "folder": "--results",
}


@dataclass(frozen=True)
class _Asked:
    """How to measure, whichever kernel and operations."""

    containers: int | None
    threshold: float
    at: int
    timeout: float
    jobs: int | None

    def of(self, kernel: str, chosen: list[Workload], progress: Progress) -> run.Wanted:
        """What is wanted of a kernel."""
        shape = shape_of(self.containers, None)
        return run.Wanted(
            kernel=resolve(Request(kernel, None, None, None), progress),
            workloads=chosen,
            topology=shape,
            threshold=self.threshold,
            at=self.at,
            timeout=self.timeout,
            jobs=run.default_jobs() if self.jobs is None else self.jobs,
        )


def _beside(
    asked: _Asked,
    kernel: str,
    names: tuple[str, ...],
    neighbours: tuple[str, ...],
    kept: Unfinished,
) -> Beside:
    """Measure pairs of operations on a kernel."""
    victims, others = workloads.select(names), workloads.select(neighbours)
    with progress_on_terminal() as progress:
        return beside.beside(asked.of(kernel, victims, progress), others, progress, kept)


def _write(path: Path, found: Map) -> None:
    """Write a page, whole or not at all."""
    # Templates take a while to load, and few commands have a page.
    from partywall.report.html import map as page  # noqa: PLC0415

    cache.write_whole(path, page.render(found))


def _every() -> Iterable[Workload]:
    return (workload for workload, _ in workloads.load())


def _each(
    asked: _Asked,
    kernels: Sequence[str],
    chosen: list[Workload],
    where: tuple[Path, Path | None],
    kept: Unfinished,
) -> tuple[list[Result], int]:
    """Measure each kernel; the exit status of the first that failed. ``where``: to keep results."""
    results, status = [], 0
    with progress_on_terminal() as progress:
        every = [asked.of(name, chosen, progress) for name in kernels]
        for wanted in every[1:]:
            # What is wrong with these is said before the first one is measured.
            sweep.plan_of(wanted)
        for wanted in every:
            result, failed = _measured(wanted, *where, progress, kept)
            status = status or failed
            results += [result] if result else []
    if not status:
        kept.over()
    return results, status


def _measured(
    wanted: run.Wanted, folder: Path, output: Path | None, progress: Progress, kept: Unfinished
) -> tuple[Result | None, int]:
    """Measure one kernel and keep the result; exit status if nothing could be measured.

    Operations that could not be are rows that say so, and no failure of the map.
    """
    outcome = sweep.sweep(wanted, progress, kept)
    if outcome.result is None:
        title, error = next(iter(outcome.failures.items()))
        say(type(error)(f"{title}: {error.message}", error.hint))
        return None, error.exit_code
    try:
        path = keep(outcome.result, folder, output)
    except PartywallError as failure:
        say(failure)
        return outcome.result, failure.exit_code
    progress.note(f"saved as {path}")
    return outcome.result, 0


def _weights(mix: Iterable[str]) -> dict[str, float]:
    """Return weights by title; UsageProblem if one is none."""
    found = {}
    for one in mix:
        title, _, weight = one.rpartition("=")
        if title in found:
            raise UsageProblem(f"--mix {one}: {title} has a weight already", "say it once")
        try:
            found[title] = float(weight)
        except ValueError:
            title = ""
        if not title or not 0 < found[title] < float("inf"):
            raise UsageProblem(
                f"--mix {one}: it has to be OPERATION=WEIGHT, the weight above 0",
                "such as --mix signal=10 --mix descriptor/pipe=2",
            )
    if not sum(found.values()) < float("inf"):
        raise UsageProblem("--mix: the weights are too large", "they are shares of a whole")
    return found
