# SPDX-License-Identifier: GPL-2.0-or-later
"""How many requests a window of a server had, by what its containers say."""

from __future__ import annotations

import re

from partywall.core.errors import EnvironmentProblem
from partywall.core.topology import Topology

_SAID = re.compile(r"^PARTYWALL requests (\d+) (\d+) (\d+)$", re.MULTILINE)

UNEVEN = 2.0
"""So many times the requests of another container: they had not the same to do."""


def requests(console: str, topology: Topology) -> int:
    """Return the requests of each CPU of a container in its window, on average.

    EnvironmentProblem if there are not enough of them to say anything of one, or
    containers did not do alike.
    """
    told = {int(number): int(count) / 1000 for number, count, _ in _SAID.findall(console)}
    if len(told) != topology.containers:
        raise EnvironmentProblem(
            f"{topology.containers - len(told)} containers did not say how many requests "
            "their window had",
            "run it again",
        )
    least, most = min(told.values()), max(told.values())
    if least < 1 or most > UNEVEN * least:
        raise EnvironmentProblem(
            f"windows had {least:.0f} requests in one container and {most:.0f} in another",
            "make them longer with --ops",
        )
    return max(1, round(sum(told.values()) / topology.total))
