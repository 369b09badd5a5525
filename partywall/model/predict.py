# SPDX-License-Identifier: GPL-2.0-or-later
"""Predictions of one result, or of two side by side, and of what others have measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from pydantic import Field

from partywall.model import measured, published
from partywall.model.network import solve
from partywall.model.profiles import Profile
from partywall.model.queues import Prediction, predict, predict_work
from partywall.model.signal import SignalCost
from partywall.results.compare import keyed
from partywall.results.document import Document, Model
from partywall.results.result import Result
from partywall.results.setting import KernelId

SCHEMA: Final = "partywall.predict/2"
TRIAL: Final = "partywall.model/1"


class Pair(Model):
    """One workload on one kernel, or on two."""

    title: str
    operation: str
    before: Prediction
    after: Prediction | None = None


class Outlook(Document):
    """Throughput by number of containers, for each workload."""

    schema_: Literal["partywall.predict/2"] = Field(default=SCHEMA, alias="schema")
    profile: Profile
    before: KernelId
    after: KernelId | None = None
    workloads: list[Pair]
    alone: list[str] = Field(
        default_factory=list, description="Workloads that only the second result has."
    )


def outlook(
    before: Result, after: Result | None, profile: Profile, counts: Sequence[int] | None = None
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
    """A published figure beside what the model says, both as shares of 1."""

    count: int = Field(description="Containers, or cores of one container.")
    rate: float | None = Field(
        default=None, description="Published operations per second of each container."
    )
    published: float = Field(
        description="Of signals: throughput of each, as a share of what one alone has."
    )
    predicted: float
    low: float
    high: float

    @property
    def error(self) -> float:
        """Of the prediction, as a share of what was published."""
        return self.predicted / self.published - 1


class Machine(Model):
    """One machine, and what is predicted for it beside what was published."""

    profile: Profile
    checks: list[Check]


class Trial(Document):
    """The model beside what others measured and published."""

    schema_: Literal["partywall.model/1"] = Field(default=TRIAL, alias="schema")
    signal: SignalCost
    signals: list[Machine]
    stalls: list[Check] = Field(description="In overlayfs; the first one was given.")
    ours: list[measured.Row] = Field(
        default_factory=list, description="What we measured ourselves, on one machine."
    )
    machine: str = Field(default="", description="That machine.")


def signals(profile: Profile, cost: SignalCost) -> list[Check]:
    """Return the published table of signals beside the model, relative to one container.

    One container alone checks nothing: how fast it is comes out of one constant, the
    time of an instruction, so it has no row.
    """
    alone, *more = published.SIGNALS.throughput
    rates = published.SIGNALS.throughput
    return [
        Check(
            count=point.containers,
            rate=rates[point.containers],
            published=rates[point.containers] / rates[alone],
            predicted=point.relative.usual,
            low=point.relative.low,
            high=point.relative.high,
        )
        for point in predict_work(cost.work, profile, more)
    ]


def trial(machines: Sequence[Profile], cost: SignalCost) -> Trial:
    """Return the model's figures for these machines beside the published ones."""
    return Trial(
        signal=cost,
        signals=[Machine(profile=one, checks=signals(one, cost)) for one in machines],
        stalls=overlay_stalls(),
        ours=list(measured.rows(measured.stored())),
        machine=measured.stored().machine,
    )


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
