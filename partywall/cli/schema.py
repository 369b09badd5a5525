# SPDX-License-Identifier: GPL-2.0-or-later
"""The command that prints the schemas of documents."""

from __future__ import annotations

import json

import click

from partywall.advice.explained import Explanation
from partywall.advice.map import Map
from partywall.analyse.layout import Layout
from partywall.cli.options import commands
from partywall.cli.readers import Reader
from partywall.clock.bench import Bench
from partywall.model.machine import Machine
from partywall.model.predict import Outlook, Trial
from partywall.results import document
from partywall.results.bisect import Bisection
from partywall.results.caps import Caps
from partywall.results.compare import Comparison
from partywall.results.diff import Difference
from partywall.results.document import Document
from partywall.results.growth import Growth
from partywall.results.result import Result
from partywall.results.touches import Beside

_DOCUMENTS: dict[str, type[Document]] = {
    "result": Result,
    "compare": Comparison,
    "diff": Difference,
    "predict": Outlook,
    "model": Trial,
    "bench": Bench,
    "machine": Machine,
    "layout": Layout,
    "map": Map,
    "beside": Beside,
    "bisect": Bisection,
    "growth": Growth,
    "caps": Caps,
    "explain": Explanation,
}


@commands.command("schema", reader=Reader.CONTRIBUTOR, examples=("partywall schema result",))
@click.argument("kind", type=click.Choice(list(_DOCUMENTS)), default="result", metavar="KIND")
def schema(kind: str) -> int:
    """Print the JSON schema of what a command prints with --json.

    KIND is result, compare, diff, predict, model, bench, machine, layout, map, beside,
    bisect, growth, caps or explain.
    """
    click.echo(json.dumps(document.schema(_DOCUMENTS[kind]), indent=1))
    return 0
