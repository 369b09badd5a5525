# SPDX-License-Identifier: GPL-2.0-or-later
"""The command that builds a kernel for guests."""

from __future__ import annotations

from pathlib import Path

import click

from partywall.cli.options import FOLDER, commands, progress_on_terminal
from partywall.cli.readers import Reader
from partywall.core.errors import UsageProblem
from partywall.kernels import Request
from partywall.kernels.build import variants
from partywall.kernels.sources import built


@commands.command("build", reader=Reader.KERNEL, examples=("partywall build partywall+lean",))
@click.argument("name", required=False, metavar="stock|partywall[@VERSION][+VARIANT]...")
@click.option("--kernel-tree", "tree", type=FOLDER, help="Build this tree of Linux.")
def build_command(name: str | None, tree: Path | None) -> int:
    """Build a kernel for guests, and keep it.

    stock is Debian's source of Linux 6.12, partywall the same with the series
    of series/linux-6.12; with @7.3 of that release. A +VARIANT adds configuration,
    as +lean+debug; a name that is none lists them.
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
    with progress_on_terminal() as progress:
        kernel = built.get(request, progress)
    click.echo(kernel.image.parent)
    return 0
