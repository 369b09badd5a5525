# SPDX-License-Identifier: GPL-2.0-or-later
"""One HTML file that stands alone: a result, or two side by side, with curves.

It loads nothing and follows the reader's choice of dark or light. What a wall's row
opens, and the search, need JavaScript: those details lie in the page packed.
"""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass

from jinja2 import Environment
from markupsafe import Markup

from partywall import __version__
from partywall.advice.mends import Advice, Mend
from partywall.advice.most import most
from partywall.core.cache import packed
from partywall.model import published
from partywall.model.cost import Cost
from partywall.model.predict import Outlook, outlook
from partywall.model.profiles import Profile
from partywall.model.queues import Prediction
from partywall.report import costs, deferred, held, helps, locks, memory, reserve
from partywall.report.html import charts, drawing, kinds, pages
from partywall.report.walls import Wall, alike, fold, numbered, put_off
from partywall.report.words import busiest, known, sharers
from partywall.results.compare import Key, keyed
from partywall.results.result import Result, WorkloadResult

ROWS = 14
"""Walls in the heat map; the others are added up in a last row."""

VISIBLE = 0.005
"""Share of time below which a wall has no row of its own."""


@dataclass(frozen=True)
class Row:
    """Like objects, with what opens under them."""

    key: str
    """Of the row in the page."""
    wall: Wall
    number: int | None = None
    """As the report at a terminal has it, if it is a wall."""
    waits: float = 0.0
    """Share of its time that each container waits here."""
    mends: tuple[Mend, ...] = ()

    @property
    def code(self) -> str:
        """The place in the code that uses its worst line most."""
        sites = busiest(self.wall.lines[0])
        return drawing.place(sites[0]) if sites else ""


@dataclass(frozen=True)
class Side:
    """One workload on one kernel."""

    label: str
    result: WorkloadResult
    cost: Cost
    walls: list[Row]
    deferred: list[Row]
    inside: list[Row]
    background: list[Row]
    holds: list[kinds.Hold]
    """Locks that are held asleep."""
    timeline: Markup | None
    """The picture of who has them when."""
    spoken: str
    """What that shows, in words."""
    growth: Markup | None
    """The picture of what stays in memory, if anything does."""

    @property
    def limit(self) -> str:
        """What an object needs for a wall to be told."""
        return costs.limit(self.result)

    @property
    def among(self) -> str:
        """Between whom."""
        return costs.among(self.result)

    @property
    def costly(self) -> list[Row]:
        """The walls that cost most, of deferred work as well."""
        rows = [*self.walls, *self.deferred]
        worst = {wall.number for wall, _ in costs.worst([row.wall for row in rows], self.cost)}
        found = [row for row in rows if row.number in worst]
        return sorted(found, key=lambda row: (-row.waits, row.key))

    @property
    def rows(self) -> list[Row]:
        """All that opens."""
        return [*self.walls, *self.deferred, *self.inside, *self.background]


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
    helps: list[tuple[str, str]]
    """How many times as much is done on the first kernel, and by what."""
    sides: list[Side]
    """What is shown in full: the one kernel, or both by name."""


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


def _side(
    label: str,
    key: str,
    result: WorkloadResult,
    walls: list[Wall],
    late: list[Wall],
    advice: Advice,
    profile: Profile,
) -> Side:
    cost = costs.at(result, profile)

    def row(wall: Wall, letter: str) -> Row:
        return Row(
            f"{key}{letter}{wall.number}",
            wall,
            wall.number,
            cost.waits.get(wall.object.name, 0.0),
            tuple(advice.on(wall.lines, result)),
        )

    return Side(
        label=label,
        result=result,
        cost=cost,
        walls=[row(wall, "w") for wall in walls],
        deferred=[row(wall, "d") for wall in late],
        inside=[Row(f"{key}i{wall.number}", wall) for wall in fold(result.inside, result)],
        background=[Row(f"{key}g{wall.number}", wall) for wall in fold(result.background, result)],
        holds=kinds.holds(result),
        timeline=_timeline(f"{key}t", result),
        spoken=kinds.spoken(result),
        growth=_growth(f"{key}m", result),
    )


def _timeline(name: str, result: WorkloadResult) -> Markup | None:
    # As of a curve.
    return Markup(kinds.timeline(name, result)) if kinds.timed(result) else None  # noqa: S704


def _growth(name: str, result: WorkloadResult) -> Markup | None:
    if result.memory is None or result.memory.verdict == "nothing":
        return None
    # As of a curve.
    return Markup(kinds.growth(name, result.memory))  # noqa: S704


def _walls(result: Result) -> dict[Key, tuple[list[Wall], list[Wall]]]:
    """Of each workload its walls, and those of its deferred work."""
    every = zip(result.workloads, numbered(result), put_off(result), strict=True)
    return {key: (walls, late) for one, walls, late in every for key in keyed([one])}


def _helps(result: Result, workload: WorkloadResult, profile: Profile) -> list[tuple[str, str]]:
    if not workload.every_wall:
        return []
    return list(helps.rows(most(result, workload, profile)))


def _sections(told: Outlook, before: Result, after: Result | None) -> list[Section]:
    others = keyed(after.workloads) if after else {}
    walls, advice = _walls(before), Advice(before)
    walls_after, advice_after = (_walls(after), Advice(after)) if after else ({}, advice)
    found = []
    for number, ((key, one), pair) in enumerate(
        zip(keyed(before.workloads).items(), told.workloads, strict=True)
    ):
        series = published.of(one.title, one.scope)
        other = others.get(key)
        label = "before" if other else ""
        sides = [_side(label, f"w{number}b", one, *walls[key], advice, told.profile)]
        if other:
            mine = walls_after[key]
            sides.append(_side("after", f"w{number}a", other, *mine, advice_after, told.profile))
        found.append(
            Section(
                anchor=f"w{number}",
                before=one,
                after=other,
                expected=pair.before,
                expected_after=pair.after,
                curve=_curve(f"w{number}c", pair.before, pair.after, told, series),
                published=series,
                heat=_heat(pair.before),
                helps=_helps(before, one, told.profile),
                sides=sides,
            )
        )
    return found


def _packed(environment: Environment, sections: list[Section]) -> str:
    """The details of all rows by key, compressed. Equal ones give equal text."""
    module = environment.get_template("wall.html.j2").make_module(
        {"alike": alike, "draw": drawing.draw, "place": drawing.place, "sharers": sharers}
    )
    rows = [row for section in sections for side in section.sides for row in side.rows]
    # Tabs and blank lines would be most of it.
    details = {
        row.key: re.sub(r">\s+<", "><", str(module.detail(row.wall))).strip()  # type: ignore[attr-defined]
        for row in rows
    }
    text = json.dumps(details, separators=(",", ":"))
    return base64.b64encode(packed(text)).decode()


def render(before: Result, after: Result | None, profile: Profile) -> str:
    """The page. Equal results give equal pages."""
    told = outlook(before, after, profile)
    environment = pages.environment()
    sections = _sections(told, before, after)
    return environment.get_template("page.html.j2").render(
        before=before,
        after=after,
        told=told,
        sections=sections,
        bound=locks.bound,
        known=known,
        put_off=deferred.summary,
        after_windows=reserve.after,
        deferred_work=deferred.WHAT,
        reserve=reserve.reserve,
        stays=memory.brief,
        asleep=held.brief,
        slept=held.verdict,
        taken=kinds.taken,
        deferred=costs.deferred,
        share=costs.share,
        visible=VISIBLE,
        version=__version__,
        packed=_packed(environment, sections),
        script=pages.asset("page.js"),
        style=pages.asset("page.css"),
    )
