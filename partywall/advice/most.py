# SPDX-License-Identifier: GPL-2.0-or-later
"""What helps a workload most, and what bounds it then: `explain` in short, as reports begin."""

from __future__ import annotations

from dataclasses import dataclass

from partywall.advice.explain import Forecast, remedies
from partywall.advice.explained import Remedy
from partywall.advice.remedies import actions, fitting, together
from partywall.advice.without import all_of, also, by_mends, key, without
from partywall.model.cost import cost
from partywall.model.profiles import Profile
from partywall.results.result import Result, WorkloadResult

WORST = 3
"""Walls that stay that are tried: those that are waited for most."""

LEAST = 0.05
"""Gain, as a share, below which a wall that stays bounds nothing."""


@dataclass(frozen=True)
class Most:
    """What would help a workload most at ``at`` containers, by the model."""

    at: int
    remedies: list[Remedy]
    together: float
    """Throughput with all of these, of that without any."""
    bound: str | None
    """The object that bounds it then, if one does."""
    beyond: float
    """Throughput without that one as well, of that with all remedies."""


def most(result: Result, workload: WorkloadResult, profile: Profile) -> Most:
    """Return what would help a workload of the result most."""
    forecast = Forecast(workload, profile, None)
    found, best = remedies(forecast, workload, actions(fitting(result, workload)))
    mended = by_mends(workload, together(best))
    rest = without(workload, mended)
    waits = cost(rest, profile, forecast.at).waits
    beyond = {}
    for name in sorted(waits, key=lambda one: (-waits[one], one))[:WORST]:
        walls = {key(wall) for wall in rest.every_wall if wall.name == name}
        beyond[name] = forecast.gain(also(mended, all_of(workload, walls)), mended)
    bound = max(beyond, key=beyond.__getitem__, default=None)
    if bound is not None and beyond[bound] < 1 + LEAST:
        bound = None
    return Most(
        at=forecast.at,
        remedies=found,
        together=forecast.gain(mended),
        bound=bound,
        beyond=beyond[bound] if bound is not None else 1.0,
    )
