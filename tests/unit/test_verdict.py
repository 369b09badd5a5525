# SPDX-License-Identifier: GPL-2.0-or-later
"""Who shares a line, what is a wall, and what only moves: the rules by themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partywall.analyse import verdict
from partywall.analyse.verdict import ALL, HANDED_OVER, SOME

OPERATIONS = 3200
WINDOW = 400
Array = npt.NDArray[Any]


def back(turns: list[int], returns: list[int], slices: int = 8, window: int = WINDOW) -> list[bool]:
    """Which parties come back to a line; each ran in ``slices`` slices."""
    hot = [slices - 1] * len(turns)
    turn, back_ = np.array([turns, [window] * len(turns)]), np.array([returns, hot])
    expected = verdict.expected_returns(turn, np.full(len(turns), slices))
    found = verdict.comes_back(turn, back_, expected, window)
    assert found.shape == (2, len(turns))
    assert found[1].all()
    return [bool(one) for one in found[0]]


def test_who_visits_in_each_operation_comes_back_however_the_emulator_orders_them() -> None:
    assert back([400] * 8, [7] * 8) == [True] * 8
    # All in one slice each: nothing is known of their order.
    assert back([400] * 8, [0] * 8, slices=1) == [True] * 8


def test_who_makes_uses_and_drops_an_object_does_not_come_back_to_it() -> None:
    assert back([3, 3, 1, 2], [1, 0, 0, 0]) == [False] * 4
    assert back([3, 3, 1, 2], [0, 0, 0, 0], slices=1) == [False] * 4


def test_an_object_of_the_slab_that_comes_round_again_is_not_come_back_to() -> None:
    """Turns and returns as of an mm_struct that eight containers' forks had by turns."""
    turns, returns = [33, 5, 336, 0, 12, 12, 19, 9], [2, 0, 7, 0, 1, 1, 2, 1]
    assert back(turns, returns) == [False, False, True, False, False, False, False, False]


def test_a_line_that_is_seldom_visited_is_not_expected_in_each_slice() -> None:
    """Turns and returns as of a list that is taken in few look-ups."""
    turns, returns = [5, 4, 4, 5, 5, 5, 5, 4], [4, 3, 2, 4, 3, 4, 3, 3]
    assert back(turns, returns) == [True] * 8


def test_who_waits_for_a_lock_comes_back_to_its_line_more_often_than_to_any_other() -> None:
    # In its turn he visits the line in many slices, of which the recorder counts the first.
    lines = np.array([[400] * 8] * 4)
    returns = np.array([[90] * 8, [7] * 8, [7] * 8, [6] * 8])
    seen = np.array([[8] * 8] * 4)
    expected = verdict.expected_returns(lines, verdict.slices(seen))
    assert verdict.comes_back(lines, returns, expected, WINDOW).all()


def test_returns_by_chance_are_runs_but_the_first() -> None:
    seen = np.array([[3, 3, 0], [4, 1, 1], [9, 0, 0], [2, 9, 9], [5, 1, 15]])
    # 3 x 4 / 6 runs of one's own, 4 x 3 / 6, 9 x 1 / 9; who is there in two slices can't tell.
    expected = [[1, 1, 0], [1, 0, 0], [0, 0, 0], [0, 9 * 12 / 20 - 1, 9 * 12 / 20 - 1]]
    found = verdict.chance_returns(seen)
    assert found[:4] == pytest.approx(np.array(expected))
    assert found[4] == pytest.approx([5 * 17 / 21 - 1, 0, 15 * 7 / 21 - 1])


def test_of_ones_own_group_nobody_is_another() -> None:
    groups = np.array([0, 0, 1, 1, -1, -1])
    counts = np.array([[1, 2, 10, 20, 100, 200]])
    found = verdict.by_others(counts, groups)
    assert found.tolist() == [[330, 330, 303, 303, 233, 133]]
    assert verdict.by_others(counts, None).tolist() == [[332, 331, 323, 313, 233, 133]]
    # CPUs of one container that have nobody else there come back to nothing.
    seen, alone = np.array([[9, 9, 0, 0]]), np.array([0, 0, 1, 1])
    assert verdict.chance_returns(seen, alone).tolist() == [[0, 0, 0, 0]]
    assert verdict.chance_returns(seen).tolist() == [[4, 4, 0, 0]]
    assert verdict.expected_returns(seen, np.full(4, 9), alone).tolist() == [[0, 0, 0, 0]]


def test_who_runs_in_more_slices_than_the_other_comes_back_no_more_often_than_that_one_runs() -> (
    None
):
    # Of two that both use it all the time, one runs in 24 slices and one in 14.
    turns, slices = np.array([[400, 400]]), np.array([24.0, 14.0])
    expected = verdict.expected_returns(turns, slices)
    assert expected.tolist() == [[pytest.approx(14), pytest.approx(13)]]
    assert verdict.comes_back(turns, np.array([[10, 10]]), expected, WINDOW).all()
    # Those of its own group are nobody to come back after.
    alone = verdict.expected_returns(turns, slices, np.zeros(2, int))
    assert alone.tolist() == [[0, 0]]


def test_who_shares_with_one_who_comes_seldom_is_expected_as_seldom() -> None:
    turns, returns = [400, 20, 0, 0], [5, 5, 0, 0]
    assert back(turns, returns, slices=13)[:2] == [True, True]


def test_what_half_use_alike_in_one_phase_of_an_operation_is_theirs() -> None:
    # Turns and returns as of the lock of sysfs, which the making of a namespace takes.
    turns = np.array([[41, 42, 41, 42, 43, 42, 41, 42], [33, 5, 336, 0, 12, 12, 19, 9]])
    returned = np.array([[True] * 8, [True, False, True, False, True, True, True, True]])
    found = verdict.evenly(turns, returned, 4)
    assert found.all(axis=1).tolist() == [True, False]
    assert not found[1].any()


@pytest.mark.parametrize(("window", "least"), [(1, 2), (2, 2), (3, 3), (4, 4), (48, 4), (9999, 4)])
def test_no_more_turns_are_asked_for_than_a_short_window_has(window: int, least: int) -> None:
    assert verdict.least_turns(window) == least


@pytest.mark.parametrize(("window", "limit"), [(4, 1.0), (40, 0.1), (400, 0.01), (1000, 0.01)])
def test_the_limit_that_really_holds_is_that_of_the_window(window: int, limit: float) -> None:
    assert verdict.limit(0.01, window) == pytest.approx(limit)
    assert verdict.limit(2.0, window) == 2.0


@pytest.mark.parametrize(
    ("sharers", "fewest"), [(2, 2), (3, 2), (4, 2), (5, 3), (8, 4), (9, 5), (64, 32)]
)
def test_all_share_what_half_come_back_to_and_some_what_two_do(sharers: int, fewest: int) -> None:
    who = np.arange(sharers)[None, :] < np.arange(sharers + 1)[:, None]
    found = verdict.sharing(who).tolist()
    assert found[:2] == [HANDED_OVER] * 2
    assert found[2:fewest] == [SOME] * (fewest - 2)
    assert found[fewest:] == [ALL] * (sharers + 1 - fewest)


def test_cpus_of_one_container_are_one_sharer_and_a_thread_of_none_is_none() -> None:
    counts = np.array([[1, 2, 0, 0, 50], [4, 0, 0, 8, 50]])
    found = verdict.by_sharer(counts, np.array([0, 0, 1, 1, -1]), 2)
    assert found.tolist() == [[3, 0], [4, 8]]


def walls(
    moved: list[float],
    objects: list[int] | None = None,
    *,
    at: list[float] | None = None,
    **more: Any,
) -> list[bool]:
    """The verdict on lines that eight share."""
    given = {"operations": OPERATIONS, "threshold": verdict.THRESHOLD, "sharers": 8} | more
    shared = np.array(given.pop("shared", [True] * len(moved)), bool)
    numbers = np.array(list(range(len(moved))) if objects is None else objects, np.int64)
    found = verdict.walls(
        numbers, shared, np.array(moved), np.array(moved if at is None else at), **given
    )
    return [bool(one) for one in found]


def test_what_moves_no_more_often_than_the_threshold_is_none() -> None:
    assert walls([0.0, 0.005, 0.01, 0.011]) == [False, False, False, True]
    assert walls([0.011, 0.021], threshold=0.02) == [False, True]


def test_the_threshold_is_for_the_number_of_containers_that_was_asked_for() -> None:
    assert walls([0.004, 0.032], at=[0.032, 0.01]) == [True, False]


def test_what_is_handed_over_is_none_however_often_it_moves() -> None:
    assert walls([2.0, 2.0], shared=[False, True]) == [False, True]
    assert walls([2.0, 2.0], [0, 0], shared=[False, True]) == [False, True]
    # Nor does it make one of what else the object has.
    assert walls([2.0, 0.005], [0, 0], shared=[False, True]) == [False, False]


@pytest.mark.parametrize("lines", [128, 512, 4096])
def test_a_hash_table_is_one_wall_however_large_it_is(lines: int) -> None:
    moved = [4.0 / lines] * lines
    assert all(walls(moved, [0] * lines, operations=80_000))
    assert any(walls(moved, operations=80_000)) == (4.0 / lines > verdict.THRESHOLD)


def test_a_line_of_a_wall_that_does_not_move_is_no_part_of_it() -> None:
    assert walls([2.0, 0.0], [0, 0]) == [True, False]


@pytest.mark.parametrize(("transfers", "wall"), [(7, False), (8, True), (9, True)])
def test_in_a_short_window_it_has_to_move_once_for_each(transfers: int, wall: bool) -> None:
    """7 moves in 32 operations are 0.22 each, which is far above the threshold."""
    assert walls([transfers / 32], operations=32) == [wall]
    # Among so many as there are to be they may be more; what was seen counts.
    assert walls([transfers / 32], at=[9.0], operations=32) == [wall]


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


def test_no_lines_have_no_walls() -> None:
    assert walls([]) == []
    none = np.zeros((0, 4), np.int64)
    expected = verdict.expected_returns(none, verdict.slices(none))
    assert verdict.chance_returns(none).shape == (0, 4)
    assert verdict.comes_back(none, none, expected, WINDOW).shape == (0, 4)
    assert verdict.sharing(none > 0).tolist() == []
