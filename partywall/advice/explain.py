# SPDX-License-Identifier: GPL-2.0-or-later
"""What would help a workload most: each remedy with what it brings at N containers.

That is what the model says of the workload without the walls that a remedy takes away,
all else as it was measured.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from partywall.advice.explained import Expected, Explained, Explanation, Left, Remedy
from partywall.advice.mends import Mend
from partywall.advice.remedies import Action, Fitting, actions, fitting, less, together
from partywall.advice.without import Taken, all_of, also, by_mends, key, number, without
from partywall.analyse.verdict import AT
from partywall.model import unknowns
from partywall.model.load import Load
from partywall.model.profiles import Profile
from partywall.model.queues import predict_work, usual_load, work_of
from partywall.results.result import Result, WorkloadResult

MOST = 5
"""Remedies that are told."""

LEAST = 0.005
"""Gain, as a share, below which nothing is told of."""


def explain(
    result: Result,
    profile: Profile,
    wanted: Sequence[WorkloadResult],
    at: int | None = None,
) -> Explanation:
    """Return what would help each workload that is wanted, of those of the result.

    ``at``: containers; as the verdict of each, if None. No more than the machine has cores for.
    """
    return Explanation(
        kernel=result.kernel,
        profile=profile,
        workloads=[_one(result, one, profile, at) for one in wanted],
    )


class Forecast:
    """What the model says of a workload at one number of containers, as it is and without walls."""

    def __init__(self, workload: WorkloadResult, profile: Profile, at: int | None) -> None:
        processes = workload.topology.cpus if workload.scope == "between" else 1
        self.at = max(1, min(at or workload.at or AT, profile.cores // processes))
        self._workload = workload
        self.profile = profile
        self.now = self.without({})
        self._whole = self.usual(without(workload, {})).each
        self._before: Taken | None = None
        self._had = self._whole

    def usual(self, workload: WorkloadResult) -> Load:
        """Return what is usually to be expected of a workload: a fifth of the work of `of`."""
        return usual_load(work_of(workload), self.profile, self.at)

    def gain(self, taken: Taken, before: Taken | None = None) -> float:
        """Return how much more is usually done without what is taken, than without ``before``."""
        had = self._whole
        if before is not None:
            # Of hundreds of walls it is asked what each brings beside the same.
            if before is not self._before:
                self._before = before
                self._had = self.usual(without(self._workload, before)).each
            had = self._had
        return self.usual(without(self._workload, taken)).each / had

    def of(self, workload: WorkloadResult) -> Expected:
        """Return what is expected of a workload."""
        (point,) = predict_work(work_of(workload), self.profile, [self.at])
        late = workload.deferred.objects if workload.deferred else []
        return Expected(
            throughput=point.throughput,
            relative=point.relative,
            transfers=sum(one.transfers for one in (*workload.found, *late)),
        )

    def without(self, taken: Taken) -> Expected:
        """Return what is expected of it without what is taken away."""
        return self.of(without(self._workload, taken) if taken else self._workload)


def _one(result: Result, workload: WorkloadResult, profile: Profile, at: int | None) -> Explained:
    forecast = Forecast(workload, profile, at)
    every = fitting(result, workload)
    told, best = remedies(forecast, workload, actions(every))
    mended = by_mends(workload, together(best))
    return Explained(
        title=workload.title,
        operation=workload.operation,
        topology=workload.topology,
        scope=workload.scope,
        of="containers" if workload.scope == "between" else "CPUs",
        at=forecast.at,
        now=forecast.now,
        walls=len({key(wall) for wall in workload.every_wall}),
        remedies=told,
        together=forecast.without(mended) if best else None,
        enough=_enough(forecast, workload, best),
        left=_left(forecast, workload, mended, less(every, together(best))),
        clean=forecast.without(also(mended, all_of(workload, map(key, workload.every_wall)))),
        unknown=unknowns.of(workload),
    )


def remedies(
    forecast: Forecast, workload: WorkloadResult, possible: Sequence[Action]
) -> tuple[list[Remedy], list[Action]]:
    """Return what helps most, and what each of these brings."""
    all_ = together(possible)
    most = by_mends(workload, all_)
    alone, adds = {}, {}
    for one in possible:
        alone[one.name] = forecast.gain(by_mends(workload, one.fitting))
        adds[one.name] = forecast.gain(most, by_mends(workload, less(all_, one.fitting)))
    kept: list[Action] = []
    for one in possible:
        wider = any(one is not other and not less(one.fitting, other.fitting) for other in possible)
        # What another wall hides is told as what contains it, if there is such.
        helps = alone[one.name] >= 1 + LEAST or (adds[one.name] >= 1 + LEAST and not wider)
        # What contains others is told if it brings more than each of these, by itself or, where
        # another wall hides that, beside all else.
        within = [other.name for other in kept if not less(other.fitting, one.fitting)]
        if helps and any(
            brings[one.name] > max((brings[name] for name in within), default=0.0) * (1 + LEAST)
            for brings in (alone, adds)
        ):
            kept.append(one)
    best = sorted(kept, key=lambda one: (-alone[one.name], -adds[one.name]))[:MOST]
    found = []
    for one in best:
        taken = by_mends(workload, one.fitting)
        lines = [line for line in workload.every_line if number(line.address) in taken]
        lines = [line for line in lines if taken[number(line.address)].share]
        found.append(
            Remedy(
                kind=one.kind,
                name=one.name,
                release=one.release,
                option=one.option,
                says=_says(one),
                objects=list(dict.fromkeys(line.object.name for line in lines)),
                at_most=any(gone.part and gone.share for gone in taken.values()),
                after=forecast.without(taken),
                gain=alone[one.name],
                adds=adds[one.name],
            )
        )
    return found, best


def _says(action: Action) -> list[str]:
    """Return its mends in words, but for those that take nothing; what is measured comes first."""
    some = [mend for mend in action.mends if mend.most or not mend.part]
    return list(dict.fromkeys(mend.words for mend in sorted(some, key=_first)))


def _first(mend: Mend) -> float:
    return 1.0 if mend.saved is None else -mend.saved.kernel


def _enough(
    forecast: Forecast, workload: WorkloadResult, best: Sequence[Action]
) -> list[list[str]]:
    """Return the sets of actions that bring as much as all do, and need each of their members."""
    most = by_mends(workload, together(best))
    found: list[set[str]] = []
    for size in range(1, len(best) + 1):
        for some in itertools.combinations(best, size):
            names = {one.name for one in some}
            if any(fewer <= names for fewer in found):
                continue
            if forecast.gain(most, by_mends(workload, together(some))) <= 1 + LEAST:
                found.append(names)
    return [[one.name for one in best if one.name in names] for names in found]


def _left(
    forecast: Forecast, workload: WorkloadResult, mended: Taken, unused: Fitting
) -> list[Left]:
    """Return the walls that stay and bound it, most first."""
    rest = without(workload, mended)
    found = []
    for wall in {key(one): one for one in rest.every_wall}.values():
        walls = [key(wall)]
        alone = all_of(workload, walls)
        others = [other for other in map(key, rest.every_wall) if other != key(wall)]
        only = forecast.usual(without(rest, all_of(rest, others)))
        found.append(
            Left(
                object=wall.name,
                transfers=sum(one.transfers for one in rest.every_wall if key(one) == key(wall)),
                part=any(line in mended and mended[line].share for line in alone),
                known=_known(alone, unused),
                gain=forecast.gain(alone),
                adds=forecast.gain(also(mended, alone), mended),
                only=only.each * only.alone,
            )
        )
    found = [one for one in found if one.adds >= 1 + LEAST or one.only <= 1 - LEAST]
    return sorted(found, key=lambda one: (one.only, -one.adds, one.object))


def _known(lines: Iterable[int], unused: Fitting) -> list[str]:
    """Return the mends that there are for some lines, in words."""
    several = (mend for line in lines for mend in unused.get(line, ()) if mend.by != "none")
    return list(dict.fromkeys(mend.words for mend in several))
