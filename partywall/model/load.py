# SPDX-License-Identifier: GPL-2.0-or-later
"""What an operation asks of lines and locks, and what so many containers then do.

See `partywall.model.queues`.
"""

from __future__ import annotations

from dataclasses import dataclass

from partywall.model.network import solve


@dataclass(frozen=True)
class Queue:
    """What one line, or one lock, asks of an operation.

    ``writes``: transfers that take the line away from others, but for those under a lock.
    ``reads``: transfers of visits that only read, among ``measured`` other CPUs;
    ``reads_per_write``: such visits for each that writes, 0 if not known. ``own``:
    instructions that run under the lock and under none taken later, so that the sum over all
    locks counts none twice. ``held``: all that run while it is held; ``asleep``: nanoseconds
    for which its holder sleeps, which are no instructions; ``last``: of these, those that the
    sum over all locks counts once, as it does ``own``; ``moved`` and ``last_moved``: transfers
    that its holder makes meanwhile, likewise; ``wanted``: transfers on top if somebody waits.
    """

    writes: float
    own: float = 0.0
    held: float = 0.0
    asleep: float = 0.0
    last: float = 0.0
    moved: float = 0.0
    last_moved: float = 0.0
    wanted: float = 0.0
    whole: float = 0.0
    """Of a line, ``writes`` with those under locks: it serves one of these at a time, too."""
    reads: float = 0.0
    reads_per_write: float = 0.0
    measured: int = 1
    lines: int = 1
    """Lines like each other that all of it is spread over."""
    few_of: int = 0
    """Containers that were measured, if few of them share it: among more there are more such
    lines, and not more sharers of one. 0 if all share it."""

    def lines_among(self, containers: int) -> float:
        """Return over how many lines it is spread among so many containers."""
        return self.lines * max(1.0, containers / self.few_of) if self.few_of else self.lines

    def reads_among(self, others: int) -> float:
        """Return transfers per operation of visits that only read, among so many other CPUs.

        A visit that reads has to fetch the line if another CPU wrote since. The more
        others there are, the more of the reads do, until all of them do.
        """
        if not others:
            return 0.0
        if self.few_of:
            others = min(others, self.measured)
        if not self.reads_per_write:
            return self.reads
        most = self.reads_per_write
        return self.reads * min(most, others) / min(most, self.measured)


@dataclass(frozen=True)
class Work:
    """What an operation does: instructions, and the lines that are queued for."""

    instructions: float
    queues: tuple[Queue, ...]
    alone: float = 0.0
    """Transfers per op on lines that nobody queues for."""
    waits: float = 0.0
    """Nanoseconds per op asleep that nobody else waits for."""
    processes: int = 1
    """Of each container, each on a CPU."""


@dataclass(frozen=True)
class Load:
    """What ``count`` containers do and wait for. Shares are of each one's time."""

    each: float
    """Operations per ns of each."""
    stalled: float
    at_lines: tuple[float, ...]
    """Share that it waits for each line or its locks."""
    alone: float = 0.0
    """ns per operation of one container alone."""


def load(work: Work, count: int, cores: int, instruction: float, transfer: float) -> Load:
    """What ``count`` containers do on ``cores``, which more than that share.

    ``instruction`` and ``transfer`` in ns. Those with several processes count as
    one container for each; ``each`` is what one process does.
    """
    everyone = count * work.processes
    running = min(everyone, cores)
    # In no particular order, one visit in so many follows its own container's last:
    # the line is still there.
    there = min(count, max(1, cores // work.processes))
    moved = transfer * (1 - 1 / there)
    compute = work.instructions * instruction
    outside = compute - sum(queue.own for queue in work.queues) * instruction
    others = (there - 1) * work.processes
    # Who comes after one is of another container as often as that.
    apart = others / max(1, others + work.processes - 1)
    spread = [queue.lines_among(there) for queue in work.queues]
    found = solve(
        [
            (queue.writes + queue.last_moved) * moved + _served(queue, instruction)
            for queue in work.queues
        ],
        max(0.0, outside) + work.waits + work.alone * moved,
        running,
        [queue.reads_among(others) * moved for queue in work.queues],
        spread,
        [_wanted(queue, transfer, moved) * apart for queue in work.queues],
    )
    waits = [
        max(0.0, spent - _served(queue, instruction))
        for spent, queue in zip(found.at_each, work.queues, strict=True)
    ]
    each = found.throughput / running
    # A lock that is held while others are taken is busy for them as well.
    held = [queue.held * instruction + queue.asleep for queue in work.queues]
    busy = [
        ((max(queue.writes, queue.whole) + queue.moved) * moved + one) / lines
        for queue, one, lines in zip(work.queues, held, spread, strict=True)
    ]
    # What one alone sleeps comes on top of what he computes; and a lock that he has asleep for
    # longer, for others that have another one, bounds him by itself.
    slept = work.waits + sum(queue.last for queue in work.queues)
    alone = max([compute + slept, *held])
    worst = max(range(len(busy)), key=busy.__getitem__, default=None)
    if worst is not None and each * running * busy[worst] > 1:
        waits[worst] += running * busy[worst] - 1 / each
        each = 1 / (running * busy[worst])
    return Load(
        each=each * running / everyone,
        stalled=max(0.0, 1 - each * alone),
        at_lines=tuple(wait * each for wait in waits),
        alone=alone,
    )


def _served(queue: Queue, instruction: float) -> float:
    """Nanoseconds of an operation under a lock, and under none that was taken later."""
    return queue.own * instruction + queue.last


def _wanted(queue: Queue, transfer: float, moved: float) -> float:
    """Nanoseconds on top for a lock that somebody waits for: nobody gets it twice in a row."""
    return queue.wanted * transfer + queue.last_moved * (transfer - moved)


def line_queue(
    transfers: float,
    writing: float,
    reading: float,
    others: int,
    locked: float = 0.0,
    *,
    lines: int = 1,
    few_of: int = 0,
) -> Queue:
    """Return what is asked of a line with these transfers and visits per operation.

    ``writing``: visits that write; ``reading``: those that only read; ``others``: how
    many CPUs each shared the line with when it was measured; ``locked``: transfers that are
    made under a lock, for which nobody queues but at that. ``lines``, ``few_of``: of `Queue`.
    """
    free = max(0.0, 1 - locked / transfers) if transfers else 1.0
    whole = min(transfers, writing)
    transfers, writing, reading = transfers * free, writing * free, reading * free
    # What visits that write leave is that of visits that only read.
    reads = max(0.0, transfers - writing)
    return Queue(
        writes=transfers - reads,
        whole=whole if locked else 0.0,
        reads=reads,
        # A line that nobody writes does not move, but a file may claim it.
        reads_per_write=reading / writing if writing else 0.0,
        measured=max(1, others),
        lines=lines,
        few_of=few_of,
    )
