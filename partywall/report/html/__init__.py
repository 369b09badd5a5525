# SPDX-License-Identifier: GPL-2.0-or-later
"""One HTML file that stands alone: a result, or two side by side, with curves.

It loads nothing, works without JavaScript but for printing, and follows the
reader's choice of dark or light.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from partywall import __version__
from partywall.model import published
from partywall.model.predict import Outlook, outlook
from partywall.model.profiles import Profile
from partywall.model.queues import Prediction
from partywall.report import locks
from partywall.report.html import charts, drawing
from partywall.report.predict import speed
from partywall.report.words import (
    SCOPES,
    by_object,
    count,
    percent,
    plain,
    rate,
    sharers,
    signed_hex,
    topology,
)
from partywall.results.compare import keyed
from partywall.results.result import Result, WorkloadResult

_HERE = Path(__file__).resolve().parent
ROWS = 14
"""Walls in the heat map; the others are added up in a last row."""

VISIBLE = 0.005
"""Share of time below which a wall has no row of its own."""

LOCKS = 20
"""Locks listed for each workload."""

OBJECTS = 60
"""Objects that are drawn for each workload, the worst first."""


@dataclass(frozen=True)
class HeatRow:
    """One wall, or several, and the share of time waited there at each number."""

    name: str
    waits: list[float]


@dataclass(frozen=True)
class Section:
    """One workload in one topology, on one kernel or two."""

    anchor: str
    before: WorkloadResult
    after: WorkloadResult | None
    expected: Prediction
    expected_after: Prediction | None
    curve: Markup
    published: published.Published | None
    heat: list[HeatRow]

    @property
    def sides(self) -> list[tuple[str, WorkloadResult]]:
        """What is shown in full: the one kernel, or both by name."""
        if self.after is None:
            return [("", self.before)]
        return [("before", self.before), ("after", self.after)]


def _heat(prediction: Prediction) -> list[HeatRow]:
    """Walls by what they cost at the largest number; those of one name together."""
    merged: dict[str, list[float]] = {}
    for station in prediction.stations:
        so_far = merged.get(station.object)
        merged[station.object] = (
            list(station.waits)
            if so_far is None
            else [a + b for a, b in zip(so_far, station.waits, strict=True)]
        )
    rows = sorted((HeatRow(*row) for row in merged.items()), key=lambda r: (-max(r.waits), r.name))
    shown = sum(max(row.waits, default=0.0) >= VISIBLE for row in rows[:ROWS])
    rest = rows[shown:]
    if rest:
        added = [sum(column) for column in zip(*(row.waits for row in rest), strict=True)]
        rows = [*rows[:shown], HeatRow(f"{len(rest)} more", added)]
    return rows


def _curve(
    name: str,
    expected: Prediction,
    after: Prediction | None,
    told: Outlook,
    series: published.Published | None,
) -> Markup:
    curves = [charts.Curve(told.before.release, expected.points)]
    if after is not None and told.after is not None:
        curves = [
            charts.Curve(f"before: {told.before.release}", expected.points),
            charts.Curve(f"after: {told.after.release}", after.points),
        ]
    # Made by us out of numbers and names that matplotlib escapes.
    return Markup(charts.throughput(name, curves, series, expected.of, expected.cores))  # noqa: S704


def _sections(told: Outlook, before: Result, after: Result | None) -> list[Section]:
    others = keyed(after.workloads) if after else {}
    found = []
    for number, ((key, one), pair) in enumerate(
        zip(keyed(before.workloads).items(), told.workloads, strict=True)
    ):
        series = published.of(one.title, one.scope)
        found.append(
            Section(
                anchor=f"w{number}",
                before=one,
                after=others.get(key),
                expected=pair.before,
                expected_after=pair.after,
                curve=_curve(f"w{number}c", pair.before, pair.after, told, series),
                published=series,
                heat=_heat(pair.before),
            )
        )
    return found


def render(before: Result, after: Result | None, profile: Profile) -> str:
    """The page. Equal results give equal pages."""
    told = outlook(before, after, profile)
    environment = Environment(
        loader=FileSystemLoader(_HERE),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "rate": rate,
        "speed": speed,
        "percent": percent,
        "shape": topology,
        "plain": plain,
        "count": count,
        "hex": signed_hex,
    }
    return environment.get_template("page.html.j2").render(
        before=before,
        after=after,
        told=told,
        sections=_sections(told, before, after),
        scopes=SCOPES,
        by_object=by_object,
        sharers=sharers,
        draw=drawing.draw,
        place=drawing.place,
        bound=locks.bound,
        locks_shown=LOCKS,
        objects=OBJECTS,
        visible=VISIBLE,
        version=__version__,
        style=Markup((_HERE / "page.css").read_text()),  # noqa: S704
    )
