# SPDX-License-Identifier: GPL-2.0-or-later
"""Guests that QEMU before 8.1 brings down: they are told from others, and started again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from partywall.clock import bench
from partywall.clock.native import Count
from partywall.core.errors import EnvironmentProblem
from partywall.core.topology import Topology
from partywall.guest import Settings, emulator
from partywall.guest.qemu import Qemu

OOPS = """\
[  129.745539] Oops: int3: 0000 [#1] PREEMPT SMP NOPTI
[  129.745574] RIP: 0010:sched_clock_cpu+0x9/0x190
[  129.746616] Code: 90 90 f3 0f 1e fa 41 54 55 53 {byte} <1b> e8 31 2a f1 ff
[  129.746749] Kernel panic - not syncing: Fatal exception in interrupt
"""


@pytest.mark.parametrize(
    ("console", "stale"),
    [
        (OOPS.format(byte="eb"), True),
        (OOPS.format(byte="cc"), False),
        (OOPS.format(byte="eb").replace("int3", "0000"), False),
        (OOPS[:120].format(byte="eb"), False),
        ("GUEST ends", False),
    ],
)
def test_a_breakpoint_that_is_not_in_memory_is_the_emulators_fault(
    console: str, stale: bool
) -> None:
    assert emulator.stale_code(console) is stale


SETTINGS = Settings(Qemu(Path("qemu"), "7.2", 1), Path("image"), (), Topology(1, 1), None)


class Guests:
    """Guests whose consoles say, one after the other, what is given."""

    def __init__(self, *consoles: str) -> None:
        self.left = list(consoles)
        self.console = ""

    def __call__(self, settings: Settings) -> Guests:
        self.console = self.left.pop(0)
        return self

    def __enter__(self) -> Guests:
        return self

    def __exit__(self, *_: Any) -> None:
        pass

    def wait_until(self, condition: Callable[[], bool]) -> None:
        if not condition():
            raise EnvironmentProblem("the guest's kernel panicked")


FAULT, COUNTED = OOPS.format(byte="eb"), "PARTYWALL ops 0 40 1000\n"


def test_a_guest_that_the_emulator_brought_down_is_started_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    guests = Guests(FAULT, FAULT, COUNTED, COUNTED)
    monkeypatch.setattr(bench, "Guest", guests)
    assert bench._counts(SETTINGS) == [Count(0, 40, 1000)]
    assert guests.left == [COUNTED]


@pytest.mark.parametrize(
    ("consoles", "left"),
    [((OOPS.format(byte="cc"), COUNTED), 1), ((FAULT,) * (emulator.ATTEMPTS + 1), 1)],
)
def test_a_guest_that_fails_by_itself_or_always_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, consoles: tuple[str, ...], left: int
) -> None:
    guests = Guests(*consoles)
    monkeypatch.setattr(bench, "Guest", guests)
    with pytest.raises(EnvironmentProblem, match="panicked"):
        bench._counts(SETTINGS)
    assert len(guests.left) == left
