# SPDX-License-Identifier: GPL-2.0-or-later
"""Mean values of a closed queueing network.

Reiser and Lavenberg, Mean-Value Analysis, Journal of the ACM 27(2), 1980.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Solution:
    """Mean values of a closed network."""

    throughput: float
    """Operations per ns of all customers together."""
    at_each: tuple[float, ...]
    """ns per operation in queue and service at each station."""

    @property
    def residence(self) -> float:
        """ns per operation in queue and service at all stations."""
        return sum(self.at_each)


def solve(
    demands: Sequence[float],
    think: float,
    customers: int,
    beside: Sequence[float] | None = None,
    alike: Sequence[float] | None = None,
    wanted: Sequence[float] | None = None,
) -> Solution:
    """Return the mean values of a closed network with one class of customers.

    ``demands``: ns per operation that each station serves; ``think``: ns per
    operation that a customer spends elsewhere, where nobody waits. ``beside``: ns per
    operation of service at each station that waits for what is queued there, while
    nobody waits for it. ``alike``: over how many stations like each other each demand is
    spread evenly, one if None. ``wanted``: ns per operation that a station serves on top while
    somebody else waits there. Stations serve in order of arrival, times are
    exponential; without ``beside`` and ``wanted`` the analysis is exact.
    """
    demand = np.asarray(demands, dtype=float)
    both = demand if beside is None else demand + np.asarray(beside, dtype=float)
    spread = np.ones_like(demand) if alike is None else np.asarray(alike, dtype=float)
    more = np.zeros_like(demand) if wanted is None else np.asarray(wanted, dtype=float)
    queue = np.zeros_like(demand)
    at_each = both
    throughput = 0.0
    for present in range(1, customers + 1):
        # That anybody is there is no likelier than that.
        busy = more * np.minimum(1.0, queue)
        at_each = (both + busy) * (1 + queue)
        throughput = present / (think + float(at_each.sum()))
        queue = throughput * (demand + busy) / spread * (1 + queue)
    return Solution(throughput, tuple(map(float, at_each)))
