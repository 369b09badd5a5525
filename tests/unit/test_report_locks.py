# SPDX-License-Identifier: GPL-2.0-or-later
"""Locks in the report at a terminal."""

from __future__ import annotations

import io
from typing import Any

import builders
import pytest
from rich.console import Console

from partywall.model import profiles
from partywall.report import locks, terminal
from partywall.results.counts import CallCount, Instructions
from partywall.results.result import WorkloadResult

PROFILE = profiles.load(profiles.DEFAULT)
RAN = Instructions(kernel=990.0, user=10.0, background=5.0, spinning=77.0)


def workload(**more: Any) -> WorkloadResult:
    return builders.signal().model_copy(update={"instructions": RAN} | more)


def shown(one: WorkloadResult, *, verbose: bool = False) -> str:
    file = io.StringIO()
    console = Console(file=file, width=80)
    shown = terminal.Shown(everything=verbose)
    terminal.render(builders.result(one), console, PROFILE, shown)
    return file.getvalue()


def test_the_worst_lock_says_what_it_bounds() -> None:
    found = [builders.lock("sysctl_lock", 350), builders.lock("rtnl_mutex", 100, slept=0.25)]
    assert locks.bound(workload(), found[0]) == pytest.approx(1000 / 350)
    text = shown(workload(locks=found))
    assert "locks: 35% of an operation runs under sysctl_lock" in text
    assert "2.86 times what one does" in " ".join(text.split())
    assert "rtnl_mutex lock, holder sleeps 0.25" in text
    assert "77.0 spinning" in text


def test_what_an_operation_puts_off_is_a_part_of_it() -> None:
    # A lock is held in softirqs, too, and an operation takes the time of these.
    ran = RAN.model_copy(update={"deferred": 200.0, "background": 205.0})
    found = builders.lock("listen_lock", 600)
    assert locks.bound(workload(instructions=ran), found) == pytest.approx(2)
    assert "50% of an operation runs under listen_lock" in shown(
        workload(instructions=ran, locks=[found])
    )


def test_many_locks_are_counted_and_all_of_them_shown_if_asked() -> None:
    many = [builders.lock(f"lock_{n}", 100 - n) for n in range(20)]
    text = shown(workload(locks=many))
    assert "lock_7" in text
    assert "lock_8" not in text
    assert "12 more locks; --all shows them" in text
    assert "lock_19" in shown(workload(locks=many), verbose=True)


def test_a_lock_under_which_hardly_anything_runs_is_left_out() -> None:
    assert "locks:" not in shown(workload(locks=[builders.lock("pgd_lock", 0.5)]))
    assert locks.bound(workload(), builders.lock("none", 0)) == float("inf")


def test_waits_for_rcu_are_said() -> None:
    waits = [CallCount(function="synchronize_rcu", per_op=0.5)]
    assert "synchronize_rcu 0.50" in shown(workload(waits=waits))
    assert "RCU per op" not in shown(workload())
