# SPDX-License-Identifier: GPL-2.0-or-later
"""Operations do what they are called, and all of it, by calls of the kernel's own functions."""

from __future__ import annotations

import pytest

from partywall import workloads
from partywall.core.progress import Quiet
from partywall.core.topology import Topology
from partywall.guest import qemu
from partywall.guest.sitting import Round
from partywall.kernels import Kernel
from partywall.measure import sitting
from partywall.measure.plan import Plan
from partywall.measure.sitting import Sitting
from partywall.record.plugin import recorder
from partywall.results.result import WorkloadResult
from partywall.workloads import Workload

ROOM = 1024


def measured(
    kernel: Kernel, shape: Topology, *asked: tuple[str, tuple[str, ...]]
) -> list[dict[str, float]]:
    """Calls of functions for each operation; ``asked``: operations, and what is counted of each."""
    rounds = tuple(Round(counting(*one)) for one in asked)
    plan = Plan(
        kernel=kernel, qemu=qemu.find(), workload=rounds[0].workload, topology=shape, timeout=300
    )
    found = sitting.measure(Sitting(plan, rounds), recorder(qemu.find(), Quiet()), ROOM, Quiet())
    return [calls(one) for one in found.results()]


def counting(name: str, functions: tuple[str, ...]) -> Workload:
    """An operation with these functions counted."""
    (workload,) = workloads.select([name])
    return workload.model_copy(update={"count": functions})


def calls(became: object) -> dict[str, float]:
    """Calls for each operation, of a round that has to have ended well."""
    assert isinstance(became, WorkloadResult), became
    return {one.function: one.per_op for one in became.calls}


def test_operations_on_cgroups(kernel: Kernel) -> None:
    masks, write = "cpuset_update_tasks_cpumask", "cpuset_write_resmask"
    born, dead = "pids_css_alloc", "pids_css_free"
    alone, freeze, made = measured(
        kernel,
        Topology(2, 1),
        ("cgroup/cpuset-cpus", (write, masks)),
        ("cgroup/freeze", ("cgroup_enter_frozen", "cgroup_leave_frozen")),
        # Those before it leave dead cgroups that pages in a cache may hold for good.
        ("cgroup/make", (born, dead)),
    )
    assert (alone[write], alone[masks]) == (1, 0)
    # Who is frozen first sleeps in a system call of before the window, which nobody saw begin.
    seen = 1 - 1 / workloads.select(["cgroup/freeze"])[0].window
    assert freeze["cgroup_enter_frozen"] == freeze["cgroup_leave_frozen"] == pytest.approx(seen)
    assert made[born] == made[dead] == 1


def test_of_several_cpus_one_is_left_and_given_back(kernel: Kernel) -> None:
    masks = "cpuset_update_tasks_cpumask"
    (several,) = measured(kernel, Topology(2, 2), ("cgroup/cpuset-cpus", (masks,)))
    assert several[masks] == 1


@pytest.mark.slow
def test_what_a_container_was_ends_with_the_operation(kernel: Kernel) -> None:
    pairs = {
        "ipv4_mib_init_net": "ipv4_mib_exit_net",
        "sem_init_ns": "sem_exit_ns",
        "pids_css_alloc": "pids_css_free",
    }
    (run,) = measured(kernel, Topology(4, 1), ("container/run", (*pairs, *pairs.values())))
    assert {name: run[name] for name in pairs} == dict.fromkeys(pairs, 1)
    assert {name: run[name] for name in pairs.values()} == dict.fromkeys(pairs.values(), 1)
