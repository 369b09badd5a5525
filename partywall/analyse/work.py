# SPDX-License-Identifier: GPL-2.0-or-later
"""One kind of work of a recording: its lines, judged, with names."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from partywall.analyse import later, names, verdict
from partywall.analyse.beside import Costs, Judged
from partywall.analyse.judgement import Judgement, after_others, in_turn
from partywall.analyse.layout import patterns
from partywall.analyse.sharing import (
    Patterns,
    Together,
    Uses,
    groups_of,
    part_of,
    split_saves,
    split_saves_on_top,
)
from partywall.analyse.transfers import Lines, Parties, counted, in_holds
from partywall.core.topology import Scope, Topology
from partywall.record.recording import LINE_SHIFT, Kind, Recording
from partywall.results import counts, sites
from partywall.results.left import Left
from partywall.results.lines import SPLITS, Deferred, Line, LineObject, Wall

Array = npt.NDArray[Any]

# Of all transfers, the share whose lines are looked up in the guest's memory.
# What is left are lines that moved once or twice each.
_TO_NAME = 0.999
# Of an object that is a wall, the lines that are listed with fields and code: those over
# the threshold, in any case and at most so many.
_LEAST, _MOST = 16, 128


@dataclass(frozen=True)
class Setting:
    """By what lines are judged.

    ``window``: operations of each process; ``operations``: of all; ``at``: containers that
    the verdict is for, None if those that ran; ``scope``: which transfers make a wall.
    """

    parties: Parties
    topology: Topology
    scope: Scope
    window: int
    operations: int
    threshold: float
    at: int | None

    def sharers(self, scope: Scope) -> int:
        """Return how many containers share the kernel, or CPUs a container."""
        return self.topology.containers if scope == "between" else self.topology.cpus


class Work:
    """The lines that one kind of work visits, by their rows in ``lines``.

    ``before``: what comes on top of which, as deferred work does of the foreground.
    """

    def __init__(
        self,
        recorded: Recording,
        kind: Kind,
        lines: Lines,
        setting: Setting,
        known: names.Knowledge,
        before: Work | None = None,
    ) -> None:
        self.lines, self._recorded = lines, recorded
        self._before = before
        self._setting = setting
        self._uses = uses = Uses(recorded, kind)
        self._kind = kind
        self._patterns = Patterns(recorded, kind)
        self._busiest = uses.busiest(known.copying)
        self.namer = names.LineNamer(known, uses)
        self._named: dict[int, names.Named] = {}
        # By this a line is worth looking up: what it moves in either number of containers.
        self.total = np.maximum(lines.between, lines.between_at) + lines.within

    def told_by(self, lines: Lines, setting: Setting) -> Work:
        """Return the same work by another setting: the same lines by its number of operations.

        For `to_touch` alone: how often code is used is still told by the old one.
        """
        found = copy.copy(self)
        found.lines, found._setting = lines, setting
        found.total = np.maximum(lines.between, lines.between_at) + lines.within
        return found

    def name(self, row: int) -> names.Named:
        """Return object, fields and code of a line."""
        if row not in self._named:
            address = int(self.lines.number[row]) << LINE_SHIFT
            self._named[row] = self.namer.line(address, self._setting.operations)
        return self._named[row]

    def object_at(self, line: int) -> LineObject:
        """Return what is used most in the line at an address."""
        return self.namer.object_of(self._busiest.get(line, line))

    def objects(self) -> dict[int, LineObject]:
        """Return row -> object, the lines that move most first, up to `_TO_NAME` of all."""
        return self._objects(_most_of(self.total))

    def _objects(self, rows: Iterable[int]) -> dict[int, LineObject]:
        return {row: self.object_at(int(self.lines.number[row]) << LINE_SHIFT) for row in rows}

    def judged(
        self, scope: Scope, objects: dict[int, LineObject], sides: Sequence[tuple[range, int]] = ()
    ) -> Judgement:
        """Return the judgement on all lines; ``objects``: as `objects` has them.

        ``sides``: as `Judgement` has it.
        """
        setting = self._setting
        return Judgement(
            self.lines,
            setting.parties,
            setting.topology,
            scope,
            window=setting.window,
            threshold=setting.threshold,
            sides=sides,
            # Inside of one of several containers it is not known.
            in_turn=in_turn(self._recorded, scope) if scope == setting.scope else None,
            after=self._after(scope),
            objects=objects,
            look=lambda row: self.name(row).object,
        )

    def _after(self, scope: Scope) -> Array | None:
        """`after_others` of own work; of deferred work it was not counted."""
        if scope != self._setting.scope or self._kind != Kind.FOREGROUND:
            return None
        return after_others(self._recorded, scope)

    def walls(
        self, judged: Judgement, locked: Mapping[int, float]
    ) -> list[tuple[Wall, list[Line]]]:
        """Return the objects that are walls, most transfers first, with their worst lines.

        ``locked``: by row, which share of a line's transfers is made under a lock.
        """
        setting = self._setting
        groups: dict[int, list[int]] = defaultdict(list)
        for row in worst_first(judged.moved_at, judged.walls):
            groups[int(judged.objects[row])].append(row)
        found = []
        for rows in groups.values():
            over = int((judged.moved_at[rows] > setting.threshold).sum())
            most = min(max(over, _LEAST), _MOST)
            listed = [
                self.wall(row, judged, setting.scope, locked.get(row, 0.0)) for row in rows[:most]
            ]
            what = listed[0].object
            back = np.flatnonzero(judged.back[rows].any(axis=0))
            wall = Wall(
                kind=what.kind,
                name=what.name,
                type=what.type,
                lines=len(rows),
                transfers=float(judged.moved[rows].sum()),
                locked=sum(float(judged.moved[row]) * locked.get(row, 0.0) for row in rows),
                transfers_at=float(judged.moved_at[rows].sum()) if setting.at else None,
                sharing="all" if (judged.sharing[rows] == verdict.ALL).any() else "some",
                sharers=[int(n) for n in back] if setting.scope == "between" else [],
                split_saves=sum(line.split_saves for line in listed),
            )
            found.append((wall, listed))
        return sorted(found, key=lambda one: (-one[0].judged, one[0].name, one[1][0].address))

    def wall(self, row: int, judged: Judgement, scope: Scope, locked: float = 0.0) -> Line:
        """Return all that is to be said of a line that is a wall in ``scope``."""
        lines, operations = self.lines, self._setting.operations
        address = int(lines.number[row]) << LINE_SHIFT
        named = self.name(row)
        reads, writes = lines.reads[row], lines.writes[row]
        writers, readers = self._containers(reads, writes)
        read, wrote = self._visits(row, self._others(scope))
        moved_at = float(judged.moved_at[row])
        all_ = judged.sharing[row] == verdict.ALL
        saves = self._saves(address, named, self._others(scope, at=bool(all_)))
        splits = _can_split(named.object)
        over = saves > self._setting.threshold and saves >= SPLITS * moved_at
        return Line(
            address=f"{address:#x}",
            object=named.object,
            transfers=float(judged.moved[row]),
            locked=float(judged.moved[row]) * locked,
            transfers_at=moved_at if scope == "between" else None,
            between=float(lines.between[row]),
            within=float(lines.within[row]),
            write_visits=float(wrote.sum()) / operations,
            read_visits=float(read.sum()) / operations,
            false_sharing=over,
            split_saves=saves,
            sharing="all" if all_ else "some",
            fields=named.fields,
            visits=patterns(self._together(address, self._others(scope)), operations)
            if splits
            else [],
            code=named.code,
            in_calls=self._in_calls(address),
            writers=writers,
            readers=readers,
        )

    def _in_calls(self, address: int) -> sites.Uses | None:
        """What system calls do with a line of deferred work; None if they don't touch it."""
        if self._before is None:
            return None
        named = self._before.namer.line(address, self._setting.operations)
        return sites.Uses(fields=named.fields, code=named.code) if named.code else None

    def passing(self, judged: Judgement, objects: dict[int, LineObject]) -> list[counts.Passing]:
        """Return what moves more than the threshold and is no wall, by what it holds."""
        moved = judged.moved_at
        groups: dict[tuple[str, bool], list[float]] = defaultdict(list)
        for row in np.flatnonzero(~judged.walls & (moved > 0)).tolist():
            what = objects.get(row)
            name = "not looked up" if what is None else what.name
            handed = bool(judged.sharing[row] == verdict.HANDED_OVER)
            groups[name, handed].append(float(moved[row]))
        found = [
            counts.Passing(name=name, handed_over=handed, lines=len(group), transfers=sum(group))
            for (name, handed), group in groups.items()
        ]
        return sorted(
            (group for group in found if group.transfers > self._setting.threshold),
            key=lambda group: (-group.transfers, group.name, group.handed_over),
        )

    def deferred(
        self,
        judged: Judgement,
        objects: dict[int, LineObject],
        locked: Mapping[int, float],
        left: list[Left] | None,
        unfollowed: Iterable[str],
    ) -> Deferred:
        """Return the verdict on this work, if it is what system calls put off.

        ``left``: how much was left for later, None if that is not known; ``unfollowed``: what
        of it can't be known on this kernel.
        """
        walls = self.walls(judged, locked)
        at = self._setting.at is not None
        softirqs = np.isin(self.lines.number, later.softirqs(self._uses))
        return Deferred(
            transfers=float(judged.moved.sum()),
            transfers_at=float(judged.moved_at.sum()) if at else None,
            sums=sums(judged),
            objects=[wall for wall, _ in walls],
            walls=[line for _, lines in walls for line in lines],
            passing=self.passing(judged, objects),
            left=left,
            unfollowed=list(unfollowed),
            later=float(judged.moved_at[~softirqs].sum()),
        )

    def to_touch(self, costs: Costs) -> Judged:
        """Return the judgement between containers, for `partywall.analyse.beside.touch`.

        Lines are looked up that move most, or cost the victim most.
        """
        here = np.isin(costs.number, self.lines.number)
        rows = dict.fromkeys([*_most_of(costs.at(self._kind)[here]), *_most_of(self.total)])
        sides = [(side.containers, side.window) for side in (costs.victim, costs.neighbour)]
        judged = self.judged("between", self._objects(rows), sides)
        return Judged(self._kind, self.lines.number, judged, lambda row: self.name(row).object.name)

    def _visits(self, row: int, others: Array) -> tuple[Array, Array]:
        """Visits of a line that only read, and that write, as `in_holds`; (parties,) each.

        Of deferred work those that come on top, as with transfers.
        """
        counts = self._counts(row)
        read, wrote = in_holds(counts, others)
        under = None if self._before is None else self._before._row(int(self.lines.number[row]))
        if self._before is not None and under is not None:
            before = self._before._counts(under)
            both = [one + more for one, more in zip(counts, before, strict=True)]
            reads, writes = in_holds(both, others)
            own_reads, own_writes = in_holds(before, others)
            wrote = np.maximum(writes - own_writes, 0)
            read = np.maximum(reads + writes - own_reads - own_writes - wrote, 0)
        return read[0], wrote[0]

    def _row(self, number: int) -> int | None:
        """The row of a line, if there is one."""
        row = int(np.searchsorted(self.lines.number, np.uint64(number)))
        there = row < len(self.lines.number) and int(self.lines.number[row]) == number
        return row if there else None

    def _counts(self, row: int) -> list[Array]:
        """What `in_holds` asks of a line; shape (1, parties) each."""
        return [one[[row]] for one in counted(self.lines)]

    def _together(self, address: int, others: Array) -> Together:
        """The visits of a line by the words they use, those in one hold of its lock as one."""
        found, lines = self._patterns(address), self.lines
        row = self._row(address >> LINE_SHIFT)
        if row is None:
            return found
        every = np.maximum(lines.reads[row] + lines.writes[row], 1)
        return found.of_those(np.minimum(sum(self._visits(row, others)) / every, 1))

    def _others(self, scope: Scope, *, at: bool = False) -> Array:
        """As in `transfers.transfers`; ``at``: at the number that the verdict is for."""
        setting = self._setting
        between, within = setting.parties.others()
        if scope == "within":
            return within
        if not at or setting.at is None:
            return between
        return np.asarray(between * setting.parties.at(setting.topology.containers, setting.at))

    def _saves(self, address: int, named: names.Named, others: Array) -> float:
        """What splitting a line saves, per operation: nothing where it can't be split."""
        what, used, before = named.object, named.fields, self._before
        if not _can_split(what):
            return 0.0
        if before is not None:
            used = [*used, *before.namer.line(address, self._setting.operations).fields]
        groups = groups_of((use.offset, use.size, part_of(use.path, what.type)) for use in used)
        here = self._together(address, others)
        if before is None:
            found = split_saves(here, groups, others)
        else:
            found = split_saves_on_top(here, before._together(address, others), groups, others)
        return found / self._setting.operations

    def _containers(self, reads: Array, writes: Array) -> tuple[list[int], list[int]]:
        """Containers that write, and that only read, by their parties' visits."""
        container = self._setting.parties.container
        writers = {int(c) for c in container[writes > 0] if c >= 0}
        readers = {int(c) for c in container[reads > 0] if c >= 0} - writers
        return sorted(writers), sorted(readers)


def sums(judged: Judgement) -> counts.Sums:
    """Return where all transfers are that a verdict is about."""
    handed = judged.sharing == verdict.HANDED_OVER
    return counts.Sums(
        walls=float(judged.moved_at[judged.walls].sum()),
        handed_over=float(judged.moved_at[handed].sum()),
        rest=float(judged.moved_at[~handed & ~judged.walls].sum()),
    )


def worst_first(moved: Array, chosen: Iterable[bool] | Array) -> list[int]:
    """Return rows that are chosen, most transfers first, then by address."""
    rows = np.flatnonzero(np.asarray(chosen))
    order = np.lexsort((rows, -moved[rows]))
    return [int(row) for row in rows[order]]


def _most_of(moved: Array) -> list[int]:
    """Return the rows that make up `_TO_NAME` of all, most first."""
    left = float(moved.sum()) * (1 - _TO_NAME)
    order = worst_first(moved, moved > 0)
    small = len(order)
    while small and (left := left - float(moved[order[small - 1]])) >= 0:
        small -= 1
    return order[:small]


def _can_split(what: LineObject) -> bool:
    """Whether an object's fields can get lines of their own: they are known to be its own."""
    return what.kind not in ("page", "unnamed") and what.state != "freed"
