# SPDX-License-Identifier: GPL-2.0-or-later
"""Options of commands that run a workload by the clock."""

from __future__ import annotations

import click

timed_option = click.option(
    "--workload",
    "-w",
    "name",
    default="signal",
    show_default=True,
    metavar="NAME",
    help="Workload that is timed.",
)
runs_option = click.option(
    "--runs",
    type=click.IntRange(1, 1000),
    default=5,
    show_default=True,
    help="How often each is run; the median is told.",
)
