# SPDX-License-Identifier: GPL-2.0-or-later
"""The option that shows what lines of another size would cost."""

from __future__ import annotations

import click

from partywall.cli.options import Output
from partywall.report import pairs
from partywall.results.result import Result

line_size_option = click.option(
    "--line-size",
    type=click.Choice(["64", "128"]),
    default="64",
    show_default=True,
    help="128: show as well what aligned pairs of lines would cost as one; --json always has it.",
)


def show_pairs(
    result: Result,
    line_size: str,
    names: tuple[str, ...] = (),
    *,
    machine: bool,
    everything: bool,
) -> None:
    """Print what pairs of lines cost, if ``line_size`` asks for it and people read."""
    if line_size == "128" and not machine:
        pairs.render(result, Output(), names, everything=everything)
