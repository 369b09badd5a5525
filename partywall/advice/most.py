# SPDX-License-Identifier: GPL-2.0-or-later
"""What helps a workload most, and what bounds it then: `explain` in short, as reports begin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter

from partywall.advice.explain import Forecast, remedies
from partywall.advice.explained import Remedy
from partywall.advice.remedies import actions, fitting, together
from partywall.advice.without import Taken, all_of, also, by_mends, key, without
from partywall.model.cost import cost
from partywall.model.profiles import Profile
from partywall.results.result import Result, WorkloadResult

WORST = 3
"""Walls that stay that are tried: those that are waited for most."""

LEAST = 0.05
"""Gain, as a share, below which a wall that stays bounds nothing."""


@dataclass(frozen=True)
class Most:
    """What would help a workload most, by the model."""

    remedies: list[Remedy]
    together: float
    """Throughput with all of these, of that without any."""
    bound: tuple[str, ...]
    """The object that bounds it then; several, if nothing comes of any without the others."""
    beyond: float
    """Throughput without these as well, of that with all remedies."""
    known: bool
    """Whether a mend is known at all: it may bring nothing while other walls stay."""


def most(result: Result, workload: WorkloadResult, profile: Profile) -> Most:
    """Return what would help a workload of the result most."""
    forecast = Forecast(workload, profile, None)
    every = fitting(result, workload)
    found, best = remedies(forecast, workload, actions(every))
    mended = by_mends(workload, together(best))
    rest = without(workload, mended)
    bound, beyond = _bound(forecast, workload, rest, mended)
    return Most(
        remedies=found,
        together=forecast.gain(mended),
        bound=bound,
        beyond=beyond,
        known=any(every.values()),
    )


def _bound(
    forecast: Forecast, workload: WorkloadResult, rest: WorkloadResult, mended: Taken
) -> tuple[tuple[str, ...], float]:
    """Return what bounds the rest of a workload, and what is gained without that.

    Of two that are equally bad nothing is gained by one.
    """
    waits = cost(rest, forecast.profile, forecast.at).waits
    worst = sorted(waits, key=lambda one: (-waits[one], one))[:WORST]

    def gain(names: Sequence[str]) -> float:
        walls = {key(wall) for wall in rest.every_wall if wall.name in names}
        return forecast.gain(also(mended, all_of(workload, walls)), mended)

    beyond, first = max(
        ((gain([one]), (one,)) for one in worst), default=(1.0, ()), key=itemgetter(0)
    )
    if beyond >= 1 + LEAST:
        return first, beyond
    for many in range(2, len(worst) + 1):
        beyond = gain(worst[:many])
        if beyond >= 1 + LEAST:
            return tuple(worst[:many]), beyond
    return (), 1.0
