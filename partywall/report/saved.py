# SPDX-License-Identifier: GPL-2.0-or-later
"""What is saved, for people at a terminal, and as JSON."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable

from rich.console import Console

from partywall.report.blocks import print_blocks, text
from partywall.results.store import Entry


def render(entries: Iterable[Entry], console: Console) -> None:
    """Print what each file holds, and below it the file, the newest last.

    A path is never broken: whoever copies it gets it whole.
    """
    for entry in entries:
        held = entry.problem or ", ".join(entry.workloads) or "no workload"
        said = [entry.created or "-", entry.release or "-", held]
        print_blocks([text("  ".join(said))], console)
        console.print(text(f"  {entry.path}", "dim"), soft_wrap=True, highlight=False)


def as_json(entries: Iterable[Entry]) -> str:
    """Return a list of what each file holds; ``problem`` is null where it can be read."""
    found = [{**dataclasses.asdict(entry), "path": str(entry.path)} for entry in entries]
    return json.dumps(found, indent=1)
