# SPDX-License-Identifier: GPL-2.0-or-later
"""A map that is interrupted goes on with the guests that it had not done."""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from partywall import workloads
from partywall.core import cache
from partywall.core.errors import EnvironmentProblem, PartywallError, UsageProblem
from partywall.core.progress import Progress, Quiet
from partywall.core.topology import Topology
from partywall.guest.qemu import Qemu
from partywall.guest.sitting import Round
from partywall.kernels import Kernel
from partywall.measure import identity, plan, sweep, unfinished
from partywall.measure.identity import key_of
from partywall.measure.plan import Plan
from partywall.measure.run import Call
from partywall.measure.sitting import Found, Sitting
from partywall.measure.unfinished import Unfinished

# Each is confined otherwise, and has a guest of its own.
SIGNAL, NETNS, MOUNT = workloads.select(["signal", "netns", "mount/bind"])
ROUNDS = [Round(one) for one in (SIGNAL, NETNS, MOUNT)]


@pytest.fixture
def how(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    """Nothing but what is kept is real."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(identity.sitting, "contents", lambda *told: ((), "what it holds"))
    monkeypatch.setattr(plan, "require", lambda *told: None)
    monkeypatch.setattr(sweep, "recorder", lambda *told: tmp_path / "recorder")
    (tmp_path / "recorder").write_bytes(b"recorder")
    return Plan(kernel(tmp_path), Qemu(tmp_path / "qemu", "7.2.22", 1), SIGNAL, Topology(4, 1))


def kernel(folder: Path, image: bytes = b"image") -> Kernel:
    """A kernel whose image holds this."""
    (folder / "bzImage").write_bytes(image)
    found = Kernel("test", "6.12.0", folder / "bzImage", folder / "vmlinux")
    found.__dict__["build_id"] = "0123"
    return found


class Machine:
    """Measures in this process, and says what it measured."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.measured: list[str] = []
        self.guests = 99
        self.failing: set[str] = set()
        self.failure: type[PartywallError] = EnvironmentProblem
        monkeypatch.setattr(sweep.run, "side_by_side", self.side_by_side)

    def side_by_side(
        self, calls: Sequence[Call[Any]], jobs: int, progress: Progress
    ) -> list[Any | PartywallError]:
        """Do as many guests as there may be, then be interrupted."""
        became = []
        for number, call in enumerate(calls):
            if number == self.guests:
                raise KeyboardInterrupt
            became.append(call.measure(*call.arguments, 512, progress))
        return became

    def measure(self, wanted: Sitting, *_: object) -> Found[str]:
        """What is found of a round is its name, in capitals."""
        found: Found[str] = Found("version")
        for each in wanted.rounds:
            self.measured.append(each.title)
            failed = each.title in self.failing
            found.add(self.failure("it hung") if failed else each.title.upper())
        return found

    def found(self, how: Plan, kept: Unfinished, *, guests: int = 99) -> list[str]:
        """What becomes of the rounds, and in `measured` those that it took."""
        self.measured.clear()
        self.guests = guests
        became, versions = sweep.in_guests(how, ROUNDS, 1, Quiet(), self.measure, kept)
        assert versions == {"version"}
        return [str(one) for one in became]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def test_what_was_done_is_not_done_again(how: Plan, machine: Machine) -> None:
    with pytest.raises(KeyboardInterrupt):
        machine.found(how, Unfinished(), guests=2)
    first = list(machine.measured)
    assert len(first) == 2
    kept = Unfinished()
    assert machine.found(how, kept) == ["SIGNAL", "NETNS", "MOUNT/BIND"]
    assert sorted([*first, *machine.measured]) == ["mount/bind", "netns", "signal"]
    # As long as its result is not written, nothing is lost.
    assert machine.found(how, Unfinished()) == ["SIGNAL", "NETNS", "MOUNT/BIND"]
    assert machine.measured == []
    kept.over()
    kept.over()
    assert machine.found(how, Unfinished()) == ["SIGNAL", "NETNS", "MOUNT/BIND"]
    assert len(machine.measured) == 3


def test_what_takes_longest_is_begun_first_and_told_in_its_place(
    how: Plan, machine: Machine
) -> None:
    assert machine.found(how, Unfinished()) == ["SIGNAL", "NETNS", "MOUNT/BIND"]
    assert machine.measured == ["netns", "mount/bind", "signal"]


@pytest.mark.parametrize("failure", [EnvironmentProblem, UsageProblem])
def test_a_guest_of_which_an_operation_failed_is_measured_again(
    how: Plan, machine: Machine, failure: type[PartywallError]
) -> None:
    machine.failing, machine.failure = {"netns"}, failure
    assert machine.found(how, Unfinished())[1] == "it hung"
    machine.failing.clear()
    assert machine.found(how, Unfinished()) == ["SIGNAL", "NETNS", "MOUNT/BIND"]
    assert machine.measured == ["netns"]


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"garbage", b"\x80\x04N."),
        pickle.dumps(Found("version", _packed=[b"garbage"])),
        pickle.dumps(Found("version", _packed=[zlib.compress(b"garbage")])),
    ],
)
def test_what_can_not_be_read_is_measured_again(
    how: Plan, machine: Machine, content: bytes
) -> None:
    whole = machine.found(how, Unfinished())
    for path in (cache.root() / unfinished.KIND).glob("*/found"):
        path.write_bytes(content)
    assert machine.found(how, Unfinished()) == whole
    assert len(machine.measured) == 3


def test_without_room_for_it_a_map_is_measured(
    how: Plan, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> Path:
        raise EnvironmentProblem("no space left")

    monkeypatch.setattr(cache, "entry", full)
    assert machine.found(how, Unfinished()) == ["SIGNAL", "NETNS", "MOUNT/BIND"]


def test_what_can_not_be_measured_is_said_as_without(
    how: Plan, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def require(*_: object) -> None:
        raise UsageProblem("the kernel lacks it")

    monkeypatch.setattr(plan, "require", require)
    became, _ = sweep.in_guests(how, ROUNDS, 1, Quiet(), machine.measure, Unfinished())
    assert [str(one) for one in became] == ["the kernel lacks it"] * 3


def test_what_decides_what_is_found_tells_guests_apart(
    how: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = tmp_path / "recorder"

    def key(how: Plan, *rounds: Round) -> str:
        identity.files.cache_clear()
        return key_of(Sitting(how, rounds or (Round(SIGNAL),)), recorder, Quiet())

    same = key(how)
    assert key(replace(how)) == same
    longer = SIGNAL.model_copy(update={"window": 2 * SIGNAL.window})
    program = tmp_path / "workload"
    program.mkdir()
    moved = SIGNAL.model_copy(update={"source": program})
    others = [
        key(replace(how, threshold=0.5)),
        key(replace(how, at=8)),
        key(replace(how, topology=Topology(8, 1))),
        key(replace(how, parameters="nosmt")),
        key(replace(how, qemu=replace(how.qemu, version="11.0.0"))),
        key(how, Round(longer)),
        key(how, Round(SIGNAL, NETNS, 2)),
        key(how, Round(SIGNAL, NETNS, 1)),
        key(how, Round(SIGNAL), Round(NETNS)),
        key(how, Round(moved)),
        key(replace(how, kernel=kernel(tmp_path, b"another"))),
    ]
    how = replace(how, kernel=kernel(tmp_path))
    assert key(how) == same
    (program / "main.c").write_text("int main(void) { return 1; }")
    others.append(key(how, Round(moved)))
    recorder.write_bytes(b"another")
    others.append(key(how))
    monkeypatch.setattr(identity, "program", lambda: "another one")
    others.append(key(how))
    monkeypatch.setattr(identity.sitting, "contents", lambda *told: ((), "with another busybox"))
    others.append(key(how))
    assert len({same, *others}) == 1 + len(others)


def test_what_is_made_of_a_program_in_its_folders_is_none_of_it(tmp_path: Path) -> None:
    place = tmp_path / "target" / "partywall"
    (place / "recorder" / "target").mkdir(parents=True)
    (place / "main.py").write_text("1")

    def now() -> str:
        identity.files.cache_clear()
        return identity.files(place)

    before = now()
    (place / "recorder" / "target" / "made.so").write_text("2")
    assert now() == before
    (place / "main.py").write_text("2")
    assert now() != before
