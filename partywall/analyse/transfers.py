# SPDX-License-Identifier: GPL-2.0-or-later
"""From visits to transfers.

Which CPU's visit follows which is an accident of the emulator, which runs one
CPU for a long time before the next. So transfers are not counted but estimated
from how often each CPU visits a line, as if visits were spread evenly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from partywall.record.recording import Recording

Array = npt.NDArray[Any]

# The fixmap: registers of devices (each CPU has a local APIC of its own there)
# and passing mappings of pages that have a line elsewhere.
_NO_MEMORY = np.uint64(0xFFFF_FFFF_FF00_0000 >> 6)


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
    it, nor does a thread take one from itself when it moves to another CPU.
    """

    cpu: Array
    thread: Array
    container: Array

    @classmethod
    def of(cls, recording: Recording, cpus_per_container: int) -> Parties:
        """The parties of a recording, CPUs being dealt to containers in order."""
        cpu = np.array([party.cpu for party in recording.parties], dtype=np.int64)
        thread = np.array([party.thread for party in recording.parties], dtype=np.uint64)
        return cls(cpu, thread, np.where(thread == 0, cpu // cpus_per_container, -1))

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
class Lines:
    """Every line that can move, with its transfers per operation.

    ``number`` is address >> 6; arrays have shape (lines,), those of visits
    (lines, parties). Foreground is the workload's own work. The background
    columns hold what is left when interrupts, softirqs and kernel threads are
    counted in as well. ``between_at``: for another number of containers than ran,
    all of which use the line. ``seen``: how often another party than the one before
    visited the line. Who uses a line that all use is an accident of the emulator,
    and it moves more often than that; of memory that is handed over it is all.
    """

    number: Array
    between: Array
    within: Array
    between_at: Array
    seen: Array
    background_between: Array
    background_within: Array
    reads: Array
    writes: Array
    turns: Array
    returns: Array
    operations: int


def _visits(recording: Recording, numbers: Array, foreground: bool) -> dict[str, Array]:
    """Reads, writes, turns and returns of lines; shape (lines, parties) each."""
    shape = (len(numbers), len(recording.parties))
    found = {name: np.zeros(shape, np.int64) for name in ("reads", "writes", "turns", "returns")}
    for column, party in enumerate(recording.parties):
        chosen = party.lines[(party.lines["key"] & 1).astype(bool) == foreground]
        chosen = chosen[(chosen["key"] >> np.uint64(1)) < _NO_MEMORY]
        rows = np.searchsorted(numbers, chosen["key"] >> np.uint64(1))
        for name, counts in found.items():
            counts[rows, column] = chosen[name]
    return found


def analyse(
    recording: Recording,
    parties: Parties,
    operations: int,
    *,
    ran: int = 1,
    at: int | None = None,
    neighbours: bool = False,
) -> Lines:
    """Transfers of every line that can move, per operation.

    ``ran``: how many containers there are; ``at``: how many there are to be for
    ``between_at``, as many as ran if None; ``neighbours``: lines as well that can't move
    by themselves, but were they one with the other of their pair.
    """
    keys = [party.lines["key"] >> np.uint64(1) for party in recording.parties]
    numbers = np.unique(np.concatenate(keys)) if keys else np.zeros(0, np.uint64)
    numbers = numbers[numbers < _NO_MEMORY]
    own = _visits(recording, numbers, foreground=True)
    other = _visits(recording, numbers, foreground=False)
    if not neighbours:
        # What the recorder kept for its neighbour's sake, which it then kept as well, says
        # nothing of who comes back.
        wrote = (own["writes"] + other["writes"]).any(axis=1)
        visited = own["reads"] + own["writes"] + other["reads"] + other["writes"] > 0
        moves = wrote & (visited.sum(axis=1) > 1)
        moves |= ~np.isin(numbers ^ np.uint64(1), numbers)
        numbers = numbers[moves]
        own, other = ({n: a[moves] for n, a in side.items()} for side in (own, other))
    reads, writes = own["reads"], own["writes"]
    apart, inside = parties.others()
    between, within = (transfers(reads, writes, others) for others in (apart, inside))
    between_at = transfers(reads, writes, apart * parties.at(ran, ran if at is None else at))
    all_between, all_within = (
        transfers(reads + other["reads"], writes + other["writes"], others)
        for others in (apart, inside)
    )
    return Lines(
        number=numbers,
        between=between / operations,
        within=within / operations,
        between_at=between_at / operations,
        # The first visit of each has one before, too, but for the very first.
        seen=np.maximum((own["returns"] + (own["turns"] > 0)).sum(axis=1) - 1, 0) / operations,
        background_between=np.maximum(all_between - between, 0) / operations,
        background_within=np.maximum(all_within - within, 0) / operations,
        **own,
        operations=operations,
    )
