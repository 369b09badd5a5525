# SPDX-License-Identifier: GPL-2.0-or-later
"""The command that tells a kernel's CI what a change made worse."""

from __future__ import annotations

from pathlib import Path

import click

from partywall.cli.options import FILE, OVER_LIMIT, RATE, Output, commands, json_option
from partywall.cli.readers import Reader
from partywall.core.errors import UsageProblem
from partywall.report import diff as view
from partywall.report import markdown
from partywall.results import document, store
from partywall.results.diff import Tolerance, diff

_USUAL = Tolerance()


@commands.command("diff", reader=Reader.KERNEL, examples=("partywall diff before.json after.json",))
@click.argument("before", type=FILE)
@click.argument("after", type=FILE)
@click.option(
    "--least",
    type=RATE,
    default=_USUAL.least,
    show_default=True,
    help="Transfers or calls per operation that are still chance.",
)
@click.option(
    "--share",
    type=RATE,
    default=_USUAL.share,
    show_default=True,
    help="Share of what was there before that is still chance.",
)
@click.option(
    "--instructions",
    type=RATE,
    default=_USUAL.instructions,
    show_default=True,
    help="Share of an operation's instructions that is still chance.",
)
@click.option("--allow-missing", is_flag=True, help="Let AFTER lack workloads that BEFORE has.")
@json_option("the findings")
@click.option(
    "--markdown", "as_markdown", is_flag=True, help="Print the findings as a comment on a change."
)
def diff_command(
    before: Path,
    after: Path,
    least: float,
    share: float,
    instructions: float,
    allow_missing: bool,
    as_json: bool,
    as_markdown: bool,
) -> int:
    """Say what appeared, went, grew or shrank between two saved results.

    Exits with 1 if anything is worse: a wall that appeared or grew, also in deferred
    work, more instructions or calls per operation, more of it under a shared lock,
    more memory that stays, a lock that is kept from others asleep for longer. And if a workload of
    BEFORE is not in AFTER, or was measured otherwise there.
    """
    if as_json and as_markdown:
        raise UsageProblem("--json and --markdown exclude each other", "leave one out")
    tolerance = Tolerance(least=least, share=share, instructions=instructions)
    found = diff(store.load(before), store.load(after), tolerance)
    if as_json:
        click.echo(document.dump(found), nl=False)
    elif as_markdown:
        click.echo(markdown.render(found), nl=False)
    else:
        view.render(found, Output())
    lost = found.missing and not allow_missing
    return OVER_LIMIT if found.regressions or lost else 0
