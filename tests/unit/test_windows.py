# SPDX-License-Identifier: GPL-2.0-or-later
"""Each CPU must have had its one window, and what takes long is said before it does."""

from __future__ import annotations

import pytest
from recordings import access, party, recording

from partywall.core.errors import EnvironmentProblem
from partywall.core.progress import Quiet
from partywall.core.topology import Topology
from partywall.measure import plan

TWO = Topology(2, 1)


def refusal(*windows: int) -> str:
    """What is said of CPUs with so many windows each; empty if they are taken."""
    recorded = recording(*(party(cpu, windows=n) for cpu, n in enumerate(windows)))
    try:
        plan.check_windows(recorded, TWO)
    except EnvironmentProblem as problem:
        assert problem.hint
        return problem.message
    return ""


@pytest.mark.parametrize(
    ("windows", "said"),
    [
        ((1, 1), ""),
        ((1, 0), "1 CPUs ran no window"),
        ((1,), "1 CPUs ran no window"),
        ((1, 2), "1 CPUs ran more than one window, CPU 1 the first of them"),
        ((3, 2), "2 CPUs ran more than one window, CPU 0 the first of them"),
    ],
)
def test_every_cpu_runs_one_window(windows: tuple[int, ...], said: str) -> None:
    assert refusal(*windows) == said


def test_a_kernel_thread_has_no_window() -> None:
    recorded = recording(party(0), party(1), party(1, thread=0xFF11000004000000, windows=0))
    plan.check_windows(recorded, TWO)


class Notes(Quiet):
    """Keeps what is said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def note(self, text: str) -> None:
        self.said.append(text)


def test_that_much_is_to_be_named_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "_MANY", 3)
    notes = Notes()
    few = party(0, accesses=[access(0xFF11000000000000 + 8 * n) for n in range(3)])
    plan.say_if_long(recording(few), "container/run", notes)
    assert not notes.said
    plan.say_if_long(recording(few, party(1, accesses=[access(0)])), "container/run", notes)
    (said,) = notes.said
    assert said.startswith("container/run: 4 uses of memory are to be named")
    assert "fewer --containers" in said
