# SPDX-License-Identifier: GPL-2.0-or-later
"""The command that measures by the clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import click

from partywall import workloads
from partywall.cli.options import (
    FILE,
    Output,
    commands,
    json_option,
    profile_option,
    progress_on_terminal,
    timeout_option,
)
from partywall.cli.predict import parse_counts
from partywall.cli.readers import Reader
from partywall.cli.timed import runs_option, timed_option
from partywall.clock import bench, constant
from partywall.clock.bench import Bench
from partywall.clock.cpus import Placement
from partywall.core.errors import UsageProblem
from partywall.kernels import Request
from partywall.measure.ready import resolve
from partywall.model import profiles
from partywall.model.queues import Prediction, predict
from partywall.report import bench as view
from partywall.results import document, store
from partywall.workloads import Workload


def _expected(
    file: Path | None, profile_name: str, workload: Workload, counts: list[int], cpus: int
) -> Prediction | None:
    """What the model says of the same workload in a saved result."""
    if file is None:
        return None
    profile = profiles.load(profile_name)
    for one in store.load(file).workloads:
        same = (one.title, one.topology.cpus, one.scope) == (workload.title, cpus, "between")
        if same:
            return predict(one, profile, counts)
    raise UsageProblem(
        f"{file} has no {workload.title} in several containers of {cpus} CPUs",
        "measure it with partywall check first",
    )


def _divider(
    file: Path | None, workload: Workload, counts: list[int], cpus: int
) -> Callable[[Bench], Bench]:
    """What adds the time of an instruction to a benchmark, if a result counts instructions.

    UsageProblem before anything runs, if it can't be.
    """
    if file is None:
        return lambda found: found
    constant.alone(counts, cpus)
    result = store.load(file)
    one = constant.counted(result, workload.title, str(file))
    return lambda found: bench.with_constant(found, result, one)


@commands.command("bench", reader=Reader.PLATFORM, examples=("partywall bench -w signal -n 1,2",))
@timed_option
@click.option(
    "--containers", "-n", "counts", default="1,2", show_default=True, help="Numbers of containers."
)
@click.option("--cpus", "-c", default=1, show_default=True, help="CPUs of each container.")
@click.option(
    "--seconds",
    type=click.FloatRange(min=0.1, max=3600),
    default=2.0,
    show_default=True,
    help="Length of a run.",
)
@runs_option
@click.option(
    "--placement",
    type=click.Choice(["spread", "packed"]),
    default="spread",
    show_default=True,
    help="Over all sockets in turn, or one after the other; whole cores first.",
)
@click.option(
    "--kernel",
    "kernels",
    multiple=True,
    metavar="KERNEL",
    help="In a guest on this kernel; given again, side by side. The running one if not given.",
)
@click.option(
    "--accel",
    type=click.Choice(["kvm", "threads"]),
    help="What a guest runs on; KVM where it works if not given, else emulated threads.",
)
@click.option("--beside", type=FILE, help="A saved result: the model's figures beside.")
@click.option(
    "--instruction-ns",
    "counted",
    type=FILE,
    metavar="RESULT",
    help="A saved result that counted the workload's instructions: print ns for each, as "
    "a machine's file says it.",
)
@profile_option
@json_option("the benchmark")
@timeout_option
def bench_command(
    name: str,
    counts: str,
    cpus: int,
    seconds: float,
    runs: int,
    placement: Placement,
    kernels: tuple[str, ...],
    accel: bench.Accel | None,
    beside: Path | None,
    counted: Path | None,
    profile_name: str,
    as_json: bool,
    timeout: float,
) -> int:
    """Measure containers by the clock, on as many CPUs as this machine has.

    Real containers do the workload on the running kernel, 1, 2, … at a time, each
    on CPUs of its own. With --kernel they do it in guests.
    """
    workload = workloads.one(name)
    if accel is not None and not kernels:
        raise UsageProblem("--accel belongs to guests", "name a kernel with --kernel")
    chosen = parse_counts(counts)
    divide = _divider(counted, workload, chosen, cpus)
    if counted is not None and kernels and bench.accelerator(accel) == "threads":
        raise UsageProblem(
            "emulated threads tell nothing of a machine's instructions",
            "leave --kernel out, or run guests under KVM",
        )
    expected = _expected(beside, profile_name, workload, chosen, cpus)
    wanted = bench.Wanted(
        workload=workload,
        counts=chosen,
        cpus=cpus,
        seconds=seconds,
        runs=runs,
        placement=placement,
        accel=accel,
        timeout=timeout,
    )
    bench.check(wanted, guests=bool(kernels))
    with progress_on_terminal() as progress:
        found = bench.bench(
            replace(wanted, kernels=[resolve(Request(kernel), progress) for kernel in kernels]),
            progress,
        )
    found = divide(found)
    if as_json:
        click.echo(document.dump(found), nl=False)
    else:
        view.render(found, expected, Output())
    return 0
