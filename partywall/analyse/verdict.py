# SPDX-License-Identifier: GPL-2.0-or-later
"""What is a wall: who shares a line, and whether what they move is too much.

Lines are judged by the objects that they belong to, at the number of containers that
the user asks for; what is known of them was seen with those that ran.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

THRESHOLD = 0.01
"""Transfers per operation above which an object may be a wall, unless told."""

AT = 64
"""Number of containers that the verdict is for, unless told."""

HANDED_OVER: Final = 0
SOME: Final = 1
ALL: Final = 2

_COMES_BACK = 4
FEW_SLICES = 3
"""With fewer, how often a party came back says nothing."""
# Of the slices that chance has visits in, the share in which who visits all through has them.
_THROUGH = 0.75
ENOUGH_SLICES = 8
"""So many of others tell how often somebody can have met them."""
ROUNDING = 1e-6
"""Less than any line can lack of one move for each: rates are quotients of whole numbers."""


def least_turns(window: int | Array) -> Array:
    """Return in how many turns a party has to visit a line to be one that comes back.

    ``window``: operations of each process in it; shape (parties,) if not all do as many. A
    turn is a stretch of its own work: what it makes, uses and drops it visits in two or three,
    if these are short.
    """
    return np.asarray(np.clip(window, 2, _COMES_BACK))


def limit(threshold: float, window: int) -> float:
    """Return the transfers per operation from which on each wall can be told.

    In a short window even a line that is visited as seldom as `least_turns` allows
    has more than ``threshold``.
    """
    return max(threshold, float(least_turns(window)) / window)


def slices(seen: Array) -> Array:
    """Return in how many slices the emulator ran each party, as lines tell; shape (parties,).

    ``seen``: in how many of them each had turns at each line, shape (lines, parties). At
    least one: those of the line that it has turns at in most.
    """
    return np.asarray(seen.max(axis=0, initial=1))


def by_others(counts: Array, groups: Array | None) -> Array:
    """Return the counts of all parties but those of one's own group; shape (lines, parties).

    ``counts``: the same shape; ``groups``: of each party, shape (parties,), < 0 for one
    that is by itself; None if all are.
    """
    whole = counts.sum(axis=1, keepdims=True)
    found = np.asarray(whole - counts)
    if groups is not None:
        for number in np.unique(groups[groups >= 0]):
            own = groups == number
            found[:, own] = whole - counts[:, own].sum(axis=1, keepdims=True)
    return found


def expected_returns(
    turns: Array, slices: Array, groups: Array | None = None, runs: Array | None = None
) -> Array:
    """Return how often each party comes back to each line, as chance has it.

    Visits to what is shared lie in as many of the ``slices`` of a party as chance has
    it, and others visit between, if they do so as often: in no more slices than they have,
    where these are enough to tell. ``groups``: as in `by_others`; ``runs``: in how many slices
    each party may visit a line at most, if not ``slices``: of some it is not known.
    """
    fewer = np.minimum(turns, by_others(turns, groups))
    own = slices * (1 - (1 - 1 / slices) ** fewer) - 1
    most = by_others(np.minimum(turns, slices if runs is None else runs), groups)
    bounded = np.where(most >= ENOUGH_SLICES, np.minimum(own, most), own)
    return np.asarray(np.maximum(bounded, 0.0))


def chance_returns(slices: Array, groups: Array | None = None) -> Array:
    """Return how often each party comes back to each line, if slices come as chance has it.

    ``slices``: of the emulator's in which a party had turns at a line; shape (lines, parties),
    as the result; ``groups``: as in `by_others`. Of n slices of one's own and m of others' in
    any order, n (m + 1) / (n + m) are the first of a run of one's own (Wald and Wolfowitz),
    and all but the first run begin with a return. Those of one's own group lie anywhere
    between and count for nothing. In fewer than `FEW_SLICES` hardly anybody can come back.
    """
    others = by_others(slices, groups)
    runs = slices * (others + 1) / np.maximum(slices + others, 1)
    return np.where(slices < FEW_SLICES, 0.0, np.maximum(runs - 1, 0.0))


def all_through(turns: Array, seen: Array, slices: Array) -> Array:
    """Return which lines parties visit in all the time they run; bool, shape (lines, parties).

    ``turns``: the same shape; ``seen``: in how many slices of the emulator's they have these;
    ``slices``: in how many they ran, shape (parties,). Visits to what is shared lie in as many of
    them as chance has it; what is one's for a while and comes round is visited in few. In fewer
    than `FEW_SLICES` that is the same.
    """
    fair = slices * (1 - (1 - 1 / slices) ** turns)
    return np.asarray((slices < FEW_SLICES) | (seen >= _THROUGH * fair))


def comes_back(turns: Array, returns: Array, expected: Array, window: int | Array) -> Array:
    """Return which parties come back to which lines; bool, shape (lines, parties).

    ``window``: as in `least_turns`; ``expected``: from `expected_returns`. What was handed
    over and came round again later, as the slab's objects do, is visited in one slice over and
    over and not in the next: a party that came back half as often as chance has it, at least,
    comes back.
    """
    return np.asarray((turns >= least_turns(window)) & (returns >= expected / 2))


def evenly(turns: Array, returned: Array, window: int, least: int = 2) -> Array:
    """Return which sharers use a line as much as any; bool, shape (lines, sharers).

    Only of lines that half of them so use, and ``least`` of them. ``turns``: of each sharer;
    ``returned``: bool, whether it came back at least once, or the emulator ran it in too few
    slices to tell.
    Containers that do the same use what they share alike, in one phase of an operation
    or in all of it; what comes round in the slab is one's for many operations.
    """
    much = np.maximum(turns.max(axis=1, initial=0) / 2, least_turns(window))
    alike = returned & (turns >= much[:, None])
    enough = alike.sum(axis=1) >= max(least, turns.shape[1] / 2)
    return np.asarray(alike & enough[:, None])


def by_sharer(counts: Array, groups: Array, sharers: int) -> Array:
    """Return the counts of each sharer, its parties' added up; shape (lines, sharers).

    ``counts``: those of each party, shape (lines, parties); ``groups``: the sharer that
    each party belongs to, shape (parties,), -1 for none.
    """
    found = np.zeros((len(counts), sharers), np.result_type(counts, np.int64))
    for number in range(sharers):
        found[:, number] = counts[:, groups == number].sum(axis=1)
    return found


def sharing(back: Array) -> Array:
    """Return who shares each line: `ALL`, `SOME` or none but by `HANDED_OVER`.

    ``back``: which sharers come back to it; bool, shape (lines, sharers). All of them
    share what half of them come back to, the rest may come to it rarely; some of them
    what two do. Memory that one let go of and another took up, or that a kernel thread
    frees, moves as well, but nobody waits for it.
    """
    many = back.sum(axis=1)
    return np.where(many < 2, HANDED_OVER, np.where(many >= back.shape[1] / 2, ALL, SOME))


def often(moved: Array, *, operations: int, sharers: int, threshold: float) -> Array:
    """Return which lines move more often than chance has it; bool, shape (lines,).

    ``moved``: transfers per operation, shape (lines,); ``operations``: in all
    windows together; ``sharers``: how many containers share the kernel, or CPUs a
    container; ``threshold``: transfers per operation. In a short window a line that
    moved once passes the threshold, so it has to move once for each sharer besides.
    """
    over = np.asarray(moved > threshold)
    return np.asarray(over & (moved * operations >= sharers - ROUNDING))


def walls(
    objects: Array,
    shared: Array,
    moved: Array,
    moved_at: Array,
    *,
    operations: int,
    sharers: int,
    threshold: float,
) -> Array:
    """Return which lines are walls, or part of one; bool, shape (lines,).

    ``objects``: number of the object that each line is of, from 0; ``shared``: bool,
    whether the line is shared by all or some; ``moved``: its transfers per operation,
    ``moved_at``: the same at the number of containers that the verdict is for. Shape
    (lines,) each; the others as in `often`.

    An object is a wall if its shared lines together move more than ``threshold`` at
    that number, and moved once for each sharer in what was seen.
    """
    if not len(objects):
        return np.zeros(0, bool)
    total = np.bincount(objects, weights=np.where(shared, moved, 0.0))
    total_at = np.bincount(objects, weights=np.where(shared, moved_at, 0.0))
    over = often(total, operations=operations, sharers=sharers, threshold=0.0)
    over &= total_at > threshold
    return np.asarray(over[objects] & shared & (moved_at > 0))
