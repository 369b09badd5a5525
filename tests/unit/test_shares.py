# SPDX-License-Identifier: GPL-2.0-or-later
"""Shares of what moves: with a name, with a type, of freed memory."""

from __future__ import annotations

from typing import Any

import builders
import numpy as np
import pytest

from partywall.analyse.shares import Shares, shares
from partywall.report.words import known
from partywall.results.lines import LineObject


def thing(**more: Any) -> LineObject:
    given: dict[str, Any] = {"kind": "slab", "name": "x", "address": "0x0", "size": 64, "line": 0}
    return LineObject(**(given | more))


def test_each_share_is_of_all_transfers_not_of_lines() -> None:
    moved = np.array([50.0, 30.0, 15.0, 4.0, 1.0])
    objects = {
        0: thing(type="struct cred"),
        1: thing(state="freed", type="struct file"),
        2: thing(kind="memory", state="freed"),
        3: thing(kind="unnamed"),
    }
    assert shares(moved, objects) == Shares(named=0.95, typed=0.8, freed=0.45)


@pytest.mark.parametrize("kind", ["stack", "pagetable", "code"])
def test_what_has_no_type_in_c_needs_none(kind: str) -> None:
    assert shares(np.array([2.0]), {0: thing(kind=kind)}).typed == 1.0


def test_where_nothing_moves_nothing_is_unknown() -> None:
    assert shares(np.zeros(3), {}) == Shares(1.0, 1.0, 0.0)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"named": 0.999}, "99.9% of transfers have a name"),
        (
            {"named": 0.999, "typed": 0.98, "freed": 0.25},
            "99.9% of transfers have a name, 98% a type, 25% are of freed memory",
        ),
        (
            {"named": 1.0, "typed": 0.5, "freed": 0.0},
            "100% of transfers have a name, 50% a type",
        ),
    ],
)
def test_a_report_says_them_in_a_line(more: dict[str, float], words: str) -> None:
    assert known(builders.workload("fork", [], **more)) == words


def test_an_object_that_is_not_alone_in_its_line_says_so() -> None:
    assert thing(name="nr_threads").title == "nr_threads"
    assert thing(name="nr_threads", others=6).title == "nr_threads and 6 more"
