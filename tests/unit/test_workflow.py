# SPDX-License-Identifier: GPL-2.0-or-later
"""What the workflow measures unless it is told otherwise is the whole map, each operation once."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from partywall import workloads
from partywall.measure import sweep

CONFIG = Path(__file__).parents[2] / "workflow" / "config.yaml"


def sets() -> dict[str, list[str]]:
    """What -w takes, by the name of the set."""
    (part,) = re.findall(r"^operations:\n((?:  .*\n)+)", CONFIG.read_text(), re.MULTILINE)
    lists = re.findall(r"^  ([\w.-]+): \[(.*)\]$", part, re.MULTILINE)
    assert len(lists) == part.count("\n")
    return {name: re.findall(r"[^\s\",]+", words) for name, words in lists}


def test_the_sets_are_the_usual_operations_and_have_none_in_common() -> None:
    # Those that have one in common are not put together.
    chosen = Counter(one.title for words in sets().values() for one in workloads.select(words))
    assert {title for title, times in chosen.items() if times > 1} == set()
    usual = {one.title for one in sweep.usual(one for one, _ in workloads.load())}
    assert usual - set(chosen) == set()
