# SPDX-License-Identifier: GPL-2.0-or-later
"""Pictures of the two kinds of walls that are no lines: memory that stays, and waits."""

from __future__ import annotations

from dataclasses import dataclass

import matplotlib as mpl
from matplotlib.figure import Figure

from partywall.report import held
from partywall.report.html import charts
from partywall.report.words import count, plain, rate
from partywall.results.held import HeldLock, Span
from partywall.results.memory import Grown, Memory, Unsettled
from partywall.results.result import WorkloadResult

KINDS = 4
"""Kinds of memory that have a curve, and locks that have bars."""


@dataclass(frozen=True)
class Hold:
    """A lock in an operation. ``awake``, ``asleep``, ``waited``: per cent of the longest bar."""

    name: str
    told: str
    awake: float
    asleep: float
    waited: float


def holds(workload: WorkloadResult) -> list[Hold]:
    """Return locks that are held asleep, with for how long and how long others sleep for them."""
    locks = held.asleep(workload)[:KINDS]
    longest = max((max(lock.told_ns, lock.waited_ns) for lock in locks), default=0.0) or 1.0
    return [
        Hold(
            name=lock.name,
            told=(
                f"held {held.ms(lock.told_ns)} an operation, "
                f"{held.ms(lock.told_asleep_ns)} of that asleep; "
                f"others sleep {held.ms(lock.waited_ns)} for it"
            ),
            awake=100 * max(lock.told_ns - lock.told_asleep_ns, 0.0) / longest,
            asleep=100 * lock.told_asleep_ns / longest,
            waited=100 * lock.waited_ns / longest,
        )
        for lock in locks
    ]


@dataclass(frozen=True)
class Taken:
    """A lock as somebody has it who sleeps, or as it is slept for: milliseconds an operation.

    ``at_most``: once; ``waited``: by all who sleep for it, in its first row.
    """

    lock: str
    at_most: float
    held: float
    asleep: float
    waited: float
    by: str
    sleeps: str


def taken(workload: WorkloadResult) -> list[Taken]:
    """Return who has which lock asleep; of one that is only slept for, for how long."""
    found = []
    for lock in workload.held.slept_with() if workload.held else ():
        holders = [one for one in lock.told if one.asleep_ns > 0]
        waited = lock.waited_ns / 1e6
        for number, one in enumerate(holders):
            found.append(
                Taken(
                    lock=lock.name,
                    at_most=one.longest_asleep_ns / 1e6,
                    held=one.ns / 1e6,
                    asleep=one.asleep_ns / 1e6,
                    waited=0.0 if number else waited,
                    by=f"{one.by}, shared" if one.shared else one.by,
                    sleeps=", ".join(spell.words for spell in one.sleeps[:3]),
                )
            )
        tried = max((one.longest_tried_ns for one in lock.holders), default=0.0)
        if not holders or tried > max(one.longest_asleep_ns for one in holders):
            left = 0.0 if holders else waited
            found.append(Taken(lock.name, tried / 1e6, 0.0, 0.0, left, "", "until it is had"))
    return found


DRAWN = 3
"""Locks that have a timeline."""

ROWS = 24
"""Rows of a timeline that have a label each; of more they are thinner, and some have none."""


def timed(workload: WorkloadResult) -> list[HeldLock]:
    """Return the locks of which there is a timeline."""
    every = [] if workload.held is None else workload.held.first()
    return [lock for lock in every if lock.spans][:DRAWN]


def timeline(name: str, workload: WorkloadResult) -> str:
    """Draw who has which lock when, and who sleeps for it. ``name``: as for `charts.drawn`."""
    locks = timed(workload)
    rows = [sorted({_row(one, workload) for one in lock.spans}) for lock in locks]
    heights = [0.6 + 0.17 * len(each) if len(each) <= ROWS else 4.6 for each in rows]
    with mpl.rc_context(charts.STYLE):
        figure = Figure(figsize=(7.2, sum(heights) + 0.4), layout="constrained")
        figure.patch.set_alpha(0)
        every = figure.subplots(len(locks), 1, sharex=True, squeeze=False, height_ratios=heights)
        for axes, lock, each in zip(every[:, 0], locks, rows, strict=True):
            axes.patch.set_alpha(0)
            axes.set_title(plain(lock.name), loc="left", fontsize=10)
            for one in lock.spans:
                # Who has it over who waits in the same row, and each of a pixel at least.
                axes.broken_barh(
                    [(one.from_ns / 1e6, one.ns / 1e6)],
                    (each.index(_row(one, workload)) - 0.4, 0.8),
                    facecolor=charts.MUTED if one.wanted else charts.BEFORE,
                    edgecolor=charts.MUTED if one.wanted else charts.BEFORE,
                    alpha=0.5 if one.shared else 1,
                    linewidth=0.5,
                    zorder=2 if one.wanted else 3,
                )
            labelled = range(0, len(each), 1 + (len(each) - 1) // ROWS)
            axes.set_yticks(labelled, [each[row][1] for row in labelled], fontsize=8)
            axes.set_ylim(len(each) - 0.5, -0.5)
            axes.grid(axis="x", color=charts.RULE, linewidth=0.6)
            axes.set_axisbelow(True)
            axes.tick_params(axis="y", length=0)
            for side in ("top", "right", "left"):
                axes.spines[side].set_visible(False)
        every[-1, 0].set_xlabel("milliseconds of the guest's time")
        return charts.drawn(figure, name)


def spoken(workload: WorkloadResult) -> str:
    """Return what the timeline shows in words, for who can't see it."""
    return "; ".join(
        f"{lock.name}: had {_times(lock, wanted=False)}, slept for {_times(lock, wanted=True)}"
        for lock in timed(workload)
    )


def _times(lock: HeldLock, *, wanted: bool) -> str:
    found = [one.ns for one in lock.spans if one.wanted == wanted]
    return f"{count(len(found), 'time')}, at most {held.ms(max(found))}" if found else "never"


def _row(one: Span, workload: WorkloadResult) -> tuple[int, str]:
    """Where it is drawn: of several containers each has a row, of one each CPU."""
    if one.cpu is None:
        return 1 << 30, "kernel threads"
    cpus = workload.topology.cpus
    if workload.topology.containers == 1:
        return one.cpu, f"CPU {one.cpu}"
    return one.cpu // cpus, f"container {one.cpu // cpus}"


def growth(name: str, memory: Memory) -> str:
    """Draw what there is more of after so many operations. ``name``: as for `charts.drawn`."""
    counts = [0, memory.operations, 3 * memory.operations]
    shown = _curves(memory)[:KINDS]
    with mpl.rc_context(charts.STYLE):
        figure = Figure(figsize=(7.2, 2.6), layout="constrained")
        figure.patch.set_alpha(0)
        axes = figure.add_subplot()
        axes.patch.set_alpha(0)
        for one, mark in zip(shown, "osD^", strict=False):
            axes.plot(
                counts,
                [0.0, *(number * one.size / 1024 for number in one.more)],
                color=charts.BEFORE if one.unpaid else charts.MUTED,
                linestyle=one.line,
                linewidth=2,
                marker=mark,
                markersize=4,
                label=plain(one.told),
            )
        axes.set_xticks(counts, [f"{count:,}" for count in counts])
        axes.set_ylim(bottom=0)
        axes.set_xlabel("operations of all containers")
        axes.set_ylabel("KiB more than before")
        axes.grid(color=charts.RULE, linewidth=0.6)
        axes.set_axisbelow(True)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        axes.legend(frameon=False, loc="upper left")
        return charts.drawn(figure, name)


@dataclass(frozen=True)
class _Curve:
    """A kind of memory. ``size``: of one object, in bytes; ``more``: as of `Grown`."""

    told: str
    line: str
    unpaid: bool
    size: float
    more: list[int]


def _curves(memory: Memory) -> list[_Curve]:
    """What nobody pays for first, then what is not settled, then what somebody does."""
    grown = [
        _Curve(
            told=f"{one.what}: {rate(one.bytes)} bytes/op, {_paid(one)}",
            line="-" if one.uncharged else "--",
            unpaid=bool(one.uncharged),
            size=one.bytes / one.objects if one.objects else 0.0,
            more=one.more,
        )
        for one in memory.grown
    ]
    rises = [
        _Curve(
            told=f"{one.what}: not settled, at most {rate(one.bytes)} bytes/op, "
            f"charged to {'a container' if one.charged else 'nobody'}",
            line=":",
            unpaid=not one.charged,
            size=one.bytes / _most(one, memory.operations),
            more=one.more,
        )
        for one in memory.unsettled
    ]
    nobody = [one for one in grown if one.unpaid]
    return [*nobody, *rises, *(one for one in grown if not one.unpaid)]


def _most(one: Unsettled, operations: int) -> float:
    """Objects per operation in the step that had more."""
    some, more = one.more
    return max(some / operations, (more - some) / (2 * operations))


def _paid(one: Grown) -> str:
    if one.bookkeeping:
        return "bounded by what is charged"
    if not one.uncharged:
        return "charged to a container"
    return "charged to nobody" if not one.charged else f"{one.charged:.0%} charged to a container"
