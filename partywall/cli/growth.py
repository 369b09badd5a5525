# SPDX-License-Identifier: GPL-2.0-or-later
"""The command that finds what operations leave behind in memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from partywall import workloads
from partywall.cli.found import TO_MEASURE, copy_option, finish
from partywall.cli.limits import resolves
from partywall.cli.options import (
    FILE,
    all_option,
    append_option,
    commands,
    containers_option,
    jobs_option,
    json_option,
    kernel_options,
    only_to_measure,
    operations_option,
    progress_on_terminal,
    shape_of,
    timeout_option,
)
from partywall.cli.readers import Reader
from partywall.core.errors import UsageProblem
from partywall.kernels import Request
from partywall.measure import growth as measuring
from partywall.measure import run, sweep
from partywall.measure.ready import resolve
from partywall.report import growth as view
from partywall.report import memory
from partywall.results import bounds, store
from partywall.results.caps import Caps
from partywall.results.growth import Growth

_TO_MEASURE = TO_MEASURE | {
    "containers": "--containers",
    "operations": "--operations",
}


def _limit_option(name: str, what: str) -> Callable[[Any], Any]:
    """Return the option with the most bytes that an operation may leave behind of some kind."""
    return click.option(
        name,
        type=click.FloatRange(min=0),
        metavar="BYTES",
        help=f"Exit with 1 if an operation leaves more behind that {what}; with 2 if that can't be "
        "told.",
    )


@commands.command("growth", reader=Reader.PLATFORM, examples=("partywall growth -w descriptor",))
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
@_limit_option("--fail-growth", "nobody is charged for")
@_limit_option(
    "--fail-unlimited",
    "is charged, and stays until memory is short, its container ends or its root is unmounted, or "
    "for good",
)
@click.option(
    "--caps",
    "caps_file",
    type=FILE,
    metavar="FILE",
    help="What partywall caps --output wrote, of the same kernel: with it is told what bounds "
    "each, and towards which limit counters count.",
)
@copy_option
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
    fail_unlimited: float | None,
    caps_file: Path | None,
    output: Path | None,
    timeout: float,
    jobs: int | None,
) -> int:
    """Find what operations leave behind in memory, and who pays for it.

    Looks at all memory of a guest while nobody works: before an operation is done many
    times, after that, and after twice as many more. Of what grows it says who made it,
    how much of it some container's memory cgroup is charged for, and what takes it back:
    the end of the processes and of their files, reclaim, the end of the container, the
    unmounting of its root, or nothing. What grows has to grow again when eight times as
    many are done. With FILE it shows what --output wrote, and measures nothing.
    """
    limits = [limit for limit in (fail_growth, fail_unlimited) if limit is not None]
    caps = None if caps_file is None else store.load_as(caps_file, Caps)
    if file is not None:
        only_to_measure(_TO_MEASURE)
        found = store.load_as(file, Growth)
        for limit in limits:
            for one in found.operations:
                resolves(one.title, limit, one.least_bytes)
    else:
        library = [one for one, _ in workloads.load()]
        every = sweep.usual(library) + [one for one in library if one.keeps]
        chosen = workloads.select(names) if names else every
        shape = shape_of(containers, None)
        for limit in limits:
            for workload in chosen:
                fewest = measuring.least_bytes(workload, shape, operations)
                resolves(workload.title, limit, fewest)
        with progress_on_terminal() as progress:
            wanted = run.Wanted(
                kernel=resolve(Request(kernel_name, vmlinux, modules, tree), progress),
                workloads=chosen,
                topology=shape,
                timeout=timeout,
                parameters=parameters,
                jobs=run.default_jobs() if jobs is None else jobs,
            )
            if caps is not None:
                bounds.require_same(caps, wanted.kernel.build_id)
            found = measuring.growth(wanted, progress, operations)
    if caps is not None:
        found = bounds.joined(found, caps)
    status = finish(
        found,
        lambda out: view.render(found, out, everything=everything),
        output=output,
        as_json=as_json,
        over=any(
            (fail_growth is not None and one.uncharged > fail_growth)
            or (fail_unlimited is not None and one.unlimited > fail_unlimited)
            for one in found.operations
        )
        if limits
        else None,
        complete=not found.failed,
    )
    if not status:
        _settled(found, fail_growth, fail_unlimited)
    return status


def _settled(found: Growth, uncharged: float | None, unlimited: float | None) -> None:
    """UsageProblem if what is not settled could be over a limit, or nobody saw what becomes of it.

    ``uncharged``, ``unlimited``: bytes; None for any.
    """
    for one in found.operations:
        over = uncharged is not None and one.uncharged_at_most > uncharged
        if not over and (unlimited is None or one.unlimited_at_most <= unlimited):
            continue
        if not over and one.unfollowed:
            raise UsageProblem(
                f"what takes back what {one.title} leaves behind is not known: the guest ended",
                "measure it again",
            )
        raise UsageProblem(
            f"what {one.title} leaves behind is not settled: {memory.unsettled(one, not over)}",
            "do more of it, by --operations, or leave it out",
        )
