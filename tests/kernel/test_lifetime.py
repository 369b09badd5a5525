# SPDX-License-Identifier: GPL-2.0-or-later
"""Nothing is left: of namespaces, of queue entries, of what processors kept."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from machine import Job, Ran, slabs

Boot = Callable[[str, Job], Ran]

# SigQ counts what processors have in stock, until a limit is reached: then all give
# it back. Root reaches its own by a signal that is to kill.
COUNTS = slabs("user_namespace", "sigqueue", "kmalloc-256", "cred") + (
    "sh -c 'ulimit -i 1; kill -34 $$'\ngrep SigQ /proc/1/status\n"
)


def counts(ran: Ran, task: str) -> dict[str, int]:
    """Objects in slab caches, and queued signals of root, as `COUNTS` printed them."""
    (queued,) = re.findall(r"SigQ:\s+(\d+)/", ran.output(task))
    return ran.slabs(task) | {"SigQ": int(queued)}


# Of so many one of 33 may leave an object: there is room for 300. Of ten times as many, one of 333.
@pytest.mark.parametrize(
    ("many", "seconds"), [(10_000, 900), pytest.param(100_000, 3600, marks=pytest.mark.slow)]
)
def test_many_namespaces_leave_nothing(boot: Boot, many: int, seconds: int) -> None:
    script = "echo 100000 >/proc/sys/user/max_user_namespaces\nnamespaces {} 16"
    tasks = {
        # What is made on first use is made before it is counted.
        "1-warm": script.format(2000),
        "2-before": COUNTS,
        "3-many": script.format(many),
        "4-after": COUNTS,
        "5-few": "echo 40 >/proc/sys/user/max_user_namespaces\nnamespaces 2000 16",
    }
    ran = boot("partywall", Job(tasks, ["namespaces"], timeout=seconds))
    assert ran.ended, ran.end
    assert f"{many} namespaces, 0 failed" in ran.output("3-many")
    assert "2000 namespaces, 0 failed" in ran.output("5-few")
    before, after = counts(ran, "2-before"), counts(ran, "4-after")
    assert after["SigQ"] == before["SigQ"] == 0
    # A slab that a processor works on counts as full.
    for cache in ("user_namespace", "kmalloc-256"):
        assert after[cache] <= before[cache] + 300, (cache, before, after)
    assert ran.alarms() == []


def test_signals_at_exiting_threads_leave_no_queue_entry(boot: Boot) -> None:
    tasks = {
        "1-warm": "exits 5",
        "2-before": COUNTS,
        "3-many": "exits 60",
        "4-after": COUNTS,
    }
    ran = boot("partywall", Job(tasks, ["exits"], timeout=300))
    assert ran.ended, ran.end
    sent = int(re.findall(r"sent (\d+)", ran.output("3-many"))[0])
    assert sent > 100_000
    before, after = counts(ran, "2-before"), counts(ran, "4-after")
    assert after["SigQ"] == 0
    assert after["sigqueue"] <= before["sigqueue"] + 200, (before, after)
    assert ran.alarms() == []


@pytest.mark.soak
def test_the_same_under_kasan_and_lockdep(boot: Boot) -> None:
    tasks = {"1-exits": "exits 60", "2-namespaces": "namespaces 2000 16"}
    ran = boot(
        "partywall+lean+net+debug", Job(tasks, ["exits", "namespaces"], memory=4096, timeout=600)
    )
    assert ran.ended, ran.end
    assert "2000 namespaces, 0 failed" in ran.output("2-namespaces")
    assert ran.alarms() == []


WAYS = ("dropped", "cleared", "given")
"""What is done with a keyring before its process ends."""


def left(ran: Ran, task: str) -> dict[str, int]:
    """Bytes that stay charged, by what was done with the keyring."""
    return {way: int(n) for way, n in re.findall(r"(\w+): (-?\d+) bytes", ran.output(task))}


def charged(boot: Boot, kernel: str) -> dict[str, int]:
    """Bytes of root's quota of keys that stay charged when a keyring of 17,000 is gone."""
    # Four bytes for a key: of 16 bits there is nothing left with the 16,384th.
    ran = boot(kernel, Job({"1-few": "keys 16000", "2-many": "keys 17000"}, ["keys"], timeout=900))
    assert ran.ended, ran.end
    assert left(ran, "1-few") == dict.fromkeys(WAYS, 0)
    assert ran.alarms() == []
    return left(ran, "2-many")


def test_a_keyring_gives_back_what_it_took_of_its_users_quota(boot: Boot) -> None:
    assert charged(boot, "stock") == dict.fromkeys(WAYS, 65536)
    assert charged(boot, "partywall") == dict.fromkeys(WAYS, 0)
