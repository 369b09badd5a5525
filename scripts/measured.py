# SPDX-License-Identifier: GPL-2.0-or-later
"""Writes the model's file of what was measured by the clock (docs/model.md).

    scripts/measured.py MACHINE.toml RAN_ON BENCH.json... RESULT.json...

MACHINE.toml is what ``partywall machine`` printed there, RAN_ON the release of its kernel. Files
with results of ``partywall bench --json``, one behind the other, and saved results of
``partywall check`` with the same workloads are told apart by what is in them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from partywall.model import measured, profiles
from partywall.model.queues import work_of
from partywall.results import store
from partywall.results.result import Result


def benches(text: str) -> dict[str, dict[int, float]]:
    """Return the medians of what ``partywall bench --json`` printed, by workload."""
    found, at, decoder = {}, 0, json.JSONDecoder()
    text = text.strip()
    while at < len(text):
        one, at = decoder.raw_decode(text, at)
        at += len(text[at:]) - len(text[at:].lstrip())
        points = one["series"][0]["points"]
        found[one["workload"]] = {p["containers"]: _median(p["runs"]) for p in points}
    return found


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def main(machine: str, ran_on: str, *files: str) -> None:
    """Write the file."""
    profile = profiles.load(machine)
    rates: dict[str, dict[int, float]] = {}
    results: list[Result] = []
    for name in files:
        path = Path(name)
        start: Any = path.read_bytes()[:200]
        if b"partywall.bench" in start:
            rates |= benches(path.read_text())
        else:
            results.append(store.load(path))
    operations = [
        measured.described(one.title, work_of(one), rates[one.title])
        for result in results
        for one in result.workloads
        if one.title in rates
    ]
    found = measured.Measured(
        machine=profile.description,
        levels=profile.levels,
        counted_on=results[0].kernel.release,
        ran_on=ran_on,
        operations=sorted(operations, key=lambda one: one.workload),
    )
    whole = found.model_dump(exclude_defaults=True)
    # A line for each operation: thousands of numbers are nothing to read.
    rows = ",\n".join(json.dumps(one) for one in whole.pop("operations"))
    measured.FILE.write_text(f'{json.dumps(whole)[:-1]}, "operations": [\n{rows}\n]}}\n')


main(*sys.argv[1:])
