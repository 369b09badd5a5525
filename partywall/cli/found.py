# SPDX-License-Identifier: GPL-2.0-or-later
"""What commands have in common that measure once, print it, and can show it again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import click
from rich.console import Console

from partywall.cli.options import FILE, OVER_LIMIT, paged
from partywall.core.errors import EnvironmentProblem
from partywall.results import document, store
from partywall.results.document import Document

TO_MEASURE: Final = {
    "kernel_name": "--kernel",
    "vmlinux": "--vmlinux",
    "modules": "--modules",
    "tree": "--kernel-tree",
    "names": "--workload",
    "parameters": "--append",
    "timeout": "--timeout",
    "jobs": "--jobs",
}
"""Options that say how to measure, by their parameters; a command may have more."""

copy_option = click.option(
    "--output",
    type=FILE,
    metavar="FILE",
    help="Write what was found to FILE, as JSON, too.",
)


def finish(
    found: Document,
    render: Callable[[Console], None],
    *,
    output: Path | None,
    as_json: bool,
    over: bool | None,
    complete: bool,
) -> int:
    """Write what was found if that is asked for, print it, and return the exit status.

    ``over``: whether it is over its limit, None if it has none; ``complete``: whether all was
    measured.
    """
    if output is not None:
        store.write(found, output)
    if as_json:
        click.echo(document.dump(found), nl=False)
    else:
        paged(render)
    if over is None:
        return 0
    if over:
        return OVER_LIMIT
    # What was not measured has not passed.
    return 0 if complete else EnvironmentProblem.exit_code
