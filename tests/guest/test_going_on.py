# SPDX-License-Identifier: GPL-2.0-or-later
"""Guests that go on from a snapshot do what they would have done had they booted."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from partywall import workloads
from partywall.core import cache
from partywall.core.errors import EnvironmentProblem
from partywall.core.progress import Quiet
from partywall.core.topology import Topology
from partywall.guest import Guest, Settings, qemu, snapshot
from partywall.guest.snapshot import Waiting, booted
from partywall.kernels import Kernel
from partywall.measure.plan import Plan, prepared
from partywall.record import reading
from partywall.record.plugin import recorder
from partywall.workloads import served
from partywall.workloads.workload import Workload

SHAPE = Topology(4, 1)
OURS = ("signal", "fork")


def of(title: str) -> Workload:
    """A workload or a server."""
    (found,) = workloads.select([title]) if title in OURS else served.select([title])
    return found


def settings(kernel: Kernel, title: str) -> Settings:
    """A guest that is recorded, with one workload."""
    return settings_of(kernel, of(title), SHAPE)


def settings_of(kernel: Kernel, workload: Workload, shape: Topology) -> Settings:
    """A guest of a shape that is recorded."""
    plan = Plan(kernel=kernel, qemu=qemu.find(), workload=workload, topology=shape)
    return prepared(plan, recorder(plan.qemu, Quiet()), 4096, Quiet())[0]


def recorded(settings: Settings) -> tuple[str, int, str]:
    """The hash of what was recorded, instructions of the kernel, and what the guest said."""
    with Guest(settings) as machine:
        path = machine.wait()
        read = reading.load(path)
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


def test_so_do_two_servers_whose_disk_is_no_part_of_it(kernel: Kernel) -> None:
    booting = settings_of(kernel, of("redis/get"), Topology(2, 1))
    assert booting.disk is not None
    ready = booted(booting, Quiet())
    one, two = recorded(ready), recorded(ready)
    assert one[0] == two[0]
    assert "received" in said(one[2])
    assert said(one[2]).count("requests") == 2


@pytest.mark.parametrize("title", ["signal", "redis/get"])
def test_a_broken_snapshot_is_dropped_and_its_guest_boots(
    kernel: Kernel, tmp_path: Path, title: str
) -> None:
    whole = settings_of(kernel, of(title), Topology(2, 1))
    # Of a command line of its own, so that nobody else's is broken.
    line = f"{whole.command_line} partywall.test={tmp_path.name}"
    ready = booted(replace(whole, command_line=line), Quiet())
    assert ready.snapshot is not None
    place = ready.snapshot.state.parent
    state = ready.snapshot.state.read_bytes()
    ready.snapshot.state.write_bytes(state[: len(state) // 2])
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
