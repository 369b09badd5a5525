# SPDX-License-Identifier: GPL-2.0-or-later
"""What it costs a signal to visit every processor at a limit, in instructions (2 ns each)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from machine import Job, Ran

Boot = Callable[[str, Job], Ran]

# Twelve slots: root's, the user's own, and ten of users below it.
SCRIPT = """\
echo 100 >/proc/sys/user/max_user_namespaces
visit 0 3 && visit 10 1
"""


def visits(ran: Ran) -> dict[int, tuple[int, int]]:
    """By how many users are below: ns of the first refusal, and of one when all is exact."""
    assert ran.ended, ran.end
    assert ran.status("1-visit") == 0, ran.output("1-visit")
    lines = [line.split() for line in ran.output("1-visit").splitlines()]
    return {int(line[2]): (int(line[3]), int(line[4])) for line in lines if line[:1] == ["visit"]}


@pytest.mark.soak
@pytest.mark.parametrize("cpus", [8, 64, 240])
def test_a_visit_costs_so_much_for_each_processor(boot: Boot, cpus: int) -> None:
    memory = 1024 + 8 * cpus
    job = Job({"1-visit": SCRIPT}, ["visit"], cpus=cpus, memory=memory, timeout=3600, counted=True)
    found = visits(boot("partywall", job))
    for users, (first, second) in found.items():
        each = (first - second) / cpus
        print(f"{cpus} processors, {users} users below: {first - second} ns, {each:.0f} for each")
        # 12 slots, locks and barriers: some 400 instructions; with ten users more to give back.
        assert 0 < each < (2_000 if not users else 6_000)
    assert set(found) == {0, 10}
