# SPDX-License-Identifier: GPL-2.0-or-later
"""Guests that go on from a snapshot do what they would have done had they booted."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from partywall import guest, workloads
from partywall.core import cache
from partywall.core.errors import EnvironmentProblem
from partywall.core.progress import Quiet
from partywall.core.topology import Topology
from partywall.guest import Guest, Settings, image, qemu, snapshot
from partywall.guest.snapshot import Waiting, booted
from partywall.kernels import Kernel
from partywall.measure.plan import Plan
from partywall.record import hooks, recording
from partywall.record.plugin import recorder

SHAPE = Topology(4, 1)


def settings(kernel: Kernel, title: str) -> Settings:
    """A guest that is recorded, with one workload."""
    (workload,) = workloads.select([title])
    plan = Plan(kernel=kernel, qemu=qemu.find(), workload=workload, topology=SHAPE)
    parts, _ = guest.initramfs(
        image.base(kernel, workload, Quiet()), image.job(workload, SHAPE, confined=True), Quiet()
    )
    watched = hooks.build(kernel.vmlinux, workload)
    return plan.settings(parts, watched, recorder(plan.qemu, Quiet()), 4096)


def recorded(settings: Settings) -> tuple[str, int, str]:
    """The hash of what was recorded, instructions of the kernel, and what the guest said."""
    with Guest(settings) as machine:
        path = machine.wait()
        read = recording.load(path)
        ran = sum(party.kernel_instructions for party in read.parties)
        return hashlib.sha256(path.read_bytes()).hexdigest(), ran, machine.console


@pytest.fixture(scope="module")
def signal(kernel: Kernel) -> Settings:
    """Of signals."""
    return settings(kernel, "signal")


def said(console: str) -> list[str]:
    """The first words of what a guest says of itself."""
    lines = [line.split() for line in console.splitlines() if line.startswith("PARTYWALL ")]
    return [line[1] for line in lines]


def test_a_guest_does_what_it_would_have_done(signal: Settings) -> None:
    _, ran, console = recorded(signal)
    _, again, resumed = recorded(booted(signal, Quiet()))
    assert again == pytest.approx(ran, rel=0.02)
    assert said(console) == ["version", "build", "vmcoreinfo", "ready"]
    assert said(resumed) == ["version", "build", "vmcoreinfo", "received", "ready"]


def test_two_guests_from_one_snapshot_are_equal_to_the_byte(signal: Settings) -> None:
    ready = booted(signal, Quiet())
    assert recorded(ready)[0] == recorded(ready)[0]


def test_another_workload_goes_on_from_the_same_one(kernel: Kernel, signal: Settings) -> None:
    other = booted(settings(kernel, "fork"), Quiet())
    assert other.snapshot == booted(signal, Quiet()).snapshot
    assert recorded(other)[1] != recorded(booted(signal, Quiet()))[1]


def test_a_broken_snapshot_is_dropped_and_its_guest_boots(signal: Settings, tmp_path: Path) -> None:
    # Of a command line of its own, so that nobody else's is broken.
    line = f"{signal.command_line} partywall.test={tmp_path.name}"
    ready = booted(replace(signal, command_line=line), Quiet())
    assert ready.snapshot is not None
    place = ready.snapshot.state.parent
    whole = ready.snapshot.state.read_bytes()
    ready.snapshot.state.write_bytes(whole[: len(whole) // 2])
    with Guest(ready) as machine:
        machine.wait()
        assert "PARTYWALL received" not in machine.console
        assert machine.said("version") is not None
    assert not cache.has(snapshot.KIND, place.name)


def test_a_full_disk_is_told(kernel: Kernel, tmp_path: Path) -> None:
    waiting = Waiting(replace(settings(kernel, "signal"), plugin=None, hooks="", second_line=True))
    waiting.settings = replace(waiting.settings, initramfs=waiting.settings.initramfs[:1])
    (tmp_path / "state.draft").symlink_to("/dev/full")
    with pytest.raises(EnvironmentProblem, match="can't be written"):
        waiting.save(tmp_path)
    assert not (tmp_path / "state").exists()
