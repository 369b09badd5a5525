# SPDX-License-Identifier: GPL-2.0-or-later
"""What QEMU says of its plugins is understood, and a missing QEMU is named."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partywall.core.errors import EnvironmentProblem
from partywall.guest import qemu
from partywall.guest.qemu import parse_plugin_abi

SEVEN_TWO = (
    "qemu-system-x86_64: -plugin /tmp/probe.so: could not load plugin /tmp/probe.so: plugin "
    "requires API version 10000, but this QEMU supports only up to version {}\n"
)


@pytest.mark.parametrize("version", [0, 1, 2, 4, 12])
def test_the_sentence_of_qemu_7_2(version: int) -> None:
    assert parse_plugin_abi(SEVEN_TWO.format(version)) == version


@pytest.mark.parametrize(
    ("message", "version"),
    [
        ("this QEMU supports only API versions up to version 5", 5),
        ("warning: something\n" + SEVEN_TWO.format(3) + "more\n", 3),
        ("supports only version 2", 2),
    ],
)
def test_other_words_around_the_number(message: str, version: int) -> None:
    assert parse_plugin_abi(message) == version


@pytest.mark.parametrize(
    "message",
    [
        "",
        "qemu-system-x86_64: -plugin: invalid option\n",
        "plugin requires API version 10000",
        "supports only up to version ",
        "supports only up to version one",
        "supports only\nversion 7",
        "QEMU emulator version 7.2.22",
        "\0" * 100,
    ],
)
def test_what_says_no_number_gives_none(message: str) -> None:
    assert parse_plugin_abi(message) is None


@given(st.text(), st.text(), st.integers(0, 10**6))
def test_any_words_in_front_and_behind(before: str, after: str, version: int) -> None:
    around = before.replace("supports only", "") + SEVEN_TWO.format(version) + after
    assert parse_plugin_abi(around) == version


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program in QEMU's place; empty until the test writes it."""
    program = tmp_path / "qemu"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PARTYWALL_QEMU", str(program))
    monkeypatch.setattr(qemu, "find", qemu.find.__wrapped__)
    return program


def speak(program: Path, version: str, refusal: str) -> None:
    program.write_text(
        "#!/bin/sh\n"
        f"if [ \"$1\" = --version ]; then echo '{version}'; exit 0; fi\n"
        f"echo '{refusal.strip()}' >&2\nexit 1\n"
    )


def test_a_qemu_is_asked_for_its_version_and_abi(fake: Path) -> None:
    speak(fake, "QEMU emulator version 7.2.22 (Debian 1:7.2)", SEVEN_TWO.format(1))
    assert qemu.find() == qemu.Qemu(fake, "7.2.22", 1)


def test_a_qemu_without_plugins_is_told_apart(fake: Path) -> None:
    speak(fake, "QEMU emulator version 9.0.0", "qemu: -plugin: invalid option")
    with pytest.raises(EnvironmentProblem, match=r"takes no TCG plugins.*invalid option") as caught:
        qemu.find()
    assert "--enable-plugins" in (caught.value.hint or "")


def test_what_does_not_say_its_version_is_no_qemu(fake: Path) -> None:
    with pytest.raises(EnvironmentProblem, match="does not say its version") as caught:
        qemu.find()
    assert str(fake) in caught.value.message


def test_a_missing_qemu_is_named(fake: Path) -> None:
    fake.unlink()
    with pytest.raises(EnvironmentProblem, match="not installed") as caught:
        qemu.find()
    assert str(fake) in caught.value.message


def test_a_qemu_that_is_no_guest_proves_no_kvm(fake: Path) -> None:
    assert not qemu.kvm_works(fake, seconds=1)


def test_the_guest_that_proves_kvm_runs_in_this_qemu() -> None:
    # All but the accelerator is what KVM would get; where the same guest does not
    # run without KVM, the probe says no wherever it is asked.
    assert qemu.runs_a_guest(qemu.find().program, "tcg", seconds=60)


def test_a_qemu_that_hangs_is_not_waited_for(fake: Path) -> None:
    fake.write_text("#!/bin/sh\nexec sleep 600\n")
    begun = time.monotonic()
    assert not qemu.runs_a_guest(fake, "kvm", seconds=0.2)
    assert time.monotonic() - begun < 60


def test_an_accelerator_that_qemu_lacks_runs_no_guest() -> None:
    assert not qemu.runs_a_guest(qemu.find().program, "nonsense", seconds=60)
