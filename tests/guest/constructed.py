# SPDX-License-Identifier: GPL-2.0-or-later
"""Truth by construction: a kernel module's memory, of which is known who shares it.

docs/truth.md describes the cases; truth/module/truth.c makes them. Run as a program it
prints the table that stands there.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import kmodule

from partywall import kernels
from partywall.core.progress import Progress, Quiet
from partywall.core.topology import Topology
from partywall.kernels import Kernel, Request
from partywall.measure import run
from partywall.results.result import Line, WorkloadResult
from partywall.results.result import Wall as Found
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

# Debian's kernel tests its ciphers in threads that run on after boot: for the first
# window's whole length on two CPUs.
PARAMETERS = "cryptomgr.notests=1"

# A tick between two accesses parts a visit: once in some hundred operations.
TOLERANCE = 0.01


@dataclass(frozen=True)
class Wall:
    """An object that all or some containers share.

    ``transfers``: per operation, by the number of containers, of all its lines;
    ``lines``: how many of them move, by the same; ``wrong``: findings of the last
    review that still stand against it, by number of containers.
    """

    name: str
    transfers: Callable[[int], float]
    lines: Callable[[int], int] = lambda n: 1
    wrong: dict[int, str] = field(default_factory=dict)


def shared(reads: float, writes: float) -> Callable[[int], float]:
    """Transfers of a line that all containers visit alike, reading only and writing."""
    return lambda n: min(writes, (n - 1) * (reads + writes)) + min(reads, (n - 1) * writes)


def _still(*counts: int, finding: str) -> dict[int, str]:
    return dict.fromkeys(counts, finding)


WALLS = (
    Wall("truth_w1", shared(0, 1)),
    Wall("truth_r1_w1", shared(1, 1)),
    Wall("truth_r4_w1", shared(4, 1)),
    Wall("truth_r1_w3", shared(1, 3)),
    Wall("truth_atomic", shared(0, 1)),
    Wall("truth_three_lines", lambda n: 3, lambda n: 3),
    Wall("kmalloc-192: struct truth_object", shared(0, 1)),
    Wall("truth_pairs", lambda n: 1, lambda n: n // 2),
    Wall(
        "truth_threes",
        lambda n: 1 if n == 2 else 3 / 8,
        lambda n: max(n // 8, 1),
    ),
    Wall("truth_most", lambda n: 1 if n == 2 else 3 / 4),
    Wall("truth_tried", shared(0, 1)),
    Wall("truth_writers", shared(0, 2)),
    Wall("truth_sequence", shared(1, 2), wrong=_still(*COUNTS, finding="C1")),
    Wall("truth_ring", shared(0, 1), lambda n: n),
    Wall("truth_few", shared(0, 1), lambda n: 64),
    Wall("truth_many", shared(0, 1), lambda n: 256),
    Wall("truth_seldom", shared(2, 1 / 1024)),
    Wall("truth_mended", shared(1, 1)),
    Wall("truth_unmended", shared(1, 1)),
    Wall("truth_neighbours", shared(0, 1)),
)

DEFERRED = {"truth_softirq": 1.0, "truth_worked": 1 / 16, "truth_called_back": 1.0}
"""Transfers per operation of what runs in softirqs, workers and callbacks of RCU."""

BESIDE = {"kmalloc-2k: struct root_domain"}
"""What the kernel itself shares in an operation: who wakes a worker looks there."""


def by_object(lines: Iterable[Line]) -> dict[str, list[Line]]:
    """Lines of a result by the name of the object they lie in."""
    found: dict[str, list[Line]] = defaultdict(list)
    for line in lines:
        found[line.object.name].append(line)
    return found


def loaded(kernel: Kernel, folder: Path, progress: Progress) -> Kernel:
    """``kernel`` with the module; ``folder`` as in `kmodule.with_module`."""
    return kmodule.with_module(kernel, kmodule.build(SOURCE / "module", kernel, progress), folder)


def measured(kernel: Kernel, containers: int, progress: Progress) -> WorkloadResult:
    """All cases with so many containers, on a kernel with the module."""
    outcome = run.check(
        run.Wanted(
            kernel=kernel,
            workloads=[WORKLOAD],
            topology=Topology(containers, 1),
            parameters=PARAMETERS,
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
    listed = {wall.name for wall in WALLS} | BESIDE
    walls: dict[int, dict[str, list[Found]]] = {n: defaultdict(list) for n in results}
    for n, one in results.items():
        for found_wall in one.found:
            walls[n][found_wall.name].append(found_wall)

    def row(name: str, truth: dict[int, float]) -> str:
        cells = ""
        for n, found in walls.items():
            moved = sum(wall.transfers for wall in found.get(name, []))
            cells += f" {truth[n]:.3g} | {f'{moved:.3g}' if name in found else '-'} |"
        return f"| `{name}` |{cells}"

    for wall in WALLS:
        rows.append(row(wall.name, {n: wall.transfers(n) for n in results}))
    for name in sorted({name for found in walls.values() for name in found} - listed):
        rows.append(row(name, dict.fromkeys(results, 0.0)))
    return "\n".join(rows)


def _main() -> None:
    kernel = kernels.resolve(Request("debian"), Quiet())
    with tempfile.TemporaryDirectory() as folder:
        ready = loaded(kernel, Path(folder), Quiet())
        print(table({n: measured(ready, n, Quiet()) for n in COUNTS}))


if __name__ == "__main__":
    _main()
