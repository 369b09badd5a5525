# SPDX-License-Identifier: GPL-2.0-or-later
"""Limits of users: exact while many race for them, and the same to a program as ever."""

from __future__ import annotations

from collections.abc import Callable

import ktap
import pytest
from machine import Job, Ran

Boot = Callable[[str, Job], Ran]

TYPES = ("sigpending", "nproc", "msgqueue", "memlock")
CHURN = """\
while [ -e /run/churn ]; do
	for cpu in 1 2 3; do
		echo 0 >/sys/devices/system/cpu/cpu$cpu/online
		echo 1 >/sys/devices/system/cpu/cpu$cpu/online
	done
done &
"""


def races(rounds: int, types: tuple[str, ...] = TYPES) -> str:
    """64 tasks: of one user, and in 8 namespaces; limits of every size."""
    lines = []
    for name in types:
        for namespaces, tasks in ((0, 64), (8, 8)):
            for room in (64, 200):
                lines.append(f"limits {name} {namespaces} {tasks} {room} {rounds}")
    return "\n".join(lines)


def exact(ran: Ran, task: str) -> None:
    output = ran.output(task)
    assert ran.ended, ran.end
    lines = [line for line in output.splitlines() if line.startswith(("ok", "not ok", "#"))]
    assert lines and all(line.startswith("ok") for line in lines), output[-3000:]
    assert ran.alarms() == []


def test_64_tasks_race_for_a_limit(boot: Boot) -> None:
    job = Job({"1-race": races(12)}, ["limits"], memory=3072, timeout=600)
    exact(boot("partywall", job), "1-race")


@pytest.mark.soak
def test_processors_come_and_go_meanwhile(boot: Boot) -> None:
    script = f"touch /run/churn\n{CHURN}\n{races(6, TYPES[:2])}\nrm /run/churn; wait"
    job = Job({"1-race": script}, ["limits"], memory=3072, timeout=600)
    exact(boot("partywall", job), "1-race")


@pytest.mark.soak
def test_the_races_under_kasan_and_lockdep(boot: Boot) -> None:
    job = Job({"1-race": races(2)}, ["limits"], memory=4096, timeout=900)
    exact(boot("partywall+lean+net+debug", job), "1-race")


@pytest.mark.parametrize("name", ["stock", "partywall"])
def test_programs_see_the_limits_that_they_know(boot: Boot, name: str) -> None:
    ran = boot(name, Job({"1-see": "semantics"}, ["semantics"], timeout=300))
    found = ktap.results(ran.output("1-see"))
    assert len(found) == 26
    assert set(found.values()) == {"pass"}, ran.output("1-see")
    assert ran.status("1-see") == 0
