# SPDX-License-Identifier: GPL-2.0-or-later
"""Rounds of a guest: how they are put together, and what becomes of them if it fails."""

from __future__ import annotations

import gc
import pickle
import weakref
from pathlib import Path
from typing import Any

import builders
import drgn
import pytest

from partywall import workloads
from partywall.core.errors import EnvironmentProblem, PartywallError, UsageProblem
from partywall.core.progress import Quiet
from partywall.core.topology import Topology
from partywall.guest.qemu import Qemu
from partywall.guest.sitting import Round, job, patience
from partywall.kernels import Kernel
from partywall.measure import beside, plan, run, sitting, sweep
from partywall.measure.plan import Plan
from partywall.measure.sitting import Became, Found, Sitting
from partywall.results import document
from partywall.results.touches import Touch
from partywall.workloads import Workload

SIGNAL, PIPE, COPY_UP, NETNS = workloads.select(
    ["signal", "descriptor/pipe", "overlay/copy-up", "netns"]
)
QEMU = Qemu(Path("/nonexistent/qemu"), "7.2.22", 1)


@pytest.fixture
def kernel() -> Kernel:
    """A kernel of which nothing is there."""
    return Kernel("test", "6.12.0", Path("bzImage"), Path("vmlinux"))


@pytest.fixture
def how(kernel: Kernel) -> Plan:
    """In four containers."""
    return Plan(kernel=kernel, qemu=QEMU, workload=SIGNAL, topology=Topology(4, 1))


# How long a round may take


@pytest.mark.parametrize(
    ("containers", "timeout", "seconds"),
    [
        (8, 300.0, 20),
        (2, 300.0, 20),
        (8, 1200.0, 80),
        (64, 300.0, 160),
        (240, 300.0, 300),
        (2, 1.0, 1),
    ],
)
def test_a_rounds_time_goes_by_containers_and_timeout(
    containers: int, timeout: float, seconds: int
) -> None:
    shape = Topology(containers, 1)
    assert patience(shape, timeout) == seconds
    archive = job([Round(SIGNAL)], Topology(2, 1), confined=False, timeout=timeout)
    assert f'"PW_PATIENCE={patience(Topology(2, 1), timeout)}"'.encode() in archive


# Which rounds share a guest


def test_what_writes_the_image_is_once_in_a_guest(how: Plan) -> None:
    like = [
        one
        for one, _ in workloads.load()
        if sitting.alike(one) == sitting.alike(COPY_UP) and not one.lower_files
    ]
    writes = [Round(COPY_UP, one, 2) for one in like[:5]]
    others = [Round(one) for one in like[: sweep.LONGEST + 8]]
    rounds = [*writes, *others]
    parts = [one.rounds for one in sweep.sittings(how, rounds)]
    assert len(parts) == 5
    for part in parts:
        assert sum(one in writes for one in part) == 1
        assert len(part) <= sweep.LONGEST
    titles = [one.title for part in parts for one in part]
    assert sorted(titles) == sorted(one.title for one in rounds)


def test_what_writes_the_image_once_stays_in_its_place(how: Plan) -> None:
    rounds = [Round(SIGNAL), Round(COPY_UP), Round(PIPE)]
    (one,) = sweep.sittings(how, rounds)
    assert list(one.rounds) == rounds


# What can't be measured at all


@pytest.fixture
def nothing_boots(monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands before a guest passes, and there is none."""
    monkeypatch.setattr(sweep.hooks, "require", lambda vmlinux: None)
    monkeypatch.setattr(sweep.qemu, "find", lambda: QEMU)
    monkeypatch.setattr(plan, "require", lambda *told: None)

    def recorder(*_: object) -> Path:
        pytest.fail("nothing can be measured, and the recorder is made for it")

    monkeypatch.setattr(sweep, "recorder", recorder)


@pytest.mark.usefixtures("nothing_boots")
@pytest.mark.parametrize(
    ("containers", "neighbour", "said"),
    [
        (4, NETNS, "signal beside netns: the two are confined differently"),
        (1, PIPE, "one container has no other beside it"),
    ],
)
def test_pairs_of_which_none_can_be_are_refused_in_words(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch, containers: int, neighbour: Workload, said: str
) -> None:
    # Of a victim's own like nothing stands in the way.
    monkeypatch.setattr(beside, "rounds_of", lambda *told: [Round(SIGNAL, neighbour, 2)])
    wanted = run.Wanted(kernel, [SIGNAL], topology=Topology(containers, 1))
    with pytest.raises(UsageProblem) as caught:
        beside.beside(wanted, [neighbour], Quiet())
    assert caught.value.message.startswith(said)
    assert caught.value.hint


@pytest.mark.usefixtures("nothing_boots")
def test_a_map_of_which_nothing_can_be_measured_says_why(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def require(*_: object) -> None:
        raise UsageProblem("the kernel lacks it")

    monkeypatch.setattr(plan, "require", require)
    outcome = sweep.sweep(run.Wanted(kernel, [SIGNAL, PIPE], topology=Topology(4, 1)), Quiet())
    assert outcome.result is None
    assert [one.message for one in outcome.failures.values()] == ["the kernel lacks it"] * 2


# A guest that fails


def became(how: Plan, monkeypatch: pytest.MonkeyPatch, *guests: list[Became]) -> tuple[Became, ...]:
    """What becomes of three rounds in guests of which each does some; none boots after them."""
    left = list(guests)

    def sit(wanted: Sitting, *told: Any) -> None:
        found: Found = told[-1]
        if not left:
            raise EnvironmentProblem("no memory for it", "end other programs")
        found.add(*left.pop(0))
        found.version = "its version"

    monkeypatch.setattr(sitting, "_sit", sit)
    rounds = (Round(SIGNAL), Round(PIPE), Round(NETNS))
    found = sitting.measure(Sitting(how, rounds), Path("recorder"), 512, Quiet())
    assert found.version == "its version"
    return tuple(found.results())


def touch(name: str) -> tuple[Touch, Touch]:
    """Something that was measured."""
    one = Touch(victim=name, neighbour=name, transfers=0.0, objects=[])
    return one, one


def test_what_was_measured_stays_if_the_next_guest_does_not_boot(
    how: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured, died = touch("signal"), EnvironmentProblem("the kernel panicked")
    first, second, third = became(how, monkeypatch, [measured, died])
    assert first == measured
    assert isinstance(second, EnvironmentProblem)
    assert second.message == died.message
    assert isinstance(third, EnvironmentProblem)
    assert third.message == "the guest after one that ended did not start: no memory for it"
    assert third.hint == "end other programs"


def test_a_first_guest_that_does_not_boot_is_said_at_once(
    how: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(EnvironmentProblem, match="no memory for it"):
        became(how, monkeypatch)


def test_what_was_found_is_not_held_as_objects() -> None:
    found = Found()
    wall = builders.named_wall("kmalloc-64")
    one = builders.workload("signal", [wall] * 50)
    held = weakref.ref(one)
    as_it_was = document.dump(builders.result(one))
    found.add(one, EnvironmentProblem("it broke", "mend it"))
    del one
    gc.collect()
    assert held() is None
    assert len(found) == 2
    moved = pickle.loads(pickle.dumps(found))
    result, error = moved.results()
    assert document.dump(builders.result(result)) == as_it_was
    assert (error.message, error.hint) == ("it broke", "mend it")
    assert not len(moved)


class Machine:
    """A guest that has said this of its rounds, on its two lines."""

    def __init__(self, folder: Path, console: str, second: str) -> None:
        self._folder, self.console, self.second = folder, console, second

    def recording_of(self, number: int) -> Path:
        return self._folder / f"recording.{number}"

    def reported(self, word: str) -> str | None:
        return sitting.Guest.reported(self, word)  # type: ignore[arg-type]

    def wait_until(self, condition: Any) -> None:
        if not condition():
            raise EnvironmentProblem("it would wait")


@pytest.mark.parametrize(
    ("console", "second", "said"),
    [
        ("PARTYWALL round 1 over\n", "PARTYWALL round 10 over\n", "it would wait"),
        ("", "x\nPARTYWALL round 1 failed: killed\n", "it would wait"),
        ("", "x\nPARTYWALL round 1 failed: killed\n\nPARTYWALL round 1 over\n", "killed"),
        ("", "PARTYWALL round 1 over\n", "not every CPU ran a window"),
        # A kernel with one serial line: CONFIG_SERIAL_8250_RUNTIME_UARTS=1.
        ("PARTYWALL round 1 over\n", "", "not every CPU ran a window"),
    ],
)
def test_a_round_that_is_over_is_not_waited_for(
    tmp_path: Path, console: str, second: str, said: str
) -> None:
    try:
        found: object = sitting._recorded(Machine(tmp_path, console, second), 1)  # type: ignore[arg-type]
    except EnvironmentProblem as error:
        found = error
    assert isinstance(found, PartywallError)
    assert said in found.message


# Pairs


def test_a_round_that_can_not_be_analysed_is_a_failure_of_its_own(
    how: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fault(*told: Any) -> None:
        raise drgn.FaultError("cannot find memory segment", 0x10)

    monkeypatch.setattr(sitting, "check_windows", fault)
    nothing: Any = None
    found = sitting._analysed(nothing, nothing, lambda: nothing, how, Round(SIGNAL), "")
    assert isinstance(found, PartywallError)
    assert "could not be analysed: FaultError: cannot find memory segment" in found.message
    assert found.hint is not None
    assert "test_sitting.py:" in found.hint
