# SPDX-License-Identifier: GPL-2.0-or-later
"""Pairs of operations: which rounds they take, and what is said of what is not known."""

from __future__ import annotations

import io
import re
from pathlib import Path
from types import SimpleNamespace

import builders
import pytest
from builders import met, pairs
from rich.console import Console

from partywall import workloads
from partywall.core.errors import EnvironmentProblem
from partywall.core.progress import Quiet
from partywall.core.topology import Topology
from partywall.guest.sitting import Round
from partywall.kernels import Kernel
from partywall.measure import beside
from partywall.measure.run import Wanted
from partywall.report import beside as view
from partywall.report.html import beside as matrix
from partywall.results.touches import Beside, Touched


def printed(found: Beside) -> str:
    """The report at a terminal of 80 columns, each paragraph on one line."""
    out = io.StringIO()
    view.render(found, Console(file=out, width=80), everything=False)
    return re.sub(r"\n +", " ", out.getvalue())


def paged(found: Beside) -> str:
    """What the page says of what only pairs show."""
    return matrix.render(found).partition("by itself</h2>")[2].partition("<h2>")[0]


def test_each_victim_is_measured_beside_its_like() -> None:
    victims = workloads.select(["descriptor/pipe", "signal"])
    others = workloads.select(["descriptor/dup", "signal"])
    rounds = beside.rounds_of(victims, others, 4)
    titles = [one.title for one in rounds]
    assert titles == [
        "descriptor/pipe beside descriptor/dup",
        "descriptor/pipe beside signal",
        "descriptor/pipe beside descriptor/pipe",
        "signal beside descriptor/dup",
        "signal beside signal",
    ]
    assert [one.first for one in rounds] == [4] * 5


def test_what_a_victim_does_beside_its_like_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe, signal, dup = workloads.select(["descriptor/pipe", "signal", "descriptor/dup"])
    base = builders.result()

    def in_guests(_plan: object, rounds: list[Round], *_: object) -> tuple[list[object], set[str]]:
        became: list[object] = []
        for one in rounds:
            assert one.beside is not None
            both = one.workload.title, one.beside.title
            failed = both == ("signal", "signal")
            touches = met(*both, label=1.0), met(*both[::-1], label=1.0)
            became.append(EnvironmentProblem("it broke") if failed else touches)
        return became, {"version"}

    shape = SimpleNamespace(topology=Topology(8, 1))
    monkeypatch.setattr(beside.sweep, "plan_of", lambda _: shape)
    monkeypatch.setattr(beside.sweep, "in_guests", in_guests)
    monkeypatch.setattr(beside.run, "whole", lambda *_: base)
    kernel = Kernel("debian", "6.12", Path("bzImage"), Path("vmlinux"))
    wanted = Wanted(kernel=kernel, workloads=[pipe, signal])
    found = beside.beside(wanted, [dup], Quiet())
    assert found.alone(pipe.title) == 1.0
    assert found.unknown == ["signal"]
    assert [one.title for one in found.failed] == ["signal beside signal"]
    # Neighbours are no victims, unless they are asked for.
    assert {one.victim for one in found.touches} == {pipe.title, "signal"}


def test_what_is_not_known_is_not_nothing() -> None:
    # The victim's like is none of the neighbours, and was not measured.
    found = pairs(["pipe"], ["dup"], met("pipe", "dup", label=2.0))
    assert found.unknown == ["pipe"]
    for told in (printed(found), paged(found)):
        assert re.search("[Nn]ot known of pipe: there is no figure of it beside its like", told)
        assert "nothing" not in told.lower()


def test_nothing_is_said_of_those_that_are_known() -> None:
    like = met("pipe", "pipe", label=2.0)
    whole = pairs(["pipe"], ["dup"], met("pipe", "dup", label=2.0), like)
    assert whole.unknown == []
    for told in (printed(whole), paged(whole)):
        assert "nothing: each meets others only at" in told.lower()
        assert "not known" not in told.lower()
    part = pairs(["pipe", "fork"], ["dup"], *whole.touches, met("fork", "dup", label=1.0))
    for told in (printed(part), paged(part)):
        assert "nothing: each meets others only at" in told.lower()
        assert "not known of fork" in told.lower()


def test_the_matrix_tells_no_wall_from_not_measured() -> None:
    found = pairs(["pipe", "fork"], ["dup"], met("pipe", "dup"), met("pipe", "pipe", label=2.0))
    text = matrix.render(found)
    # What is no wall may yet be shared.
    assert "share no line" not in text
    (row,) = re.findall(r">pipe</th>(.*?)</tr>", text, re.DOTALL)
    assert re.sub(r"<[^>]*>", "|", row).strip() == "|2.00|||"
    assert "no object that costs more than 0.010" in text
    (row,) = re.findall(r">fork</th>(.*?)</tr>", text, re.DOTALL)
    assert row.count('title="not measured: it broke"') == 1
    assert row.count('title="not measured') == 2


def test_the_matrix_marks_what_only_a_pair_shows() -> None:
    like = met("pipe", "pipe", label=2.0)
    both = met("pipe", "dup", label=1.0, other=0.5), met("pipe", "fork", label=1.0)
    text = matrix.render(pairs(["pipe"], ["dup", "fork"], *both, like))
    assert re.findall(r">([0-9.]+\*?)</td>", text.partition("by itself")[0]) == [
        "2.00",
        "1.50*",
        "1.00",
    ]


@pytest.mark.parametrize(("cost", "is_new"), [(0.02, False), (0.09, True), (189.0, True)])
def test_what_one_meets_its_like_at_too_seldom_to_tell_is_new_if_it_is_much(
    cost: float, is_new: bool
) -> None:
    seldom = [Touched(object="other", transfers=0.01)]
    like = met("pipe", "pipe", label=2.0).model_copy(update={"seldom": seldom})
    found = pairs(["pipe"], ["dup"], met("pipe", "dup", label=1.0, other=cost), like)
    assert [one.transfers for one in found.new] == ([cost] if is_new else [])
    assert ("*</td>" in matrix.render(found)) == is_new


def test_why_a_pair_was_not_measured_is_told_of_both() -> None:
    found = pairs(["pipe", "dup"], ["pipe", "dup"], met("pipe", "pipe"), met("dup", "dup"))
    found = found.model_copy(update={"failed": found.failed[:1]})
    assert found.why("pipe", "dup") == found.why("dup", "pipe") == "it broke"
    assert found.why("pipe", "pipe") == ""


@pytest.mark.parametrize("number", [matrix.LISTED, matrix.LISTED + 2])
def test_the_page_says_how_many_pairs_it_leaves_out(number: int) -> None:
    names = [f"other {one}" for one in range(number)]
    touches = [met("pipe", name, label=1.0) for name in names]
    found = pairs(["pipe"], names, met("pipe", "pipe"), *touches)
    assert ("2 more pairs" in paged(found)) == (number > matrix.LISTED)
