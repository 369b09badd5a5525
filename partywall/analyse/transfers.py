# SPDX-License-Identifier: GPL-2.0-or-later
"""From visits to transfers.

Which CPU's visit follows which is an accident of the emulator, which runs one
CPU for a long time before the next. So transfers are not counted but estimated
from how often each CPU visits a line, as if visits were spread evenly.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from partywall.analyse.verdict import chance_returns
from partywall.record.hooks import SMALLEST_STACK
from partywall.record.recording import (
    LINE_SHIFT,
    THREAD_CONTAINER,
    Kind,
    Recording,
    kinds_of,
    numbers_of,
)

Array = npt.NDArray[Any]

# The fixmap: registers of devices (each CPU has a local APIC of its own there)
# and passing mappings of pages that have a line elsewhere.
_NO_MEMORY = np.uint64(0xFFFF_FFFF_FF00_0000 >> 6)


def in_holds(counts: Sequence[Array], others: Array) -> tuple[Array, Array]:
    """Return visits that only read, and that write, those in one hold of a line's lock as one.

    ``counts``: visits that only read, and that write; ``again``: visits under the lock in one
    hold with the visit before; ``loose``: those not under it; shape (lines, parties) each. The
    rest as for `transfers`. Nobody who takes the lock comes in between those of one hold, so that
    again's are none of their own, but for as many as others come to the line without the
    lock: each of these may take it from one holder. As many as wrote write still, as far as
    there are so many: where some holds write several times and others only read, more write
    so than do, and none less.
    """
    reads, writes, again, loose = counts
    broken = np.minimum(again, loose @ others.astype(np.float64))
    # A damaged file may claim that more are again than there are.
    whole = np.maximum(reads + writes - again + broken, 0)
    wrote = np.minimum(writes, whole)
    return np.asarray(whole - wrote), np.asarray(wrote)


def transfers(reads: Array, writes: Array, others: Array) -> Array:
    """Transfers of each line, summed over parties; shape (lines,).

    ``reads`` and ``writes``: visits that only read, and that write; shape
    (lines, parties), counts or rates. ``others``: which parties take a line
    away from which; bool, shape (parties, parties), symmetric; or how many times
    over each of them (rows) does so for a party (columns), as `Parties.at` has it.
    A writing visit
    costs a transfer if another party visited since, a reading one if another
    party wrote since; neither can happen more often than the others do it:

        transfers of party i = min(w_i, visits of others) + min(r_i, writes of others)
    """
    # Of floats there is a product of matrices that is fast, of integers there is none;
    # sums of 240 counters of 32 bits each are whole numbers in both.
    read, wrote, by = (part.astype(np.float64) for part in (reads, writes, others))
    moved = np.minimum(wrote, (read + wrote) @ by) + np.minimum(read, wrote @ by)
    whole = others.dtype == bool
    return np.asarray(moved.sum(axis=1).astype(np.result_type(reads, writes) if whole else float))


@dataclass(frozen=True)
class Parties:
    """Who takes lines from whom. Shape (parties,) each.

    A kernel thread in charged work is a party on every CPU it runs on, and in
    no container (-1). Work on one CPU does not take a line from other work on
    it, nor does a thread take one from itself when it moves to another CPU. What a
    container left to do later is that container's, also on another one's CPU.
    """

    cpu: Array
    thread: Array
    container: Array

    @classmethod
    def of(cls, recording: Recording, cpus_per_container: int) -> Parties:
        """The parties of a recording, CPUs being dealt to containers in order."""
        cpu = np.array([party.cpu for party in recording.parties], dtype=np.int64)
        thread = np.array([party.thread for party in recording.parties], dtype=np.uint64)
        whose = (thread & np.uint64(THREAD_CONTAINER)).astype(np.int64) - 1
        return cls(cpu, thread, np.where(thread == 0, cpu // cpus_per_container, whose))

    def others(self) -> tuple[Array, Array]:
        """For `transfers`: others in other containers, others in the same one."""
        apart = self.cpu[:, None] != self.cpu[None, :]
        apart &= (self.thread[:, None] != self.thread[None, :]) | (self.thread[:, None] == 0)
        same = self.container[:, None] == self.container[None, :]
        # A thread in no container is inside none, with whomever.
        same &= self.container[:, None] >= 0
        return apart & ~same, apart & same

    def at(self, ran: int, count: int) -> Array:
        """Return how many times over each party (rows) meets another (columns).

        For ``count`` containers like the ``ran`` that ran, instead of these; shape
        (parties, parties). Of the other containers there are ``count`` - 1 instead of
        ``ran`` - 1. What kernel threads do for all of them is so much more as there
        are containers, for each operation the same: a thread meets who it met.
        """
        own = self.container >= 0
        scale = np.ones((len(own), len(own)))
        if ran > 1:
            scale[np.ix_(own, own)] = (count - 1) / (ran - 1)
            scale[np.ix_(~own, own)] = count / ran
        return scale


@dataclass(frozen=True)
class Visits:
    """Visits of lines: ``number`` is address >> 6, shape (lines,); the rest (lines, parties).

    ``reads``, ``writes``, ``turns``, ``returns``, ``crossings`` and ``slices``, and ``again`` and
    ``loose`` (`in_holds`), are those of the workload's own work; ``late_reads`` and so on
    those of its deferred work; ``other_reads`` and ``other_writes`` those of interrupts,
    softirqs and kernel threads.
    """

    number: Array
    reads: Array
    writes: Array
    turns: Array
    returns: Array
    crossings: Array
    slices: Array
    again: Array
    loose: Array
    late_reads: Array
    late_writes: Array
    late_turns: Array
    late_returns: Array
    late_crossings: Array
    late_slices: Array
    late_again: Array
    late_loose: Array
    other_reads: Array
    other_writes: Array

    def moving(self) -> Visits:
        """Return those of the lines that can move by themselves.

        What the recorder kept for its neighbour's sake, which it then kept as well, says
        nothing of who comes back.
        """
        wrote = (self.writes + self.late_writes + self.other_writes).any(axis=1)
        visited = self.reads + self.late_reads + self.other_reads > 0
        visited |= self.writes + self.late_writes + self.other_writes > 0
        moves = wrote & (visited.sum(axis=1) > 1)
        moves |= ~np.isin(self.number ^ np.uint64(1), self.number)
        return Visits(**{name: counts[moves] for name, counts in _visits(self).items()})


def visits(recording: Recording, stack_size: int = SMALLEST_STACK) -> Visits:
    """Return the visits of all lines of memory that a recording lists.

    ``stack_size``: of tasks in the kernel, bytes.
    """
    keys = [numbers_of(party.lines["key"]) for party in recording.parties]
    numbers = np.unique(np.concatenate(keys)) if keys else np.zeros(0, np.uint64)
    numbers = numbers[numbers < _NO_MEMORY]
    every = ("reads", "writes", "turns", "returns", "crossings", "slices")
    own = _counts(recording, numbers, every, Kind.FOREGROUND)
    late = _counts(recording, numbers, every, Kind.DEFERRED)
    other = _counts(recording, numbers, ("reads", "writes"), Kind.BACKGROUND)
    held = ("again", "loose")
    own |= _counts(recording, numbers, held, Kind.FOREGROUND, table="repeated")
    late |= _counts(recording, numbers, held, Kind.DEFERRED, table="repeated")
    # A thread takes no line from itself when it moves to another CPU, its stack least of all.
    stacks = _on_stacks(recording, numbers, stack_size)
    late, other = (
        {name: np.where(stacks[:, None], 0, counts) for name, counts in kind.items()}
        for kind in (late, other)
    )
    return Visits(
        numbers,
        **own,
        **{f"late_{name}": counts for name, counts in late.items()},
        **{f"other_{name}": counts for name, counts in other.items()},
    )


def _on_stacks(recording: Recording, numbers: Array, size: int) -> Array:
    """Which lines lie on the stack of a kernel thread; bool, shape (lines,)."""
    if not len(recording.stacks):
        return np.zeros(len(numbers), bool)
    bases = np.sort(recording.stacks)
    address = numbers << np.uint64(LINE_SHIFT)
    at = np.searchsorted(bases, address, side="right").astype(np.int64) - 1
    return np.asarray((at >= 0) & (address - bases[at] < np.uint64(size)))


def _counts(
    recording: Recording,
    numbers: Array,
    names: Iterable[str],
    kind: Kind,
    table: Literal["lines", "repeated"] = "lines",
) -> dict[str, Array]:
    """These counts of lines in a party's table; shape (lines, parties) each."""
    shape = (len(numbers), len(recording.parties))
    found = {name: np.zeros(shape, np.int64) for name in names}
    for column, party in enumerate(recording.parties):
        rows = getattr(party, table)
        chosen = rows[kinds_of(rows["key"]) == kind]
        wanted = numbers_of(chosen["key"])
        at = np.searchsorted(numbers, wanted)
        # What a damaged file has of a line that it does not list is of none.
        there = at < len(numbers)
        there[there] = numbers[at[there]] == wanted[there]
        chosen, at = chosen[there], at[there]
        for name, counts in found.items():
            counts[at, column] = chosen[name]
    return found


@dataclass(frozen=True)
class Lines(Visits):
    """Lines with their transfers per operation; shape (lines,) each.

    The background columns hold what comes on top of the workload's own and deferred work
    when interrupts, softirqs and kernel threads are counted in as well. ``between_at``:
    for another number of containers than ran, all of which use the line. ``chance``: how
    many returns are to be expected (`verdict.chance_returns`), shape (lines, parties), and
    ``chance_crossed``, how many of these after another container. ``seen``: how often another
    party than the one before visited the line, and ``seen_crossed``, where another container
    did between, which each CPU of one counts. Who uses a line that all use is an accident of
    the emulator, and it moves more often than that; of memory that is handed over it is all.
    """

    between: Array
    within: Array
    between_at: Array
    seen: Array
    seen_crossed: Array
    chance: Array
    chance_crossed: Array
    background_between: Array
    background_within: Array
    operations: int


def analyse(
    lines: Visits, parties: Parties, operations: int, *, ran: int = 1, at: int | None = None
) -> Lines:
    """Return lines with their transfers per operation.

    ``ran``: how many containers there are; ``at``: how many there are to be for
    ``between_at``, as many as ran if None.
    """
    apart, inside = parties.others()
    scaled = apart * parties.at(ran, ran if at is None else at)
    between, within, between_at = (_moved(lines, others) for others in (apart, inside, scaled))
    charged = [_moved(lines, others, late=True) for others in (apart, inside)]
    every = [_moved(lines, others, late=True, other=True) for others in (apart, inside)]
    background = [np.maximum(all_ - own, 0) for all_, own in zip(every, charged, strict=True)]
    return Lines(
        **_visits(lines),
        between=between / operations,
        within=within / operations,
        between_at=between_at / operations,
        seen=_seen(lines.turns, lines.returns) / operations,
        seen_crossed=_seen(lines.turns, lines.crossings) / operations,
        chance=chance_returns(lines.slices, None),
        chance_crossed=chance_returns(lines.slices, parties.container),
        background_between=background[0] / operations,
        background_within=background[1] / operations,
        operations=operations,
    )


def late(
    lines: Visits, parties: Parties, operations: int, *, ran: int = 1, at: int | None = None
) -> Lines:
    """Return the lines that deferred work visits, as that uses them.

    ``reads`` and ``writes`` are those of deferred work; transfers are those that it adds to
    the ones of the workload's own work, which uses some of the lines as well. As one may
    come to a line in a system call and another in a softirq, ``turns``, ``returns``,
    ``crossings`` and ``slices`` are those of both, though a return after the other kind is
    not among them, and a slice with both counts twice: the recorder tells them apart, and so
    are the returns that are to be expected reckoned. The rest as in `analyse`. Of the
    background there is nothing.
    """
    used = (lines.late_reads + lines.late_writes > 0).any(axis=1)
    counts = {name: part[used] for name, part in _visits(lines).items()}
    own = Visits(**counts)
    put_off = {name: counts[f"late_{name}"] for name in ("reads", "writes", "again", "loose")}
    both = ("turns", "returns", "crossings", "slices")
    put_off |= {name: counts[name] + counts[f"late_{name}"] for name in both}
    apart, inside = parties.others()
    scaled = apart * parties.at(ran, ran if at is None else at)
    between, within, between_at = (
        np.maximum(_moved(own, others, late=True) - _moved(own, others), 0)
        for others in (apart, inside, scaled)
    )
    nothing = np.zeros(len(own.number))

    def chance(groups: Array | None) -> Array:
        return chance_returns(own.slices, groups) + chance_returns(own.late_slices, groups)

    return Lines(
        **(counts | put_off),
        between=between / operations,
        within=within / operations,
        between_at=between_at / operations,
        seen=_seen(put_off["turns"], put_off["returns"]) / operations,
        seen_crossed=_seen(put_off["turns"], put_off["crossings"]) / operations,
        chance=chance(None),
        chance_crossed=chance(parties.container),
        background_between=nothing,
        background_within=nothing,
        operations=operations,
    )


def counted(lines: Visits, *, late: bool = False) -> list[Array]:
    """Return what `in_holds` asks of lines, ``late``: deferred work's added to it."""
    own = [lines.reads, lines.writes, lines.again, lines.loose]
    if not late:
        return own
    more = [lines.late_reads, lines.late_writes, lines.late_again, lines.late_loose]
    return [one + other for one, other in zip(own, more, strict=True)]


def _moved(lines: Visits, others: Array, *, late: bool = False, other: bool = False) -> Array:
    """Transfers by the workload's own visits, with ``late`` and ``other`` ones if asked for."""
    counts = counted(lines, late=late)
    if other:
        reads, writes, again, loose = counts
        # Of interrupts and kernel threads nobody knows the locks.
        loose = loose + lines.other_reads + lines.other_writes
        counts = [reads + lines.other_reads, writes + lines.other_writes, again, loose]
    return transfers(*in_holds(counts, others), others)


def _visits(lines: Visits) -> dict[str, Array]:
    """What `Visits` has of lines, by name."""
    return {each.name: getattr(lines, each.name) for each in fields(Visits)}


def _seen(turns: Array, returns: Array) -> Array:
    """How often another party than the one before was seen to visit; shape (lines,)."""
    # The first visit of each has one before, too, but for the very first.
    return np.asarray(np.maximum((returns + (turns > 0)).sum(axis=1) - 1, 0))
