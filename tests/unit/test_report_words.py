# SPDX-License-Identifier: GPL-2.0-or-later
"""Numbers and names read the same in every view."""

from __future__ import annotations

import doctest
import itertools

import builders
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partywall.report import words


def test_the_examples_in_the_docstrings_hold() -> None:
    assert doctest.testmod(words).failed == 0


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0.0, "0"),
        (0.0004, "<0.001"),
        (0.00994, "0.0099"),
        (0.00996, "0.010"),
        (0.0996, "0.10"),
        (0.999, "1.00"),
        (9.994, "9.99"),
        (9.996, "10.0"),
        (99.96, "100"),
        (999.6, "1,000"),
        (1_404_811.2, "1,404,811"),
        (-2.0, "-2.00"),
        (float("inf"), "inf"),
        (float("nan"), "nan"),
    ],
)
def test_a_rate_has_the_digits_that_mean_something(value: float, said: str) -> None:
    assert words.rate(value) == said


@given(st.floats(min_value=0.001, max_value=1e9))
def test_a_rate_is_close_to_its_value(value: float) -> None:
    assert float(words.rate(value).replace(",", "")) == pytest.approx(value, rel=0.06)


@given(st.sets(st.integers(min_value=0, max_value=300)))
def test_ranges_name_every_number_once(numbers: set[int]) -> None:
    named: list[int] = []
    for part in filter(None, words.ranges(numbers).split(",")):
        first, _, last = part.partition("-")
        named += range(int(first), int(last or first) + 1)
    assert named == sorted(numbers)


@given(st.text(st.characters()))
def test_plain_text_is_printable(text: str) -> None:
    assert words.plain(text).isprintable()


def test_sharers_tell_writers_from_readers() -> None:
    def said(writers: list[int], readers: list[int]) -> str:
        wall = builders.signal().walls[0]
        return words.sharers(wall.model_copy(update={"writers": writers, "readers": readers}), 8)

    assert said(list(range(8)), []) == "written by all 8 containers"
    assert said([3], [0, 1, 2, 7]) == (
        "written by 1 container (3), only read by 4 containers (0-2,7)"
    )
    assert said([], [0, 2]) == "only read by 2 containers (0,2)"


def test_lines_of_an_object_stay_together_worst_first() -> None:
    groups = words.by_object(builders.signal().walls)
    assert [group.object.name for group in groups] == [
        "init_ucounts",
        "kmalloc-256: struct aa_label",
    ]
    assert [line.object.line for line in groups[0].lines] == [0x0, 0x80]
    assert groups[0].transfers == pytest.approx(4.031)


def test_objects_of_one_name_at_two_addresses_are_two_objects() -> None:
    wall = builders.signal().walls[0]
    other = wall.object.model_copy(update={"address": "0xff11000003b2c800"})
    groups = words.by_object([wall, wall.model_copy(update={"object": other})])
    assert [len(group.lines) for group in groups] == [1, 1]


def test_grouping_loses_no_line_and_keeps_order() -> None:
    walls = builders.many_walls().walls
    groups = words.by_object(walls)
    lines = [line for group in groups for line in group.lines]
    assert sorted(line.address for line in lines) == sorted(line.address for line in walls)
    assert all(a.transfers >= b.transfers for a, b in itertools.pairwise(groups))
