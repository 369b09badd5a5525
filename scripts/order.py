# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether an operation finds the same in a guest of its own and among others, in both orders.

``scripts/order.py [OPERATION]...``, by default twenty of all kinds, on Debian's kernel: each
by itself, all in the order of the library, and all in reverse. Prints transfers per operation
of 8 containers and what objects move that differ; exit status 1 if an operation's sum differs
by more than 2 %, and by more than the threshold of a wall.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence

from partywall import kernels, workloads
from partywall.core.errors import PartywallError
from partywall.core.progress import Quiet
from partywall.core.topology import Topology
from partywall.guest.sitting import Round
from partywall.kernels import Request
from partywall.measure import run, sitting, sweep
from partywall.record.plugin import recorder
from partywall.results.result import WorkloadResult

USUAL = (
    *("descriptor/pipe", "descriptor/eventfd", "descriptor/epoll", "file/create-overlay"),
    *("file/write-volume", "file/fsync-volume", "file/rename-overlay", "fork", "ipc/mq"),
    *("lock/flock-overlay", "memory/fault", "memory/mmap-overlay", "namespace/mount"),
    *("namespace/uts", "negative/unique", "process/thread", "security/landlock", "signal"),
    *("socket/unix-stream", "timing/timerfd"),
)
SHAPE = Topology(8, 1)
SAME = 0.02
THRESHOLD = 0.01
SHOWN = 4

Found = dict[str, WorkloadResult]
Order = Sequence[workloads.Workload]


def by_title(became: Iterable[object]) -> Found:
    """What was found; what failed is said."""
    found = {}
    for one in became:
        if isinstance(one, WorkloadResult):
            found[title(one)] = one
        elif isinstance(one, PartywallError):
            print(one.message, file=sys.stderr)
    return found


def together(wanted: run.Wanted, orders: Sequence[Order]) -> list[Found]:
    """What all find in one guest, or in one for each confinement, in several orders."""
    plan = sweep.plan_of(wanted)
    plugin = recorder(plan.qemu, Quiet())
    parts = [
        (number, one)
        for number, order in enumerate(orders)
        for one in sweep.sittings(plan, [Round(each) for each in order])
    ]
    calls = [run.Call("", SHAPE, sitting.measure, (one, plugin)) for _, one in parts]
    guests = run.side_by_side(calls, wanted.jobs, Quiet())
    became: list[list[object]] = [[] for _ in orders]
    for (number, _), guest in zip(parts, guests, strict=True):
        became[number] += guest.results() if isinstance(guest, sitting.Found) else [guest]
    return [by_title(each) for each in became]


def alone(wanted: run.Wanted) -> Found:
    """What each finds in a guest of its own."""
    outcome = run.check(wanted, Quiet())
    for name, error in outcome.failures.items():
        print(f"{name}: {error.message}", file=sys.stderr)
    return by_title(outcome.result.workloads if outcome.result else [])


def title(found: WorkloadResult) -> str:
    """As it is asked for."""
    return found.workload if found.variant == "default" else f"{found.workload}/{found.variant}"


def moved(found: WorkloadResult) -> dict[str, float]:
    """Transfers per operation by object that is a wall, as measured."""
    sums: dict[str, float] = defaultdict(float)
    for wall in found.objects:
        sums[wall.name] += wall.transfers
    return sums


def differs(figures: Sequence[float]) -> bool:
    """Whether they are further apart than they may be."""
    apart = max(figures) - min(figures)
    return apart > SAME * max(figures) and apart > THRESHOLD


def main() -> int:
    """Measure, and compare."""
    chosen = workloads.select(sys.argv[1:] or USUAL)
    kernel = kernels.resolve(Request("debian"), Quiet())
    wanted = run.Wanted(kernel=kernel, workloads=chosen, topology=SHAPE)
    order, reverse = together(wanted, (chosen, chosen[::-1]))
    ways = {"in order": order, "reverse": reverse, "alone": alone(wanted)}
    print(f"{'':24}" + "".join(f"{name:>10}" for name in ways))
    failed = walls = same = 0
    for one in chosen:
        there = [found[one.title] for found in ways.values() if one.title in found]
        if len(there) < len(ways):
            print(f"{one.title:24}  not measured everywhere")
            failed += 1
            continue
        by_object = [moved(found) for found in there]
        sums = [sum(found.values()) for found in by_object]
        wrong = differs(sums)
        failed += wrong
        print(f"{one.title:24}" + "".join(f"{n:10.2f}" for n in sums) + "  DIFFERS" * wrong)
        names = sorted({name for found in by_object for name in found})
        apart = [(name, [found.get(name, 0.0) for found in by_object]) for name in names]
        apart = [each for each in apart if differs(each[1])]
        walls, same = walls + len(names), same + len(names) - len(apart)
        apart.sort(key=lambda each: min(each[1]) - max(each[1]))
        for name, figures in apart[:SHOWN]:
            print(f"  {name[:22]:22}" + "".join(f"{n:10.2f}" for n in figures))
        if apart[SHOWN:]:
            print(f"  and {len(apart) - SHOWN} more")
    print(f"{len(chosen) - failed} of {len(chosen)} the same, and {same} of {walls} walls")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
