# SPDX-License-Identifier: GPL-2.0-or-later
"""Which guests go on from a snapshot, and from the same one."""

from __future__ import annotations

import hashlib
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from partywall.core import cache
from partywall.core.errors import EnvironmentProblem
from partywall.core.progress import Quiet
from partywall.core.topology import Topology
from partywall.guest import Guest, Settings, qmp, snapshot
from partywall.guest.qemu import Qemu
from partywall.guest.roots import Fitted, media
from partywall.guest.roots.disks import Start
from partywall.guest.roots.media import Medium
from partywall.guest.roots.together import Place
from partywall.guest.settings import Snapshot
from partywall.guest.snapshot import DidNotBoot, Waiting, booted


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "partywall"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A guest whose QEMU and kernel are files."""
    for name in ("qemu", "image"):
        (tmp_path / name).write_text(name)
    machine = Qemu(tmp_path / "qemu", "7.2.22", 1)
    return Settings(machine, tmp_path / "image", (b"early", b"base", b"job"), Topology(2, 1), None)


def key(settings: Settings) -> str:
    machine = Waiting(settings)
    try:
        return machine.key()
    finally:
        machine.close()


def test_what_a_guest_is_to_do_makes_no_other_snapshot(settings: Settings) -> None:
    first = replace(settings, initramfs=(b"early",))
    assert key(first) == key(first)
    assert key(replace(first, timeout=9.0, rounds=3, looks=60, hooks="other")) == key(first)
    # As many CPUs, in other containers.
    assert key(replace(first, topology=Topology(1, 2))) == key(first)


@pytest.mark.parametrize(
    "other",
    [
        {"initramfs": (b"other",)},
        {"topology": Topology(3, 1)},
        {"memory": 2048},
        {"command_line": "quiet"},
        {"second_line": True},
    ],
)
def test_what_a_guest_boots_with_does(settings: Settings, other: dict[str, object]) -> None:
    changed: Settings = replace(settings, **other)  # type: ignore[arg-type]
    assert key(changed) != key(settings)


@pytest.mark.parametrize("name", ["qemu", "image"])
def test_so_do_the_emulator_and_the_kernel(settings: Settings, tmp_path: Path, name: str) -> None:
    before = key(settings)
    (tmp_path / name).write_text("another")
    assert key(settings) != before
    newer = replace(settings.qemu, version="10.0.2")
    assert key(replace(settings, qemu=newer)) != key(settings)


class Saves:
    """In place of booting and writing down: makes both files, or fails."""

    def __init__(self, error: Exception | None = None) -> None:
        self.calls, self.error = 0, error

    def __call__(self, machine: Waiting, place: Path) -> None:
        self.calls += 1
        assert machine.settings.initramfs == (b"early",)
        assert machine.settings.plugin is None
        if self.error is not None:
            raise self.error
        (place / "state").write_bytes(b"state")
        (place / "console").write_text("PARTYWALL version Linux\n")


@pytest.fixture
def saves(monkeypatch: pytest.MonkeyPatch) -> Saves:
    """No guest boots."""
    found = Saves()

    def save(machine: Waiting, place: Path) -> None:
        found(machine, place)

    monkeypatch.setattr(Waiting, "save", save)
    return found


def test_guests_go_on_from_one_snapshot(settings: Settings, saves: Saves) -> None:
    one = booted(settings, Quiet())
    two = booted(replace(settings, initramfs=(b"early", b"other", b"job")), Quiet())
    assert saves.calls == 1
    assert one.snapshot == two.snapshot is not None
    assert one.snapshot.state.read_bytes() == b"state"
    assert one.snapshot.digest == hashlib.sha256(b"state").hexdigest()
    with Guest(replace(one, qemu=Qemu(Path("/bin/true"), "7.2", 1))) as machine:
        words = machine.command()
        assert words[-2:] == ["-incoming", "fd:0"]
        given = [word.rpartition("file=")[2] for word in words if word.startswith("name=opt")]
        assert [Path(file).read_bytes() for file in given[:2]] == [b"base", b"job"]
        assert (machine.directory / "initramfs").read_bytes() == b"early"
        assert machine.said("version") == "Linux"


def fitted(file: Path, device: str = "MEMORY") -> Fitted:
    """A root of containers on a device."""
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(file.name.encode())
    os.utime(file, ns=(0, 0))
    medium = Medium(getattr(media, device), media._SYSTEMS[0])
    return Fitted(file, Place((), Start()), file.name, medium)


def test_who_has_a_clock_of_the_machines_own_or_a_ram_disk_boots(
    settings: Settings, saves: Saves, tmp_path: Path
) -> None:
    threads = replace(settings, accel="threads")
    assert booted(threads, Quiet()) is threads
    disk = replace(settings, disk=fitted(tmp_path / "root", "RAM"))
    assert booted(disk, Quiet()) is disk
    assert saves.calls == 0


def test_guests_with_one_disk_go_on_from_one_snapshot(
    settings: Settings, saves: Saves, tmp_path: Path
) -> None:
    here, there = (fitted(tmp_path / folder / "root,1") for folder in ("here", "there"))
    other = fitted(tmp_path / "other")
    one, two, three = (
        booted(replace(settings, disk=disk), Quiet()) for disk in (here, there, other)
    )
    assert one.snapshot == two.snapshot != three.snapshot
    os.utime(here.file, ns=(0, 1))
    assert booted(replace(settings, disk=here), Quiet()).snapshot != one.snapshot
    assert saves.calls == 3
    assert booted(settings, Quiet()).snapshot not in (None, one.snapshot, three.snapshot)
    # What QEMU has of it in its memory is said before it goes on.
    machine = Guest(one)
    try:
        assert machine.command()[-2:] == ["-incoming", "defer"]
    finally:
        machine.close()


class Notes(Quiet):
    """Keeps what is said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def note(self, text: str) -> None:
        """Keeps it."""
        self.said.append(text)


def test_a_guest_that_can_not_be_kept_boots(settings: Settings, saves: Saves) -> None:
    saves.error = EnvironmentProblem("no space")
    notes = Notes()
    assert booted(settings, notes) is settings
    assert notes.said == ["each guest boots: no space"]


def test_a_full_disk_is_no_reason_not_to_measure(settings: Settings, saves: Saves) -> None:
    saves.error = OSError(28, "No space left on device")
    notes = Notes()
    assert booted(settings, notes) is settings
    assert "No space left" in notes.said[0]


def test_a_kernel_that_does_not_boot_fails(settings: Settings, saves: Saves) -> None:
    saves.error = DidNotBoot("the guest's kernel panicked")
    with pytest.raises(EnvironmentProblem, match="panicked"):
        booted(settings, Quiet())


# In QEMU's place: can't go on, and boots.
FAKE = """\
#!/bin/sh
at=
for word; do
	case $word in
	file:*) [ "$at" ] || at=${word#file:} ;;
	-incoming) echo "load of migration failed: Invalid argument" >&2; exit 1 ;;
	esac
done
echo PARTYWALL ready >>"$at"
exec sleep 60
"""


def test_who_can_not_go_on_boots_and_nobody_tries_again(
    settings: Settings, saves: Saves, tmp_path: Path
) -> None:
    settings.qemu.program.write_text(FAKE)
    settings.qemu.program.chmod(0o755)
    ready = booted(settings, Quiet())
    assert isinstance(ready.snapshot, Snapshot)
    with Guest(ready) as machine:
        machine.wait_for("ready")
        # As it boots, it says itself what the other one had said.
        assert machine.said("version") is None
        told = (machine.directory / "initramfs").read_bytes()
        assert told.startswith(b"earlybasejob")
    assert not cache.has(snapshot.KIND, ready.snapshot.state.parent.name)
    booted(settings, Quiet())
    assert saves.calls == 2


@pytest.mark.parametrize("end", ["exit 0", "exit 134", "kill -SEGV $$"])
def test_whatever_ends_a_guest_that_can_not_go_on_it_boots(
    settings: Settings, saves: Saves, end: str
) -> None:
    settings.qemu.program.write_text(FAKE.replace("exit 1", end))
    settings.qemu.program.chmod(0o755)
    with Guest(booted(settings, Quiet())) as machine:
        machine.wait_for("ready")
        assert machine.settings.snapshot is None


def test_with_a_disk_who_is_not_listened_to_boots(
    settings: Settings, saves: Saves, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(qmp, "_GOES_ON_WITHIN", 0.5)
    settings.qemu.program.write_text(FAKE.replace("exit 1", "exec sleep 60"))
    settings.qemu.program.chmod(0o755)
    ready = booted(replace(settings, disk=fitted(tmp_path / "root")), Quiet())
    assert ready.snapshot is not None
    with Guest(ready) as machine:
        machine.wait_for("ready")
        assert machine.settings.snapshot is None
    assert not cache.has(snapshot.KIND, ready.snapshot.state.parent.name)


def test_one_that_was_killed_is_not_started_again(settings: Settings, saves: Saves) -> None:
    settings.qemu.program.write_text(FAKE.replace("exit 1", "kill -KILL $$"))
    settings.qemu.program.chmod(0o755)
    ready = booted(settings, Quiet())
    assert ready.snapshot is not None
    with pytest.raises(EnvironmentProblem, match="QEMU ended"), Guest(ready) as machine:
        machine.wait_for("ready")
    assert ready.snapshot.state.exists()


def test_who_finds_it_gone_boots(settings: Settings, saves: Saves) -> None:
    settings.qemu.program.write_text(FAKE)
    settings.qemu.program.chmod(0o755)
    ready = booted(settings, Quiet())
    assert ready.snapshot is not None
    cache.drop(ready.snapshot.state.parent)
    with Guest(ready) as machine:
        machine.wait_for("ready")
        assert machine.said("version") is None


def test_a_recorder_that_gives_up_is_no_fault_of_the_snapshot(
    settings: Settings, saves: Saves
) -> None:
    gives_up = FAKE.replace("load of migration failed: Invalid argument", "partywall recorder: no")
    settings.qemu.program.write_text(gives_up.replace("exit 1", "exit 71"))
    settings.qemu.program.chmod(0o755)
    ready = booted(settings, Quiet())
    assert ready.snapshot is not None
    with pytest.raises(EnvironmentProblem, match="gave up: no"), Guest(ready) as machine:
        machine.wait()
    assert cache.has(snapshot.KIND, ready.snapshot.state.parent.name)


def test_who_waited_for_a_guest_that_failed_does_not_start_another(
    settings: Settings, saves: Saves, monkeypatch: pytest.MonkeyPatch
) -> None:
    saves.error = DidNotBoot("the guest's kernel panicked", "another kernel")
    # Two that began before the first of them failed.
    begun = time.time() - 1
    monkeypatch.setattr(snapshot.time, "time", lambda: begun)
    for _ in range(2):
        with pytest.raises(DidNotBoot, match="panicked") as caught:
            booted(settings, Quiet())
        assert caught.value.hint == "another kernel"
    assert saves.calls == 1
    monkeypatch.undo()


def test_who_comes_later_does(settings: Settings, saves: Saves) -> None:
    saves.error = EnvironmentProblem("no space")
    assert booted(settings, Quiet()) is settings
    saves.error = None
    assert booted(settings, Quiet()).snapshot is not None
    assert not list((cache.root() / snapshot.KIND).glob("*.failed"))


def test_a_boot_that_was_ended_is_nobody_elses_failure(
    settings: Settings, saves: Saves, monkeypatch: pytest.MonkeyPatch
) -> None:
    saves.error = DidNotBoot("QEMU ended early")
    begun = time.time() - 1
    monkeypatch.setattr(snapshot.time, "time", lambda: begun)
    for _ in range(2):
        with pytest.raises(DidNotBoot):
            booted(settings, Quiet())
    assert saves.calls == 2


@pytest.mark.parametrize(
    ("version", "takes"),
    [("7.2.22", False), ("8.1.5", False), ("8.2.0", True), ("10.0.2", True), ("11.1.3", True)],
)
def test_newer_emulators_are_told_a_file(
    settings: Settings, saves: Saves, version: str, takes: bool
) -> None:
    ready = booted(replace(settings, qemu=replace(settings.qemu, version=version)), Quiet())
    assert ready.snapshot is not None
    machine = Guest(ready)
    try:
        state = ready.snapshot.state
        assert machine.command()[-1] == (f"file:{state}" if takes else "fd:0")
    finally:
        machine.close()
