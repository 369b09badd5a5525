# SPDX-License-Identifier: GPL-2.0-or-later
"""Real containers on the running kernel: crun, a shared lower layer, an overlay each.

Nothing outlives the process that made it, however that ends: mounts are in a mount
namespace of its own, and the processes of each container in a process namespace
whose first process dies with it. What is left of one that was killed is a folder,
which the next one removes.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from partywall.core import folders
from partywall.core.errors import EnvironmentProblem, UsageProblem
from partywall.core.progress import Progress
from partywall.core.tied import TIED, checked
from partywall.guest import image, oci
from partywall.workloads import Workload, build_workload

_CLONE_NEWNS = 0x20000
_LINE = re.compile(rb"^PARTYWALL ops (\d+) (\d+) (\d+)$", re.MULTILINE)
_STALE = 30.0
"""Seconds beyond a run's own time until it is given up."""


@dataclass(frozen=True)
class Count:
    """What one process did in its time."""

    process: int
    operations: int
    nanoseconds: int


def parse(output: bytes) -> list[Count]:
    """The counts that workloads have printed, by process; lines that are none are passed over."""
    found = {int(p): Count(int(p), int(n), int(t)) for p, n, t in _LINE.findall(output) if int(t)}
    return [found[process] for process in sorted(found)]


def possible() -> None:
    """UsageProblem if containers can't be made by who runs this."""
    if os.geteuid() != 0:
        raise UsageProblem(
            "containers with mounts of their own need root",
            "run it as root; in guests (--kernel) no root is needed",
        )


def _run(*words: str | Path) -> None:
    done = subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, check=False
    )
    if done.returncode:
        why = (done.stderr.strip().splitlines() or ["it said nothing"])[-1][:160]
        raise EnvironmentProblem(f"{words[0]} {words[1]} failed: {why}")


def _overlay(lower: Path, folder: Path) -> None:
    """Mounts an overlay of ``folder``'s upper on ``lower`` at its rootfs."""
    options = f"lowerdir={lower},upperdir={folder / 'upper'},workdir={folder / 'work'}"
    _run("mount", "-t", "overlay", "-o", options, "overlay", folder / "rootfs")


def _own_mounts() -> None:
    """From here on this thread's mounts are nobody else's."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNS):
        raise EnvironmentProblem(f"unshare: {os.strerror(ctypes.get_errno())}")
    # What the host unmounts goes here too, and nothing goes the other way.
    _run("mount", "--make-rslave", "/")
    if not Path("/sys/fs/cgroup/cgroup.controllers").exists():
        # crun runs with version 1 or 2 but not where both are, as some hosts have it.
        _run("mount", "-t", "cgroup2", "cgroup", "/sys/fs/cgroup")


class Machine:
    """The place where containers are made; one workload and its lower layer.

    Use it as a context manager, in the thread that made it.
    """

    def __init__(self, workload: Workload, progress: Progress) -> None:
        self._workload = workload
        self._program = build_workload(workload.source, progress)
        self._crun = image.tool("crun")
        self._made: Path | None = None
        self._live: list[subprocess.Popen[bytes]] = []
        self._serial = 0
        self.notes: list[str] = []

    @property
    def _folder(self) -> Path:
        assert self._made is not None
        return self._made

    def __enter__(self) -> Machine:
        possible()
        folders.clean_up("bench")
        _own_mounts()
        try:
            self._held = folders.Folder("bench")
        except OSError as error:
            raise EnvironmentProblem(
                f"no folder for the containers: {error.strerror}",
                "free space there, or set TMPDIR to another place",
            ) from error
        self._made = self._held.path
        try:
            if set(",:") & set(str(self._folder)):
                raise UsageProblem(
                    f"{self._folder.parent} can't hold layers: its name has a comma or colon",
                    "set TMPDIR to another place",
                )
            self._place()
            self._fill(self._folder / "layer")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._made is None:
            return
        self._end()
        for mounted in reversed(_mounts_below(self._made)):
            subprocess.run(["umount", mounted], capture_output=True, check=False)
        if _mounts_below(self._made):
            self._held.let_go()
        else:
            self._held.remove()

    def _place(self) -> None:
        """A file system of its own if the folder's can't hold layers, as another overlay can't."""
        names = ("layer", "upper", "work", "rootfs")
        probe = self._folder / "probe"
        for name in names:
            (probe / name).mkdir(parents=True)
        try:
            _overlay(probe / "layer", probe)
            _run("umount", probe / "rootfs")
        except EnvironmentProblem:
            _run("mount", "-t", "tmpfs", "-o", "mode=755", "partywall", self._folder)
        else:
            shutil.rmtree(probe)
            self._folder.chmod(0o755)
        kind = subprocess.run(
            ["stat", "--file-system", "--format=%T", str(self._folder)],
            capture_output=True,
            text=True,
            check=False,
        )
        if kind.stdout.strip() == "tmpfs":
            self.notes.append(
                "the containers' layers are on a tmpfs, which keeps no negative dentries; "
                "TMPDIR names another place"
            )

    def _fill(self, layer: Path) -> None:
        """The lower layer, the same as in guests."""
        for name in image.layer_folders([self._workload]):
            (layer / name).mkdir(parents=True, exist_ok=True)
        (layer / "tmp").chmod(0o1777)
        programs = {self._path: self._program.read_bytes()}
        files = image.layer_files(programs, [self._workload])
        for name, (data, mode) in files.items():
            path = layer / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            path.chmod(mode)

    @property
    def _path(self) -> str:
        return f"{image.PROGRAM_DIR}/{self._workload.name}"

    def _end(self) -> None:
        """Ends every container that is left, with all of its processes."""
        for process in self._live:
            # The first process of the namespace: unshare, its parent, ends when all are gone.
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
            try:
                found = children.read_text().split() if process.poll() is None else []
            except OSError:
                found = []
            for child in found or ([str(process.pid)] if process.poll() is None else []):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(child), signal.SIGKILL)
        for process in self._live:
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._live.clear()

    def _start(self, bundle: Path, out: BinaryIO) -> None:
        """Starts a container that ends with this process."""
        # crun would have to be asked to forget a name, and what is killed can't be asked.
        self._serial += 1
        self._live.append(
            subprocess.Popen(
                checked(
                    [
                        *(*TIED, "unshare", "--pid", "--fork", "--kill-child=KILL"),
                        *("--mount-proc", str(self._crun)),
                        *("--root", str(self._folder / "state")),
                        *("--cgroup-manager=disabled", "run"),
                        *("--bundle", str(bundle), f"c{self._serial}"),
                    ]
                ),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        )

    def _bundle(self, number: int, cpus: list[int], total: int, milliseconds: int) -> Path:
        """A container's folder, with its root mounted and its configuration written."""
        workload, folder = self._workload, self._folder / f"c{number}"
        owner = oci.FIRST_UID + number * oci.UIDS
        for name in ("upper", "work", "rootfs", "volume"):
            (folder / name).mkdir(parents=True)
        for name in ("upper", "volume"):
            os.chown(folder / name, owner, owner)
        _overlay(self._folder / "layer", folder)
        config = oci.config(
            number=number,
            cpus=range(min(cpus), max(cpus) + 1),
            arguments=[self._path],
            environment={
                "PATH": "/usr/bin:/bin",
                "PW_BARRIER": "/run/partywall",
                "PW_CPU": str(number * len(cpus)),
                "PW_CPUS": str(len(cpus)),
                "PW_CPU_LIST": ",".join(map(str, cpus)),
                "PW_PROCS": str(total),
                "PW_VARIANT": workload.variant,
                "PW_WARMUP": "0",
                "PW_WINDOW": "0",
                "PW_MILLISECONDS": str(milliseconds),
            },
            capabilities=workload.capabilities,
            confined=True,
            # A profile would have to be loaded into the running kernel, which is not ours.
            apparmor=False,
            seccomp=workload.seccomp == "docker",
            systempaths=workload.systempaths == "docker",
        )
        for mount in config["mounts"]:
            if mount["destination"] == "/run/partywall":
                mount["source"] = str(self._folder / "barrier")
        # Processes pin themselves; a cgroup of one's own for CPUs is not everywhere to be had.
        del config["linux"]["resources"]["cpu"]
        (folder / "config.json").write_text(json.dumps(config))
        return folder

    def run(self, groups: list[list[int]], milliseconds: int) -> list[Count]:
        """Runs one container on each group of CPUs, together; what each process did.

        EnvironmentProblem with the first thing that a container or crun said.
        """
        total = sum(map(len, groups))
        barrier = self._folder / "barrier"
        barrier.write_bytes(bytes(4096))
        barrier.chmod(0o666)
        with tempfile.TemporaryFile() as out:
            try:
                for number, cpus in enumerate(groups):
                    self._start(self._bundle(number, cpus, total, milliseconds), out)
                return self._collect(out.fileno(), total, milliseconds)
            finally:
                self._end()
                for number in range(len(groups)):
                    folder = self._folder / f"c{number}"
                    subprocess.run(
                        ["umount", str(folder / "rootfs")], capture_output=True, check=False
                    )
                    if not _mounts_below(folder):
                        shutil.rmtree(folder, ignore_errors=True)

    def _collect(self, out: int, total: int, milliseconds: int) -> list[Count]:
        deadline = time.monotonic() + milliseconds / 1000 + _STALE + 0.2 * len(self._live)
        while True:
            ended = any(process.poll() is not None for process in self._live)
            # All write at its end, so it is read from its start each time; and after it
            # was seen that one has ended, whose last words are in there then.
            said = os.pread(out, 1 << 20, 0)
            counts = parse(said)
            if len(counts) == total:
                return counts
            if ended or time.monotonic() > deadline:
                what = "a container ended" if ended else "containers did not finish in time"
                raise EnvironmentProblem(f"{what}: {reason(said)}")
            time.sleep(0.02)


def reason(said: bytes) -> str:
    """The line that tells most of why containers failed: the workload's own, else the first."""
    lines = [
        line.strip()
        for line in said.decode(errors="replace").splitlines()
        if line.strip() and not line.startswith("PARTYWALL ops")
    ]
    own = [line for line in lines if line.startswith("partywall: workload:")]
    return [*own, *lines, "nothing was said"][0].removeprefix("partywall: ")[:160]


def _mounts_below(folder: Path) -> list[str]:
    """Where something is mounted at a folder or below it, in the order of mounting."""
    lines = Path("/proc/thread-self/mountinfo").read_text().splitlines()
    points = [line.split()[4].encode().decode("unicode_escape") for line in lines]
    return [point for point in points if Path(point).is_relative_to(folder)]


@contextlib.contextmanager
def machine(workload: Workload, progress: Progress) -> Iterator[Machine]:
    """A `Machine`; its mounts are the only ones of this thread's that end with it."""
    if threading.current_thread() is not threading.main_thread():
        raise AssertionError("mounts belong to a thread")
    with Machine(workload, progress) as made:
        yield made
