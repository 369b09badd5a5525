# SPDX-License-Identifier: GPL-2.0-or-later
"""What several commands share: options, progress, how errors are said."""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import click
from click.core import ParameterSource
from click.decorators import FC
from click.shell_completion import CompletionItem
from rich.console import Console

from partywall import __version__, workloads
from partywall.analyse.verdict import AT, THRESHOLD
from partywall.cli.readers import FIRST_RUN, Reader
from partywall.core import cache
from partywall.core.errors import PartywallError, UsageProblem
from partywall.core.progress import Log, Progress, Terminal
from partywall.core.topology import Topology
from partywall.measure import run
from partywall.measure.plan import possible
from partywall.model import profiles
from partywall.report.words import plain
from partywall.results import store
from partywall.results.result import Result

OVER_LIMIT, INTERRUPTED, BROKEN_PIPE = 1, 130, 141
"""Exit statuses beside those of errors; the last is a shell's of who SIGPIPE ends."""


class Output(Console):
    """Standard output; a reader who has had enough is left to main().

    rich ends the program with 1 then, which here says that a wall was found.
    """

    def on_broken_pipe(self) -> NoReturn:
        """Raise the BrokenPipeError that is being handled."""
        raise  # noqa: PLE0704


INSTEAD = {"--kernel": "one kernel at a time, but partywall compare and map take several"}
"""What to do where an option is wanted more than once, if not to leave one out."""


class _Told(click.Command):
    """What help says beside what click does: whom a command is for, and examples."""

    def __init__(
        self,
        *arguments: Any,
        reader: Reader | None = None,
        examples: tuple[str, ...] = (),
        **others: Any,
    ) -> None:
        super().__init__(*arguments, **others)
        self.reader = reader
        self.examples = examples

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, a line each."""
        if self.examples:
            with formatter.section("Examples"):
                for example in self.examples:
                    formatter.write(f"{'':{formatter.current_indent}}{example}\n")
        super().format_epilog(ctx, formatter)


class Command(_Told):
    """A command that says which options are wrong, and refuses what click would drop."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse them; a UsageError knows this command. UsageProblem if one is given twice."""
        told = list(args)
        try:
            rest = super().parse_args(ctx, args)
        except click.UsageError as error:
            # click's parser leaves it out where an option lacks its argument.
            error.ctx = error.ctx or ctx
            raise
        # click takes the last value, and says nothing of the others.
        _, _, order = self.make_parser(ctx).parse_args(told)
        for option in order:
            if _has_one_value(option) and order.count(option) > 1:
                name = max(option.opts, key=len)
                times = "twice" if order.count(option) == 2 else f"{order.count(option)} times"
                raise UsageProblem(
                    f"{name} is given {times}, and {ctx.command_path} takes it once",
                    INSTEAD.get(name, "leave all but one out"),
                )
        return rest


def _has_one_value(option: click.Parameter) -> bool:
    """Whether it says something else when it is given again: not so of a flag, which says it."""
    if not isinstance(option, click.Option) or option.multiple or option.count:
        return False
    return not option.is_flag or bool(option.secondary_opts)


class Commands(_Told, click.Group):
    """All commands, or those of a group."""

    command_class = Command
    group_class = type

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what each command does, grouped by who reads that."""
        groups: dict[str, list[tuple[str, str]]] = {one.value: [] for one in Reader}
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            if command is not None:
                reader = getattr(command, "reader", None)
                heading = reader.value if reader else "Commands"
                # The whole first sentence: what is cut short says nothing.
                told = inspect.cleandoc(command.help or "").split("\n\n")[0].replace("\n", " ")
                groups.setdefault(heading, []).append((name, told))
        for heading, rows in groups.items():
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    examples=("partywall check -w signal", "partywall COMMAND --help"),
    epilog=FIRST_RUN,
)
@click.version_option(__version__, prog_name="partywall")
def commands() -> None:
    """Find the cache lines that containers share in a Linux kernel."""


class Rate(click.FloatRange):
    """Transfers per operation, or of another unit: at least 0, and not without end."""

    name = "rate"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The number; a usage error if it is none or has no end."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is no number that has an end.", param, ctx)
        return number


RATE = Rate(min=0)
FILE = click.Path(path_type=Path, dir_okay=False)
FOLDER = click.Path(path_type=Path, file_okay=False)


def paged(render: Callable[[Console], None]) -> None:
    """Print what ``render`` does, through a pager if it is longer than the terminal."""
    out = Output()
    if not out.is_terminal:
        render(out)
        return
    file = io.StringIO()
    # As wide and as colourful as the terminal is.
    inside = Console(
        file=file,
        width=out.width,
        force_terminal=True,
        color_system=out.color_system,  # type: ignore[arg-type]
        legacy_windows=False,
    )
    render(inside)
    text = file.getvalue()
    if text.count("\n") < out.height:
        click.echo(text, nl=False, color=True)
    else:
        # less shows colours if it is told to, and leaves what was read on the screen.
        os.environ.setdefault("LESS", "-RX")
        click.echo_via_pager(text, color=True)


@contextlib.contextmanager
def progress_on_terminal() -> Iterator[Progress]:
    """Live steps if stderr is a terminal, otherwise a line before what takes minutes."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield Log()
        return
    with Terminal(console) as live:
        yield live


def kernel_options(command: FC) -> FC:
    """Options that say which kernel."""
    command = click.option(
        "--kernel-tree", "tree", type=FOLDER, help="Build this tree of Linux and take that."
    )(command)
    command = click.option(
        "--modules", type=FOLDER, help="lib/modules/RELEASE of a kernel given as a file."
    )(command)
    command = click.option(
        "--vmlinux", type=FILE, help="vmlinux with debug information of that kernel."
    )(command)
    return click.option(
        "--kernel",
        "kernel_name",
        default="debian",
        show_default=True,
        metavar="KERNEL",
        help="debian, debian:6.1, debian:PACKAGE, debian@trixie-backports, stock, partywall, "
        "partywall@7.3; a tree of Linux, which is built; PATH/bzImage of a build, with --vmlinux "
        "if that is elsewhere, and --modules if it has any.",
    )(command)


def json_option(what: str) -> Callable[[FC], FC]:
    """--json, of what a command finds."""
    return click.option("--json", "as_json", is_flag=True, help=f"Print {what} as JSON.")


def all_option(what: str) -> Callable[[FC], FC]:
    """--all, of what a command shows the worst of."""
    return click.option("--all", "everything", is_flag=True, help=f"Show {what}.")


def html_option(what: str) -> Callable[[FC], FC]:
    """--html, of a page of what is printed."""
    look = checked(functools.partial(cache.check_place, doing="writing a page"))
    told = f"Write {what}."
    return click.option("--html", "html_file", type=FILE, metavar="FILE", callback=look, help=told)


def checked(check: Callable[[Path], None]) -> Callable[..., Path | None]:
    """A callback that looks at a path before anything boots: an error if nothing can be there."""

    def callback(ctx: click.Context, param: object, path: Path | None) -> Path | None:
        # A shell that completes a line makes no folders.
        if path is not None and not ctx.resilient_parsing:
            check(path)
        return path

    return callback


def view_options(command: FC) -> FC:
    """Options that say how a result is shown."""
    command = all_option("every wall and all of its code")(command)
    command = click.option("--ktap", "as_ktap", is_flag=True, help="Print the verdicts as KTAP.")(
        command
    )
    return json_option("the result")(command)


profile_option = click.option(
    "--profile",
    "profile_name",
    default=profiles.DEFAULT,
    show_default=True,
    metavar="NAME|FILE.toml",
    help="Machine that costs are predicted for; partywall model lists them.",
)


def html_options(command: FC) -> FC:
    """Options for a page beside what is printed."""
    return html_option("a page that stands alone")(profile_option(command))


def write_html(path: Path, before: Result, after: Result | None, profile: profiles.Profile) -> None:
    """Writes the page of a result, or of two, whole or not at all."""
    # matplotlib takes half a second to load, and few commands draw.
    from partywall.report import html  # noqa: PLC0415

    cache.write_whole(path, html.render(before, after, profile))


def keep(result: Result, folder: Path, output: Path | None) -> Path:
    """Save a result, as a file of its own in a folder or as this file; return its path."""
    if output is None:
        return store.save(result, folder)
    store.write(result, output)
    return output


def one_view(as_json: bool, as_ktap: bool) -> None:
    """UsageProblem if two views are asked for."""
    if as_json and as_ktap:
        raise UsageProblem("--json and --ktap exclude each other", "leave one out")


def _names_of_workloads(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    titles = sorted(workload.title for workload, _ in workloads.load())
    return [CompletionItem(title) for title in titles if title.startswith(incomplete)]


def _names_of_all(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    found = _names_of_workloads(ctx, param, incomplete)
    titles = [one.title for one, _ in workloads.load_servers()]
    found += [CompletionItem(title) for title in titles if title.startswith(incomplete)]
    return found or [CompletionItem(incomplete, type="file")]


def names_option(told: str, *, files: bool = False) -> Callable[[FC], FC]:
    """--workload, which may be given again; ``files``: and may be a server of one's own."""
    return click.option(
        "--workload",
        "-w",
        "names",
        multiple=True,
        metavar="NAME[/VARIANT]|FILE.toml" if files else "NAME[/VARIANT]",
        help=told,
        shell_complete=_names_of_all if files else _names_of_workloads,
    )


operations_option = names_option(
    "Operations, may be given again; all, in one place each, if not given."
)


def containers_option(unless: str) -> Callable[[FC], FC]:
    """--containers. ``unless``: how many there are if it is not given."""
    return click.option("--containers", "-n", type=int, help=f"Containers{unless}")


cpus_option = click.option(
    "--cpus", "-c", type=int, help="CPUs of each container, a process on each."
)


def workload_options(command: FC) -> FC:
    """Options that say what is run, and in which topology."""
    command = containers_option("; each workload's own if not given.")(cpus_option(command))
    return names_option(
        "Workload to run, or a server that a file of yours describes, may be given again; all in "
        "their usual variants if not given.",
        files=True,
    )(command)


def fail_above_option(told: str) -> Callable[[FC], FC]:
    """--fail-above, a limit that makes the exit status `OVER_LIMIT`."""
    return click.option("--fail-above", type=RATE, metavar="X", help=told)


threshold_option = click.option(
    "--threshold",
    type=RATE,
    default=THRESHOLD,
    show_default=True,
    help="Transfers per operation above which an object is a wall.",
)
at_option = click.option(
    "--at",
    "sharers",
    type=click.IntRange(2, 100_000),
    default=AT,
    show_default=True,
    metavar="N",
    help="Containers that verdict and figures are for, however many run.",
)


def results_option(told: str = "Where the result is saved.") -> Callable[[FC], FC]:
    """--results, the folder of saved results."""
    return click.option(
        "--results", "folder", type=FOLDER, default=store.FOLDER, show_default=True, help=told
    )


output_option = click.option(
    "--output",
    type=FILE,
    metavar="FILE",
    callback=checked(store.check_path),
    help="Write the result to FILE (.json or .json.gz) instead.",
)
append_option = click.option(
    "--append",
    "parameters",
    default="",
    metavar="TEXT",
    help="Parameters for the kernel, such as sysctl.fs.neg-dentry-pc=1.",
)
timeout_option = click.option(
    "--timeout",
    type=click.FloatRange(min=1),
    default=300.0,
    show_default=True,
    help="Seconds of real time that a guest may take to boot, and for each window; and seconds of "
    "its own clock for all of its windows.",
)
jobs_option = click.option(
    "--jobs",
    "-j",
    type=click.IntRange(1, 64),
    help="Guests side by side, at most; fewer if memory is short.",
)


def shape_of(containers: int | None, cpus: int | None) -> Topology | None:
    """The topology asked for, if any; UsageProblem before anything is downloaded."""
    if containers is None and cpus is None:
        return None
    shape = Topology(
        run.DEFAULT_CONTAINERS if containers is None else containers,
        1 if cpus is None else cpus,
    )
    possible(shape)
    return shape


def given(name: str) -> bool:
    """Whether the user gave this parameter of the command."""
    source = click.get_current_context().get_parameter_source(name)
    return source not in {None, ParameterSource.DEFAULT}


def only_to_measure(options: dict[str, str]) -> None:
    """UsageProblem if one of these was given, parameters by their names, beside saved results."""
    for name, option in options.items():
        if given(name):
            raise UsageProblem(
                f"{option} says how to measure, and can't be applied to saved results",
                "leave it out, or measure again with it",
            )


def say(error: PartywallError) -> None:
    """On stderr, a line for what is wrong and one for what to do, whatever is in them."""
    click.echo(plain(f"partywall: {error.message}"), err=True)
    if error.hint:
        click.echo(plain(f"  {error.hint}"), err=True)
