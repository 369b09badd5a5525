# SPDX-License-Identifier: GPL-2.0-or-later
"""Where the window of a program is, as the command line says."""

from __future__ import annotations

import pytest

from partywall.core.errors import UsageProblem
from partywall.workloads.opening import opening


@pytest.mark.parametrize(
    ("text", "environment", "told"),
    [
        (
            "after=2,for=0.5",
            {"PW_OPENS": "time", "PW_AFTER": "2000", "PW_LASTS": "500"},
            "in 0.5 s of the guest's clock",
        ),
        (
            "from=ready, go,to=bye",
            {"PW_OPENS": "lines", "PW_FROM": "ready, go", "PW_TO": "bye"},
            "from 'ready, go' to 'bye' in what it prints",
        ),
        ("signals", {"PW_OPENS": "signals"}, "from its SIGUSR1 to its SIGUSR2"),
    ],
)
def test_a_window_is_by_time_lines_or_signals(
    text: str, environment: dict[str, str], told: str
) -> None:
    found = opening(text)
    assert found.environment() == environment
    assert found.told == told


def test_who_looks_on_may_run_first_unless_a_service_says_how_far_that_goes() -> None:
    other = {"type": "RLIMIT_NOFILE", "soft": 10, "hard": 10}
    own = {"type": "RLIMIT_RTPRIO", "soft": 0, "hard": 5}
    found = opening("signals")
    assert found.allowed([other]) == [other, {"type": "RLIMIT_RTPRIO", "soft": 1, "hard": 1}]
    assert found.allowed([other, own]) == [other, own]


@pytest.mark.parametrize(
    "text", ["", "2", "after=2", "for=1", "after=2,for=x", "from=a", "from=,to=b", "signal"]
)
def test_what_says_nothing_of_a_window_is_refused(text: str) -> None:
    with pytest.raises(UsageProblem, match=r"--window .* is none"):
        opening(text)


@pytest.mark.parametrize("text", ["after=0,for=0", "after=0,for=0.0004", "after=4000,for=1"])
def test_a_window_of_no_length_or_in_hours_is_refused(text: str) -> None:
    with pytest.raises(UsageProblem, match="no window of"):
        opening(text)
