# SPDX-License-Identifier: GPL-2.0-or-later
"""Locks that are held asleep: what the recorder has is named, added up, and told."""

from __future__ import annotations

import io

import builders
import numpy as np
import pytest
from recordings import party, recording, visits
from rich.console import Console

from partywall.analyse.held import LONGEST, MOST, HeldLocks, used_by_several
from partywall.model import profiles, queues
from partywall.model.holders import holdings
from partywall.model.predict import outlook
from partywall.record.functions import SLEEPS, plain_name
from partywall.record.hooks import Sleep
from partywall.record.recording import HOLD, NOWHERE, SLEEP, WAIT, Kind, Recording
from partywall.report import compare as comparisons
from partywall.report import held as report
from partywall.report import html, ktap, terminal
from partywall.report import predict as predictions
from partywall.results.compare import compare
from partywall.results.counts import CallCount
from partywall.results.held import Held, SleepKind
from partywall.results.result import WorkloadResult

RTNL, OTHER = 0xFFFFFFFF82C00040, 0xFFFFFFFF82C00080
CLEANUP, REGISTER, TAIL = 0xFFFFFFFF81000010, 0xFFFFFFFF81000110, 0xFFFFFFFF81000118
TEXT = range(0xFFFFFFFF81000000, 0xFFFFFFFF82000000)

FUNCTIONS = {CLEANUP >> 8: "cleanup_net", REGISTER >> 8: "register_netdev"}
SLEPT_IN = (
    Sleep("synchronize_rcu", "rcu"),
    Sleep("synchronize_rcu_normal.part.0", "rcu"),
    Sleep("__mutex_lock", "lock"),
    Sleep("schedule", "event"),
)


def timed(
    holds: list[tuple[int, ...]] = [],  # noqa: B006
    sleeps: list[tuple[int, ...]] = [],  # noqa: B006
    waits: list[tuple[int, ...]] = [],  # noqa: B006
    instruction_ns: int = 2,
) -> Recording:
    """A recording that has times alone."""
    return Recording(
        visit_distance=8,
        sites=np.zeros((0, 2), np.uint64),
        stacks=np.zeros(0, np.uint64),
        locks=np.zeros(0),
        parties=(),
        instruction_ns=instruction_ns,
        holds=np.array(holds, HOLD),
        sleeps=np.array(sleeps, SLEEP),
        waits=np.array(waits, WAIT),
    )


def concluded(recorded: Recording, shown: tuple[int, ...] = (RTNL, OTHER)) -> Held | None:
    names = {RTNL: ("rtnl_mutex", "owner"), OTHER: ("truth_lock", "truth_lock")}
    return HeldLocks(
        recorded,
        SLEPT_IN,
        operations=10,
        name=lambda address: names[address],
        code=lambda address: FUNCTIONS[address >> 8],
        is_code=lambda address: address in TEXT,
    ).conclude(lambda address: address in shown)


def test_places_of_one_function_are_one_holder() -> None:
    found = concluded(
        timed(
            # Times, slept, instructions, asleep, longest; tried, for how long, longest.
            [
                (RTNL, REGISTER, 0, 20, 10, 1_000, 8_000, 900, 4, 60, 30),
                (RTNL, TAIL, 0, 10, 0, 500, 0, 100, 1, 20, 20),
                (RTNL, CLEANUP, 0, 5, 5, 50, 500, 300, 0, 0, 0),
                (RTNL, CLEANUP, 1, 1, 0, 5, 0, 10, 0, 0, 0),
            ]
        )
    )
    assert found is not None
    (lock,) = found.locks
    assert lock.name == "rtnl_mutex owner"
    assert [(one.by, one.shared) for one in lock.holders] == [
        ("register_netdev", False),
        ("cleanup_net", False),
        ("cleanup_net", True),
    ]
    first = lock.holders[0]
    assert (first.times, first.slept, first.ns, first.asleep_ns) == (3, 1, 1_100, 800)
    assert (first.longest_ns, first.longest_tried_ns) == (900, 30)
    assert (first.tried, first.tried_ns) == (0.5, 8)
    # Who shares it keeps those out who want it alone, and is not in their time.
    assert (lock.times, lock.ns, lock.asleep_ns) == (3.5, 1_160, 850)
    assert (lock.longest_ns, lock.waited_ns) == (900, 8)


def test_a_holder_sleeps_for_what_the_recorder_saw() -> None:
    found = concluded(
        timed(
            [(RTNL, CLEANUP, 0, 5, 5, 50, 900, 300, 0, 0, 0)],
            [
                (RTNL, CLEANUP, 0, 0, CLEANUP, 2, 100),
                (RTNL, CLEANUP, 0, 1, CLEANUP, 2, 400),
                (RTNL, CLEANUP, 0, 2, OTHER, 3, 300),
                (RTNL, CLEANUP, 0, 2, CLEANUP, 3, 50),
                (RTNL, CLEANUP, 0, NOWHERE, 0, 1, 50),
            ],
        )
    )
    assert found is not None
    told = [(one.kind, one.function, one.at, one.ns) for one in found.locks[0].sleeps]
    assert told == [
        ("rcu", "synchronize_rcu", "cleanup_net", 50),
        ("lock", "mutex_lock", "truth_lock", 30),
        # Of a lock that nobody was seen to try, who waits for it is known.
        ("lock", "mutex_lock", "cleanup_net", 5),
        ("preempted", "preempted", "", 5),
    ]


def test_a_wait_that_ends_in_another_of_its_name_is_one() -> None:
    found = concluded(
        timed(
            [(RTNL, CLEANUP, 0, 5, 5, 50, 900, 300, 0, 0, 0)],
            [(RTNL, CLEANUP, 0, 1, CLEANUP, 2, 400)],
            [
                (0, CLEANUP, 20, 0, 100, 10),
                (1, CLEANUP, 20, 15, 9_000, 800),
                (3, CLEANUP, 9, 9, 9_999, 999),
            ],
        )
    )
    assert found is not None
    (wait,) = found.waits
    assert (wait.function, wait.by, wait.times, wait.slept) == (
        *("synchronize_rcu", "cleanup_net"),
        *(2, 1.5),
    )
    assert (wait.ns, wait.longest_ns, wait.under) == (910, 800, ["rtnl_mutex owner"])


def test_locks_that_are_not_shared_are_left_out_and_the_longest_asleep_come_first() -> None:
    rows = [
        (RTNL, CLEANUP, 0, 5, 0, 5_000, 0, 300, 0, 0, 0),
        (OTHER, CLEANUP, 0, 5, 1, 5, 10, 30, 0, 0, 0),
    ]
    found = concluded(timed(rows))
    assert found is not None
    assert [one.object for one in found.locks] == ["truth_lock", "rtnl_mutex"]
    assert [one.object for one in found.asleep] == ["truth_lock"]
    found = concluded(timed(rows), shown=(RTNL,))
    assert found is not None
    assert [one.object for one in found.locks] == ["rtnl_mutex"]


def test_without_a_clock_nothing_is_known() -> None:
    assert concluded(timed(instruction_ns=0)) is None


def test_a_lock_is_shared_if_several_containers_use_its_line_or_one_and_a_thread() -> None:
    one, two, three = 0x1000, 0x2000, 0x3000
    recorded = recording(
        party(0, [visits(one >> 6, 1, 1), visits(two >> 6, 1, 1)]),
        party(1, [visits(one >> 6, 1, 1), visits(three >> 6, 1, 1)]),
        party(2, [visits(two >> 6, 1, 1, kind=Kind.BACKGROUND)]),
        party(2, [visits(three >> 6, 1, 1)], thread=0x4000),
    )
    addresses = {one, two, three}
    assert used_by_several(recorded, np.array([0, 1, 2, -1]), addresses) == {one, three}
    # CPUs of one container are one.
    assert used_by_several(recorded, np.array([0, 0, 2, -1]), addresses) == {three}


def test_every_function_that_waits_waits_for_something_that_results_know() -> None:
    for kind, _ in SLEEPS:
        assert kind in SleepKind.__args__  # type: ignore[attr-defined]
    assert plain_name("rwsem_down_write_slowpath") == "down_write"


def workload(found: Held | None) -> WorkloadResult:
    return builders.signal().model_copy(update={"held": found})


def shown(one: WorkloadResult, *, verbose: bool = False, width: int = 80) -> str:
    file = io.StringIO()
    profile = profiles.load(profiles.DEFAULT)
    console = Console(file=file, width=width)
    terminal.render(builders.result(one), console, profile, terminal.Shown(everything=verbose))
    return " ".join(file.getvalue().split())


def test_the_report_says_who_holds_what_asleep_for_how_long_and_what_for() -> None:
    text = shown(workload(builders.held()))
    assert "one asleep for all: rtnl_mutex is held for 13.2 ms at most" in text
    assert "asleep 2.00 ms an operation" in text
    assert "in synchronize_rcu_expedited and a wait for exp_mutex" in text
    assert "13.2 3.00 2.00 7.00 rtnl_mutex cleanup_net: synchronize_rcu_expedited" in text
    assert "0.20 3.00 24.0 rcu_barrier from netdev_run_todo under rtnl_mutex" in text
    assert "quick_mutex" not in text
    assert "quick_mutex" in shown(workload(builders.held()), verbose=True)


def test_the_summary_has_the_longest_time_in_a_column_of_its_own() -> None:
    text = shown(workload(builders.held()))
    assert "2 walls 6.03 ? 13.2 ms" in text
    assert "2 walls 6.03 ? ?" in shown(workload(None))
    assert report.brief(workload(None)) == "?"
    assert report.brief(workload(Held(locks=[], waits=[]))) == "-"


@pytest.mark.parametrize(("limit", "count"), [(13.1, 1), (13.3, 0), (0, 2)])
def test_locks_held_for_longer_than_a_limit_are_over_it(limit: float, count: int) -> None:
    assert len(report.over(workload(builders.held()), limit)) == count


def test_ktap_fails_what_is_held_for_longer_than_the_limit() -> None:
    result = builders.result(
        workload(builders.held()).model_copy(update={"walls": [], "objects": []})
    )
    assert "not ok" not in ktap.render(result, 100.0)
    assert "rtnl_mutex is held for 13.2 ms" in ktap.render(result, 100.0)
    text = ktap.render(result, 100.0, 5.0)
    assert "  not ok 1 rtnl_mutex held\n" in text
    assert "not ok 1 signal 8x1\n" in text
    assert "not ok" not in ktap.render(result, 100.0, 14.0)


def test_a_page_has_who_holds_what_and_what_waits() -> None:
    profile = profiles.load(profiles.DEFAULT)
    page = html.render(builders.result(workload(builders.held())), None, profile)
    assert "one asleep for all: rtnl_mutex is held for 13.2 ms at most" in page
    assert "synchronize_rcu_expedited, exp_mutex, preempted" in page
    assert "what an operation waits for: rcu_barrier 3.00 ms" in page
    assert "one asleep" not in html.render(builders.result(workload(None)), None, profile)


def test_a_lock_that_sleepers_share_is_told_as_shared() -> None:
    found = builders.held()
    holder = found.locks[0].holders[0].model_copy(update={"shared": True})
    lock = found.locks[0].model_copy(update={"holders": [holder]})
    text = shown(workload(found.model_copy(update={"locks": [lock]})))
    assert "one asleep for all" not in text
    assert "13.2 3.00 2.00 7.00 rtnl_mutex cleanup_net, shared: synchronize_rcu" in text
    assert report.over(workload(found.model_copy(update={"locks": [lock]})), 0) == []


def test_what_is_held_asleep_bounds_all_together() -> None:
    """By 2 ms an operation, however many there are and whatever else they do."""
    profile = profiles.load(profiles.DEFAULT)
    one = workload(builders.held(asleep=2e6)).model_copy(update={"locks": [], "waits": []})
    found = queues.predict(one, profile, [1, 2, 64])
    for point in found.points:
        assert point.containers * point.throughput.usual == pytest.approx(500)
        assert point.relative.usual == pytest.approx(1 / point.containers)
    assert [station.asleep for station in found.stations if station.asleep] == [2e6, 10.0]
    free = queues.predict(one.model_copy(update={"held": None}), profile, [1])
    assert free.points[0].throughput.usual > 100_000


def test_what_sleeps_for_less_than_it_runs_bounds_many_alone() -> None:
    profile = profiles.load(profiles.DEFAULT)
    one = builders.workload("w", [], held=builders.held(asleep=1e3))
    found = queues.predict(one, profile, [1, 64])
    assert found.points[0].relative.usual == 1
    assert 64 * found.points[1].throughput.usual == pytest.approx(1e6)


def test_what_the_guests_clock_tells_is_no_longer_unknown() -> None:
    rcu = [CallCount(function="synchronize_rcu", per_op=0.5)]
    lock = builders.lock("rtnl_mutex", 350, slept=0.25, waited=0.25)
    one = builders.workload("w", [], locks=[lock], waits=rcu)
    assert len(queues.unknowns(one)) == 3
    assert queues.unknowns(one.model_copy(update={"held": builders.held()})) == []


def test_a_prediction_says_what_one_lock_lets_through() -> None:
    file = io.StringIO()
    found = outlook(
        builders.result(workload(builders.held())), None, profiles.load(profiles.DEFAULT)
    )
    predictions.render(found, Console(file=file, width=200))
    assert "asleep under one lock: 2.00 ms/op of the guest's time, rtnl_mutex" in file.getvalue()
    assert "all together at most 500 op/s" in file.getvalue()


def test_of_many_locks_those_that_most_runs_under_are_looked_up() -> None:
    rows = [(RTNL + 64 * n, CLEANUP, 0, 1, 0, 100 + n, 0, 9, 0, 0, 0) for n in range(500)]
    # Nobody sleeps but with the last one, under which least runs.
    rows.append((RTNL + 64 * 500, CLEANUP, 0, 1, 1, 1, 5, 9, 0, 0, 0))
    looked_up: list[int] = []
    found = HeldLocks(
        timed(rows),
        SLEPT_IN,
        operations=1,
        name=lambda address: (f"lock_{address - RTNL >> 6}", ""),
        code=lambda address: "",
        is_code=lambda address: False,
    ).conclude(lambda address: not looked_up.append(address))
    assert found is not None
    assert len(looked_up) == 65
    names = [one.object for one in found.locks]
    assert names == ["lock_500", *(f"lock_{499 - n}" for n in range(31))]


def test_a_comparison_has_what_either_kernel_holds_asleep() -> None:
    before, after = (
        builders.result(workload(builders.held(longest=longest, asleep=asleep)))
        for longest, asleep in ((13.2e6, 2e6), (4e6, 0.5e6))
    )
    found = compare(before, after)
    (first, second) = found.workloads[0].held
    assert first.object == "rtnl_mutex"
    assert (first.asleep.before, first.asleep.after) == (2e6, 0.5e6)
    assert (first.longest.before, first.longest.after) == (13.2e6, 4e6)
    assert second.object == "quick_mutex"
    file = io.StringIO()
    comparisons.render(found, Console(file=file, width=100), verbose=False)
    said = " ".join(file.getvalue().split())
    assert "2.00 -> 0.50 13.2 -> 4.00 rtnl_mutex" in said
    assert "quick_mutex" not in said


def test_what_was_not_timed_is_not_compared() -> None:
    before, after = (builders.result(workload(one)) for one in (None, builders.held()))
    assert compare(before, after).workloads[0].held == []


def test_what_charged_work_sleeps_for_is_told_apart_and_bounds_nobody() -> None:
    rows = [
        (RTNL, CLEANUP, 2, 5, 5, 50, 900, 300, 0, 0, 0),
        (RTNL, CLEANUP, 0, 5, 5, 50, 100, 300, 0, 0, 0),
        (RTNL, CLEANUP, 3, 5, 5, 50, 700, 300, 0, 0, 0),
    ]
    found = concluded(timed(rows, [(RTNL, CLEANUP, 2, 1, CLEANUP, 5, 900)]))
    assert found is not None
    (lock,) = found.locks
    kinds = [(one.charged, one.shared, one.asleep_ns) for one in lock.holders]
    assert kinds == [(True, False, 90), (True, True, 70), (False, False, 10)]
    assert (lock.asleep_ns, lock.own_asleep_ns) == (100, 10)
    assert [spell.ns for one in lock.holders for spell in one.sleeps] == [90]
    one = builders.workload("w", [], held=found)
    assert [one.asleep for one in holdings(one)] == [10]
    assert "cleanup_net, charged: synchronize_rcu" in shown(one, verbose=True)


def test_at_most_is_of_functions_that_sleep_with_it() -> None:
    (lock, _) = builders.held(longest=10.0).locks
    awake = lock.holders[0].model_copy(
        update={"by": "busy", "slept": 0.0, "asleep_ns": 0.0, "longest_ns": 9e6}
    )
    both = lock.model_copy(update={"holders": [*lock.holders, awake]})
    assert both.longest_ns == 10
    assert both.model_copy(update={"holders": [awake]}).longest_ns == 9e6


def test_a_trace_of_sleep_by_one_alone_does_not_hide_those_who_share() -> None:
    (lock, _) = builders.held(longest=10.0, asleep=10.0).locks
    sharing = lock.holders[0].model_copy(
        update={"by": "many", "shared": True, "asleep_ns": 3e6, "longest_ns": 35e6}
    )
    both = lock.model_copy(update={"holders": [*lock.holders, sharing]})
    assert [one.by for one in both.told] == ["many"]
    assert "many, shared" in shown(workload(Held(locks=[both], waits=[])))


def test_what_is_held_for_long_once_is_told_however_seldom() -> None:
    (lock, _) = builders.held(longest=12e6, asleep=750.0).locks
    work = workload(Held(locks=[lock], waits=[]))
    assert report.over(work, 5)
    assert "rtnl_mutex" in shown(work)
    brief = lock.holders[0].model_copy(update={"longest_ns": 900_000.0})
    seldom = lock.model_copy(update={"holders": [brief]})
    assert "rtnl_mutex" not in shown(workload(Held(locks=[seldom], waits=[])))


def test_a_lock_that_is_held_for_long_once_is_among_those_that_are_kept() -> None:
    names = {RTNL + 64 * n: (f"lock_{n}", "owner") for n in range(2 * MOST)}
    # The last one sleeps for least in all, and longest once.
    holds = [
        (address, CLEANUP, 0, 1, 1, 10, 10_000 - n, 5_000 if n < 2 * MOST - 1 else 9_999, 0, 0, 0)
        for n, address in enumerate(names)
    ]
    found = HeldLocks(
        timed(holds),
        SLEPT_IN,
        operations=10,
        name=lambda address: names[address],
        code=lambda address: "cleanup_net",
        is_code=lambda address: True,
    ).conclude(lambda address: True)
    assert found is not None
    kept = [lock.object for lock in found.locks]
    assert f"lock_{2 * MOST - 1}" in kept
    assert MOST < len(kept) <= MOST + 2 * LONGEST
