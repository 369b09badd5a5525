# SPDX-License-Identifier: GPL-2.0-or-later
"""Each CPU must have had its one window."""

from __future__ import annotations

import pytest
from recordings import party, recording

from partywall.core.errors import EnvironmentProblem
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
