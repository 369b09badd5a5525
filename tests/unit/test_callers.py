# SPDX-License-Identifier: GPL-2.0-or-later
"""Which system calls pay for what moves."""

from __future__ import annotations

import pytest
from builders import line, site, workload

from partywall.report import callers, walls
from partywall.results.lines import LineObject


def what(name: str) -> LineObject:
    return LineObject(kind="global", name=name, address="0xffffffff82a00000", size=8, line=0)


def paid(*codes: tuple[float, list[tuple[str, float]]]) -> list[walls.Wall]:
    """Walls of these transfers, each with accesses by context."""
    lines = [
        line(
            what(f"object{number}"),
            moved,
            code=[site("f", n, "x", context=name, reads=done) for n, (name, done) in enumerate(of)],
        )
        for number, (moved, of) in enumerate(codes)
    ]
    found = workload("server", lines)
    return walls.fold(found.walls, found, judged=found.found)


def test_transfers_go_to_system_calls_as_their_accesses_do() -> None:
    found = callers.transfers(
        paid(
            (4.0, [("syscall openat", 3.0), ("syscall read", 1.0)]),
            (2.0, [("syscall read", 5.0)]),
        )
    )
    assert found == pytest.approx({"syscall openat": 3.0, "syscall read": 3.0})
    assert sum(found.values()) == pytest.approx(6.0)


def test_one_system_call_alone_is_not_told() -> None:
    assert callers.summary(paid((4.0, [("syscall openat", 3.0)]))) is None
    assert callers.summary([]) is None


def test_those_that_pay_little_are_told_together() -> None:
    code = [(f"syscall call{number}", 10.0 - number) for number in range(7)]
    told = callers.summary(paid((49.0, code)))
    assert told is not None
    assert told.endswith("call0 10.0, call1 9.00, call2 8.00, call3 7.00, call4 6.00, 2 more 9.00")
