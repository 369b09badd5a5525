# SPDX-License-Identifier: GPL-2.0-or-later
"""The command that opens a tree of Linux to work in."""

from __future__ import annotations

from pathlib import Path

import click

from partywall.cli.bases import base_option
from partywall.cli.options import FOLDER, commands, progress_on_terminal
from partywall.cli.readers import Reader
from partywall.kernels import series
from partywall.kernels.series import source


@commands.command(
    "kernel-tree",
    reader=Reader.KERNEL,
    examples=("partywall kernel-tree ~/w", "partywall kernel-tree ~/w --base 7.3"),
)
@click.argument("folder", type=FOLDER, metavar="DIR")
@base_option("6.12")
def kernel_tree(folder: Path, base: series.Base | None) -> int:
    """Open a git tree of Linux in DIR, with each patch of our series as a commit."""
    with progress_on_terminal() as progress:
        origin = source.get(progress, base)
        patches = series.read(origin.base.folder)
        source.open_tree(origin, patches, folder.absolute(), progress)
    click.echo(f"{folder}: {len(patches)} patches above {series.BASE}")
    return 0
