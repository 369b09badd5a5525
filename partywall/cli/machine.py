# SPDX-License-Identifier: GPL-2.0-or-later
"""The command that measures this machine for the model."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from partywall import workloads
from partywall.cli.options import (
    FILE,
    commands,
    given,
    json_option,
    progress_on_terminal,
)
from partywall.cli.readers import Reader
from partywall.cli.timed import runs_option, timed_option
from partywall.clock import bench, constant, cpus
from partywall.clock.constant import Constant
from partywall.core import cache
from partywall.core.errors import UsageProblem
from partywall.core.progress import Progress
from partywall.model import machine as model
from partywall.results import document, store

TO_TIME: Final = {"name": "--workload", "seconds": "--seconds", "runs": "--runs"}
"""Options of the container that is timed, by their parameters."""


def _constant(
    file: Path, name: str, seconds: float, runs: int, progress: Progress
) -> tuple[Constant, list[str]]:
    """Time one container alone, and divide by what a saved result counted; and doubts."""
    workload = workloads.one(name)
    result = store.load(file)
    one = constant.counted(result, workload.title, str(file))
    wanted = bench.Wanted(workload=workload, counts=[1], seconds=seconds, runs=runs)
    bench.check(wanted, guests=False)
    found = bench.with_constant(bench.bench(wanted, progress), result, one)
    assert found.constant is not None
    return found.constant, found.warnings


@commands.command(
    "machine",
    reader=Reader.PLATFORM,
    examples=("partywall machine --instruction-ns RESULT.json --output mine.toml",),
)
@click.option(
    "--instruction-ns",
    "counted",
    type=FILE,
    metavar="RESULT",
    help="A saved result that counted a workload's instructions: time one container of it "
    "as well, which takes root.",
)
@timed_option
@click.option(
    "--seconds",
    type=click.FloatRange(min=0.1, max=3600),
    default=2.0,
    show_default=True,
    help="Length of a run of the container.",
)
@runs_option
@click.option(
    "--output",
    type=FILE,
    metavar="FILE.toml",
    help="Write the machine's file there.",
)
@json_option("the figures")
def machine_command(
    counted: Path | None, name: str, seconds: float, runs: int, output: Path | None, as_json: bool
) -> int:
    """Measure how long cache lines travel between this machine's cores.

    Prints a machine's file, or writes it to --output; --profile of other commands takes it.
    """
    unused = [option for option in TO_TIME if given(option)]
    if counted is None and unused:
        raise UsageProblem(
            f"{TO_TIME[unused[0]]} is of the container that --instruction-ns times",
            "leave it out, or give that as well",
        )
    if output is not None and output.suffix != ".toml":
        raise UsageProblem(f"{output} is no name for a machine's file", "it has to end in .toml")
    there = cpus.allowed()
    model.levels_of(there)
    with progress_on_terminal() as progress:
        alone, doubts = None, list[str]()
        if counted is not None:
            alone, doubts = _constant(counted, name, seconds, runs, progress)
        found = model.machine(there, alone, doubts, progress)
    if output is not None:
        cache.write_whole(output, model.written(found))
        for warning in found.warnings:
            click.echo(f"mind: {warning}", err=True)
    if as_json or output is None:
        click.echo(document.dump(found) if as_json else model.written(found), nl=False)
    return 0
