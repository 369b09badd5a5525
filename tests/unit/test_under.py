# SPDX-License-Identifier: GPL-2.0-or-later
"""What is fetched while a lock is held, and who waits for that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import builders
import numpy as np
import pytest
from recordings import party, recording

from partywall.analyse.under import Under, under
from partywall.model import profiles, queues
from partywall.model.holders import HAND_OVER
from partywall.model.load import Queue, Work, line_queue
from partywall.model.queues import predict_work, transfer_ns
from partywall.record.recording import UNDER, Kind, key
from partywall.results.locks import Lock

TWO = profiles.load("ice-lake-2x32")
LOCK, FIELD, OTHER = 0xFF11000004000040, 0xFF11000004000090, 0xFF110000040000C8
"""A lock, what it guards, and a lock that is in no wall."""


def lines_of(
    walls: list[bool], again: Sequence[int] = (0, 0), loose: Sequence[int] = (0, 0)
) -> dict[Kind, Any]:
    """Lines of the lock and of what it guards, four transfers each of eight visits.

    ``again`` and ``loose``: of what it guards, by each of two parties.
    """
    lines = SimpleNamespace(
        number=np.array([LOCK >> 6, FIELD >> 6], np.uint64),
        reads=np.array([[1, 1], [1, 1]]),
        writes=np.array([[3, 3], [3, 3]]),
        again=np.array([[0, 0], list(again)]),
        loose=np.array([[0, 0], list(loose)]),
    )
    judged = SimpleNamespace(walls=np.array(walls), moved=np.array([4.0, 4.0]))
    return {Kind.FOREGROUND: (lines, judged)}


def found(
    *rows: tuple[int, int, int],
    sets: tuple[tuple[int, ...], ...] = ((LOCK,),),
    walls: tuple[bool, ...] = (True, True),
    again: Sequence[int] = (0, 0),
    loose: Sequence[int] = (0, 0),
) -> Under:
    recorded = replace(recording(party(0)), sets=sets, under=np.array(list(rows), UNDER))
    return under(recorded, lines_of(list(walls), again, loose), ~np.eye(2, dtype=bool))


def test_what_is_visited_under_a_lock_is_a_share_of_its_line() -> None:
    told = found((key(LOCK >> 6, Kind.FOREGROUND), 0, 8), (key(FIELD >> 6, Kind.FOREGROUND), 0, 2))
    assert told.shares[Kind.FOREGROUND] == {0: 1.0, 1: 0.25}
    lock = told.of[LOCK]
    assert (lock.all, lock.last, lock.word) == (5.0, 5.0, 4.0)


def test_visits_in_one_hold_are_one_of_those_under_the_lock() -> None:
    row = (key(FIELD >> 6, Kind.FOREGROUND), 0, 6)
    # Of six under the lock four are none of their own, which leaves two, and two without it.
    told = found(row, again=(2, 2), loose=(0, 0))
    assert told.shares[Kind.FOREGROUND] == {1: 0.5}
    # Who looks without it parts two of the first one's.
    told = found(row, again=(2, 2), loose=(0, 2))
    assert told.shares[Kind.FOREGROUND] == {1: pytest.approx(4 / 6)}


def test_locks_and_lines_that_are_no_walls_count_for_nothing() -> None:
    row = (key(FIELD >> 6, Kind.FOREGROUND), 0, 2)
    assert found(row, walls=(False, True)).of == {}
    assert found(row, walls=(True, False)).of == {}
    # A lock that nobody else takes keeps nobody out of what one that is a wall does.
    told = found(row, sets=((LOCK, OTHER),))
    assert told.of[LOCK].last == told.of[LOCK].all == 1.0
    assert list(told.of) == [LOCK]


def test_a_visit_is_under_all_locks_and_counts_once() -> None:
    inner = FIELD & -64
    told = found((key(FIELD >> 6, Kind.FOREGROUND), 0, 4), sets=((LOCK, inner),))
    assert (told.of[LOCK].all, told.of[LOCK].last) == (2.0, 0.0)
    assert (told.of[inner].all, told.of[inner].last) == (2.0, 2.0)
    assert told.shares[Kind.FOREGROUND] == {1: 0.5}


def test_deferred_work_is_apart() -> None:
    told = found((key(FIELD >> 6, Kind.DEFERRED), 0, 4))
    assert told.shares[Kind.FOREGROUND] == {}


def test_what_is_fetched_under_a_lock_is_waited_for_as_the_lock_is() -> None:
    apart = Work(5000, tuple(Queue(1.0) for _ in range(8)))
    under_one = Work(5000, (Queue(0.0, moved=8.0, last_moved=8.0),))
    (free,), (bound,) = (predict_work(work, TWO, [64]) for work in (apart, under_one))
    assert bound.relative.usual < free.relative.usual / 4
    most = 1e9 / (8 * transfer_ns(TWO, 64, "spread"))
    assert bound.throughput.usual * 64 <= most * (1 + 1e-9)
    for work in (apart, under_one):
        assert predict_work(work, TWO, [1])[0].relative.usual == 1


def test_what_is_fetched_under_an_inner_lock_holds_the_outer_one_too() -> None:
    outer, inner = Queue(0.0, moved=8.0), Queue(0.0, moved=8.0, last_moved=8.0)
    (both,) = predict_work(Work(5000, (outer, inner)), TWO, [64])
    (one,) = predict_work(Work(5000, (inner,)), TWO, [64])
    assert both.throughput.usual == pytest.approx(one.throughput.usual, rel=0.02)


def test_a_lock_that_somebody_waits_for_takes_more_to_hand_over() -> None:
    (plain,), (wanted,) = (
        predict_work(Work(5000, (Queue(0.0, moved=2, last_moved=2, wanted=more),)), TWO, [64])
        for more in (0.0, 1.0)
    )
    # Where all wait, as if the lock were held for three.
    (three,) = predict_work(Work(5000, (Queue(0.0, moved=3, last_moved=3),)), TWO, [64])
    assert wanted.throughput.usual < plain.throughput.usual
    assert wanted.throughput.usual == pytest.approx(three.throughput.usual, rel=0.02)
    idle = predict_work(Work(5000, (Queue(0.0, wanted=1.0),)), TWO, [1])
    assert idle[0].relative.usual == 1


def test_a_line_keeps_what_is_made_under_no_lock() -> None:
    line = line_queue(4.0, 3.0, 1.0, 7, locked=3.0)
    assert (line.writes, line.reads) == pytest.approx((0.75, 0.25))
    assert line_queue(4.0, 3.0, 1.0, 7, locked=4.0).writes == 0


def test_a_measured_lock_has_what_its_lines_have_not() -> None:
    sample = builders.signal()
    whole = queues.predict(sample, TWO, [64])
    lock = Lock(
        address="0xffffffff81000000",
        object="table",
        field="lock",
        exclusive=1.0,
        shared=0.0,
        instructions=10.0,
        own=10.0,
        slept=0.0,
        waited=0.0,
        transfers=2.0,
        last_transfers=2.0,
        word_transfers=1.0,
    )
    first, *rest = sample.walls
    walls = [first.model_copy(update={"locked": first.transfers}), *rest]
    told = queues.predict(sample.model_copy(update={"walls": walls, "locks": [lock]}), TWO, [64])
    # One cannot have the line without the lock, which takes two more transfers to hand over.
    station = told.stations[-1]
    assert (station.object, station.moved) == ("table lock", 2.0)
    assert told.points[0].relative.usual < whole.points[0].relative.usual
    assert HAND_OVER == 3


def test_what_a_container_alone_fetches_it_has() -> None:
    # Its own processes take a lock from each other; what that costs is no neighbour's.
    queue = Queue(0.0, moved=8.0, last_moved=8.0, wanted=2.0)
    alone, two = predict_work(Work(5000, (queue,), processes=4), TWO, [1, 2])
    assert alone.relative.usual == 1
    assert two.relative.usual < 1


def test_a_lock_that_nobody_waits_for_is_not_handed_over() -> None:
    quiet = Queue(0.0, own=10, held=10, moved=0.01, last_moved=0.01, wanted=0.02)
    (point,) = predict_work(Work(1e6, (quiet,)), TWO, [2])
    assert point.relative.usual > 0.999


def test_a_line_under_two_locks_serves_one_at_a_time() -> None:
    half = Queue(0.0, moved=0.5, last_moved=0.5)
    line = line_queue(1.0, 1.0, 0.0, 7, locked=1.0)
    assert (line.writes, line.whole) == (0.0, 1.0)
    (point,) = predict_work(Work(1000, (line, half, half)), TWO, [64])
    most = 1e9 / transfer_ns(TWO, 64, "spread")
    assert point.throughput.usual * 64 <= most * (1 + 1e-9) * 64 / 63


def test_a_file_that_claims_too_much_is_no_gain() -> None:
    assert line_queue(4.0, 3.0, 1.0, 7, locked=4.5).writes == 0
