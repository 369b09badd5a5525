# SPDX-License-Identifier: GPL-2.0-or-later
"""The command that opens a tree of Linux to work in."""

from __future__ import annotations

from pathlib import Path

import click

from partywall.cli.options import FOLDER, commands, progress_on_terminal
from partywall.cli.readers import Reader
from partywall.kernels import series
from partywall.kernels.series import source


@commands.command("kernel-tree", reader=Reader.KERNEL, examples=("partywall kernel-tree ~/w",))
@click.argument("folder", type=FOLDER, metavar="DIR")
def kernel_tree(folder: Path) -> int:
    """Open a git tree of Linux in DIR, with each patch of our series as a commit."""
    with progress_on_terminal() as progress:
        patches = series.read()
        source.open_tree(source.get(progress), patches, folder.absolute(), progress)
    click.echo(f"{folder}: {len(patches)} patches above {series.BASE}")
    return 0
