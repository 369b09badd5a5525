# SPDX-License-Identifier: GPL-2.0-or-later
"""Host and guest stay in step at each look, whatever becomes of an operation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from partywall import workloads
from partywall.core.errors import EnvironmentProblem
from partywall.core.progress import Quiet
from partywall.core.topology import Topology
from partywall.guest import Guest
from partywall.guest.sitting import Growing, Round
from partywall.measure import growth as measuring
from partywall.measure.plan import Plan
from partywall.measure.sitting import Found
from partywall.results.growth import Operation

WHOLE = ("before", "some", "more", "gone", "reclaimed")


class Machine:
    """A guest that is held at looks, one after the other, and says what is between them.

    ``says``: words at looks, and what else it prints there, in order. It ends behind them.
    """

    def __init__(self, folder: Path, *says: str) -> None:
        self._folder, self._says = folder, list(says)
        self.second = ""
        self.console = ""
        self.held = -1

    def recording_of(self, number: int) -> Path:
        return self._folder / str(number)

    def wait_until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            if not self._says:
                raise EnvironmentProblem("the guest is gone")
            said = self._says.pop(0)
            self.second += f"\nPARTYWALL {said}\n"
            if said.startswith("look "):
                self.held += 1
                self.recording_of(self.held).touch()

    def reported(self, words: str) -> str | None:
        for line in self.second.splitlines():
            if line.startswith(f"PARTYWALL {words}"):
                return line.removeprefix(f"PARTYWALL {words} ")
        return None


def looks(*which: str) -> list[str]:
    return [f"look {one}" for one in which]


class Counting:
    """Counts its looks instead of reading memory."""

    def __init__(self, kernel: object, makers: object, operations: int, cpus: int) -> None:
        self.operations = operations
        self.left: list[Any] = []
        self.unsettled: list[Any] = []
        self.raised: list[Any] = []
        self.grew = True
        self.looks: list[object] = []

    def during(self, now: object) -> None:
        self.looks.append(now)

    def after(self, which: str, now: object) -> None:
        self.looks.append(now)


@pytest.fixture
def became(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., list[Operation | Exception]]:
    """What becomes of two operations in a guest that says this."""
    monkeypatch.setattr(measuring.analysis, "Growth", Counting)
    monkeypatch.setattr(measuring.analysis, "look", lambda kernel, counted=True: object())
    monkeypatch.setattr(measuring._Watch, "_reading", lambda self: (None, None))

    def run(*says: str, reclaims: bool = True) -> list[Operation | Exception]:
        machine = Machine(tmp_path, *says)
        plan = cast(Plan, SimpleNamespace(topology=Topology(2, 1)))
        found: Found[Operation] = Found()
        rounds = [Round(one) for one in workloads.select(["signal", "fork"])]
        watch = measuring._Watch(cast(Guest, machine), plan, Growing(reclaims))
        watch.rounds(rounds, found, Quiet())
        return list(found.results())

    return run


Became = Callable[..., list[Operation | Exception]]


def test_each_operation_has_all_of_its_looks(became: Became) -> None:
    first, second = became(*looks(*WHOLE, *WHOLE, "stopped", "ended"))
    assert isinstance(first, Operation)
    assert isinstance(second, Operation)


def test_where_nothing_is_reclaimed_before_the_end_it_is_after_it(became: Became) -> None:
    kept = [one for one in WHOLE if one != "reclaimed"]
    found = became(*looks(*kept, *kept, "stopped", "ended", "reclaimed"), reclaims=False)
    assert all(isinstance(one, Operation) for one in found)
    found = became(*looks(*WHOLE, *WHOLE), reclaims=False)
    assert "the guest says 'reclaimed'" in str(found[1])


@pytest.mark.parametrize("there", [0, 1, 2])
def test_one_that_fails_between_looks_is_said_and_the_next_is_measured(
    became: Became, there: int
) -> None:
    first, second = became(
        *looks(*WHOLE[:there]),
        "round 0 failed: it went out",
        *looks("gone", "reclaimed", *WHOLE, "stopped", "ended"),
    )
    assert "it went out" in str(first)
    assert isinstance(second, Operation)


def test_one_that_fails_after_the_last_look_has_failed(became: Became) -> None:
    first, second = became(
        *looks("before", "some", "more"),
        "round 0 failed: killed at its end",
        *looks("gone", "reclaimed", *WHOLE, "stopped", "ended"),
    )
    assert "killed at its end" in str(first)
    assert isinstance(second, Operation)


@pytest.mark.parametrize("there", range(len(WHOLE)))
def test_where_the_guest_goes_it_is_the_fault_of_the_one_that_ran(
    became: Became, there: int
) -> None:
    found = became(*looks(*WHOLE, *WHOLE[:there]))
    assert isinstance(found[0], Operation)
    assert "the guest is gone" in str(found[1])
    # Of the first it ended all: the second has another guest.
    (alone,) = became(*looks(*WHOLE[:there]))
    assert "the guest is gone" in str(alone)


def test_without_the_last_look_what_was_found_stays(became: Became) -> None:
    assert all(isinstance(one, Operation) for one in became(*looks(*WHOLE, *WHOLE)))


def test_a_look_that_is_another_one_is_an_error(became: Became) -> None:
    (only,) = became(*looks("before", "some", "more", "reclaimed"))
    assert "'gone', and the guest says 'reclaimed'" in str(only)


def test_memory_that_cannot_be_read_is_a_failure_of_its_operation(
    became: Became, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = iter(range(100))

    def look(kernel: object, counted: bool = True) -> object:
        if next(numbers) == 1:
            raise ZeroDivisionError("nothing there")
        return object()

    monkeypatch.setattr(measuring.analysis, "look", look)
    first, second = became(*looks(*WHOLE, *WHOLE, "stopped", "ended"))
    assert "memory could not be read: ZeroDivisionError: nothing there" in str(first)
    assert isinstance(second, Operation)
