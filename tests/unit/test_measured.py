# SPDX-License-Identifier: GPL-2.0-or-later
"""The model beside what we measured on a machine of more CPUs."""

from __future__ import annotations

import pytest

from partywall.model import measured
from partywall.model.load import Queue, Work

FOUND = measured.stored()
ROWS = {row.workload: row for row in measured.rows(FOUND)}


def test_what_comes_with_the_program_is_whole() -> None:
    assert len(ROWS) == len(FOUND.operations) >= 12
    for one in FOUND.operations:
        assert 1 in one.rates
        assert one.work.instructions == one.instructions
    # Those that lose most are first.
    most = [row.measured[max(row.measured)] for row in measured.rows(FOUND)]
    assert most == sorted(most)


def test_where_containers_wait_the_model_is_right_within_a_factor_of_two() -> None:
    """The figures are stored: this says what the model makes of them, and no clock is in it."""
    lost = [row for row in ROWS.values() if row.measured[max(row.measured)] < 0.5]
    assert len(lost) >= 9
    off = {row.workload: row.error for row in lost if not -0.5 < row.error < 1}
    assert off == {}


def test_without_what_is_fetched_under_locks_the_model_is_far_too_high() -> None:
    (one,) = (one for one in FOUND.operations if one.workload == "descriptor/eventfd")
    apart = [
        Queue(
            **{
                name: value
                for name, value in queue.items()
                if name not in ("moved", "last_moved", "wanted")
            }
        )
        if "moved" in queue
        else Queue(**{"writes": queue["writes"]})
        for queue in one.queues
    ]
    free = measured.described(one.workload, Work(one.instructions, tuple(apart)), one.rates)
    (row,) = measured.rows(FOUND.model_copy(update={"operations": [free]}))
    most = max(row.measured)
    assert row.predicted[most] > 2 * ROWS[one.workload].predicted[most]


def test_an_operation_comes_back_from_the_file() -> None:
    work = Work(5000.0, (Queue(2.0, reads=0.5, measured=7), Queue(0.0, own=3.0, moved=1.5)), 0.25)
    told = measured.described("signal", work, {1: 1000.0, 4: 900.0})
    again = measured.Operation.model_validate_json(told.model_dump_json())
    assert again.work == work
    assert again.rates == {1: 1000, 4: 900}


def test_a_share_is_of_one_alone() -> None:
    row = ROWS["signal"]
    (one,) = (one for one in FOUND.operations if one.workload == "signal")
    assert row.alone == one.rates[1]
    assert row.measured[2] == pytest.approx(one.rates[2] / one.rates[1])
    assert row.instruction_ns * one.instructions == pytest.approx(1e9 / one.rates[1])
