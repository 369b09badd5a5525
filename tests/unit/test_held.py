# SPDX-License-Identifier: GPL-2.0-or-later
"""Locks that are held asleep: what the recorder has is named, added up, and told."""

from __future__ import annotations

import dataclasses
import io
import re

import builders
import numpy as np
import pytest
from recordings import access, party, recording, visits
from rich.console import Console

from partywall.advice import map as maps
from partywall.analyse.held import (
    LONGEST,
    MOST,
    SPANS,
    HeldLocks,
    taken_by_several,
    used_by_several,
)
from partywall.core.topology import Topology
from partywall.model import profiles, queues, unknowns
from partywall.model.holders import holdings, unlocked
from partywall.model.predict import outlook
from partywall.record.functions import SLEEPS, plain_name
from partywall.record.hooks import Sleep
from partywall.record.recording import (
    HOLD,
    IN_CHARGED_WORK,
    IRQ,
    NOWHERE,
    SHARED,
    SLEEP,
    SPAN,
    UNSEEN,
    WAIT,
    WANTED,
    Recording,
)
from partywall.report import compare as comparisons
from partywall.report import held as report
from partywall.report import html, ktap, terminal
from partywall.report import map as view
from partywall.report import predict as predictions
from partywall.report.html import kinds
from partywall.results.compare import compare
from partywall.results.counts import CallCount
from partywall.results.diff import Tolerance, diff
from partywall.results.held import Held, SleepKind, Spell
from partywall.results.result import WorkloadResult

RTNL, OTHER = 0xFFFFFFFF82C00040, 0xFFFFFFFF82C00080
CLEANUP, REGISTER, TAIL = 0xFFFFFFFF81000010, 0xFFFFFFFF81000110, 0xFFFFFFFF81000118

FUNCTIONS = {CLEANUP >> 8: "cleanup_net", REGISTER >> 8: "register_netdev"}
SLEPT_IN = (
    Sleep("synchronize_rcu", "rcu"),
    Sleep("synchronize_rcu_normal.part.0", "rcu"),
    Sleep("__mutex_lock", "lock"),
    Sleep("schedule", "event"),
)


def _hold(row: tuple[int, ...]) -> tuple[int, ...]:
    """A row of HOLD from those of its columns that tests tell apart."""
    lock, taker, kind, times, slept, instructions, asleep, longest, *tried = row
    once = longest if slept else 0
    figures = (instructions, asleep, asleep, asleep, longest, once, once)
    return (lock, taker, kind, times, slept, *figures, *tried, 0)


def _wait(row: tuple[int, ...]) -> tuple[int, ...]:
    """The same of WAIT."""
    function, at, times, slept, ns, longest = row
    return (function, at, 0, times, slept, ns, ns, ns, 0, longest, longest)


def timed(
    holds: list[tuple[int, ...]] = [],  # noqa: B006
    sleeps: list[tuple[int, ...]] = [],  # noqa: B006
    waits: list[tuple[int, ...]] = [],  # noqa: B006
    instruction_ns: int = 2,
    spans: list[tuple[int, ...]] = [],  # noqa: B006
) -> Recording:
    """A recording that has times alone."""
    return Recording(
        visit_distance=8,
        sites=np.zeros((0, 2), np.uint64),
        stacks=np.zeros(0, np.uint64),
        locks=np.zeros(0),
        parties=(),
        instruction_ns=instruction_ns,
        holds=np.array([_hold(row) for row in holds], HOLD),
        sleeps=np.array(sleeps, SLEEP),
        waits=np.array([_wait(row) for row in waits], WAIT),
        spans=np.array(spans, SPAN),
    )


def concluded(recorded: Recording, shown: tuple[int, ...] = (RTNL, OTHER)) -> Held | None:
    names = {RTNL: ("rtnl_mutex", "owner"), OTHER: ("truth_lock", "truth_lock")}
    return HeldLocks(
        recorded,
        SLEPT_IN,
        operations=10,
        name=lambda address: names[address],
        code=lambda address: FUNCTIONS[address >> 8],
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
                (RTNL, CLEANUP, 0, 2, 0, 3, 50),
                (RTNL, CLEANUP, 0, NOWHERE, 0, 1, 50),
            ],
        )
    )
    assert found is not None
    told = [(one.kind, one.function, one.at, one.ns) for one in found.locks[0].sleeps]
    assert told == [
        ("rcu", "synchronize_rcu", "cleanup_net", 50),
        ("lock", "mutex_lock", "truth_lock", 30),
        # A lock that nobody was seen to try.
        ("lock", "mutex_lock", "", 5),
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


SLEEPS_WITH_IT = (RTNL, REGISTER, 0, 9, 9, 0, 90_000, 10_000, 0, 0, 0)


def test_the_longest_times_are_kept_by_themselves_in_their_order() -> None:
    short = [(RTNL, REGISTER, 0, 1, 5_000 + at, 5_001 + at, NOWHERE, 0) for at in range(SPANS)]
    found = concluded(
        timed(
            [SLEEPS_WITH_IT],
            spans=[
                (RTNL, REGISTER, WANTED, 2, 4_000, 9_000, NOWHERE, 0),
                (RTNL, CLEANUP, SHARED | IN_CHARGED_WORK, 2**32 - 1, 4_500, 4_900, 0, TAIL),
                *short,
                (RTNL, REGISTER, 0, 0, 8_000, 9_500, 2, OTHER),
                (0x40, REGISTER, 0, 0, 1_000, 9_500, 2, OTHER),
            ],
        )
    )
    assert found is not None
    [lock] = found.locks
    assert len(lock.spans) == SPANS + 1
    first, second, *_, last = lock.spans
    # From when the first one of these locks began.
    assert (first.from_ns, first.to_ns, first.ns) == (0, 5_000, 5_000)
    assert (first.by, first.cpu, first.wanted, first.sleep) == ("register_netdev", 2, True, "")
    assert (second.by, second.cpu, second.shared) == ("cleanup_net", None, True)
    assert second.sleep == "synchronize_rcu"
    assert (last.wanted, last.sleep) == (False, "truth_lock")


def test_those_who_queue_do_not_crowd_out_those_who_have_the_lock() -> None:
    had = [(RTNL, REGISTER, 0, at, 100 * at, 100 * at + 90, 0, 0) for at in range(70)]
    wait = [(RTNL, REGISTER, WANTED, at, 0, 100 * at + 1, NOWHERE, 0) for at in range(70)]
    found = concluded(timed([SLEEPS_WITH_IT], spans=sorted([*had, *wait])))
    assert found is not None
    spans = found.locks[0].spans
    assert [one.wanted for one in spans].count(True) == SPANS
    assert [one.wanted for one in spans].count(False) == SPANS


def test_a_timeline_has_the_lock_that_is_told_of_first_and_others_by_their_longest() -> None:
    def span(lock: int, to: int) -> tuple[int, ...]:
        return (lock, REGISTER, 0, 3, 0, to, 0, 0)

    holds = [
        SLEEPS_WITH_IT,
        (OTHER, REGISTER, SHARED, 9, 9, 0, 80_000_000, 9_000_000, 0, 0, 0),
    ]
    found = concluded(timed(holds, spans=[span(RTNL, 10_000), span(OTHER, 9_000_000)]))
    one = workload(found)
    assert [lock.name for lock in kinds.timed(one)] == ["rtnl_mutex owner", "truth_lock"]
    assert kinds.spoken(one) == (
        "rtnl_mutex owner: had 1 time, at most 0.010 ms, slept for never; "
        "truth_lock: had 1 time, at most 9.00 ms, slept for never"
    )


@pytest.mark.parametrize(
    ("containers", "cpus", "labels"),
    [(1, 4, ["CPU 3"]), (4, 2, ["container 1"]), (64, 1, ["container 3"])],
)
def test_rows_of_a_timeline_are_containers_or_the_cpus_of_one(
    containers: int, cpus: int, labels: list[str]
) -> None:
    found = concluded(
        timed([SLEEPS_WITH_IT], spans=[(RTNL, REGISTER, 0, 3, 1_000, 3_000_000, 0, 0)])
    )
    one = workload(found).model_copy(update={"topology": Topology(containers, cpus)})
    assert re.findall(r">((?:CPU|container) \d+)<", kinds.timeline("t", one)) == labels


def test_a_timeline_of_many_containers_is_no_taller_than_of_some() -> None:
    spans = [(RTNL, REGISTER, WANTED, at, 0, at + 1, NOWHERE, 0) for at in range(30)]
    one = workload(concluded(timed([SLEEPS_WITH_IT], spans=spans)))
    drawn = kinds.timeline("t", one.model_copy(update={"topology": Topology(64, 1)}))
    assert len(re.findall(r">container \d+<", drawn)) == 15


def test_a_page_has_a_timeline_of_who_has_a_lock_when() -> None:
    found = concluded(
        timed(
            [SLEEPS_WITH_IT],
            spans=[
                (RTNL, REGISTER, 0, 3, 1_000, 3_000_000, 0, TAIL),
                (RTNL, CLEANUP, IN_CHARGED_WORK, 2**32 - 1, 3_000_000, 9_000_000, 0, TAIL),
            ],
        )
    )
    one = workload(found)
    assert [lock.name for lock in kinds.timed(one)] == ["rtnl_mutex owner"]
    page = html.render(builders.result(one), None, profiles.load(profiles.DEFAULT))
    assert all(text in page for text in ("Who has it, and who waits", "container 3", "kernel thr"))
    assert kinds.timed(workload(builders.held())) == []


def test_without_a_clock_nothing_is_known() -> None:
    assert concluded(timed(instruction_ns=0)) is None


@pytest.mark.parametrize(
    ("containers", "cpus", "several"),
    [(True, 1, {1, 2, 4}), (True, 2, {2, 4}), (False, 2, {1, 2, 4})],
)
def test_a_lock_is_shared_if_several_containers_take_it_or_one_and_a_thread(
    containers: bool, cpus: int, several: set[int]
) -> None:
    taken_by = {
        1: [(0, 0), (0, 1)],
        2: [(0, 1), (2, 0)],  # a thread's CPU is nobody's
        3: [(0, 2), (1, 2)],
        4: [(12, 0)],  # the recorder saw several itself
        5: [(2, 0), (2, 1)],  # a worker that moves
    }
    holds = np.zeros(sum(map(len, taken_by.values())), HOLD)
    rows = [(lock, *who) for lock, takers in taken_by.items() for who in takers]
    for row, (lock, kind, cpu) in zip(holds, rows, strict=True):
        row["address"], row["kind"], row["cpu"] = lock, kind, cpu
    assert taken_by_several(holds, cpus, containers=containers) == several


def test_a_lock_is_shared_by_those_who_spin_for_it_and_by_readers_that_nobody_sees() -> None:
    spun, beside, unseen, late = 0x1000, 0x2000, 0x3000, 0x4000
    holds = np.zeros(4, HOLD)
    holds["address"] = [spun, beside, unseen, late]
    holds["kind"] = [0, 0, UNSEEN, 0]
    recorded = recording(
        party(0, [visits(unseen >> 6, 1, 1)], [access(spun), access(beside)]),
        party(1, [visits(unseen >> 6, 1, 1)], [access(spun), access(beside + 8)]),
        party(2, [], [access(late, context=IRQ)]),
        party(2, [], [access(late)], thread=0x4000),
    )
    recorded = dataclasses.replace(recorded, holds=holds)
    assert used_by_several(recorded, np.array([0, 1, 2, -1])) == {spun, unseen}
    # CPUs of one container are one.
    assert used_by_several(recorded, np.array([0, 0, 2, -1])) == set()


def test_a_lock_that_others_share_awake_is_known_by_who_sleeps_for_it() -> None:
    found = concluded(timed([(RTNL, CLEANUP, 1, 20, 0, 50, 0, 900, 10, 200_000_000, 20_000_000)]))
    assert found is not None
    assert [lock.object for lock in report.over(workload(found), 5)] == ["rtnl_mutex"]


def test_a_wait_is_under_the_locks_of_the_same_work() -> None:
    recorded = timed(
        [(RTNL, CLEANUP, 2, 5, 5, 50, 900, 300, 0, 0, 0)],
        [(RTNL, CLEANUP, 2, 1, CLEANUP, 2, 400)],
        [(1, CLEANUP, 20, 15, 9_000, 800)] * 2,
    )
    recorded.waits["kind"][1] = IN_CHARGED_WORK
    found = concluded(recorded)
    assert found is not None
    under = {wait.charged: wait.under for wait in found.waits}
    assert under == {False: [], True: ["rtnl_mutex owner"]}


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
    # They keep out who wants it alone, and all behind him.
    over = [report.over(workload(Held(locks=[lock], waits=[])), limit) for limit in (13.1, 13.3)]
    assert over == [[lock], []]


def test_a_lock_that_somebody_slept_for_is_over_a_limit_whoever_had_it() -> None:
    (lock, _) = builders.held().locks
    awake = lock.holders[0].model_copy(
        update={"slept": 0.0, "asleep_ns": 0.0, "longest_ns": 9e4, "sleeps": []}
    )
    work = workload(Held(locks=[lock.model_copy(update={"holders": [awake]})], waits=[]))
    assert [len(report.over(work, limit)) for limit in (8.9, 9.1)] == [1, 0]
    assert "slept for until it was had: 9.00 ms at most" in shown(work)
    assert "rtnl_mutex: 9.00 ms at most" in ktap.render(builders.result(work), 100.0, 5.0)


def test_what_other_cpus_ran_meanwhile_may_be_why_it_took_so_long() -> None:
    found = builders.held()
    (lock, _) = found.locks
    figures = {"longest_slept_ns": 4e6, "longest_at_most_ns": 12e6, "longest_ns": 13e6}
    holder = lock.holders[0].model_copy(update=figures)
    told = lock.model_copy(update={"holders": [holder]})
    wait = found.waits[0].model_copy(update={"longest_at_most_ns": 99e6, "charged": True})
    text = shown(workload(Held(locks=[told], waits=[wait])))
    assert "4.00 to 12.0 3.00 2.00 7.00 rtnl_mutex" in text
    assert "24.0 to 99.0 rcu_barrier from netdev_run_todo, charged" in text
    # Somebody slept for it for longer.
    assert report.brief(workload(Held(locks=[told], waits=[]))) == "9.00 ms"


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


def sleeping(*last: float, unlocked: float = 0.0, charged: bool = False) -> WorkloadResult:
    """An operation that sleeps under locks, one after the other, and without any."""
    found = builders.held()
    holder = found.locks[0].holders[0]
    locks = [
        found.locks[0].model_copy(
            update={
                "address": f"{0x1000 + number:#x}",
                "holders": [holder.model_copy(update={"asleep_ns": ns, "own_asleep_ns": ns})],
            }
        )
        for number, ns in enumerate(last)
    ]
    wait = found.waits[0].model_copy(update={"unlocked_ns": unlocked, "charged": charged})
    held = Held(locks=locks, waits=[wait])
    return builders.workload("w", [], held=held).model_copy(update={"locks": [], "waits": []})


def test_what_one_alone_sleeps_comes_one_after_the_other() -> None:
    profile = profiles.load(profiles.DEFAULT)
    (alone, many) = queues.predict(sleeping(2e6, 2e6), profile, [1, 64]).points
    assert alone.throughput.usual == pytest.approx(250, rel=0.01)
    assert alone.relative.usual == 1
    assert 64 * many.throughput.usual == pytest.approx(500, rel=0.03)


def test_what_is_waited_for_under_no_lock_delays_each_and_bounds_nobody() -> None:
    profile = profiles.load(profiles.DEFAULT)
    for one, each in [
        (sleeping(unlocked=4e6), 250),
        (sleeping(2e6, unlocked=2e6), 250),
    ]:
        (alone, few) = queues.predict(one, profile, [1, 2]).points
        assert alone.throughput.usual == pytest.approx(each, rel=0.01)
        assert 2 * few.throughput.usual > 1.3 * each
    # Nor does what it waits for under a lock that it does not share, in no lock's time.
    own = sleeping(1e3)
    assert own.held is not None
    wait = own.held.waits[0].model_copy(update={"asleep_ns": 4e6})
    hidden = own.model_copy(update={"held": own.held.model_copy(update={"waits": [wait]})})
    assert unlocked(hidden) == 4e6 - 1e3
    free = queues.predict(sleeping(unlocked=4e6, charged=True), profile, [1]).points[0]
    assert free.throughput.usual > 100_000


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
    assert len(unknowns.of(one)) == 3
    assert unknowns.of(one.model_copy(update={"held": builders.held()})) == []


@pytest.mark.parametrize(
    ("charged", "ns", "waited", "told"),
    [
        (True, 3e6, 7e6, True),
        (True, 5e6, 7e6, False),
        (True, 3e6, 0, False),
        (False, 3e6, 7e6, False),
    ],
)
def test_where_kernel_threads_sleep_with_a_lock_for_many_it_is_unknown_for_how_many(
    charged: bool, ns: float, waited: float, told: bool
) -> None:
    (lock, *_) = builders.held(asleep=2e6).locks
    holder = lock.holders[0].model_copy(update={"charged": charged, "ns": ns, "tried_ns": waited})
    held = Held(locks=[lock.model_copy(update={"holders": [holder]})], waits=[])
    words = "for how many at once kernel threads sleep with rtnl_mutex (2 ms per op)"
    assert unknowns.of(workload(held)) == ([words] if told else [])
    # Who sleeps with it for himself has it for as long.
    own = holder.model_copy(update={"charged": False, "asleep_ns": 9e6, "ns": 9e6})
    both = Held(locks=[lock.model_copy(update={"holders": [holder, own]})], waits=[])
    assert unknowns.of(workload(both)) == []


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
    # In the latter somebody slept for it for longer than anybody had it.
    assert (first.longest.before, first.longest.after) == (13.2e6, 9e6)
    assert second.object == "quick_mutex"
    file = io.StringIO()
    comparisons.render(found, Console(file=file, width=100), verbose=False)
    said = " ".join(file.getvalue().split())
    assert "2.00 -> 0.50 13.2 -> 9.00 rtnl_mutex" in said
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
    times = {"longest_ns": 900_000.0, "longest_tried_ns": 900_000.0}
    brief = lock.holders[0].model_copy(update=times)
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
    ).conclude(lambda address: True)
    assert found is not None
    kept = [lock.object for lock in found.locks]
    assert f"lock_{2 * MOST - 1}" in kept
    assert MOST < len(kept) <= MOST + 2 * LONGEST


@pytest.mark.parametrize(
    ("asleep", "longest", "tried", "shared", "said"),
    [
        # In all enough, and once no more than what hardly tells; too little in all, but long once.
        (1_000, 20_000, 0, False, "0.020 ms"),
        (900, 2e6, 0, False, "2.00 ms"),
        (900, 900_000, 0, False, "-"),
        # Who shares it keeps out who wants it alone; who sleeps for it is kept out by anybody.
        (900, 30.2e6, 0, True, "30.2 ms*"),
        (900, 900_000, 0, True, "-"),
        (900, 900_000, 9e6, False, "9.00 ms"),
        (900, 2e6, 9e6, True, "9.00 ms"),
        (0, 0, 9e6, True, "9.00 ms"),
    ],
)
def test_all_views_tell_of_a_lock_by_one_rule(
    asleep: float, longest: float, tried: float, shared: bool, said: str
) -> None:
    (lock, *_) = builders.held(longest, asleep).locks
    times = {"longest_tried_ns": tried, "shared": shared, "slept": 0.2 if longest else 0.0}
    holder = lock.holders[0].model_copy(update=times)
    held = Held(locks=[lock.model_copy(update={"holders": [holder]})], waits=[])
    work = workload(held)
    whole = builders.result(work)
    (one,) = maps.draw([whole]).operations
    assert report.brief(work) == said
    assert view.asleep(one.cells[0]) == said
    told = said != "-"
    # What fails by a limit that is below it is in the column, and in the report.
    assert bool(report.over(work, 1.0)) == (told and said != "0.020 ms")
    assert ("rtnl_mutex" in shown(work)) == told
    assert ("who wants it alone waits" in shown(work)) == said.endswith("*")
    rows = [one for one in kinds.taken(work) if one.lock == "rtnl_mutex"]
    assert not told or max(one.at_most for one in rows) == held.locks[0].once_ns / 1e6
    assert (
        '<td class="code">rtnl_mutex</td>'
        in html.render(whole, None, profiles.load(profiles.DEFAULT))
    ) == bool(rows)
    assert (report.verdict(work) is not None) == told
    (changed,) = compare(builders.result(workload(Held(locks=[], waits=[]))), whole).workloads
    assert [one.longest.after for one in changed.held] == [held.locks[0].once_ns]
    file = io.StringIO()
    found = compare(whole, whole)
    comparisons.render(found, Console(file=file, width=100), verbose=False)
    assert ("rtnl_mutex" in file.getvalue()) == told


def waiting(times: float, ns: float, kind: SleepKind = "rcu") -> Held:
    """Who waits with no lock that is shared."""
    (known, *_) = builders.held().waits
    told = {"times": times, "ns": ns, "longest_ns": 3 * ns, "under": [], "kind": kind}
    return Held(locks=[], waits=[known.model_copy(update=told)])


def test_what_waits_for_the_machine_under_no_lock_is_told_and_is_no_lock() -> None:
    work = workload(waiting(1.0, 2e6))
    name = builders.held().waits[0].function
    said = report.verdict(work)
    assert said == (
        f"no lock that is shared is held asleep for long; {name} takes 6.00 ms at most, 2.00 ms an "
        "operation, which keeps nobody else out"
    )
    assert f"waits: {said}" in ktap.render(builders.result(work), 100.0)
    assert (report.brief(work), report.over(work, 1.0)) == ("-", [])
    # A worker does one thing after another, and a batch is many operations'.
    flushed = report.verdict(workload(waiting(1.0, 2e6, "work")))
    assert flushed is not None
    assert flushed.endswith("an operation, which the whole machine has to get on for")
    (rcu,) = waiting(1.0, 2e6).waits
    batch = workload(Held(locks=[], waits=[rcu.model_copy(update={"charged": True})]))
    assert "an operation, charged, which the whole machine" in str(report.verdict(batch))
    for other in (waiting(1.0, 900.0), waiting(1.0, 2e6, "timer"), waiting(1.0, 2e6, "event")):
        assert report.verdict(workload(other)) is None


def test_a_wait_that_a_change_adds_is_a_regression() -> None:
    none = builders.result(workload(Held(locks=[], waits=[])))
    one = builders.result(workload(waiting(1.0, 2e6)))
    name = builders.held().waits[0].function
    (found,) = diff(none, one, Tolerance()).findings
    assert (found.what, found.name, found.how) == ("waits", name, "appeared")
    assert (found.per_op.before, found.per_op.after) == (0.0, 1.0)
    # How often a batch waits is chance, and a worker that is idle is not waited for.
    (rcu,) = waiting(1.0, 2e6).waits
    batch = Held(locks=[], waits=[rcu.model_copy(update={"charged": True})])
    idle = {"kind": "work", "slept": 0.0}
    flushed = Held(locks=[], waits=[rcu.model_copy(update=idle)])
    for held in (batch, flushed):
        assert diff(none, builders.result(workload(held)), Tolerance()).findings == []
    # For how long is the guest's, and chance.
    longer = builders.result(workload(waiting(1.0, 9e6)))
    assert diff(one, longer, Tolerance()).findings == []
    (changed,) = compare(one, longer).workloads
    assert [(each.function, each.ns.after) for each in changed.waits] == [(name, 9e6)]
    file = io.StringIO()
    comparisons.render(compare(one, longer), Console(file=file, width=100), verbose=False)
    assert f"2.00 -> 9.00 {name}" in " ".join(file.getvalue().split())


def test_what_is_said_of_who_shares_a_lock_is_his() -> None:
    found = builders.held()
    (lock, _) = found.locks
    alone = lock.holders[0].model_copy(
        update={"asleep_ns": 900.0, "longest_ns": 500_000.0, "longest_tried_ns": 0.0}
    )
    sleeps = [Spell(kind="timer", function="msleep", at="", times=1, ns=200.0)]
    times = {"asleep_ns": 200.0, "longest_ns": 2e6, "sleeps": sleeps, "by": "reads"}
    reader = alone.model_copy(update={"shared": True, **times})
    both = workload(Held(locks=[lock.model_copy(update={"holders": [alone, reader]})], waits=[]))
    said = report.verdict(both)
    assert said is not None
    assert "is held for 2.00 ms at most by who shares it, asleep <0.001 ms an operation" in said
    assert "reads, shared: msleep" in shown(both)
    # Somebody slept for it for longer than anybody had it.
    waits = reader.model_copy(update={"longest_tried_ns": 9e6, "asleep_ns": 1_500.0})
    (said,) = [
        report.verdict(
            workload(Held(locks=[lock.model_copy(update={"holders": [waits]})], waits=[]))
        )
    ]
    assert said == "slept for: rtnl_mutex, 9.00 ms at most until it is had"


def test_who_has_a_lock_alone_is_told_beside_who_shares_it_and_sleeps_for_longer() -> None:
    (lock, _) = builders.held(longest=30e6, tried=0.0).locks
    writer = lock.holders[0]
    times = {"shared": True, "longest_ns": 12e6, "asleep_ns": 9e6, "by": "reads"}
    both = lock.model_copy(update={"holders": [writer, writer.model_copy(update=times)]})
    work = workload(Held(locks=[both], waits=[]))
    assert report.brief(work) == "30.0 ms"
    assert [(one.by, one.at_most, one.waited) for one in kinds.taken(work)] == [
        ("reads, shared", 12.0, 14.0),
        ("cleanup_net", 30.0, 0.0),
    ]
    said = shown(work)
    assert "30.0 6.00 11.0 14.0 rtnl_mutex" in said
    assert "reads, shared:" in said and "cleanup_net:" in said


def test_who_has_a_lock_alone_comes_before_who_shares_a_longer_one() -> None:
    found = builders.held()
    (lock, _) = found.locks
    times = {"shared": True, "longest_ns": 47.6e6, "asleep_ns": 9e6}
    holder = lock.holders[0].model_copy(update=times)
    both = {"object": "pernet_ops_rwsem", "address": "0x80", "holders": [holder]}
    work = workload(Held(locks=[lock.model_copy(update=both), lock], waits=[]))
    assert report.brief(work) == "47.6 ms*"
    said = report.verdict(work)
    assert said is not None
    assert said.startswith("one asleep for all: rtnl_mutex is held for 13.2 ms at most")


def test_who_sets_a_flag_holds_no_lock_and_is_not_told() -> None:
    rows = [
        (RTNL, REGISTER, 0, 20, 10, 1_000, 8_000, 900, 4, 60, 30),
        (RTNL, CLEANUP, 0, 5, 5, 50, 500, 300, 0, 0, 0),
        (OTHER, CLEANUP, 0, 5, 5, 50, 500, 300, 0, 0, 0),
    ]
    spans = [(one, taker, 0, 0, 5, 9, 0, 0) for one, taker, *_ in rows]
    sleeps = [(one, taker, 0, 0, 0, 1, 70) for one, taker, *_ in rows]
    found = HeldLocks(
        timed(rows, sleeps, spans=spans),
        SLEPT_IN,
        operations=10,
        name=lambda address: ("rtnl_mutex" if address == RTNL else "flag", ""),
        code=lambda address: FUNCTIONS[address >> 8],
        flag=lambda address: address == CLEANUP,
    ).conclude(lambda address: True)
    assert found is not None
    (lock,) = found.locks
    assert [one.by for one in lock.holders] == ["register_netdev"]
    assert [one.by for one in lock.spans] == ["register_netdev"]
    assert [one.ns for one in lock.holders[0].sleeps] == [7]
