# SPDX-License-Identifier: GPL-2.0-or-later
"""Real containers on the running kernel: crun, a shared lower layer, an overlay each.

All mounts are made in a mount namespace of their own, so that they are gone with
the process that made them however it ends.
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

from partywall import image, oci, syscalls
from partywall.errors import EnvironmentProblem, UsageProblem
from partywall.progress import Progress
from partywall.workloads import Workload

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
    _run("mount", "--make-rprivate", "/")
    if not Path("/sys/fs/cgroup/cgroup.controllers").exists():
        # crun runs with version 1 or 2 but not where both are, as some hosts have it.
        _run("mount", "-t", "cgroup2", "cgroup", "/sys/fs/cgroup")


class Machine:
    """The place where containers are made; one workload and its lower layer.

    Use it as a context manager, in the thread that made it. Containers' names
    hold the process's number, so that two benches do not meet.
    """

    def __init__(self, workload: Workload, progress: Progress) -> None:
        self._workload = workload
        self._program = image.build_workload(workload.source, progress)
        self._known = syscalls.numbers()
        self._crun = image.tool("crun")
        self._folder = Path()
        self._live: list[str] = []
        self.notes: list[str] = []

    def __enter__(self) -> Machine:
        possible()
        _own_mounts()
        self._folder = Path(tempfile.mkdtemp(prefix=f"partywall-bench-{os.getpid()}-"))
        try:
            self._place()
            self._fill(self._folder / "layer")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        with contextlib.suppress(EnvironmentProblem):
            _run("umount", "--recursive", "--lazy", self._folder)
        shutil.rmtree(self._folder, ignore_errors=True)

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
            self.notes.append(
                f"layers are on a tmpfs, which keeps no negative dentries: "
                f"{self._folder.parent} can't hold them; TMPDIR names another place"
            )
            _run("mount", "-t", "tmpfs", "-o", "mode=755", "partywall", self._folder)
        else:
            shutil.rmtree(probe)
            self._folder.chmod(0o755)

    def _fill(self, layer: Path) -> None:
        """The lower layer, the same as in guests."""
        for name in image.LAYER_FOLDERS:
            (layer / name).mkdir(parents=True, exist_ok=True)
        (layer / "tmp").chmod(0o1777)
        for name, data in image.layer_files({self._path: self._program.read_bytes()}).items():
            path = layer / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        (layer / self._path.lstrip("/")).chmod(0o755)

    @property
    def _path(self) -> str:
        return f"{image.PROGRAM_DIR}/{self._workload.name}"

    def _end(self) -> None:
        """Ends every container that is left."""
        for name in self._live:
            subprocess.run(
                [str(self._crun), "delete", "--force", name], capture_output=True, check=False
            )
        self._live.clear()

    def _bundle(self, number: int, cpus: list[int], total: int, milliseconds: int) -> Path:
        """A container's folder, with its root mounted and its configuration written."""
        workload, folder = self._workload, self._folder / f"c{number}"
        for name in ("upper", "work", "rootfs"):
            (folder / name).mkdir(parents=True)
        owner = oci.FIRST_UID + number * oci.UIDS
        os.chown(folder / "upper", owner, owner)
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
            systempaths=workload.systempaths == "docker",
            syscalls=self._known,
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
        processes: list[subprocess.Popen[bytes]] = []
        with tempfile.TemporaryFile() as out:
            try:
                for number, cpus in enumerate(groups):
                    bundle = self._bundle(number, cpus, total, milliseconds)
                    name = f"partywall-{os.getpid()}-{number}"
                    self._live.append(name)
                    processes.append(
                        subprocess.Popen(
                            [
                                *(str(self._crun), "--cgroup-manager=disabled", "run"),
                                *("--bundle", str(bundle), name),
                            ],
                            stdin=subprocess.DEVNULL,
                            stdout=out,
                            stderr=out,
                            start_new_session=True,
                        )
                    )
                return self._collect(out.fileno(), processes, total, milliseconds)
            finally:
                self._end()
                for process in processes:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
                for number in range(len(groups)):
                    folder = self._folder / f"c{number}"
                    subprocess.run(
                        ["umount", "--lazy", str(folder / "rootfs")],
                        capture_output=True,
                        check=False,
                    )
                    shutil.rmtree(folder, ignore_errors=True)

    @staticmethod
    def _collect(
        out: int, processes: list[subprocess.Popen[bytes]], total: int, milliseconds: int
    ) -> list[Count]:
        deadline = time.monotonic() + milliseconds / 1000 + _STALE + 0.2 * len(processes)
        while True:
            # All write at its end, so it is read from its start each time.
            said = os.pread(out, 1 << 20, 0)
            counts = parse(said)
            if len(counts) == total:
                return counts
            ended = [process for process in processes if process.poll() is not None]
            if ended or time.monotonic() > deadline:
                lines = said.decode(errors="replace").strip().splitlines()
                other = [line for line in lines if not line.startswith("PARTYWALL ops")]
                why = other[-1][:160] if other else "nothing was said"
                what = "a container ended" if ended else "containers did not finish in time"
                raise EnvironmentProblem(f"{what}: {why}")
            time.sleep(0.02)


@contextlib.contextmanager
def machine(workload: Workload, progress: Progress) -> Iterator[Machine]:
    """A `Machine`; its mounts are the only ones of this thread's that end with it."""
    if threading.current_thread() is not threading.main_thread():
        raise AssertionError("mounts belong to a thread")
    with Machine(workload, progress) as made:
        yield made
