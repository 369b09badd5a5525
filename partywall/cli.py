# SPDX-License-Identifier: GPL-2.0-or-later
"""The commands, their options and exit codes.

0: done, and nothing over --fail-above. 1: a wall is over --fail-above.
2: asked for something that can't be. 3: this machine or the guest failed.
130: interrupted.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from partywall import __version__, compare, doctor, qemu, results, run, workloads
from partywall.errors import EnvironmentProblem, PartywallError, UsageProblem
from partywall.image import Topology, build_workload
from partywall.kernels import Kernel, Request, resolve, series, source
from partywall.kernels.build import variants
from partywall.kernels.sources import built
from partywall.measure import possible
from partywall.progress import Progress, Quiet, Terminal
from partywall.report import comparison, json_, ktap, terminal
from partywall.report.words import plain
from partywall.result import Result
from partywall.walls import THRESHOLD
from partywall.workloads import Workload

OVER_LIMIT, INTERRUPTED = 1, 130


class _Rate(click.FloatRange):
    """Transfers per operation: a number of at least 0, and not without end."""

    name = "rate"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is no number of transfers.", param, ctx)
        return number


_RATE = _Rate(min=0)
_FILE = click.Path(path_type=Path, dir_okay=False)
_FOLDER = click.Path(path_type=Path, file_okay=False)


@contextlib.contextmanager
def _progress() -> Iterator[Progress]:
    console = Console(stderr=True)
    if not console.is_terminal:
        yield Quiet()
        return
    with Terminal(console) as live:
        yield live


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="partywall")
def commands() -> None:
    """Find the cache lines that containers share in a Linux kernel."""


def _kernel_options(command: click.decorators.FC) -> click.decorators.FC:
    command = click.option(
        "--kernel-tree", "tree", type=_FOLDER, help="Build this tree of Linux and take that."
    )(command)
    command = click.option(
        "--modules", type=_FOLDER, help="lib/modules/RELEASE of a kernel given as a file."
    )(command)
    command = click.option(
        "--vmlinux", type=_FILE, help="vmlinux with debug information of that kernel."
    )(command)
    return click.option(
        "--kernel",
        "kernel_name",
        default="debian",
        show_default=True,
        metavar="KERNEL",
        help="debian, debian:6.1, debian:PACKAGE, stock, partywall, PATH/bzImage with --vmlinux.",
    )(command)


def _view_options(command: click.decorators.FC) -> click.decorators.FC:
    command = click.option(
        "--all", "everything", is_flag=True, help="Show every wall and all of its code."
    )(command)
    command = click.option("--ktap", "as_ktap", is_flag=True, help="Print the verdicts as KTAP.")(
        command
    )
    return click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")(
        command
    )


def _one_view(as_json: bool, as_ktap: bool) -> None:
    if as_json and as_ktap:
        raise UsageProblem("--json and --ktap exclude each other", "leave one out")


def _workload_options(command: click.decorators.FC) -> click.decorators.FC:
    command = click.option(
        "--cpus", "-c", type=int, help="CPUs of each container, a process on each."
    )(command)
    command = click.option(
        "--containers", "-n", type=int, help="Containers; each workload's own if not given."
    )(command)
    return click.option(
        "--workload",
        "-w",
        "names",
        multiple=True,
        metavar="NAME[/VARIANT]",
        help="Workload to run, may be given again; all in their usual variants if not given.",
    )(command)


_results_option = click.option(
    "--results",
    "folder",
    type=_FOLDER,
    default=results.FOLDER,
    show_default=True,
    help="Where the result is saved.",
)
_timeout_option = click.option(
    "--timeout",
    type=click.FloatRange(min=1),
    default=300.0,
    show_default=True,
    help="Seconds a guest may take.",
)
_jobs_option = click.option("--jobs", "-j", type=click.IntRange(1, 64), help="Guests side by side.")


def _shape(containers: int | None, cpus: int | None) -> Topology | None:
    """The topology asked for, if any; UsageProblem before anything is downloaded."""
    if containers is None and cpus is None:
        return None
    shape = Topology(
        run.DEFAULT_CONTAINERS if containers is None else containers,
        1 if cpus is None else cpus,
    )
    possible(shape)
    return shape


@commands.command()
@_kernel_options
@_workload_options
@click.option("--unconfined", is_flag=True, help="No seccomp, AppArmor or masked paths.")
@click.option(
    "--threshold",
    type=_RATE,
    default=THRESHOLD,
    show_default=True,
    help="Transfers per operation above which a line is a wall.",
)
@click.option(
    "--fail-above",
    type=_RATE,
    metavar="X",
    help="Exit with 1 if a wall has more transfers per operation.",
)
@_view_options
@_results_option
@_timeout_option
@_jobs_option
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
    threshold: float,
    fail_above: float | None,
    as_json: bool,
    as_ktap: bool,
    everything: bool,
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
    _one_view(as_json, as_ktap)
    chosen = _chosen(names, command, marked, ops)
    shape = _shape(containers, cpus)
    with _progress() as progress:
        kernel = resolve(Request(kernel_name, vmlinux, modules, tree), progress)
        wanted = run.Wanted(
            kernel=kernel,
            workloads=chosen,
            topology=shape,
            confined=not unconfined,
            threshold=threshold,
            timeout=timeout,
            **({} if jobs is None else {"jobs": jobs}),
        )
        outcome = run.check(wanted, progress)
    status = 0
    if outcome.result is not None:
        # What was measured is shown even if it can't be kept.
        saved: Path | None = None
        unsaved: PartywallError | None = None
        try:
            saved = results.save(outcome.result, folder)
        except PartywallError as failure:
            unsaved = failure
        limit = threshold if fail_above is None else fail_above
        _show(outcome.result, as_json, as_ktap, limit, everything)
        if saved and not (as_json or as_ktap):
            click.echo(f"\nSaved as {saved}; partywall report shows it again.")
        if fail_above is not None and outcome.result.worst > fail_above:
            status = OVER_LIMIT
        if unsaved is not None:
            _say(unsaved)
            status = unsaved.exit_code
    for title, error in outcome.failures.items():
        _say(type(error)(f"{title}: {error.message}", error.hint))
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


def _measured(
    what: str, chosen: list[Workload], shape: Topology | None, more: dict[str, Any]
) -> Result:
    """The saved result that ``what`` is, or one measured now on the kernel it names."""
    if what.endswith(".json"):
        return results.load(Path(what))
    with _progress() as progress:
        kernel = resolve(Request(what), progress)
        outcome = run.check(
            run.Wanted(kernel=kernel, workloads=chosen, topology=shape, **more), progress
        )
    for title, error in outcome.failures.items():
        raise type(error)(f"{what}: {title}: {error.message}", error.hint)
    assert outcome.result is not None
    return outcome.result


@commands.command("compare")
@click.argument("before")
@click.argument("after")
@_workload_options
@click.option("--json", "as_json", is_flag=True, help="Print the comparison as JSON.")
@click.option("--all", "everything", is_flag=True, help="Show every wall.")
@click.option(
    "--fail-above",
    type=_RATE,
    metavar="X",
    help="Exit with 1 if an object has more transfers per operation after.",
)
@_results_option
@_timeout_option
@_jobs_option
def compare_command(
    before: str,
    after: str,
    names: tuple[str, ...],
    containers: int | None,
    cpus: int | None,
    as_json: bool,
    everything: bool,
    fail_above: float | None,
    folder: Path,
    timeout: float,
    jobs: int | None,
) -> int:
    """Measure two kernels with the same workloads and show what changed.

    BEFORE and AFTER are kernels, as --kernel of check names them, or saved
    results (*.json): partywall compare stock partywall.
    """
    chosen = workloads.select(names)
    shape = _shape(containers, cpus)
    more: dict[str, Any] = {"timeout": timeout} | ({} if jobs is None else {"jobs": jobs})
    # Both are made ready first: nothing is measured if one can't be.
    for what in (before, after):
        if what.endswith(".json"):
            results.load(Path(what))
        else:
            with _progress() as progress:
                resolve(Request(what), progress)
    found = []
    for what in (before, after):
        found.append(_measured(what, chosen, shape, more))
        if not what.endswith(".json"):
            results.save(found[-1], folder)
    compared = compare.compare(*found)
    if as_json:
        click.echo(comparison.dump(compared), nl=False)
    else:
        comparison.render(compared, Console(), verbose=everything)
    return OVER_LIMIT if fail_above is not None and compared.worst > fail_above else 0


def _show(result: Result, as_json: bool, as_ktap: bool, limit: float, everything: bool) -> None:
    if as_json:
        click.echo(json_.dump(result), nl=False)
    elif as_ktap:
        click.echo(ktap.render(result, limit), nl=False)
    else:
        terminal.render(result, Console(), verbose=everything)


@commands.command()
@click.argument("file", type=_FILE, required=False)
@_view_options
@click.option("--fail-above", type=_RATE, metavar="X", help="As for check.")
@click.option("--results", "folder", type=_FOLDER, default=results.FOLDER, show_default=True)
def report(
    file: Path | None,
    as_json: bool,
    as_ktap: bool,
    everything: bool,
    fail_above: float | None,
    folder: Path,
) -> int:
    """Show a saved result, the newest one unless FILE is named."""
    _one_view(as_json, as_ktap)
    result = results.load(file or results.newest(folder))
    _show(result, as_json, as_ktap, THRESHOLD if fail_above is None else fail_above, everything)
    return OVER_LIMIT if fail_above is not None and result.worst > fail_above else 0


@commands.command("workloads")
def list_workloads() -> int:
    """List the workloads and their variants."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("workload", no_wrap=True)
    table.add_column("default", no_wrap=True)
    table.add_column("one operation", overflow="fold")
    for workload, default in workloads.load():
        table.add_row(workload.title, "yes" if default else "", Text(workload.operation))
    Console().print(table, highlight=False)
    return 0


@commands.command()
@_kernel_options
def prepare(kernel_name: str, vmlinux: Path | None, modules: Path | None, tree: Path | None) -> int:
    """Build and download all that a check needs."""
    with _progress() as progress:
        qemu.recorder(qemu.find(), progress)
        for source in {workload.source for workload, _ in workloads.load()} | {None}:
            build_workload(source, progress)
        kernel: Kernel = resolve(Request(kernel_name, vmlinux, modules, tree), progress)
        progress.note(f"ready: {kernel.source}")
    return 0


@commands.command("build")
@click.argument("name", required=False, metavar="stock|partywall[+VARIANT]")
@click.option("--kernel-tree", "tree", type=_FOLDER, help="Build this tree of Linux.")
def build_command(name: str | None, tree: Path | None) -> int:
    """Build a kernel for guests, and keep it.

    stock is Debian's source of Linux 6.12, partywall the same with the series
    of series/linux-6.12. A +VARIANT adds configuration, as +kasan.
    """
    if (name is None) == (tree is None):
        raise UsageProblem(
            "what to build?", "partywall build stock, or partywall, or --kernel-tree DIR"
        )
    request = Request(name or "tree", tree=tree)
    if tree is None and not built.understands(request):
        raise UsageProblem(
            f"'{name}' can't be built",
            f"known: {', '.join(built.FORMS)}; +{', +'.join(variants())}",
        )
    with _progress() as progress:
        kernel = built.get(request, progress)
    click.echo(kernel.image.parent)
    return 0


@commands.command("kernel-tree")
@click.argument("folder", type=_FOLDER, metavar="DIR")
def kernel_tree(folder: Path) -> int:
    """Open a git tree of Linux in DIR, with each patch of our series as a commit."""
    with _progress() as progress:
        patches = series.read()
        source.open_tree(source.get(progress), patches, folder.absolute(), progress)
    click.echo(f"{folder}: {len(patches)} patches above {series.BASE}")
    return 0


@commands.group("series")
def series_group() -> None:
    """Work on the kernel series of series/linux-6.12."""


@series_group.command("refresh")
@click.argument("tree", type=_FOLDER, metavar="DIR")
def series_refresh(tree: Path) -> int:
    """Write the commits of the tree in DIR back as the series."""
    for name in series.refresh(tree):
        click.echo(name)
    return 0


@commands.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def doctor_command(as_json: bool) -> int:
    """Say what this machine lacks, and the command that mends it."""
    found = doctor.look()
    if as_json:
        facts = [{"what": f.what, "state": f.state, "mend": f.mend} for f in found]
        click.echo(json.dumps(facts, indent=1))
    else:
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(no_wrap=True)
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        for one in found:
            state = Text("ok", "green") if one.mend is None else Text("BAD", "bold red")
            words = one.state if one.mend is None else f"{one.state}; mend it: {one.mend}"
            table.add_row(state, one.what, Text(words))
        Console().print(table, highlight=False)
    return EnvironmentProblem.exit_code if any(one.mend for one in found) else 0


@commands.command()
def schema() -> int:
    """Print the JSON schema of results."""
    click.echo(json.dumps(json_.schema(), indent=1))
    return 0


def _say(error: PartywallError) -> None:
    """On stderr, a line for what is wrong and one for what to do, whatever is in them."""
    click.echo(plain(f"partywall: {error.message}"), err=True)
    if error.hint:
        click.echo(plain(f"  {error.hint}"), err=True)


class _Interrupted(BaseException):
    """A signal to end; not KeyboardInterrupt, of which click makes lines of its own."""


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    # Once is enough: cleaning up must not be interrupted in turn.
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, signal.SIG_IGN)
    raise _Interrupted


def _drop_output() -> None:
    """What is still to be written goes nowhere; Python would complain at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def main() -> NoReturn:
    """Runs the command line; never returns, never shows a traceback."""
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, _stop)
    try:
        # Not commands.main(), which ends on a closed pipe as if a wall were found.
        with commands.make_context("partywall", sys.argv[1:]) as invocation:
            status = commands.invoke(invocation)
        sys.stdout.flush()
    except click.exceptions.Exit as error:
        status = error.exit_code
    except PartywallError as error:
        _say(error)
        status = error.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        status = UsageProblem.exit_code
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        path = context.command_path if context else "partywall"
        _say(UsageProblem(error.format_message(), f"{path} --help tells more"))
        status = UsageProblem.exit_code
    except (_Interrupted, KeyboardInterrupt, click.Abort):
        click.echo("partywall: interrupted; guests and temporary files are gone", err=True)
        status = INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has had enough.
        _drop_output()
        status = INTERRUPTED
    except OSError as error:
        _drop_output()
        _say(EnvironmentProblem(f"writing the output: {error.strerror or error}"))
        status = EnvironmentProblem.exit_code
    sys.exit(status if isinstance(status, int) else 0)
