# SPDX-License-Identifier: GPL-2.0-or-later
"""The KTAP view follows Documentation/dev-tools/ktap.rst and fails what it must."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import builders
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partywall.report import ktap
from partywall.results.counts import Sums
from partywall.results.result import Result

_RESULT = re.compile(r"(ok|not ok) (\d+) ([^#]+)")


@dataclass
class Case:
    """A test, its subtests, and the diagnostics before its result."""

    ok: bool
    name: str
    subtests: list[Case] = field(default_factory=list)
    diagnostics: list[str] = field(default_factory=list)


def parse(text: str) -> list[Case]:
    """Read KTAP strictly: no unknown line, every plan kept, numbers in order."""
    assert text.endswith("\n")
    lines = text[:-1].split("\n")
    cases, _ = _parse(lines, "")
    assert lines == []
    return cases


def _parse(lines: list[str], indent: str) -> tuple[list[Case], str | None]:
    """The tests at one depth, and the name that the parent is announced with."""
    assert lines.pop(0) == f"{indent}KTAP version 1"
    diagnostics: list[str] = []
    subtests: list[Case] = []
    cases: list[Case] = []
    planned: int | None = None
    header: str | None = None
    announced: str | None = None
    # Once the plan is kept, a result line can only be the parent's.
    while lines and lines[0].startswith(
        indent if planned is None or len(cases) < planned else f"{indent}# "
    ):
        if lines[0] == f"{indent}  KTAP version 1":
            subtests, announced = _parse(lines, f"{indent}  ")
            continue
        line = lines.pop(0).removeprefix(indent)
        if line.startswith("# Subtest: "):
            assert header is None
            header = line.removeprefix("# Subtest: ")
        elif line.startswith("# "):
            diagnostics.append(line[2:])
        elif plan := re.fullmatch(r"1\.\.(\d+)", line):
            assert planned is None
            assert not cases
            planned = int(plan[1])
        else:
            found = _RESULT.fullmatch(line)
            assert found, line
            assert int(found[2]) == len(cases) + 1
            assert announced in (None, found[3])
            cases.append(Case(found[1] == "ok", found[3], subtests, diagnostics))
            subtests, diagnostics, announced = [], [], None
    assert len(cases) == planned
    return cases, header


@pytest.fixture
def result() -> Result:
    return builders.result(builders.signal(), builders.isolated(), builders.false_sharing())


def test_a_workload_is_a_test_and_a_wall_a_failed_subtest(result: Result) -> None:
    cases = parse(ktap.render(result, 0.01))
    assert [(case.name, case.ok) for case in cases] == [
        ("signal 8x1", False),
        ("overlay/access 8x1", True),
        ("overlay/access-shared 1x8", False),
    ]
    assert [case.name for case in cases[0].subtests] == [
        "init_ucounts line +0x0",
        "init_ucounts line +0x80",
        "kmalloc-256: struct aa_label line +0x0",
    ]
    assert not any(subtest.ok for case in cases for subtest in case.subtests)
    assert cases[1].subtests == []


def test_only_walls_over_the_limit_fail(result: Result) -> None:
    cases = parse(ktap.render(result, 2.0))
    # Both lines of one object, which has 4.03 on them.
    assert [len(case.subtests) for case in cases] == [2, 0, 1]
    assert "signal 8x1: 2 walls, 6.03 transfers/op, 1 over the limit" in cases[0].diagnostics
    cases = parse(ktap.render(result, 12.0))
    assert all(case.ok for case in cases)
    assert "signal 8x1: 2 walls, 6.03 transfers/op, none over the limit" in cases[0].diagnostics


def test_walls_of_deferred_work_fail_as_others_do() -> None:
    late = builders.put_off(builders.signal().walls)
    nothing = Sums(walls=0.0, handed_over=0.0, rest=0.0)
    one = builders.workload("udp", [], sums=nothing, deferred=late)
    (case,) = parse(ktap.render(builders.result(one), 2.0))
    assert not case.ok
    assert len(case.subtests) == 2
    said = "udp 8x1: 0 walls, 0 transfers/op; deferred work 2 walls, 6.03, 1 over the limit"
    assert said in case.diagnostics
    quiet = builders.workload("udp", [], sums=nothing, deferred=builders.put_off([], rest=0.5))
    (case,) = parse(ktap.render(builders.result(quiet), 2.0))
    assert "udp 8x1: no wall, 0.50 transfers/op on what is none" in case.diagnostics


def test_diagnostics_name_the_object_its_transfers_and_its_code(result: Result) -> None:
    signal, _, overlay = parse(ktap.render(result, 0.01))
    assert signal.subtests[1].diagnostics == [
        "init_ucounts line +0x80: 2.00 transfers/op, written by all 8 containers",
        "  dec_rlimit_put_ucounts+0x41 at kernel/ucount.c:294, syscall rt_sigreturn, "
        "rlimit[UCOUNT_RLIMIT_SIGPENDING]",
        "  inc_rlimit_get_ucounts+0x35 at kernel/ucount.c:328, syscall tgkill, "
        "rlimit[UCOUNT_RLIMIT_SIGPENDING]",
    ]
    assert overlay.subtests[0].diagnostics[0].endswith("false sharing")


def test_an_empty_result_is_an_empty_plan() -> None:
    assert parse(ktap.render(builders.result(), 0.01)) == []


@pytest.mark.parametrize("limit", [-1.0, float("nan")])
def test_a_limit_that_nothing_can_exceed_or_meet_is_refused(limit: float) -> None:
    with pytest.raises(ValueError, match="limit"):
        ktap.render(builders.result(), limit)


@settings(deadline=None)
@given(st.text(), st.integers(min_value=0, max_value=4))
def test_any_name_is_escaped(name: str, number: int) -> None:
    walls = [builders.named_wall(name)] * number
    first, second = parse(
        ktap.render(builders.result(builders.workload(name, walls), builders.isolated()), 0.01)
    )
    assert len(first.subtests) == number
    assert first.ok == (number == 0)
    assert second.ok


@pytest.mark.parametrize("name", ["x # SKIP", "x\nok 2 x", "x\r\n1..0", "\x1b[2K"])
def test_a_name_cannot_change_a_result(name: str) -> None:
    (case,) = parse(
        ktap.render(builders.result(builders.workload(name, [builders.named_wall(name)])), 0.01)
    )
    assert not case.ok
    assert [subtest.ok for subtest in case.subtests] == [False]
