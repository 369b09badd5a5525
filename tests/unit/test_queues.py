# SPDX-License-Identifier: GPL-2.0-or-later
"""From transfers and instructions to throughput, and what others have measured."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import builders
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partywall.core.errors import UsageProblem
from partywall.model import profiles, published, queues, signal
from partywall.model.load import Queue, Work, line_queue
from partywall.model.network import solve
from partywall.model.predict import overlay_stalls, signals
from partywall.model.profiles import Level, Profile
from partywall.model.queues import neighbours, predict_work
from partywall.results.counts import CallCount, Instructions
from partywall.results.lines import Line, LineObject, Wall

TWO = profiles.load("ice-lake-2x32")
GROUPS = profiles.load("milan-2x48")

Demands = st.lists(st.floats(0.01, 1e4), min_size=1, max_size=6)


# The network


def test_one_customer_waits_for_nobody() -> None:
    found = solve([30, 70], 900, 1)
    assert found.residence == 100
    assert found.throughput == pytest.approx(1 / 1000)


def test_two_customers_at_one_station_as_worked_out_by_hand() -> None:
    # One alone is at the station 1/4 of its time; the other meets it there as often.
    found = solve([1], 3, 2)
    assert found.residence == pytest.approx(1.25)
    assert found.throughput == pytest.approx(2 / 4.25)


@given(Demands, st.floats(0, 1e5), st.integers(1, 64))
def test_throughput_keeps_within_the_asymptotic_bounds(
    demands: list[float], think: float, customers: int
) -> None:
    found = solve(demands, think, customers)
    total, worst = sum(demands), max(demands)
    assert found.throughput <= min(customers / (think + total), 1 / worst) * (1 + 1e-9)
    assert found.throughput >= customers / (think + total * customers) * (1 - 1e-9)


@given(Demands, st.floats(0, 1e5))
def test_more_customers_never_do_less_together(demands: list[float], think: float) -> None:
    rates = [solve(demands, think, n).throughput for n in range(1, 20)]
    assert all(more >= less * (1 - 1e-12) for less, more in pairwise(rates))


def test_no_station_means_no_waiting() -> None:
    assert solve([], 500, 512).throughput == pytest.approx(512 / 500)


def test_reads_wait_for_writes_and_keep_nobody_waiting() -> None:
    # Two customers, worked out by hand: a write of 1 with nothing else is always busy
    # in 1/(1+1+2) of one's time, which the other's write and read wait for.
    found = solve([1], 2, 2, [1])
    assert found.residence == pytest.approx(2 * (1 + 1 / 4))
    assert solve([0], 5, 100, [3]).throughput == pytest.approx(100 / 8)


@given(Demands, st.floats(0, 1e5), st.integers(1, 64), st.floats(0, 1e4))
def test_reads_bound_nothing(
    demands: list[float], think: float, customers: int, reads: float
) -> None:
    found = solve(demands, think, customers, [reads] * len(demands))
    queued = solve([one + reads for one in demands], think, customers)
    worst = max(demands)
    assert found.throughput <= 1 / worst * (1 + 1e-9)
    assert found.throughput >= queued.throughput * (1 - 1e-9)
    assert found.throughput <= solve(demands, think, customers).throughput * (1 + 1e-9)


# The machine


@given(st.sampled_from(["spread", "packed"]), st.integers(1, 5000), st.sampled_from([TWO, GROUPS]))
def test_somebody_is_somewhere(placement: queues.Placement, count: int, profile: Profile) -> None:
    chances = neighbours(profile, count, placement)
    assert sum(chances) == pytest.approx(1)
    assert all(-1e-12 <= chance <= 1 for chance in chances)


def test_spread_and_packed_are_what_they_say() -> None:
    assert neighbours(TWO, 2, "spread") == [0, 1]
    assert neighbours(TWO, 2, "packed") == [1, 0]
    assert neighbours(TWO, 32, "packed") == [1, 0]
    assert neighbours(TWO, 64, "packed") == pytest.approx(neighbours(TWO, 64, "spread"))
    assert neighbours(TWO, 4, "spread") == pytest.approx([1 / 3, 2 / 3])
    assert neighbours(TWO, 3, "spread") == pytest.approx([1 / 3, 2 / 3])
    assert queues.transfer_ns(TWO, 2, "spread") == 108
    assert queues.transfer_ns(GROUPS, 8, "packed") == 23


# The prediction


def test_walls_are_what_makes_containers_slow() -> None:
    free = predict_work(Work(5000, ()), TWO)
    walled = predict_work(Work(5000, (Queue(2), Queue(4))), TWO)
    for point in free:
        if point.containers <= TWO.cores:
            assert point.relative.low == point.relative.high == 1
            assert point.stalled.high == 0
    assert walled[0].relative.usual == 1
    shares = [point.relative.usual for point in walled]
    assert shares == sorted(shares, reverse=True)
    assert shares[3] < 0.9


def test_what_nobody_queues_for_costs_the_same_at_any_number() -> None:
    few, many = predict_work(Work(5000, (), alone=10), TWO, [32, 64])
    assert few.relative.usual == pytest.approx(many.relative.usual, rel=0.02)
    assert few.relative.usual < 0.8


def test_reads_of_one_line_are_served_side_by_side() -> None:
    (reading,) = predict_work(Work(5000, (Queue(0.01, reads=4.0),)), TWO, [64])
    (writing,) = predict_work(Work(5000, (Queue(4.01),)), TWO, [64])
    (alone,) = predict_work(Work(5000, (), alone=4.0), TWO, [64])
    assert writing.relative.usual < 0.2
    assert reading.relative.usual == pytest.approx(alone.relative.usual, rel=0.05)


def test_more_reads_fetch_the_line_where_more_others_write_it() -> None:
    # 2 visits that read for 0.1 that write: among 8, 0.7 of them meet a write.
    line = line_queue(0.8, 0.1, 2.0, 7)
    assert (line.writes, line.reads) == pytest.approx((0.1, 0.7))
    among = [line.reads_among(n) for n in (0, 1, 7, 19, 20, 63)]
    assert among == pytest.approx([0, 0.1, 0.7, 1.9, 2.0, 2.0])
    # All reads meet a write already.
    full = line_queue(2.0, 1.2, 0.8, 7)
    assert full.reads_among(63) == full.reads_among(7) == pytest.approx(0.8)
    # What a file claims and no line does.
    assert line_queue(3.0, 0.0, 0.0, 0).reads_among(63) == 3.0


def test_a_measured_line_queues_for_its_writes_alone() -> None:
    sample = builders.signal()
    wall = sample.walls[0].model_copy(update={"write_visits": 0.5, "read_visits": 1.5})
    found = queues.predict(sample.model_copy(update={"walls": [wall]}), TWO)
    assert (found.stations[0].transfers, found.stations[0].reads) == (2.0, 1.5)
    more = queues.predict(sample.model_copy(update={"walls": sample.walls[:1]}), TWO)
    assert found.points[6].relative.usual > more.points[6].relative.usual


def test_a_lock_bounds_all_together() -> None:
    half = Work(10_000, (Queue(0.0, own=5000, held=5000),))
    (point,) = predict_work(half, TWO, [64])
    alone = 1e9 / (10_000 * TWO.instruction_ns[1])
    assert point.throughput.usual * 64 == pytest.approx(2 * alone)
    # What runs under locks taken later is under the first one as well.
    outer = Work(10_000, (Queue(0.0, own=100, held=5000), Queue(0.0, own=4900, held=4900)))
    (nested,) = predict_work(outer, TWO, [64])
    assert nested.throughput.usual <= point.throughput.usual * (1 + 1e-9)


def test_locks_of_one_line_do_not_exclude_each_other() -> None:
    line = Queue(0.5)
    nested = Work(10_000, (line, Queue(0.0, own=6000, held=6000), Queue(0.0, own=1000, held=7000)))
    for point in predict_work(nested, TWO, [1, 2, 64]):
        if point.containers == 1:
            assert point.relative.usual == 1
        assert point.throughput.usual * 7000 * TWO.instruction_ns[1] * point.containers <= 1.01e9


def test_each_of_a_containers_processes_queues() -> None:
    single = predict_work(Work(5000, (Queue(2),)), TWO, [8, 32])
    four = predict_work(Work(5000, (Queue(2),), processes=4), TWO, [2, 8, 16])
    # Eight containers of four are as many customers as 32 of one; the line is a little
    # more often still in its own container.
    assert four[1].throughput.usual / 4 == pytest.approx(single[1].throughput.usual, rel=0.15)
    assert four[1].throughput.usual / 4 >= single[1].throughput.usual
    assert four[2].throughput.usual < four[1].throughput.usual


def test_more_containers_than_cores_share_them() -> None:
    full, twice = predict_work(Work(5000, (Queue(2),)), TWO, [64, 128])
    assert twice.throughput.usual == pytest.approx(full.throughput.usual / 2)


@given(
    st.floats(1, 1e7),
    st.lists(
        st.builds(Queue, st.floats(0.01, 1e3), own=st.just(0.0), held=st.just(0.0)), max_size=4
    ),
    st.floats(0, 1e3),
)
def test_the_usual_lies_between_least_and_most(
    instructions: float, queues: list[Queue], alone: float
) -> None:
    for point in predict_work(Work(instructions, tuple(queues), alone), GROUPS, [1, 2, 7, 64, 300]):
        for found in (point.throughput, point.relative, point.stalled):
            assert 0 <= found.low <= found.usual <= found.high
        assert point.relative.high <= 1
        assert point.stalled.high <= 1


def test_a_table_is_many_lines_and_no_single_one() -> None:
    one = Work(5000, (Queue(4.0),))
    table = Work(5000, (Queue(4.0, lines=100),))
    each = Work(5000, tuple(Queue(0.04) for _ in range(100)))
    (single,), (spread,), (apart,) = (predict_work(work, TWO, [64]) for work in (one, table, each))
    assert spread.relative.usual == pytest.approx(apart.relative.usual)
    assert spread.relative.usual > 2 * single.relative.usual


def lines_of_pairs(transfers: float, sharing: str, kind: Any = "slab", **wrote: Any) -> list[Line]:
    """Four lines that two of eight containers write each, as often as the other."""
    walls = []
    for number in range(4):
        name, address = f"of {number}", f"{0xFFFF888000000000 + 64 * number:#x}"
        what = LineObject(kind=kind, name=name, address=address, size=8, line=0)
        given: dict[str, Any] = {"writers": [2 * number, 2 * number + 1], "sharing": sharing}
        walls.append(builders.line(what, transfers, **(given | wrote)))
    return walls


def of_pairs(sharing: str = "some", **more: Any) -> queues.Prediction:
    """What is expected where two of eight containers write a line of four each."""
    sample = builders.workload("pairs", lines_of_pairs(0.5, sharing, **more))
    return queues.predict(sample, profiles.load(profiles.DEFAULT), [8, 64])


def test_a_line_of_two_is_no_queue_of_all() -> None:
    eight, many = (point.relative.usual for point in of_pairs().points)
    # They are further apart in a larger part of the machine, and no more at each line.
    assert many == pytest.approx(eight, rel=0.1)
    assert of_pairs("all").points[1].relative.usual < 0.85 * many
    # Nor is one that most of those that ran came to.
    most = of_pairs(writers=list(range(4)))
    assert most.points[1].relative.usual == of_pairs("all").points[1].relative.usual


def locks_of_pairs(sharing: str) -> queues.Prediction:
    """Four locks that two of eight containers take each, as often as the other."""
    walls = lines_of_pairs(0.25, sharing)
    locks = [
        builders.lock(one.object.name, 600, address=one.address, exclusive=0.25) for one in walls
    ]
    sample = builders.workload("pairs", walls, locks=locks)
    return queues.predict(sample, profiles.load(profiles.DEFAULT), [8, 64])


def test_a_variable_is_there_once_whoever_comes_to_it() -> None:
    assert of_pairs("some", kind="global").points == of_pairs("all").points


def test_who_comes_to_a_line_in_deferred_work_shares_it_as_well() -> None:
    own, all_of_it = lines_of_pairs(0.5, "some"), lines_of_pairs(0.5, "all", writers=builders.ALL)
    late = builders.put_off(all_of_it)
    both = builders.workload("pairs", own, deferred=late)
    apart = builders.workload("pairs", own, deferred=builders.put_off(own))
    profile = profiles.load(profiles.DEFAULT)
    (of_all,), (of_pairs,) = (queues.predict(one, profile, [64]).points for one in (both, apart))
    assert of_all.relative.usual < 0.5 * of_pairs.relative.usual


def test_a_lock_of_two_is_no_queue_of_all() -> None:
    eight, many = (point.relative.usual for point in locks_of_pairs("some").points)
    assert many == pytest.approx(eight, rel=0.1)
    # Sixty-four of them hold one of four for an eighth of what an operation takes.
    assert locks_of_pairs("all").points[1].relative.usual < 0.5 * many


def test_a_table_of_which_few_lines_are_listed_costs_what_it_moves() -> None:
    table = builders.signal().walls[0].object
    lines = [builders.line(table.model_copy(update={"line": 64 * n}), 4 / 512) for n in range(16)]
    wall = Wall(kind=table.kind, name=table.name, lines=512, transfers=4.0)
    sample = builders.workload("table", lines, objects=[wall], between=4.0)
    whole = Work(sample.instructions.kernel + sample.instructions.user, (Queue(4.0, lines=512),))
    (point,), (told,) = queues.predict(sample, TWO, [64]).points, predict_work(whole, TWO, [64])
    assert point.relative.usual == pytest.approx(told.relative.usual, rel=1e-3)
    assert point.relative.usual < 0.9


def test_lines_of_a_wall_that_are_not_listed_are_queued_for_as_well() -> None:
    sample = builders.signal()
    (first, second) = sample.walls[1:]
    assert first.object.name == second.object.name
    whole = sample.model_copy(update={"walls": [first, second]})
    total = first.transfers + second.transfers
    wall = Wall(kind="global", name=first.object.name, lines=2, transfers=total)
    listed = sample.model_copy(update={"walls": [first], "objects": [wall]})
    found, all_of_it = (queues.predict(one, TWO) for one in (listed, whole))
    assert [station.lines for station in found.stations] == [1, 1]
    moved = [station.transfers for station in found.stations]
    assert moved == pytest.approx([first.transfers, second.transfers])
    assert found.handed_over == pytest.approx(all_of_it.handed_over)
    for one, other in zip(found.points, all_of_it.points, strict=True):
        assert one.relative.usual == pytest.approx(other.relative.usual)


def test_what_walls_of_one_name_do_not_list_is_queued_for_once() -> None:
    """As of many containers' inodes, whose lines are told by their name alone."""
    sample = builders.signal()
    (first, second) = sample.walls[1:]
    total = first.transfers + second.transfers
    name = first.object.name
    one = Wall(kind="global", name=name, lines=2, transfers=total)
    each = [
        Wall(kind="global", name=name, lines=1, transfers=line.transfers)
        for line in (first, second)
    ]
    of_one, of_each = (
        queues.predict(sample.model_copy(update={"walls": [first], "objects": walls}), TWO)
        for walls in ([one], each)
    )
    assert sum(station.transfers for station in of_each.stations) == pytest.approx(total)
    assert [(one.lines, one.transfers) for one in of_each.stations] == [
        (one.lines, one.transfers) for one in of_one.stations
    ]


# Deferred work


def of_both(own: list[Line], late: list[Line], **more: Any) -> queues.Prediction:
    """What is expected of a workload with these lines of walls in either kind of work."""
    sample = builders.workload("udp", own, deferred=builders.put_off(late, **more))
    return queues.predict(sample, TWO, [2])


def test_two_containers_wait_for_deferred_work_as_worked_out_by_hand() -> None:
    # An operation of 0.45 ns x 2,400 instructions = 1,080 ns. Of two containers in two sockets
    # a line travels 108 ns, every other visit finds it there: 54 ns for each transfer. 10 of
    # them are 540 ns. One alone is at the line in 540 / 1,620 of its time, and the other
    # meets it there as often: 540 x (1 + 1/3) = 720 ns. So each does 1,080 / 1,800 of one alone.
    lock = builders.named_wall("udp_table")
    late = lock.model_copy(update={"transfers": 6.0, "write_visits": 6.0})
    own = lock.model_copy(update={"transfers": 4.0, "write_visits": 4.0})
    ran = Instructions(kernel=1400, user=400, background=700, deferred=600)
    sample = builders.workload("udp", [own], deferred=builders.put_off([late]), instructions=ran)
    found = queues.predict(sample, TWO, [2])
    (point,), (station,) = found.points, found.stations
    assert point.relative.usual == pytest.approx(1080 / 1800)
    assert (station.transfers, station.deferred, station.reads) == (10.0, 6.0, 0.0)
    # 720 ns there, of 1,800.
    assert station.waits == pytest.approx([720 / 1800])
    assert found.unknown == []


def test_visits_of_both_kinds_of_work_are_to_one_line() -> None:
    # One writes in its call, once; all others read in softirqs, which wait for who writes.
    wall = builders.named_wall("net")
    own = wall.model_copy(update={"transfers": 1.0, "write_visits": 1.0})
    late = wall.model_copy(update={"transfers": 2.5, "write_visits": 0.5, "read_visits": 2.0})
    (station,) = of_both([own], [late]).stations
    # Of 3.5 transfers 1.5 take the line away.
    assert (station.transfers, station.reads, station.deferred) == (3.5, 2.0, 2.5)


def test_lines_of_deferred_work_alone_have_stations_of_their_own() -> None:
    here, there = builders.signal().walls[:2]
    found = of_both([here], [there, here], handed_over=1.5, rest=0.25)
    assert [(one.object, one.transfers, one.deferred) for one in found.stations] == [
        (here.object.name, 4.0, 2.0),
        (there.object.name, 2.0, 2.0),
    ]
    # What is handed over there, or moves too seldom, is waited for by nobody.
    assert found.handed_over == pytest.approx(1.75)


def test_lines_of_a_deferred_wall_that_are_not_listed_are_queued_for_as_well() -> None:
    line = builders.named_wall("table")
    wall = Wall(kind="global", name="table", lines=5, transfers=line.transfers + 2.0)
    late = builders.put_off([line]).model_copy(
        update={"objects": [wall], "transfers": wall.transfers}
    )
    found = queues.predict(builders.workload("udp", [], deferred=late), TWO, [2])
    assert [(one.lines, one.transfers, one.deferred) for one in found.stations] == [
        (1, 3.0, 3.0),
        (4, 2.0, 2.0),
    ]
    assert found.handed_over == 0


def test_a_lock_of_deferred_work_that_is_not_timed_is_said() -> None:
    code = [builders.site("_raw_spin_lock_bh", 4, "lock", context="softirq")]
    lock = builders.named_wall("backlog").model_copy(update={"code": code})
    assert of_both([], [lock]).unknown == ["how long backlog is held"]


def test_what_cannot_be_known_is_said() -> None:
    sample = builders.signal()
    lock = builders.lock("rtnl_mutex", 100, address=sample.walls[0].address, own=50, slept=0.25)
    waits = [CallCount(function="synchronize_rcu", per_op=0.5)]
    found = queues.predict(sample.model_copy(update={"locks": [lock], "waits": waits}), TWO)
    assert found.unknown == [
        "how long synchronize_rcu takes (0.5 per op)",
        "how long holders of rtnl_mutex lock sleep (0.25 per op)",
    ]
    assert max(station.held for station in found.stations) == 100
    assert queues.predict(sample, TWO).unknown == []


# What others measured


def test_the_published_signals_are_met_within_30_percent() -> None:
    """On the profile whose machine has as many cores as theirs had at least."""
    checks = signals(TWO, signal.stored())
    # One alone is what the others are shares of, and no success.
    assert [check.count for check in checks] == [4, 8, 16, 32, 64]
    assert checks[0].published == pytest.approx(353204 / 380068)
    assert [check.count for check in checks if abs(check.error) > 0.30] == []


def test_the_published_stalls_are_met_within_30_percent() -> None:
    given, predicted = overlay_stalls()
    assert given.predicted == pytest.approx(given.published)
    assert abs(predicted.error) <= 0.30


def test_what_a_signal_costs_comes_from_a_measurement() -> None:
    cost = signal.measured(builders.result(builders.signal()), "x.json")
    assert (cost.command, cost.containers) == ("x.json", 8)
    assert [line.transfers for line in cost.lines] == [2.0, 2.031]
    assert cost.work.instructions == pytest.approx(4811.2 + 212.0)
    with pytest.raises(UsageProblem, match="no signals"):
        signal.measured(builders.result(builders.isolated()), "x.json")


def test_what_is_stored_is_what_the_kernel_gives() -> None:
    """The range of several builds of Debian's kernel package's guests."""
    cost = signal.stored()
    assert 5700 < cost.kernel_instructions < 5800
    assert [line.transfers for line in cost.lines] == [2.0, 2.0]


def test_published_series_are_found_by_workload() -> None:
    assert published.of("signal", "between") is published.SIGNALS
    assert published.of("signal", "within") is None


# Profiles


def test_every_profile_says_where_its_figures_are_from() -> None:
    for name in profiles.names():
        profile = profiles.load(name)
        assert profile.name == name
        assert len(profile.sources) >= 2


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "no hardware profile"),
        ("levels = [", "is no hardware profile"),
        ("description = 'x'", "Field required"),
        ("\xff", "is no hardware profile"),
    ],
)
def test_what_is_no_profile_is_refused(tmp_path: Path, text: str | None, says: str) -> None:
    path = tmp_path / "mine.toml"
    if text is not None:
        path.write_bytes(text.encode("latin-1"))
    with pytest.raises(UsageProblem, match=says):
        profiles.load(str(path))
    with pytest.raises(UsageProblem, match="no hardware profile"):
        profiles.load("none-such")


def test_a_machine_is_made_of_whole_parts() -> None:
    near = Level(name="socket", cores=24, transfer_ns=50)
    given = TWO.model_dump() | {"levels": [near, Level(name="all", cores=50, transfer_ns=100)]}
    with pytest.raises(ValueError, match="whole parts"):
        Profile(**given)
    with pytest.raises(ValueError, match="order"):
        Profile(**(TWO.model_dump() | {"instruction_ns": (0.5, 0.4, 0.6)}))
