# SPDX-License-Identifier: GPL-2.0-or-later
"""What a result says of a known wall, and what that is worth.

Recall: of the walls that a kernel is known to have, how many are named there, whatever
the mended kernel shows. Precision is of the table's objects alone: an object that the
mended kernel still shows by more than the table allows is named wrongly, and any wall of
a control is. What else a report names on these kernels nobody knows to be so or not.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cases import LESS, Case, Control

from partywall.results.lines import Line
from partywall.results.result import WorkloadResult


@dataclass(frozen=True)
class Shown:
    """What a report shows: ``names`` of an object, ``fields`` of a line of it, transfers per op."""

    names: tuple[str, ...]
    fields: tuple[str, ...]
    transfers: float


def _names(name: str, kind: str | None) -> tuple[str, ...]:
    # "kmalloc-512: struct aa_profile" answers to each part and to the whole.
    return tuple(dict.fromkeys(filter(None, (name, kind, *name.split(": ")))))


def _shown(line: Line) -> Shown:
    fields = tuple(use.path for use in line.fields)
    return Shown(_names(line.object.name, line.object.type), fields, line.transfers)


# These two are all that knows where a result keeps its walls.


def objects(result: WorkloadResult) -> list[Shown]:
    """Return the walls of a result: objects, with all their lines together."""
    return [Shown(_names(one.name, one.type), (), one.transfers) for one in result.found]


def lines(result: WorkloadResult) -> list[Shown]:
    """Return the lines of its walls that a result keeps: of each object the worst."""
    return [_shown(line) for line in result.walls]


def hidden(result: WorkloadResult) -> list[Shown]:
    """Return the lines that a result lists apart, as no walls of the workload."""
    return [_shown(line) for line in (*result.background, *result.inside)]


def _any(texts: Iterable[str], patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(text, one) for text in texts for one in patterns)


def transfers(shown: Iterable[Shown], case: Case) -> float:
    """Return the transfers per operation of a case's object, on lines that hold its field."""
    return sum(
        one.transfers
        for one in shown
        if _any(one.names, case.objects) and ("*" in case.fields or _any(one.fields, case.fields))
    )


def figure(result: WorkloadResult, case: Case) -> float:
    """Return the case's figure in a result, per operation; 0 if its object is not named."""
    if case.measure == "transfers":
        return transfers((objects if "*" in case.fields else lines)(result), case)
    found = [
        lock
        for lock in result.locks
        if _any((lock.object, *lock.object.split(": ")), case.objects)
        and (_any((lock.field,), case.fields) or "*" in case.fields)
    ]
    if case.measure == "instructions":
        return sum(lock.instructions for lock in found)
    return sum(lock.exclusive for lock in found)


@dataclass(frozen=True)
class Score:
    """A case's figures before and after, and the releases that were measured.

    ``apart``: transfers that were listed apart before.
    """

    case: Case
    before: float
    after: float
    apart: float = 0.0
    releases: tuple[str, str] = ("", "")

    @property
    def found(self) -> bool:
        """Whether the kernel that has the wall shows it; both, if nobody mended it."""
        return self.before > 0 and (self.after > 0 or self.case.after_it != "there")

    @property
    def wrong(self) -> bool:
        """Whether the mended kernel shows more of it than the table allows."""
        if self.case.after_it == "there":
            return False
        return self.after > (LESS * self.before if self.case.after_it == "less" else 0)

    @property
    def verdict(self) -> str:
        """In a word or two."""
        if not self.found:
            return "listed apart" if self.apart else "missed"
        return "still there" if self.wrong else "right"


def score(
    case: Case,
    before: WorkloadResult,
    after: WorkloadResult,
    releases: tuple[str, str] = ("", ""),
) -> Score:
    """Return what the results of the two kernels are worth."""
    apart = transfers(hidden(before), case)
    return Score(case, figure(before, case), figure(after, case), apart, releases)


@dataclass(frozen=True)
class Checked:
    """A control on one kernel. ``walls``: what it was not to have; empty if it is isolated.

    What it leaves for later may run after the windows, and not be judged.
    """

    control: Control
    kernel: str
    walls: tuple[str, ...]


def check(control: Control, kernel: str, result: WorkloadResult) -> Checked:
    """Return what a control showed: its walls by name, or that it is not isolated without one."""
    names = tuple(dict.fromkeys(one.name for one in result.every_wall))
    known = not (result.unseen or result.unfollowed) and result.left is not None
    quiet = result.isolated_itself and known
    return Checked(control, kernel, names or (() if quiet else (result.verdict,)))


@dataclass(frozen=True)
class Total:
    """Counts of a whole table."""

    run: int
    found: int
    wrong: int

    @property
    def recall(self) -> float:
        """Known walls that are named where they are, of all that were looked for; 0..1."""
        return self.found / self.run if self.run else 0.0

    @property
    def precision(self) -> float:
        """Of the table's objects: what is named rightly, of all that is named; 0..1."""
        named = self.found + self.wrong
        return self.found / named if named else 0.0


def total(scores: Sequence[Score], checked: Sequence[Checked]) -> Total:
    """Return the counts: a wall that a mended kernel or a control shows is one wrong each."""
    wrong = sum(one.wrong for one in scores) + sum(len(one.walls) for one in checked)
    return Total(len(scores), sum(one.found for one in scores), wrong)
