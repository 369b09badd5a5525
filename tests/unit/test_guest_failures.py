# SPDX-License-Identifier: GPL-2.0-or-later
"""What a guest died of is said in one line; what it left behind goes, if it is dead."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from partywall import guest
from partywall.core.errors import EnvironmentProblem
from partywall.core.topology import Topology
from partywall.guest import Guest, Settings
from partywall.guest.qemu import Qemu


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Guests' folders lie in the test's own."""
    place = tmp_path / "tmp"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place


# In QEMU's place: says what lies beside it, and makes a recording if one lies there.
FAKE = """\
#!/bin/sh
here=${0%/*}
for word; do
	case $word in
	file:*) cat "$here/console" >"${word#file:}" ;;
	*.so,out=*)
		out=${word#*,out=}
		# Whole at once, as the recorder's.
		[ ! -e "$here/recording" ] || cp "$here/recording" "$here/new"
		[ ! -e "$here/new" ] || mv "$here/new" "${out%%,*}"
		;;
	esac
done
cat "$here/stderr" >&2
[ ! -e "$here/lasts" ] || exec sleep 60
exit 1
"""


def make(**more: object) -> Guest:
    """A guest, of a QEMU that is not there unless told otherwise."""
    given_: dict[str, Any] = {
        "qemu": Qemu(Path("/nonexistent/qemu"), "7.2.22", 1),
        "kernel_image": Path("/nonexistent/image"),
        "initramfs": (b"one", b"two"),
        "topology": Topology(2, 1),
        "plugin": None,
        "timeout": 20.0,
    }
    return Guest(Settings(**(given_ | more)))


@pytest.fixture
def machine() -> Iterator[Guest]:
    """A guest that is never started."""
    found = make()
    yield found
    found.close()


@pytest.fixture
def qemu(tmp_path: Path) -> Qemu:
    """A QEMU that says what a test writes beside it."""
    folder = tmp_path / "fake"
    folder.mkdir()
    (folder / "qemu").write_text(FAKE)
    (folder / "qemu").chmod(0o755)
    (folder / "console").touch()
    (folder / "stderr").touch()
    return Qemu(folder / "qemu", "7.2.22", 1)


def failed(qemu: Qemu, console: str | bytes = "", stderr: str | bytes = "") -> str:
    """What is said of a guest that ends with this on its console and QEMU's stderr."""
    for name, words in (("console", console), ("stderr", stderr)):
        data = words.encode() if isinstance(words, str) else words
        (qemu.program.parent / name).write_bytes(data)
    with pytest.raises(EnvironmentProblem) as caught, make(qemu=qemu) as machine:
        machine.wait()
    assert "\n" not in caught.value.message
    return caught.value.message


BOOT = "PARTYWALL version Linux version 6.12\r\nPARTYWALL ready\r\n"
PANIC = "[    1.0] Kernel panic - not syncing: VFS: Unable to mount root fs\r\n[    1.1] CPU: 0\r\n"
WORKLOAD = "partywall: workload: unshare: Operation not permitted\r\n"
GAVE_UP = "partywall recorder: more than 6144 MB of lines\n"
INIT = "PARTYWALL failed a container ended before its window did\r\n"
QEMU = "qemu-system-x86_64: -smp 300: Invalid SMP CPUs 300\n"


@pytest.mark.parametrize(
    ("console", "stderr", "words"),
    [
        (BOOT, GAVE_UP, "the recorder gave up: more than 6144 MB of lines"),
        (BOOT + PANIC, "", "the guest's kernel panicked: VFS: Unable to mount root fs"),
        (BOOT + WORKLOAD, "", "the workload failed: unshare: Operation not permitted"),
        (BOOT + INIT, "", "the guest failed: a container ended before its window did"),
        ("", QEMU, f"QEMU ended: {QEMU.strip()}"),
        ("", "first\nlast\n\n", "QEMU ended: last"),
        (BOOT, "", "QEMU ended early; the guest's last line: PARTYWALL ready"),
        ("", "", "QEMU ended early; the guest's last line: nothing"),
        ("\r\n \r\n", " \n", "QEMU ended early; the guest's last line: nothing"),
    ],
)
def test_the_cause_is_said(qemu: Qemu, console: str, stderr: str, words: str) -> None:
    assert failed(qemu, console, stderr) == words


def test_a_panic_is_said_with_where_it_was(qemu: Qemu) -> None:
    oops = "[    9.9] RIP: 0010:net_rx_action+0xec/0x420\r\n[    9.9] RIP: 0033:0x7ffff78b2e60\r\n"
    said = failed(qemu, BOOT + oops + PANIC.replace("VFS", "Fatal"))
    assert said.startswith("the guest's kernel panicked at net_rx_action+0xec/0x420: Fatal")


def test_the_first_cause_is_said_of_several(qemu: Qemu) -> None:
    everything = BOOT + WORKLOAD + INIT + PANIC
    assert failed(qemu, everything, GAVE_UP + QEMU).startswith("the recorder gave up")
    assert failed(qemu, everything, QEMU).startswith("the guest's kernel panicked")
    assert failed(qemu, BOOT + WORKLOAD + INIT, QEMU).startswith("the workload failed")
    assert failed(qemu, BOOT + INIT, QEMU).startswith("the guest failed")


def test_what_a_program_said_before_the_failure_is_said_too(qemu: Qemu) -> None:
    console = f"{BOOT}crun: mount proc: EPERM\r\n[    2.0] reboot: Power down\r\n{INIT}"
    assert failed(qemu, console).endswith("window did (crun: mount proc: EPERM)")


def test_a_guest_that_never_said_a_thing(machine: Guest) -> None:
    assert machine.console == ""
    assert machine.said("version") is None


def test_a_long_last_line_is_cut(qemu: Qemu) -> None:
    assert len(failed(qemu, "x" * 5000)) < 300
    assert len(failed(qemu, "", "x" * 500_000)) < 300


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.binary(max_size=60), st.binary(max_size=60), st.sampled_from(["", BOOT, INIT, PANIC]))
def test_no_output_breaks_the_reader(
    qemu: Qemu, console: bytes, stderr: bytes, before: str
) -> None:
    assert failed(qemu, before.encode() + console, stderr)


def test_a_recording_is_waited_for(qemu: Qemu, tmp_path: Path) -> None:
    (qemu.program.parent / "recording").write_bytes(b"recorded")
    (qemu.program.parent / "lasts").touch()
    with make(qemu=qemu, plugin=tmp_path / "recorder.so") as machine:
        assert machine.wait().read_bytes() == b"recorded"
    assert not machine.directory.exists()


def test_a_recording_counts_even_if_qemu_has_ended(qemu: Qemu, tmp_path: Path) -> None:
    (qemu.program.parent / "recording").write_bytes(b"recorded")
    with make(qemu=qemu, plugin=tmp_path / "recorder.so") as machine:
        assert machine.wait().read_bytes() == b"recorded"


def test_a_guest_that_hangs_is_ended_in_time(qemu: Qemu) -> None:
    (qemu.program.parent / "console").write_text(BOOT)
    (qemu.program.parent / "lasts").touch()
    begun = time.monotonic()
    with pytest.raises(EnvironmentProblem) as caught, make(qemu=qemu, timeout=0.5) as machine:
        machine.wait()
    assert 0.5 <= time.monotonic() - begun < 15
    assert "its last line: PARTYWALL ready" in caught.value.message
    assert "--timeout" in (caught.value.hint or "")
    assert not machine.directory.exists()


def test_a_word_that_the_guest_says_is_waited_for(qemu: Qemu) -> None:
    (qemu.program.parent / "console").write_text(BOOT)
    (qemu.program.parent / "lasts").touch()
    with make(qemu=qemu) as machine:
        machine.wait_for("ready")
        assert machine.said("version") == "Linux version 6.12"


def test_what_the_guest_says_is_the_rest_of_the_line(machine: Guest) -> None:
    path = machine.directory / "console"
    path.write_bytes(
        b"PARTYWALL note no RAM disk\r\n[ 0.1] PARTYWALL version of the log\r\n"
        b"PARTYWALL version Linux version 6.12 (a b) #1\r\nPARTYWALL version again\r\n"
        b"PARTYWALL ready\r\nPARTYWALL vmcoreinfo 0x3f00000 1024\r\n"
    )
    assert machine.said("version") == "Linux version 6.12 (a b) #1"
    assert machine.said("ready") == ""
    assert machine.said("vmcoreinfo") == "0x3f00000 1024"
    assert machine.said("failed") is None
    assert machine.said("2") is None


def test_a_line_that_is_still_being_written_is_not_said_yet(machine: Guest) -> None:
    console = machine.directory / "console"
    console.write_bytes(b"PARTYWALL round 3 failed: killed")
    assert machine.said("round 3 failed:") is None
    console.write_bytes(b"PARTYWALL round 3 failed: killed by signal 11\r\n")
    assert machine.said("round 3 failed:") == "killed by signal 11"


def test_a_word_is_a_whole_word(machine: Guest) -> None:
    (machine.directory / "console").write_bytes(b"PARTYWALL readying the disk\r\n")
    assert machine.said("readying") == "the disk"
    assert machine.said("read") is None


def test_bytes_that_are_no_text_are_shown_somehow(machine: Guest) -> None:
    (machine.directory / "console").write_bytes(b"\xff\xfePARTYWALL no\r\nPARTYWALL ready\r\n\xc3")
    assert machine.said("ready") == ""
    assert machine.said("no") is None


def test_closing_a_guest_removes_its_folder(temporary: Path) -> None:
    machine = make()
    assert machine.directory.parent == temporary
    (machine.directory / "inner").mkdir()
    machine.close()
    assert not machine.directory.exists()
    machine.close()


def test_a_guest_that_cannot_start_leaves_nothing(temporary: Path) -> None:
    with pytest.raises(EnvironmentProblem), make() as machine:
        machine.wait()
    assert list(temporary.iterdir()) == []


def test_a_program_that_is_not_there_is_said() -> None:
    with pytest.raises(EnvironmentProblem, match="/nonexistent/qemu"), make() as machine:
        machine.wait()


def test_a_place_without_room_is_said(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(temporary / "missing"))
    with pytest.raises(EnvironmentProblem) as caught:
        make()
    assert "TMPDIR" in (caught.value.hint or "")


def test_the_command_line_gives_each_container_its_cpus(machine: Guest) -> None:
    words = machine.command()
    assert words[words.index("-smp") + 1] == "2"
    assert str(machine.directory / "initramfs") in words
    assert "-plugin" not in words


def dead_process() -> int:
    """The id of a process that has ended."""
    with subprocess.Popen(["true"]) as process:
        process.wait()
    return process.pid


def test_folders_of_dead_processes_go(temporary: Path) -> None:
    left = temporary / f"partywall-guest-{dead_process()}-abcd"
    (left / "deep").mkdir(parents=True)
    (left / "deep" / "recording").write_text("half")
    guest.clean_up()
    assert not left.exists()


def test_folders_of_living_processes_stay() -> None:
    machine = make()
    guest.clean_up()
    assert machine.directory.exists()


@pytest.mark.parametrize(
    "name",
    [
        "partywall-guest-abc-def",
        "partywall-guest--def",
        "partywall-guest",
        "partywall-other-{dead}-abcd",
        "other-guest-{dead}-abcd",
        "partywall-guest-{dead}",
    ],
)
def test_other_folders_stay(temporary: Path, name: str) -> None:
    folder = temporary / name.format(dead=dead_process())
    folder.mkdir()
    guest.clean_up()
    assert folder.exists()


@pytest.mark.parametrize(
    ("release", "more", "end"),
    [
        ("6.12.117", "", " lpj=4000000"),
        ("6.12.117", "sysctl.fs.neg-dentry-pc=1", " lpj=4000000 sysctl.fs.neg-dentry-pc=1"),
        ("6.1.0-50-amd64", "quiet", " maxcpus=1 quiet"),
    ],
)
def test_parameters_come_last(release: str, more: str, end: str) -> None:
    assert guest.command_line(release, more).endswith(end)
