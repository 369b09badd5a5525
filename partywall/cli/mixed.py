# SPDX-License-Identifier: GPL-2.0-or-later
"""A check of a mixed machine: half of the containers do one thing, half another."""

from __future__ import annotations

import click

from partywall import workloads
from partywall.cli.options import given
from partywall.core.errors import UsageProblem
from partywall.measure import beside
from partywall.workloads import Workload

with_option = click.option(
    "--with",
    "neighbours",
    multiple=True,
    metavar="NAME[/VARIANT]|FILE.toml",
    help="What half of the containers do, beside -w or COMMAND in the other half; again for more.",
)

_ONE_THING = {
    "cpus": "--cpus",
    "layers": "--layers",
    "apparmor": "--apparmor",
    "volatile": "--volatile",
    "as_ktap": "--ktap",
    "fail_above": "--fail-above",
    "fail_held": "--fail-held",
    "fail_growth": "--fail-growth",
    "line_size": "--line-size",
    "opens": "--window",
    "count": "--count",
    "folder": "--results",
}
"""Options that are for containers that all do the same, or for their result."""


def neighbours_of(names: tuple[str, ...], chosen: list[Workload]) -> list[Workload]:
    """Return what neighbours are to do; UsageProblem if they can't be beside what is chosen."""
    for name, option in _ONE_THING.items():
        if given(name):
            raise UsageProblem(f"{option} and --with exclude each other", "leave one out")
    if not given("names") and all(one.source and one.source.is_dir() for one in chosen):
        raise UsageProblem(
            "--with says what one half of the containers do",
            "say with -w, or behind --, what the other half does",
        )
    found = workloads.select_any(names)
    roots = {one.name: one.root for one in found}
    for one in chosen:
        if roots.get(one.name, one.root) != one.root:
            raise UsageProblem(
                f"{one.name} is two different things", "give one of the files another name"
            )
    beside.servers(chosen, found)
    return found
