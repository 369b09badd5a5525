# SPDX-License-Identifier: GPL-2.0-or-later
"""How much of what moves is known by name, by type, and how much of it is freed by now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from partywall.results.lines import LineObject


@dataclass(frozen=True)
class Shares:
    """Of all transfers, 0..1. What was not looked up has neither name nor type."""

    named: float
    typed: float
    freed: float


def shares(moved: npt.NDArray[Any], objects: Mapping[int, LineObject]) -> Shares:
    """Return the shares of all transfers; ``moved``: of each line; ``objects``: by line."""
    total = float(moved.sum())
    if not total:
        return Shares(1.0, 1.0, 0.0)

    def share(rows: list[int]) -> float:
        return sum(float(moved[row]) for row in rows) / total

    return Shares(
        named=share([row for row, what in objects.items() if what.kind != "unnamed"]),
        typed=share([row for row, what in objects.items() if what.typed]),
        freed=share([row for row, what in objects.items() if what.state == "freed"]),
    )
