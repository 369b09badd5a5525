# SPDX-License-Identifier: GPL-2.0-or-later
"""Walls as people are told of them: by object, like ones together, each with a number."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from partywall.report.words import Walled, by_object, ranges
from partywall.results.lines import SPLITS, Line, LineObject
from partywall.results.lines import Wall as Judged
from partywall.results.result import Result, WorkloadResult


@dataclass(frozen=True)
class Wall:
    """Objects of one name and kind in one workload, the worst first."""

    number: int
    """In its result, from 1; the same whatever is left out of a report."""
    workload: WorkloadResult
    objects: tuple[Walled, ...]
    judged: Judged | None = None
    """What the result says of all of them, which may have more lines than it lists."""
    deferred: bool = False
    """It is one of deferred work."""

    @property
    def object(self) -> LineObject:
        """The worst of them."""
        return self.objects[0].object

    @property
    def lines(self) -> list[Line]:
        """All lines, the worst object's first."""
        return [line for walled in self.objects for line in walled.lines]

    @property
    def transfers(self) -> float:
        """Transfers per operation on all of these lines, as the verdict has it."""
        if self.judged is not None:
            return self.judged.judged
        return sum(walled.transfers for walled in self.objects)

    @property
    def count(self) -> int:
        """Cache lines of it that move, more than are listed where there are many."""
        return len(self.lines) if self.judged is None else self.judged.lines

    @property
    def folded(self) -> str:
        """How many there are: ``x 34``, or nothing if there is one."""
        return f"x {len(self.objects):,}" if len(self.objects) > 1 else ""

    @property
    def sharers(self) -> str:
        """Which containers share it, if it is a wall of some: ``containers 2-3``.

        In a short window some of those that use it can't be seen to come back.
        """
        if self.judged is None or self.judged.sharing == "all":
            return ""
        if not self.judged.sharers:
            return "some CPUs"
        users = {n for line in self.lines for n in (*line.writers, *line.readers)}
        if len(users) >= self.workload.topology.containers:
            return f"all containers; {ranges(self.judged.sharers)} seen to come back"
        return f"containers {ranges(self.judged.sharers)}"

    @property
    def false_sharing(self) -> bool:
        """Whether a line is marked so, and splitting such lines saves enough of the wall."""
        saves = sum(line.split_saves for line in self.lines)
        marked = any(line.false_sharing for line in self.lines)
        return marked and (not saves or saves >= SPLITS * self.transfers)

    def touched_by(self, function: str) -> bool:
        """Whether a function uses it, inline or as caller of a lock, list or copy."""
        return any(
            function in (site.function, *site.inlined)
            or (site.caller or "").partition("+")[0] == function
            for line in self.lines
            for site in [*line.code, *(line.in_calls.code if line.in_calls else [])]
        )


def fold(
    lines: Iterable[Line],
    workload: WorkloadResult,
    first: int = 1,
    judged: Iterable[Judged] = (),
) -> list[Wall]:
    """Return lines of a workload as walls, the worst first, numbered from ``first``.

    ``judged``: what the result says of the objects, if they are walls.
    """
    known: dict[tuple[str, str], Judged] = {}
    for one in judged:
        key = (one.kind, one.name)
        known[key] = _together(known[key], one) if key in known else one
    rows: dict[tuple[str, str], list[Walled]] = {}
    for walled in by_object(lines):
        what = walled.object
        rows.setdefault((what.kind, what.name), []).append(walled)
    walls = [Wall(0, workload, tuple(row), known.get(key)) for key, row in rows.items()]
    # By transfers; of equal ones the order of names, so that numbers are the same each time.
    walls.sort(key=lambda wall: (-wall.transfers, wall.object.name, wall.object.kind))
    return [replace(wall, number=number) for number, wall in enumerate(walls, first)]


def _together(one: Judged, other: Judged) -> Judged:
    """Walls of one name that the result judges apart: by who shares them, or by object."""
    return one.model_copy(
        update={
            "lines": one.lines + other.lines,
            "transfers": one.transfers + other.transfers,
            "transfers_at": one.judged + other.judged,
            "sharing": "all" if "all" in (one.sharing, other.sharing) else "some",
            "sharers": sorted({*one.sharers, *other.sharers}),
            "split_saves": one.split_saves + other.split_saves,
        }
    )


def numbered(result: Result) -> list[list[Wall]]:
    """Return the walls of each workload, numbered through the whole result."""
    found: list[list[Wall]] = []
    number = 1
    for workload in result.workloads:
        found.append(fold(workload.walls, workload, number, workload.found))
        number += len(found[-1])
    return found


def put_off(result: Result) -> list[list[Wall]]:
    """Return the walls of each workload's deferred work, numbered on behind those of `numbered`."""
    found: list[list[Wall]] = []
    number = 1 + sum(map(len, numbered(result)))
    for workload in result.workloads:
        late = workload.deferred
        walls = [] if late is None else fold(late.walls, workload, number, late.objects)
        found.append([replace(wall, deferred=True) for wall in walls])
        number += len(walls)
    return found


def alike(wall: Wall) -> list[tuple[Walled, list[Walled]]]:
    """Return objects of a wall, each with those that are used as it is: the same fields."""
    found: dict[tuple[object, ...], tuple[Walled, list[Walled]]] = {}
    for walled in wall.objects:
        used = tuple(
            (line.object.line, tuple(sorted(use.path for use in line.fields)))
            for line in sorted(walled.lines, key=lambda line: line.object.line)
        )
        if used in found:
            found[used][1].append(walled)
        else:
            found[used] = (walled, [])
    return list(found.values())
