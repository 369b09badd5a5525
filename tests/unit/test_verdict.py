# SPDX-License-Identifier: GPL-2.0-or-later
"""What is a wall, and what only moves: the rule by itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partywall.analyse import verdict

OPERATIONS = 3200


def is_wall(moved: float, visitors: int, sharers: int, **more: Any) -> bool:
    """The verdict on one line that ``visitors`` of ``sharers`` with one party each visit."""
    visited = np.arange(sharers)[None, :] < visitors
    given = {"operations": OPERATIONS, "threshold": verdict.THRESHOLD} | more
    moved_at = np.array([given.pop("moved_at", moved)])
    found = verdict.walls(
        np.array([moved]), moved_at, visited, np.arange(sharers), sharers=sharers, **given
    )
    assert found.shape == (1,)
    return bool(found[0])


@pytest.mark.parametrize("moved", [0.0, 0.005, 0.01])
def test_what_moves_no_more_often_than_the_threshold_is_none(moved: float) -> None:
    assert not is_wall(moved, visitors=8, sharers=8)


def test_what_all_move_above_the_threshold_is_one() -> None:
    assert is_wall(0.011, visitors=8, sharers=8)
    assert not is_wall(0.011, visitors=8, sharers=8, threshold=0.02)


def test_the_threshold_is_for_the_number_of_containers_that_was_asked_for() -> None:
    assert is_wall(0.004, visitors=8, sharers=8, moved_at=0.032)
    assert not is_wall(0.032, visitors=8, sharers=8, moved_at=0.01)


@pytest.mark.parametrize(
    ("sharers", "fewest"), [(2, 2), (3, 2), (4, 2), (5, 3), (8, 4), (9, 5), (64, 32)]
)
def test_half_of_them_have_to_touch_it_and_two_at_least(sharers: int, fewest: int) -> None:
    assert is_wall(1.0, fewest, sharers)
    assert not is_wall(1.0, fewest - 1, sharers)


@pytest.mark.parametrize(("transfers", "wall"), [(7, False), (8, True), (9, True)])
def test_in_a_short_window_it_has_to_move_once_for_each(transfers: int, wall: bool) -> None:
    """7 moves in 32 operations are 0.22 each, which is far above the threshold."""
    assert is_wall(transfers / 32, visitors=8, sharers=8, operations=32) == wall


@given(st.integers(2, 240), st.integers(1, 100_000))
def test_as_many_moves_as_sharers_are_enough_however_they_are_rounded(
    sharers: int, operations: int
) -> None:
    moved = np.array([sharers / operations])
    over = sharers / operations > verdict.THRESHOLD
    found = verdict.often(
        moved, operations=operations, sharers=sharers, threshold=verdict.THRESHOLD
    )
    assert bool(found[0]) == over


def test_cpus_of_one_container_are_one_sharer() -> None:
    groups = np.array([0, 0, 1, 1])
    visited = np.array([[True, True, False, False], [True, False, False, True]])
    assert verdict.sharers_of(visited, groups, 2).tolist() == [1, 2]


def test_a_thread_of_no_container_is_no_sharer() -> None:
    groups = np.array([0, 1, -1])
    visited = np.array([[True, False, True]])
    assert verdict.sharers_of(visited, groups, 2).tolist() == [1]
    one = np.array([1.0])
    found = verdict.walls(one, one, visited, groups, operations=100, sharers=2, threshold=0.01)
    assert not found[0]


def test_no_lines_have_no_walls() -> None:
    none = np.zeros((0, 4), bool)
    found = verdict.walls(
        np.zeros(0), np.zeros(0), none, np.arange(4), operations=1, sharers=4, threshold=0.01
    )
    assert found.tolist() == []


@given(st.data())
def test_each_line_is_judged_by_itself(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 6))
    moved = np.array(data.draw(st.lists(st.floats(0, 4), min_size=count, max_size=count)))
    visited = np.array(
        data.draw(
            st.lists(
                st.lists(st.booleans(), min_size=4, max_size=4), min_size=count, max_size=count
            )
        )
    )
    rule = {"operations": 400, "sharers": 4, "threshold": 0.01}
    whole = verdict.walls(moved, moved, visited, np.arange(4), **rule)  # type: ignore[arg-type]
    alone = [
        bool(
            verdict.walls(
                moved[n : n + 1],
                moved[n : n + 1],
                visited[n : n + 1],
                np.arange(4),
                **rule,  # type: ignore[arg-type]
            )[0]
        )
        for n in range(count)
    ]
    assert whole.tolist() == alone
