# SPDX-License-Identifier: GPL-2.0-or-later
"""Predictions of one result, or of two side by side, and of what others have measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from pydantic import Field

from partywall.model import published
from partywall.model.profiles import Profile
from partywall.model.queues import COUNTS, Prediction, Queue, Work, predict, predict_work, solve
from partywall.results.compare import keyed
from partywall.results.document import Document, Model
from partywall.results.result import KernelId, Result

SCHEMA: Final = "partywall.predict/1"

# What Debian's kernel does for a signal where no AppArmor confines it, as in the post:
# two lines of init_ucounts, 2.00 transfers each, and as many instructions.
SIGNAL: Final = Work(instructions=5826, queues=(Queue(2.0), Queue(2.0)))


class Pair(Model):
    """One workload on one kernel, or on two."""

    title: str
    operation: str
    before: Prediction
    after: Prediction | None = None


class Outlook(Document):
    """Throughput by number of containers, for each workload."""

    schema_: Literal["partywall.predict/1"] = Field(default=SCHEMA, alias="schema")
    profile: Profile
    before: KernelId
    after: KernelId | None = None
    workloads: list[Pair]
    alone: list[str] = Field(
        default_factory=list, description="Workloads that only the second result has."
    )


def outlook(
    before: Result, after: Result | None, profile: Profile, counts: Sequence[int] = COUNTS
) -> Outlook:
    """Predictions for all that ``before`` has, beside those of ``after`` where it has the same."""
    others = keyed(after.workloads) if after else {}
    pairs = []
    for key, one in keyed(before.workloads).items():
        other = others.get(key)
        pairs.append(
            Pair(
                title=one.title,
                operation=one.operation,
                before=predict(one, profile, counts),
                after=predict(other, profile, counts) if other else None,
            )
        )
    return Outlook(
        profile=profile,
        before=before.kernel,
        after=after.kernel if after else None,
        workloads=pairs,
        alone=[
            f"{one.title} {one.topology.containers} x {one.topology.cpus}"
            for key, one in others.items()
            if key not in keyed(before.workloads)
        ],
    )


class Check(Model):
    """A published figure beside what the model says."""

    count: int = Field(description="Containers, or cores of one container.")
    published: float
    predicted: float
    low: float
    high: float

    @property
    def error(self) -> float:
        """Of the prediction, as a share of what was published."""
        return self.predicted / self.published - 1


def signals(profile: Profile) -> list[Check]:
    """The published table of signals, in operations per second, beside the model."""
    table = published.SIGNALS.throughput
    return [
        Check(
            count=point.containers,
            published=table[point.containers],
            predicted=point.throughput.usual,
            low=point.throughput.low,
            high=point.throughput.high,
        )
        for point in predict_work(SIGNAL, profile, list(table))
    ]


def _stalled(demand: float, cores: int) -> float:
    """Share of time spent at one station, with 1 as the time spent elsewhere."""
    residence = solve([demand], 1.0, cores).residence
    return residence / (1 + residence)


def overlay_stalls() -> list[Check]:
    """The published stalls in overlayfs: the one rate unknown is taken from the first.

    How often the web workload came to the line was not published, so the first
    point gives the demand, by bisection, and only the second says anything.
    """
    (first, share), *rest = published.OVERLAY_STALLS.items()
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if _stalled(middle, first) > share else (middle, high)
    return [
        Check(count=cores, published=told, predicted=said, low=said, high=said)
        for cores, told in [(first, share), *rest]
        for said in [_stalled(low, cores)]
    ]
