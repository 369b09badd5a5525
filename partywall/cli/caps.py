# SPDX-License-Identifier: GPL-2.0-or-later
"""The command that finds what one container can use up of what all need."""

from __future__ import annotations

from pathlib import Path

import click

from partywall import workloads
from partywall.cli.found import TO_MEASURE, copy_option, finish
from partywall.cli.options import (
    FILE,
    append_option,
    commands,
    jobs_option,
    json_option,
    kernel_options,
    names_option,
    only_to_measure,
    progress_on_terminal,
    timeout_option,
)
from partywall.cli.readers import Reader
from partywall.guest.oci import Users
from partywall.kernels import Request
from partywall.measure import caps as measuring
from partywall.measure import run
from partywall.measure.ready import resolve
from partywall.report import caps as view
from partywall.results import store
from partywall.results.caps import Caps

_TO_MEASURE = TO_MEASURE | {
    "users": "--users",
    "seconds": "--seconds",
    "memory": "--memory",
}


@commands.command("caps", reader=Reader.PLATFORM, examples=("partywall caps --json",))
@click.argument("file", required=False, type=FILE)
@kernel_options
@names_option("Operations, may be given again; if not given, all that keep what they make.")
@click.option(
    "--users",
    type=click.Choice(["host", "shared", "own"]),
    default="host",
    show_default=True,
    help="Who root of a container is on the machine: root, without user namespaces, as with "
    "Docker's defaults; with them one user for all containers, or another one for each.",
)
@click.option(
    "--seconds",
    type=click.IntRange(1, 300),
    default=measuring.SECONDS,
    show_default=True,
    help="Of the guest's time, in which one container takes what it can get.",
)
@click.option(
    "--memory",
    type=click.IntRange(512, 65536),
    default=measuring.MEMORY,
    show_default=True,
    metavar="MIB",
    help="Of the guest; the kernel makes many limits by it.",
)
@append_option
@json_option("what was found")
@click.option(
    "--fail-caps",
    type=click.IntRange(min=0),
    metavar="N",
    help="Exit with 1 if more operations than so many run into a shared cap.",
)
@copy_option
@timeout_option
@jobs_option
def caps(
    file: Path | None,
    kernel_name: str,
    vmlinux: Path | None,
    modules: Path | None,
    tree: Path | None,
    names: tuple[str, ...],
    users: Users,
    seconds: int,
    memory: int,
    parameters: str,
    as_json: bool,
    fail_caps: int | None,
    output: Path | None,
    timeout: float,
    jobs: int | None,
) -> int:
    """Find what one container can use up of what all containers need.

    In a guest one container of two takes all that it can get of each kind of thing: files,
    watches, processes, terminals. Its neighbour asks for eight before, beside and after. If
    it gets less beside, that is a shared cap; sysctls and limits of processes are then raised
    until it gets its share, which tells which one it is. With FILE it shows what --output
    wrote, and measures nothing.
    """
    if file is not None:
        only_to_measure(_TO_MEASURE)
        found = store.load_as(file, Caps)
    else:
        library = measuring.tried([one for one, _ in workloads.load()])
        with progress_on_terminal() as progress:
            wanted = run.Wanted(
                kernel=resolve(Request(kernel_name, vmlinux, modules, tree), progress),
                workloads=workloads.select(names) if names else library,
                timeout=timeout,
                parameters=parameters,
                jobs=run.default_jobs() if jobs is None else jobs,
            )
            found = measuring.caps(wanted, progress, users, seconds, memory)
    shared = sum(one.verdict == "cap" for one in found.operations)
    return finish(
        found,
        lambda out: view.render(found, out),
        output=output,
        as_json=as_json,
        over=None if fail_caps is None else shared > fail_caps,
        complete=not found.failed,
    )
