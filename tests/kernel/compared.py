# SPDX-License-Identifier: GPL-2.0-or-later
"""Two kernels beside each other by ``partywall compare``, and what of it tests ask for."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

from checks import PARTYWALL

from partywall.results import store as results
from partywall.results.compare import Comparison, WorkloadChange
from partywall.results.result import Result

Compared = Callable[..., Comparison]
Both = Callable[..., tuple[Comparison, Result]]


def run(folder: Path, *arguments: str) -> tuple[Comparison, Result]:
    """Run ``partywall compare``: the comparison, and the second kernel's own result."""
    done = subprocess.run(
        [PARTYWALL, "compare", *arguments, "--json", "--results", folder],
        capture_output=True,
        text=True,
        check=False,
        timeout=3600,
    )
    assert done.returncode == 0, done.stderr
    return (
        Comparison.model_validate_json(done.stdout),
        results.load(results.newest(folder)),
    )


def moved(change: WorkloadChange, name: str) -> tuple[float, float]:
    """Transfers per operation on objects whose name holds ``name``, before and after."""
    hits = [one.transfers for one in change.objects if name in one.object]
    return sum(hit.before for hit in hits), sum(hit.after for hit in hits)


def signals_charge_a_user(transfers: float) -> bool:
    """Tell whether each signal moves the line of the limit twice.

    That of the count is moved by the first of a user's pending signals alone: from
    never to twice, by who runs when.
    """
    return 1.98 <= transfers <= 4.04
