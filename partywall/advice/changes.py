# SPDX-License-Identifier: GPL-2.0-or-later
"""What differs between the kernels of a map, operation by operation."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from partywall.advice.map import Cell, Map, Operation, has_figure

LEAST, SHARE = 0.5, 0.1
"""Transfers, and the share of them, that who meets whom makes of an operation by itself."""


@dataclass(frozen=True)
class Change:
    """An operation that costs something else on one kernel than on the last one with a figure.

    ``before``, ``after``: numbers of the two kernels in the map. ``was``, ``now``: transfers
    per operation. ``gone``, ``come``: objects that are a wall of it on one of them alone, with
    more than `LEAST` transfers.
    """

    title: str
    before: int
    after: int
    was: float
    now: float
    gone: tuple[str, ...] = ()
    come: tuple[str, ...] = ()

    @property
    def size(self) -> float:
        """By how much, as orders of magnitude above one transfer."""
        return abs(math.log1p(self.now) - math.log1p(self.was))

    @property
    def moves(self) -> bool:
        """Whether the sums differ by more than chance."""
        return abs(self.now - self.was) > max(LEAST, SHARE * self.was)

    @property
    def objects(self) -> str:
        """Objects that went and came, in words; empty if none did."""
        said = (("gone", self.gone), ("new", self.come))
        return "; ".join(f"{what}: {', '.join(names)}" for what, names in said if names)


@dataclass(frozen=True)
class Pair:
    """Two kernels that are held against each other: neighbours, or those beside a gap.

    ``both``: operations with a figure on both, and on none between them. ``less``, ``more``:
    of these move so by more than chance. ``turned``: of so many a wall came or went.
    """

    before: int
    after: int
    both: int
    less: int
    more: int
    turned: int

    @property
    def between(self) -> str:
        """What there is to say of kernels between the two, in words; empty if there are none."""
        return " and none between" if self.after - self.before > 1 else ""


def pairs(found: Map, every: Iterable[Change]) -> Iterator[Pair]:
    """Yield the kernels of a map that are held against each other, by its `changes`."""
    by_pair: dict[tuple[int, int], list[Change]] = {
        pair: [] for pair in pairwise(range(len(found.kernels)))
    }
    for one in sorted(every, key=lambda one: (one.before, one.after)):
        by_pair.setdefault((one.before, one.after), []).append(one)
    for (before, after), those in by_pair.items():
        moves = [one for one in those if one.moves]
        less = sum(one.now < one.was for one in moves)
        both = sum(
            has_figure(one.cells[before])
            and has_figure(one.cells[after])
            and not any(map(has_figure, one.cells[before + 1 : after]))
            for one in found.operations
        )
        turned = sum(bool(one.objects) for one in those)
        yield Pair(before, after, both, less, len(moves) - less, turned)


def changes(found: Map) -> list[Change]:
    """Return what differs from kernel to kernel, the largest differences first.

    What differs by less than `LEAST` or `SHARE` is left out, unless a wall went or came.
    """
    every = [change for one in found.operations for change in _of(one)]
    told = [one for one in every if one.moves or one.gone or one.come]
    return sorted(told, key=lambda one: (not one.moves, -one.size, one.title, one.before))


def _of(one: Operation) -> list[Change]:
    there = [(n, cell) for n, cell in enumerate(one.cells) if cell is not None and has_figure(cell)]
    return [
        Change(
            one.title,
            before,
            after,
            was.transfers,
            now.transfers,
            _alone(was, now),
            _alone(now, was),
        )
        for (before, was), (after, now) in pairwise(there)
    ]


def _alone(one: Cell, other: Cell) -> tuple[str, ...]:
    """Objects that are walls of the one, and of the other not."""
    known = {share.object for share in other.walls}
    return tuple(
        share.object for share in one.walls if share.transfers > LEAST and share.object not in known
    )
