# SPDX-License-Identifier: GPL-2.0-or-later
"""What guests printed is kept when the test passed, and only then."""

from __future__ import annotations

from pathlib import Path

import kept
import pytest
from kept import Kept, Outcome, key
from machine import Job, Ran

from partywall.core.topology import Topology
from partywall.guest import Settings
from partywall.guest.qemu import Qemu
from partywall.kernels import Kernel

Boots = list[str]


@pytest.fixture
def kernel(tmp_path: Path) -> Kernel:
    image = tmp_path / "vmlinuz"
    image.write_bytes(b"a kernel")
    kernel = Kernel("own", "6.12.1", image, image)
    vars(kernel)["build_id"] = "b" * 40
    return kernel


@pytest.fixture
def boots(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Boots:
    """Texts of the jobs that were run, each of which prints how many were before it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    emulator = tmp_path / "qemu"
    emulator.write_bytes(b"an emulator")
    ran: Boots = []

    def settings(kernel: Kernel, job: Job) -> Settings:
        tasks = "".join(job.tasks.values()).encode()
        how = Qemu(emulator, "7.2", 1)
        return Settings(how, kernel.image, (tasks,), Topology(1, job.cpus), None, memory=job.memory)

    def run(_: Kernel, job: Job) -> Ran:
        ran.append("".join(job.tasks.values()))
        return Ran("console", f"printed {len(ran)}")

    monkeypatch.setattr(kept, "settings", settings)
    monkeypatch.setattr(kept, "run", run)
    kept._hash.cache_clear()
    return ran


FILE = "test_one.py"
JOB = Job({"1": "true"})


def one(
    kernel: Kernel, outcome: Outcome = "passed", *, anew: bool = False, chance: bool = False
) -> Ran:
    """What a test of its own got, that ended so."""
    guests = Kept(anew=anew)
    guests.begins(chance=chance)
    ran = guests.boot(kernel, JOB)
    guests.ended(FILE, outcome)
    return ran


def test_a_guest_of_a_test_that_passed_is_not_run_again(boots: Boots, kernel: Kernel) -> None:
    printed = one(kernel)
    guests = Kept(anew=False)
    assert guests.boot(kernel, JOB) == printed
    assert guests.ended(FILE, "passed") == 1
    assert boots == ["true"]


# Whichever comes first: a pass after it says nothing of it, and one before it may have had it too.
@pytest.mark.parametrize("outcomes", [("failed", "passed"), ("passed", "failed")])
def test_a_guest_of_a_test_that_failed_is_run_again(
    boots: Boots, kernel: Kernel, outcomes: tuple[Outcome, Outcome]
) -> None:
    guests = Kept(anew=False)
    guests.boot(kernel, JOB)
    for outcome in outcomes:
        guests.ended(FILE, outcome)
    one(kernel)
    assert boots == ["true", "true"]


def test_what_a_test_failed_with_is_kept_no_longer(boots: Boots, kernel: Kernel) -> None:
    one(kernel)
    one(kernel, "failed")
    one(kernel)
    assert boots == ["true", "true"]


def test_a_test_of_another_file_that_fails_drops_nothing(boots: Boots, kernel: Kernel) -> None:
    guests = Kept(anew=False)
    guests.boot(kernel, JOB)
    guests.ended(FILE, "passed")
    guests.ended("test_other.py", "failed")
    one(kernel)
    assert boots == ["true"]


def test_what_shows_by_chance_is_neither_kept_nor_taken(boots: Boots, kernel: Kernel) -> None:
    one(kernel, chance=True)
    one(kernel)
    one(kernel, chance=True)
    assert boots == ["true"] * 3


def test_a_test_that_is_skipped_keeps_and_drops_nothing(boots: Boots, kernel: Kernel) -> None:
    one(kernel, "skipped")
    one(kernel)
    one(kernel, "skipped")
    one(kernel)
    assert boots == ["true"] * 2


def test_anew_runs_a_guest_whatever_was_kept(boots: Boots, kernel: Kernel) -> None:
    first, second = one(kernel), one(kernel, anew=True)
    assert first != second
    assert boots == ["true", "true"]
    # And what that one printed is what is kept.
    assert one(kernel) == second


def test_what_cannot_be_read_is_run_again(boots: Boots, kernel: Kernel, tmp_path: Path) -> None:
    one(kernel)
    (file,) = tmp_path.glob("cache/**/*.json")
    for text in ("", "{}", '{"console": "", "nothing of it": 1}'):
        file.write_text(text)
        one(kernel)
    assert boots == ["true"] * 4


@pytest.mark.parametrize(
    "other", [Job({"1": "false"}), Job({"1": "true"}, cpus=2), Job({"1": "true"}, memory=512)]
)
@pytest.mark.usefixtures("boots")
def test_another_job_is_another_guest(kernel: Kernel, other: Job) -> None:
    assert key(kernel, other) != key(kernel, Job({"1": "true"}))


@pytest.mark.parametrize("name", ["vmlinuz", "qemu"])
@pytest.mark.usefixtures("boots")
def test_another_kernel_or_emulator_is_another_guest(
    kernel: Kernel, tmp_path: Path, name: str
) -> None:
    before = key(kernel, Job({"1": "true"}))
    assert key(kernel, Job({"1": "true"})) == before
    (tmp_path / name).write_bytes(b"another one")
    kept._hash.cache_clear()
    assert key(kernel, Job({"1": "true"})) != before
