# SPDX-License-Identifier: GPL-2.0-or-later
"""Boots one kernel in QEMU, runs one workload in N containers, holds the guest still.

After the window the guest stays as it is, stopped inside the recorder, so that
its memory can be read; leaving the context manager ends it.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from qemu.qmp import QMPError

from partywall.core import cache, folders
from partywall.core.errors import EnvironmentProblem
from partywall.core.progress import Progress
from partywall.core.tied import TIED, checked
from partywall.guest import image, processor
from partywall.guest.cpio import Archive
from partywall.guest.failures import died, said_in
from partywall.guest.qmp import go_on
from partywall.guest.settings import (
    ICOUNT_SHIFT,
    Accel,
    Settings,
    expected_seconds,
    memory,
    patience,
)


def _processor_seconds(pid: int) -> float:
    """How long all threads of a process have run; 0.0 if it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


GIVEN = ("base", "job", "told")
"""Archives that a guest gets when it goes on from a snapshot, as init asks for them."""

_GAVE_UP, _KILLED = 71, -9
"""Statuses of QEMU: the recorder's, and what the kernel ends if memory is short."""

_RECEIVES_WITHIN = 60.0
"""Seconds of QEMU's time on a processor, of which a guest takes two to get what it is to do."""

_alive: set[Guest] = set()
_lock = threading.Lock()
_over = threading.Event()


def close_all() -> None:
    """Ends every guest, those of other threads too; none can start any more."""
    _over.set()
    with _lock:
        guests = list(_alive)
    for machine in guests:
        machine.close()


def clean_up() -> None:
    """Removes what guests of programs that were killed have left behind."""
    folders.clean_up("guest")


def _text(serial: Path) -> str:
    try:
        return serial.read_bytes().decode(errors="replace").replace("\r", "")
    except FileNotFoundError:
        return ""


class Guest:
    """A guest from its start to its end; use it as a context manager."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        try:
            self._folder = folders.Folder("guest")
        except OSError as error:
            raise EnvironmentProblem(
                f"no folder for the guest's files: {error.strerror}",
                "free space there, or set TMPDIR to another place",
            ) from error
        self.directory = self._folder.path
        self.recording = self.directory / "recording"
        self.times = self.directory / "recording.times"
        self.qmp = self.directory / "qmp"
        self._serial = self.directory / "console"
        self._second = self.directory / "second"
        self._complaints = ""
        self._listener: threading.Thread | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Guest:
        with _lock:
            _alive.add(self)
        try:
            if _over.is_set():
                raise EnvironmentProblem("stopped before the guest was started")
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the guest and removes its files. May be called twice."""
        with _lock:
            _alive.discard(self)
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._folder.remove()

    @property
    def console(self) -> str:
        """All that the guest has printed."""
        return _text(self._serial)

    @property
    def second(self) -> str:
        """All that came by the second line."""
        return _text(self._second)

    def said(self, word: str) -> str | None:
        """The rest of the guest's first line ``PARTYWALL word …``, if it said all of that."""
        return said_in(self.console, word)

    def reported(self, word: str) -> str | None:
        """The same of the second line, or of the first if the kernel has but one."""
        return said_in(self.second or self.console, word)

    def command(self) -> list[str]:
        """The QEMU command line."""
        s = self.settings
        cpus = s.topology.total
        accel: dict[Accel, list[str]] = {
            "icount": [
                *("-accel", "tcg,thread=single", "-cpu", processor.MODEL),
                *("-icount", f"shift={ICOUNT_SHIFT},sleep=off,align=off"),
            ],
            "threads": ["-accel", "tcg,thread=multi", "-cpu", "max"],
            "kvm": ["-accel", "kvm", "-cpu", "host"],
        }
        room = f"{s.memory or memory(s.topology)}"
        machine = list[str]()
        if s.disk is not None:
            room, machine = s.disk.machine(s.memory or memory(s.topology))
        words = [
            *(*TIED, str(s.qemu.program)),
            *accel[s.accel],
            *("-smp", str(cpus), "-m", room),
            *machine,
            *("-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"),
            *("-seed", "1", "-rtc", "base=2026-01-01T00:00:00,clock=vm"),
            *("-kernel", str(s.kernel_image), "-initrd", str(self.directory / "initramfs")),
            *("-append", s.command_line),
            *self._first_line(),
            *("-qmp", f"unix:{self.qmp},server=on,wait=off"),
        ]
        if s.second_line:
            words += ["-serial", f"file:{self._second}"]
        if s.snapshot is not None:
            for name in GIVEN:
                words += ["-fw_cfg", f"name=opt/partywall/{name},file={self.directory / name}"]
            # For a second QEMU would tell networks where the guest is now: it is disturbed
            # by the host's clock then, and two runs would differ.
            words += ["-global", "migration.announce-rounds=0"]
            words += ["-incoming", self._from() if s.disk is None else "defer"]
        if s.plugin is not None:
            hooks = self.directory / "hooks"
            words += [
                "-plugin",
                f"{s.plugin},out={self.recording},windows={s.windows or cpus},hooks={hooks},"
                f"cpus={s.topology.cpus},visit={s.visit_distance},memory={s.memory_limit},"
                f"ns={1 << ICOUNT_SHIFT},record={int(s.record)}{',rounds=1' if s.rounds else ''}"
                f"{',late=1' if s.late else ''}",
            ]
        return words

    def _first_line(self) -> list[str]:
        if self.settings.snapshot is None:
            return ["-serial", f"file:{self._serial}"]
        # Behind what the guest has said before.
        words = ["-chardev", f"file,id=first,path={self._serial},append=on"]
        return [*words, "-serial", "chardev:first"]

    def _from(self) -> str:
        """Return how QEMU is told where the state of a snapshot is.

        Not by way of a program: that it ends would disturb QEMU while its guest goes on.
        """
        assert self.settings.snapshot is not None
        if self.settings.qemu.takes_files:
            return f"file:{self.settings.snapshot.state}"
        return "fd:0"

    def _told(self) -> bytes:
        """Return an archive of what the guest is told besides its job: how long to wait."""
        s, archive = self.settings, Archive()
        if s.accel == "icount":
            seconds = patience(s.timeout, s.looks, s.rounds)
            archive.file("job/patience", f"{seconds}\n".encode())
        return archive.pack()

    def _give(self) -> None:
        """Write down all that the guest holds: at once, or the first archive and the others."""
        s = self.settings
        archives = [*s.initramfs, self._told()]
        if s.snapshot is not None:
            self._serial.write_bytes(s.snapshot.console.read_bytes())
            for name, archive in zip(GIVEN, archives[1:], strict=True):
                (self.directory / name).write_bytes(archive)
            archives = archives[:1]
        with (self.directory / "initramfs").open("wb") as out:
            for archive in archives:
                out.write(archive)
            if s.disk is not None:
                s.disk.carry(out)

    def _start(self) -> None:
        try:
            self._begin()
        except OSError as error:
            snapshot = self.settings.snapshot
            if snapshot is None or snapshot.state.exists():
                raise self._not_started(error) from error
            # Another process has dropped it since.
            self.settings = replace(self.settings, snapshot=None)
            self._serial.unlink(missing_ok=True)
            self._start()

    def _not_started(self, error: OSError) -> EnvironmentProblem:
        return EnvironmentProblem(
            f"starting the guest in {self.directory}: {error.strerror}",
            "free space there, or set TMPDIR to a larger place",
        )

    def _begin(self) -> None:
        (self.directory / "hooks").write_text(self.settings.hooks)
        self._give()
        snapshot = self.settings.snapshot
        with Path(os.devnull if snapshot is None else snapshot.state).open("rb") as state:
            self._process = subprocess.Popen(
                checked(self.command()),
                stdin=state,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        # Not through a file: the disk may be full, and that be the complaint.
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        if snapshot is not None and self.settings.disk is not None:
            self._go_on()

    def _go_on(self) -> None:
        """Tell QEMU where its guest goes on from; boot it instead if it can't."""
        process = self._process
        assert process is not None
        try:
            go_on(self.qmp, self._from(), lambda: process.poll() is None)
        except (QMPError, OSError, EOFError):
            # One that ends says no more, and then has ended.
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(1.0)
            if self._is_unfit(silent=process.poll() is None):
                self._boot_instead()

    def _listen(self) -> None:
        assert self._process is not None
        assert self._process.stderr is not None
        with self._process.stderr as stderr:
            while piece := os.read(stderr.fileno(), 4096):
                self._complaints = (self._complaints + piece.decode(errors="replace"))[-65536:]

    @property
    def went_on_from(self) -> str | None:
        """The hash of its snapshot; None if it booted, whether there was to be one or not."""
        return None if self.settings.snapshot is None else self.settings.snapshot.digest

    def recording_of(self, number: int) -> Path:
        """Where the recording of a round is; the guest is held until it is removed."""
        return self.recording.with_suffix(f".{number}")

    def wait(self) -> Path:
        """Waits for the window's end; returns the recording.

        Raises EnvironmentProblem that tells what the guest died of, or that
        nothing came within ``timeout`` seconds.
        """
        self.wait_until(self.recording.exists)
        return self.recording

    def wait_for(self, word: str) -> None:
        """Waits until the guest says ``PARTYWALL word``."""
        self.wait_until(lambda: self.said(word) is not None)

    def wait_for_end(self) -> bool:
        """Waits until the guest ends by itself; False if it took more than ``timeout``."""
        assert self._process is not None
        try:
            self._process.wait(self.settings.timeout)
        except subprocess.TimeoutExpired:
            return False
        return True

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Waits until a condition holds; EnvironmentProblem as for `wait`."""
        deadline = time.monotonic() + self.settings.timeout
        boots = _Silence(self)
        while not condition():
            if _over.is_set():
                raise EnvironmentProblem("stopped while the guest ran")
            try:
                self._check(condition, boots, deadline)
            except EnvironmentProblem as error:
                if not self._is_unfit(isinstance(error, _Silent)):
                    raise
                self._boot_instead()
                boots = _Silence(self)
                deadline = time.monotonic() + self.settings.timeout
            time.sleep(0.02)

    def _check(self, condition: Callable[[], bool], boots: _Silence, deadline: float) -> None:
        """EnvironmentProblem if a guest for which a condition does not hold has failed."""
        assert self._process is not None
        if self._process.poll() is not None and not condition():
            raise self._failure()
        if time.monotonic() > deadline:
            last = next(iter(reversed(self.console.strip().splitlines())), "nothing")
            raise EnvironmentProblem(
                f"the guest did not finish its windows in {self.settings.timeout:.0f} s; "
                f"its last line: {last[:160]}",
                "the workload may hang; allow more with --timeout",
            )
        boots.check()

    def _is_unfit(self, silent: bool) -> bool:
        """Return whether it is the snapshot with which a guest that failed can't go on."""
        assert self._process is not None
        if self.settings.snapshot is None or self.said("received") is not None:
            return False
        # One too many that is dropped costs a boot.
        return silent or self._process.poll() not in (None, _GAVE_UP, _KILLED)

    def _boot_instead(self) -> None:
        """Start the guest again, without its snapshot, which nobody is to use any more."""
        assert self._process is not None
        assert self.settings.snapshot is not None
        self._process.kill()
        self._process.wait()
        if self._listener is not None:
            self._listener.join(timeout=5)
        cache.drop(self.settings.snapshot.state.parent)
        self.settings = replace(self.settings, snapshot=None)
        self._serial.unlink(missing_ok=True)
        self.qmp.unlink(missing_ok=True)
        self._complaints = ""
        self._start()

    def _failure(self) -> EnvironmentProblem:
        """What the ended guest died of, in one line."""
        if self._listener is not None:
            self._listener.join(timeout=5)
        return died(self.console, self._complaints, self.settings.qemu.version)


class _Silent(EnvironmentProblem):
    """A guest does not get on."""


class _Silence:
    """Watches a guest that boots for signs of life.

    What its kernel does is not seen, and how long that takes depends on what else
    runs here; so the time is counted that QEMU itself was given.
    """

    def __init__(self, machine: Guest) -> None:
        settings = machine.settings
        self._machine = machine
        self._goes_on = settings.snapshot is not None
        self._limit = settings.silence or max(
            120.0, 6 * expected_seconds(settings.topology), settings.timeout / 5
        )
        self._lines = -1
        self._since = 0.0
        self._next = 0.0
        self._over = settings.accel != "icount"

    def check(self) -> None:
        """EnvironmentProblem if the guest has been silent for too long."""
        if self._over or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + 1.0
        console = self._machine.console
        # From here on it is the workload that takes its time.
        self._over = self._machine.said("ready") is not None
        process = self._machine._process
        assert process is not None
        spent = _processor_seconds(process.pid)
        if console.count("\n") != self._lines:
            self._lines, self._since = console.count("\n"), spent
        if self._goes_on and self._machine.said("received") is not None:
            self._goes_on = False
        limit = _RECEIVES_WITHIN if self._goes_on else self._limit
        if not self._over and spent - self._since > limit:
            last = next(iter(reversed(console.strip().splitlines())), "nothing")
            raise _Silent(
                f"the guest does not get on: no sign of life in {limit:.0f} s of "
                f"QEMU {self._machine.settings.qemu.version}; its last line: {last[:160]}",
                "this QEMU may not run this kernel: try another with PARTYWALL_QEMU=PROGRAM, "
                "or allow more with --timeout",
            )


def initramfs(base: bytes, job: bytes, progress: Progress) -> tuple[tuple[bytes, ...], str]:
    """All archives as the guest gets them, and their hash."""
    parts = (image.early(progress), base, job)
    return parts, image.digest(parts)
