# SPDX-License-Identifier: GPL-2.0-or-later
"""Locks that are held for a known time, asleep or awake, are said to be held for that long."""

from __future__ import annotations

import constructed
import pytest
from constructed import HELD_FOR, MS

from partywall.core.progress import Quiet
from partywall.kernels import Kernel
from partywall.results.held import Held, HeldLock
from partywall.workloads import Workload

CONTAINERS = 4

# A timer's interrupt, and the CPUs that run before the one that it wakes.
TOLERANCE = 0.05

# Where others run all the time the emulator takes eight times as long as a machine would. A timer
# is known by when the first one was due of those that its interrupt was for.
BESIDE = 0.25


@pytest.fixture(scope="session")
def loaded(kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Kernel:
    return constructed.loaded(kernel, tmp_path_factory.mktemp("modules"), Quiet())


def measured(ready: Kernel, workload: Workload, containers: int, cpus: int = 1) -> Held:
    found = constructed.measured(ready, containers, Quiet(), workload, cpus)
    assert found.held is not None
    return found.held


@pytest.fixture(scope="session")
def held(loaded: Kernel) -> Held:
    return measured(loaded, constructed.HELD, CONTAINERS)


@pytest.fixture(scope="session")
def busily(loaded: Kernel) -> Held:
    return measured(loaded, constructed.BUSILY, CONTAINERS)


@pytest.fixture(scope="session")
def moved(loaded: Kernel) -> Held:
    return measured(loaded, constructed.MOVED, 2, 2)


@pytest.fixture(scope="session")
def otherwise(loaded: Kernel) -> Held:
    return measured(loaded, constructed.OTHERWISE, CONTAINERS)


@pytest.fixture(scope="session")
def sleeping(loaded: Kernel) -> Held:
    return measured(loaded, constructed.SLEEPING, CONTAINERS)


def lock(held: Held, name: str) -> HeldLock:
    # A lock of the lock's own, for its list of waiters, is held for less.
    return next(one for one in held.locks if one.object == name)


IDLE = ("mutex", "rwsem", "percpu", "awake")


def check_held(held: Held, name: str) -> None:
    """Assert that a lock is held once in an operation, alone, for as long as the module does."""
    found = lock(held, name)
    assert found.times == 1
    assert found.ns == pytest.approx(HELD_FOR[name], rel=TOLERANCE)
    # Once it may be longer: whom a timer wakes waits for what else his CPU has to do.
    assert found.longest_ns >= HELD_FOR[name] * (1 - TOLERANCE)
    (holder,) = found.holders
    assert holder.by == name.replace("held", "hold")
    assert not holder.shared


@pytest.mark.parametrize("name", [f"truth_held_{kind}" for kind in IDLE])
def test_a_lock_is_held_for_as_long_as_the_module_holds_it(held: Held, name: str) -> None:
    check_held(held, name)


@pytest.mark.parametrize("name", ["truth_held_mutex", "truth_held_rwsem", "truth_held_percpu"])
def test_what_a_holder_sleeps_for_is_known_with_its_time(held: Held, name: str) -> None:
    found = lock(held, name)
    (holder,) = found.holders
    assert holder.slept == 1
    assert found.asleep_ns == pytest.approx(HELD_FOR[name], rel=TOLERANCE)
    most, *less = found.sleeps
    assert (most.kind, most.function) == ("timer", "usleep_range")
    assert most.times == 1
    assert most.ns == pytest.approx(HELD_FOR[name], rel=TOLERANCE)
    assert sum(one.ns for one in less) < TOLERANCE * HELD_FOR[name]


@pytest.mark.parametrize("name", ["truth_held_mutex", "truth_held_rwsem", "truth_held_percpu"])
def test_of_those_who_have_a_lock_alone_one_has_it_after_the_other(held: Held, name: str) -> None:
    found = [one for one in lock(held, name).spans if not one.wanted]
    assert {one.cpu for one in found} == set(range(CONTAINERS))
    assert all(one.sleep == "usleep_range" and not one.shared for one in found)
    assert all(one.ns >= HELD_FOR[name] * (1 - TOLERANCE) for one in found)
    ends = [one.to_ns for one in found]
    assert all(one.from_ns >= end for one, end in zip(found[1:], ends, strict=False))


def test_who_waits_longest_for_a_lock_does_so_while_another_one_sleeps_with_it(
    held: Held,
) -> None:
    # Of shorter waits that need not be: their holder may be awake, which is not told.
    spans = lock(held, "truth_held_rwsem").spans
    most = max((one for one in spans if one.wanted), key=lambda one: one.ns)
    assert any(
        one.from_ns < most.to_ns and one.to_ns > most.from_ns
        for one in spans
        if not one.wanted and one.cpu != most.cpu
    )


def test_who_is_awake_does_not_sleep(held: Held) -> None:
    assert lock(held, "truth_held_awake").asleep_ns == 0


def test_a_grace_period_is_waited_for_under_its_lock(held: Held) -> None:
    found = lock(held, "truth_held_rcu")
    most = found.sleeps[0]
    assert (most.kind, most.function) == ("rcu", "synchronize_rcu")
    assert most.times == 1
    (wait,) = (one for one in held.waits if one.by == "truth_hold_rcu" and one.slept)
    assert (wait.function, wait.times) == ("synchronize_rcu", 1)
    assert wait.under[0] == found.name
    assert found.ns == pytest.approx(wait.ns, rel=TOLERANCE)


WAITED_FOR = {
    "barrier": ("rcu", "rcu_barrier"),
    "flushed": ("work", "flush_workqueue"),
    "device": ("device", "io_schedule_timeout"),
    "stopped": ("stop", "stop_machine"),
}
TICK = 4 * MS


@pytest.mark.parametrize("kind", WAITED_FOR)
def test_what_is_waited_for_under_a_lock_is_told_with_its_kind_and_time(
    sleeping: Held, kind: str
) -> None:
    found = lock(sleeping, f"truth_held_{kind}")
    (holder,) = found.holders
    assert (holder.by, holder.times, holder.slept) == (f"truth_hold_{kind}", 1, 1)
    (most, *_) = holder.sleeps
    assert (most.kind, most.function) == WAITED_FOR[kind]
    (wait,) = (one for one in sleeping.waits if one.by == holder.by and one.slept)
    assert (wait.kind, wait.function, wait.times) == (*WAITED_FOR[kind], 1)
    assert wait.under[0].startswith(found.object)
    assert found.ns >= wait.ns
    # All CPUs stop within microseconds, of which the rest of the operation is more.
    if kind != "stopped":
        assert most.times == 1
        assert found.ns == pytest.approx(wait.ns, rel=TOLERANCE)
        assert found.asleep_ns == pytest.approx(most.ns, rel=TOLERANCE)


def test_a_worker_that_is_waited_for_and_a_device_take_as_long_as_they_do(sleeping: Held) -> None:
    flushed, device = (lock(sleeping, f"truth_held_{kind}") for kind in ("flushed", "device"))
    assert flushed.asleep_ns == pytest.approx(HELD_FOR[flushed.object], rel=TOLERANCE)
    # Who has it next begins right behind a tick, or anywhere.
    apart = TICK / 2 / HELD_FOR[device.object]
    assert device.asleep_ns == pytest.approx(HELD_FOR[device.object], rel=apart + TOLERANCE)


def test_who_shares_a_lock_asleep_keeps_out_who_wants_it_alone(sleeping: Held) -> None:
    found = lock(sleeping, "truth_held_shared")
    (holder,) = found.holders
    assert (holder.shared, holder.times, holder.slept) == (True, 1, 1)
    each = HELD_FOR[found.object]
    assert holder.asleep_ns == pytest.approx(each, rel=TOLERANCE)
    # Once it may be longer, as above.
    assert found.once_ns >= each * (1 - TOLERANCE)
    assert found.shared
    # All have it beside each other: nobody waits, and it bounds nobody.
    assert (found.waited_ns, found.asleep_ns) == (0, 0)


def test_who_waits_for_a_lock_is_asleep_for_as_long_as_others_have_it(held: Held) -> None:
    (holder,) = lock(held, "truth_held_rwsem").holders
    each = HELD_FOR["truth_held_rwsem"]
    assert 0 < holder.tried <= 1
    # Those before him have it one after the other.
    most = (CONTAINERS - 1) * each * (1 + TOLERANCE)
    assert each * (1 - TOLERANCE) < holder.longest_tried_ns < most


def test_a_holder_that_waits_for_another_lock_names_it(held: Held) -> None:
    outer, inner = lock(held, "truth_held_outer"), lock(held, "truth_held_inner")
    most = outer.sleeps[0]
    assert (most.kind, most.function, most.at) == ("lock", "mutex_lock", inner.name)
    # A worker has it for so long, in what the container left for it to do.
    holders = {one.by: one for one in inner.holders}
    has, wants = holders["truth_hold_inner"], holders["truth_hold_both"]
    for slept in (most.ns, inner.waited_ns, wants.longest_tried_ns, has.longest_slept_ns):
        assert slept == pytest.approx(5 * MS, rel=TOLERANCE)
    assert wants.asleep_ns == 0
    assert "completion" in {one.kind for one in outer.sleeps}


def test_a_lock_is_held_no_longer_while_other_cpus_run(busily: Held) -> None:
    (holder,) = lock(busily, "truth_held_beside").holders
    assert holder.times == holder.slept == 0.5  # the other half of the containers runs
    each = HELD_FOR["truth_held_beside"]
    assert holder.ns / holder.times == pytest.approx(each, rel=BESIDE)
    assert holder.longest_asleep_ns == pytest.approx(each, rel=BESIDE)


def test_a_lock_is_held_no_shorter_while_others_want_it(busily: Held) -> None:
    (holder,) = lock(busily, "truth_held_queue").holders
    assert holder.slept == holder.times
    each = HELD_FOR["truth_held_queue"]
    assert holder.ns / holder.times == pytest.approx(each, rel=TOLERANCE)
    assert holder.longest_asleep_ns == pytest.approx(each, rel=TOLERANCE)


def test_those_who_queue_for_a_lock_wait_for_all_before_them(busily: Held) -> None:
    """One after the other has it, and runs for most of that: the last one waits for all."""
    (holder,) = lock(busily, "truth_held_queue").holders
    each = HELD_FOR["truth_held_queue"]
    waiting = round(holder.tried * CONTAINERS)
    assert 1 <= waiting < CONTAINERS
    # They come while the first one has it, when is the emulator's choice.
    least, most = (waiting - 1) * each * (1 - TOLERANCE), waiting * each * (1 + TOLERANCE)
    assert least < holder.longest_tried_ns < most
    in_all = holder.tried_ns * CONTAINERS
    assert sum(range(waiting)) * each * (1 - TOLERANCE) < in_all
    assert in_all < sum(range(waiting + 1)) * each * (1 + TOLERANCE)


def test_those_who_wait_beside_others_that_run_wait_no_longer_than_for_the_holder(
    busily: Held,
) -> None:
    (holder,) = lock(busily, "truth_held_beside").holders
    # Of the two the emulator may run the second one when the first one is done.
    assert holder.longest_tried_ns <= HELD_FOR["truth_held_beside"] * (1 + BESIDE)


def test_who_changes_the_cpu_with_a_lock_has_it_all_the_time(moved: Held) -> None:
    (holder,) = lock(moved, "truth_held_moved").holders
    each = HELD_FOR["truth_held_moved"]
    # Where the other CPU's window is over, what is done there is not recorded.
    assert 0 < holder.times == holder.slept <= 1
    # No shorter; and longer only if who is woken waits beside others until it runs, as the
    # emulator has it.
    assert each * (1 - TOLERANCE) <= holder.ns / holder.times <= holder.longest_asleep_ns
    assert holder.longest_asleep_ns <= holder.longest_by_clock_ns


ASLEEP_OTHERWISE = ("truth_held_semaphore", "truth_held_bit")
SPUN = [f"truth_held_{kind}" for kind in ("spun", "stored", "bucket", "written")]


@pytest.mark.parametrize("name", [*ASLEEP_OTHERWISE, *SPUN])
def test_a_semaphore_and_a_bit_are_held_for_as_long_as_the_module_holds_them(
    otherwise: Held, name: str
) -> None:
    check_held(otherwise, name)


@pytest.mark.parametrize("name", ASLEEP_OTHERWISE)
def test_what_who_has_a_semaphore_or_a_bit_sleeps_for_is_known(otherwise: Held, name: str) -> None:
    (holder,) = lock(otherwise, name).holders
    assert holder.slept == 1
    assert holder.asleep_ns == pytest.approx(HELD_FOR[name], rel=TOLERANCE)
    most = holder.sleeps[0]
    assert (most.kind, most.function, most.times) == ("timer", "usleep_range", 1)


@pytest.mark.parametrize("name", ASLEEP_OTHERWISE)
def test_who_waits_for_a_semaphore_or_a_bit_does_so_while_others_have_it(
    otherwise: Held, name: str
) -> None:
    (holder,) = lock(otherwise, name).holders
    each = HELD_FOR[name]
    assert 0 < holder.tried <= 1
    assert holder.longest_tried_ns > each * (1 - TOLERANCE)
    # A semaphore is had in turn; who is woken for a bit may find that another one took it.
    if name == "truth_held_semaphore":
        assert holder.longest_tried_ns < (CONTAINERS - 1) * each * (1 + TOLERANCE)


@pytest.mark.parametrize("name", SPUN)
def test_who_spins_for_a_bit_sleeps_for_nothing(otherwise: Held, name: str) -> None:
    assert lock(otherwise, name).asleep_ns == 0


@pytest.mark.parametrize("name", ["truth_held_flag", "truth_held_tried"])
def test_a_flag_and_a_bit_that_nobody_gets_are_no_locks(otherwise: Held, name: str) -> None:
    assert otherwise.locks
    assert name not in {one.object for one in otherwise.locks}
