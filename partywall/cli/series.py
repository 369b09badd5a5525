# SPDX-License-Identifier: GPL-2.0-or-later
"""Commands that write the kernel series, and prove it."""

from __future__ import annotations

from pathlib import Path

import click

from partywall.cli.bases import base_option
from partywall.cli.options import FILE, FOLDER, commands, progress_on_terminal
from partywall.cli.readers import Reader
from partywall.core.errors import UsageProblem
from partywall.guest import boots
from partywall.kernels import series
from partywall.kernels.debs.build import Wanted, package
from partywall.kernels.debs.words import FLAVOURS
from partywall.kernels.series import configurations, export, prove


@commands.group(
    "series", reader=Reader.KERNEL, examples=("partywall series prove --compile-only --minutes 10",)
)
def series_group() -> None:
    """Work on the kernel series of series/linux-6.12 and linux-7.3."""


@series_group.command("refresh", examples=("partywall series refresh ~/w",))
@click.argument("tree", type=FOLDER, metavar="DIR")
@base_option("that of the tree")
def series_refresh(tree: Path, base: series.Base | None) -> int:
    """Write the commits of the tree in DIR back as the series."""
    for name in series.refresh(tree, base.folder if base else None):
        click.echo(name)
    return 0


@series_group.command("export", examples=("partywall series export ucounts mails --tree ~/linux",))
@click.argument("topic")
@click.argument("into", type=FOLDER, metavar="DIR")
@click.option(
    "--tree",
    type=FOLDER,
    required=True,
    metavar="LINUX",
    help="A git tree of Linux, checked out at the commit that the set is for.",
)
@click.option(
    "--cover",
    type=FILE,
    metavar="FILE",
    help="Title, and below it the text of the cover letter; those of the topic's file cover if not "
    "given, and EDITME where there is none.",
)
@click.option("--revision", type=click.IntRange(min=1), default=1, show_default=True)
@click.option(
    "--prefix",
    default="",
    metavar="WORDS",
    help='Stands behind "PATCH" in each subject: 6.12.y for stable, or a tree, such as net-next.',
)
@base_option("that of the tree")
def series_export(
    topic: str,
    into: Path,
    tree: Path,
    cover: Path | None,
    revision: int,
    prefix: str,
    base: series.Base | None,
) -> int:
    """Write the patches of TOPIC into DIR as mails for a list.

    As b4 does: a cover letter with base-commit and change-id, and recipients by the
    tree's own scripts/get_maintainer.pl. Nothing is sent.
    """
    folder = base.folder if base else None
    for mail in export.export(
        topic, tree, into, cover=cover, revision=revision, prefix=prefix, folder=folder
    ):
        click.echo(mail)
    return 0


@series_group.command(
    "package",
    examples=(
        "partywall series package debs",
        "partywall series package debs --flavour amd64 --revision 2",
    ),
)
@click.argument("into", type=FOLDER, metavar="DIR")
@click.option(
    "--flavour",
    type=click.Choice(list(FLAVOURS)),
    default="cloud-amd64",
    show_default=True,
    help="Debian's kernel whose configuration it has.",
)
@click.option(
    "--revision",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Of packages of one source of Debian's; the next one for a series that changed.",
)
@click.option(
    "--lsmod",
    type=FILE,
    metavar="FILE",
    help="Build no other modules than FILE has, which lsmod wrote on the machine that it is for.",
)
@click.option(
    "--over", type=FILE, metavar="FILE", help="Lay FILE's options over Debian's configuration."
)
def series_package(
    into: Path, flavour: str, revision: int, lsmod: Path | None, over: Path | None
) -> int:
    """Build Debian packages of Linux 6.12 with our series, and write them into DIR.

    linux-image, linux-headers and -dbg, in Debian's own configuration, with a version
    above that of Debian's source and below its next. That takes an hour and a half on two cores,
    of the generic flavour many more.
    """
    with progress_on_terminal() as progress:
        for deb in package(into, Wanted(flavour, revision, lsmod, over), progress):
            click.echo(deb)
    return 0


@series_group.command(
    "prove",
    examples=(
        "partywall series prove --compile-only --minutes 10",
        "partywall series prove --configs rt",
        "partywall series prove --compile-only --base 7.3",
    ),
)
@click.option("--from", "first", type=int, help="Number of the first patch, 1 if not given.")
@click.option(
    "--compile-only", is_flag=True, help="Compile what the series changes, and boot nothing."
)
@click.option(
    "--minutes",
    type=click.FloatRange(min=0),
    help="With --compile-only: begin no patch after that. The next run goes on from there.",
)
@click.option(
    "--configs",
    is_flag=True,
    help="Compile it as others configure kernels: NAME, all if none is given.",
)
@base_option("6.12")
@click.argument("names", nargs=-1, metavar="[NAME]...")
def series_prove(
    first: int | None,
    compile_only: bool,
    minutes: float | None,
    configs: bool,
    base: series.Base | None,
    names: tuple[str, ...],
) -> int:
    """Build and boot the kernel after each patch; run checkpatch and sparse on it.

    A patch that changes a header takes as long as a whole build, and all of them take
    hours. To compile only the C files that some patch changes takes less than one; and
    what was proven so, and is as it was, is not done again, unless --from says so.

    With --configs the whole series is compiled in each configuration of
    partywall/kernels/config/prove, and may have no warning that stock has not. A file
    that none of them compiles is told, and an error if none is named.
    """
    if configs and (first is not None or compile_only or minutes is not None):
        raise UsageProblem("--configs goes alone", "it takes names of configurations")
    if names and not configs:
        raise UsageProblem(f"what is {names[0]}?", "names of configurations go with --configs")
    if configs:
        with progress_on_terminal() as progress:
            for line in configurations.prove_configured(progress, names, base):
                click.echo(line)
        return 0
    if minutes is not None and not compile_only:
        raise UsageProblem("--minutes goes with --compile-only", "or leave it out")
    with progress_on_terminal() as progress:
        if not compile_only:
            for name in prove.prove(boots, progress, 1 if first is None else first, base):
                click.echo(f"{name}: builds, boots, checkpatch and sparse have nothing new to say")
            return 0
        patches = series.read(base.folder if base else series.FOLDER)
        if first is not None:
            proven = first - 1
        elif proven := prove.compiled_before(patches, progress, base):
            click.echo(f"{proven} of {len(patches)} patches were proven before")
        # A number that no patch has is for the proof to refuse.
        if first is not None or proven < len(patches):
            seconds = None if minutes is None else minutes * 60
            for name in prove.prove_compiled(progress, proven + 1, seconds, base):
                click.echo(f"{name}: compiles, checkpatch has nothing to say")
                proven += 1
    if proven < len(patches):
        click.echo(f"{len(patches) - proven} patches are not proven: no time was left")
    return 0
