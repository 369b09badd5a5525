# SPDX-License-Identifier: GPL-2.0-or-later
"""Truth by construction: a kernel module's memory, of which is known who shares it.

docs/truth.md describes the cases; truth/module/truth.c makes them. Run as a program it
prints the table that stands there.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import kmodule

from partywall import kernels
from partywall.analyse import verdict
from partywall.core.progress import Progress, Quiet
from partywall.core.topology import Topology
from partywall.kernels import Kernel, Request
from partywall.measure import run
from partywall.results.lines import Line
from partywall.results.lines import Wall as Found
from partywall.results.result import WorkloadResult
from partywall.workloads import Workload

SOURCE = Path(__file__).resolve().parent / "truth"
COUNTS = (2, 8, 32)

# A window goes through all buckets of both tables in whole rounds, and operations of
# all containers together divide by 1,024, as seldom as one line is written.
WORKLOAD = Workload(
    name="truth",
    source=SOURCE,
    summary="cases whose sharing is known",
    operation="all cases in turn",
    warmup=64,
    window=512,
    modules=("truth",),
)

WITHOUT_TURNS = WORKLOAD.model_copy(update={"variant": "without-turns"})
"""The same in long slices: a container's window may be over before the next one's begins."""

IN_PAIRS = WORKLOAD.model_copy(update={"variant": "in-pairs"})
"""For containers of two CPUs, with memory that one container has and then the next."""

HELD = WORKLOAD.model_copy(update={"variant": "held", "warmup": 2, "window": 16})
"""Nothing but locks that are held for a known time, most of it asleep."""

BUSILY = WORKLOAD.model_copy(update={"variant": "held-busily", "warmup": 1, "window": 1})
"""The same, once, beside others that run and others that want it."""

MOVED = WORKLOAD.model_copy(update={"variant": "held-moved", "warmup": 1, "window": 4})
"""The same by who goes from one CPU to another with it, for containers of two."""

OTHERWISE = WORKLOAD.model_copy(update={"variant": "held-otherwise", "warmup": 2, "window": 8})
"""Semaphores, and locks that are one bit; beside them what looks like such a lock and is none."""

SLEEPING = WORKLOAD.model_copy(update={"variant": "held-waiting", "warmup": 2, "window": 8})
"""Locks of which the holder waits for a grace period, a worker, a device or all CPUs, and one that
sleepers share."""

MS = 1_000_000
"""Nanoseconds."""

HELD_FOR = {
    "truth_held_mutex": 5 * MS,
    "truth_held_rwsem": 20 * MS,
    "truth_held_percpu": 20 * MS,
    # So many instructions of two nanoseconds, and those that take and release it.
    "truth_held_awake": 2 * 50_000,
    # A timer's, and a million instructions.
    "truth_held_queue": 3 * MS,
    "truth_held_beside": 5 * MS,
    "truth_held_moved": 12 * MS,
    "truth_held_semaphore": 5 * MS,
    "truth_held_bit": 20 * MS,
    "truth_held_spun": 2 * 50_000,
    "truth_held_stored": 2 * 50_000,
    "truth_held_bucket": 2 * 50_000,
    "truth_held_written": 2 * 50_000,
    "truth_held_flushed": 5 * MS,
    "truth_held_shared": 20 * MS,
    # Five ticks from the next one on.
    "truth_held_device": 22 * MS,
}
"""By lock, for how long one operation holds it."""

# Debian's kernel tests its ciphers in threads that run on after boot: for the first
# window's whole length on two CPUs.
PARAMETERS = "cryptomgr.notests=1"

# A tick between two accesses parts a visit: once in some hundred operations.
TOLERANCE = 0.01

# A CPU that waits is left and runs again many times, and now and then a round counts: the
# more CPUs, the more. Where all rounds count there are dozens.
WAITING = {"truth_sequence": 0.25}


Moved = dict[int, dict[str, float]]
"""Transfers per operation of objects, by number of containers."""


@dataclass(frozen=True)
class Wall:
    """An object that all or some containers share, which `walls` makes of a case.

    ``transfers``: per operation, of all its ``lines`` that move; ``at``: the same with
    as many containers as the verdict is for, None if these can't be known by fewer;
    ``sharers``: containers that use it.
    """

    name: str
    transfers: float
    at: float | None
    lines: int
    sharers: list[int]

    @property
    def sharing(self) -> str:
        """Who shares one line of it: half of the containers at least, or fewer."""
        return "some" if self.name in ("truth_pairs", "truth_threes") else "all"


def shared(reads: float, writes: float, containers: int) -> float:
    """Transfers of a line that all containers visit alike, reading only and writing."""
    others = containers - 1
    return min(writes, others * (reads + writes)) + min(reads, others * writes)


# Object: visits of an operation that read and write, and lines that have them alike.
_ALIKE = {
    "truth_w1": (0, 1, 1),
    "truth_r1_w1": (1, 1, 1),
    "truth_r4_w1": (4, 1, 1),
    "truth_r1_w3": (1, 3, 1),
    "truth_atomic": (0, 1, 1),
    "truth_three_lines": (0, 1, 3),
    "kmalloc-192: struct truth_object": (0, 1, 1),
    "truth_tried": (0, 1, 1),
    "truth_writers": (0, 2, 1),
    "truth_guard": (0, 2, 1),
    # Three that write and one that reads, in one hold.
    "truth_guarded": (0, 1, 1),
    "truth_sequence": (1, 2, 1),
    "truth_put_off": (0, 1, 1),
    "truth_few": (0, 1 / 64, 64),
    "truth_many": (0, 1 / 256, 256),
    "truth_seldom": (2, 1 / 1024, 1),
    "truth_mended": (1, 1, 1),
    "truth_unmended": (1, 1, 1),
    "truth_neighbours": (0, 1, 1),
}


def peeked(containers: int) -> float:
    """Transfers of a line that all write three times in one hold of a lock, and read without it.

    Each of the others takes it away once more, as he reads, as far as there are visits.
    """
    visits = min(4, 1 + 1 + containers - 1)
    return shared(visits - min(3, visits), min(3, visits), containers)


def walls(containers: int) -> list[Wall]:
    """All that must be found with so many containers."""
    everybody = list(range(containers))
    found = [
        Wall(
            name,
            lines * shared(reads, writes, containers),
            lines * shared(reads, writes, verdict.AT),
            lines,
            everybody,
        )
        for name, (reads, writes, lines) in _ALIKE.items()
    ]
    three = [n for n in everybody if n % 8 < 3]
    most = [n for n in everybody if n % 4 < 3]
    return [
        *found,
        Wall("truth_peeked", peeked(containers), peeked(verdict.AT), 1, everybody),
        Wall("truth_ring", 1, None, containers, everybody),
        Wall("truth_pairs", 1, 1, containers // 2, everybody),
        Wall("truth_threes", len(three) / containers, None, max(containers // 8, 1), three),
        Wall("truth_most", len(most) / containers, None, 1, most),
    ]


DEFERRED = "truth_softirq"
"""A wall of deferred work alone: a tasklet that each container runs once in an operation."""

BOTH = "truth_put_off"
"""A lock that each takes once in its system call and once in that tasklet: a wall of either."""

LATER = {"truth_worked": 2 / 16, "truth_delayed": 1 / 16, "truth_called_back": 1.0}
"""Transfers per operation of what work items and callbacks of RCU write that it left."""

LATER_IN = {
    "truth_worked": "work item of ioctl",
    "truth_delayed": "work item of ioctl",
    "truth_called_back": "RCU callback of ioctl",
}
"""The contexts in which they do."""

LEFT = {"work item of ioctl": [1 / 16, 1 / 16], "RCU callback of ioctl": [1.0]}
"""How many an operation leaves, by calls; the module's window ends when all are done."""

HANDED_OVER = 24 / 512
"""Parcels per operation that one sends and another receives within a window."""


PASSED = "kmalloc-64: struct truth_passed"
"""What both CPUs of a container write, and later those of the next one: no wall between."""

PASSED_SHARE = (512 - 2 * 128) / 512
"""Of the operations, those that write it: none while it is passed on."""


def is_kernels(name: str) -> bool:
    """Whether a wall is the scheduler's or RCU's, not the module's.

    Who wakes a worker looks at the other CPUs, and who leaves callbacks may begin a grace period.
    """
    theirs = ("kmalloc-2k: struct root_domain", "task_struct: struct task_struct", "rcu_state")
    return name in theirs or name.startswith(("runqueues of CPU", "rcu_data of CPU"))


def by_object(lines: Iterable[Line]) -> dict[str, list[Line]]:
    """Lines of a result by the name of the object they lie in."""
    found: dict[str, list[Line]] = defaultdict(list)
    for line in lines:
        found[line.object.name].append(line)
    return found


def loaded(kernel: Kernel, folder: Path, progress: Progress) -> Kernel:
    """``kernel`` with the module; ``folder`` as in `kmodule.with_module`."""
    return kmodule.loaded(SOURCE, kernel, folder, progress)


def measured(
    kernel: Kernel,
    containers: int,
    progress: Progress,
    workload: Workload = WORKLOAD,
    cpus: int = 1,
) -> WorkloadResult:
    """All cases with so many containers of so many CPUs, on a kernel with the module."""
    outcome = run.check(
        run.Wanted(
            kernel=kernel,
            workloads=[workload],
            topology=Topology(containers, cpus),
            parameters=PARAMETERS,
            # Of thirty-two containers, on a machine that has more to do.
            timeout=900.0,
        ),
        progress,
    )
    assert not outcome.failures, outcome.failures
    assert outcome.result is not None
    (found,) = outcome.result.workloads
    return found


def table(results: dict[int, WorkloadResult]) -> str:
    """Truth and what was found, for each number of containers, in Markdown."""
    head = "".join(f" truth at {n} | found |" for n in results)
    rows = [f"| object |{head}", f"|---|{'---|---|' * len(results)}"]
    truth = {n: {wall.name: wall.transfers for wall in walls(n)} for n in results}
    found = {n: _moved(one.found) for n, one in results.items()}
    rows += _rows(truth, found, "")
    late = {n: dict.fromkeys((BOTH, DEFERRED), 1.0) | LATER for n in results}
    rows += _rows(late, {n: _moved(one.put_off) for n, one in results.items()}, ", deferred")
    return "\n".join(rows)


def _moved(walls: Iterable[Found]) -> dict[str, float]:
    return {wall.name: wall.transfers for wall in walls}


def _rows(truth: Moved, found: Moved, kind: str) -> Iterator[str]:
    """A row for each object that is in either, by number of containers."""
    every = [*truth.values(), *found.values()]
    for name in dict.fromkeys(name for known in every for name in known):
        if not is_kernels(name):
            cells = [f"{known[n].get(name, 0):.3g}" for n in truth for known in (truth, found)]
            yield f"| `{name}`{kind} | {' | '.join(cells)} |"


def _main() -> None:
    kernel = kernels.resolve(Request("debian"), Quiet())
    with tempfile.TemporaryDirectory() as folder:
        ready = loaded(kernel, Path(folder), Quiet())
        print(table({n: measured(ready, n, Quiet()) for n in COUNTS}))


if __name__ == "__main__":
    _main()
