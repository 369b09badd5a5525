# SPDX-License-Identifier: GPL-2.0-or-later
"""The QEMU on this machine: where it is, what it can, and whether KVM works."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from partywall.core import packages
from partywall.core.errors import EnvironmentProblem

_ABSURD_ABI = 10_000
_ENDED_ITSELF = 33


@dataclass(frozen=True)
class Qemu:
    """A QEMU for x86-64 guests, and the newest plugin version it takes."""

    program: Path
    version: str
    plugin_abi: int

    @property
    def takes_files(self) -> bool:
        """Return whether a guest's state may be a file by its name: since 8.2.

        From 9.1 on it should be, and no descriptor any more.
        """
        return tuple(int(number) for number in re.findall(r"\d+", self.version)[:2]) >= (8, 2)


def _run(*command: str | Path, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        timeout=timeout,
        stdin=subprocess.DEVNULL,
        check=False,
    )


def parse_plugin_abi(message: str) -> int | None:
    """The newest plugin version in QEMU's refusal of a plugin that asks for too much.

    7.2 says "plugin requires API version 10000, but this QEMU supports only up
    to version 1"; the words around the number may change, its place has not.
    """
    found = re.search(r"supports only .*?version (\d+)", message)
    return int(found[1]) if found else None


def _probe_abi(program: Path) -> int:
    if shutil.which("gcc") is None:
        raise EnvironmentProblem("gcc is not installed", packages.mend("check"))
    with tempfile.TemporaryDirectory(prefix="partywall-") as directory:
        source = Path(directory, "probe.c")
        library = Path(directory, "probe.so")
        source.write_text(
            f"int qemu_plugin_version = {_ABSURD_ABI};\n"
            "int qemu_plugin_install(void) { return -1; }\n"
        )
        built = _run("gcc", "-shared", "-fPIC", "-o", library, source)
        if built.returncode:
            raise EnvironmentProblem("gcc can't build a shared library", packages.mend("check"))
        refused = _run(program, "-machine", "none", "-display", "none", "-plugin", library)
    abi = parse_plugin_abi(refused.stderr)
    if abi is None:
        why = refused.stderr.strip().splitlines()[-1:]
        raise EnvironmentProblem(
            f"{program} takes no TCG plugins: {''.join(why)}",
            "use a QEMU 7.2 or newer that was configured with --enable-plugins",
        )
    return abi


@lru_cache
def find() -> Qemu:
    """The QEMU to use: ``$PARTYWALL_QEMU``, else ``qemu-system-x86_64`` on the path."""
    name = os.environ.get("PARTYWALL_QEMU", "qemu-system-x86_64")
    path = shutil.which(name)
    if path is None:
        raise EnvironmentProblem(f"{name} is not installed", packages.mend("check"))
    said = _run(path, "--version").stdout
    version = re.search(r"version (\S+)", said)
    if version is None:
        raise EnvironmentProblem(f"{path} does not say its version")
    return Qemu(Path(path), version[1], _probe_abi(Path(path)))


def kvm_works(program: Path, *, seconds: float = 3.0) -> bool:
    """Return whether KVM runs a guest here, proven by running one.

    A /dev/kvm that exists may still hang or refuse; QEMU then neither answers
    nor ends, so only a guest that shuts itself down in time counts.
    """
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return False
    return runs_a_guest(program, "kvm", seconds=seconds)


def runs_a_guest(program: Path, accel: str, *, seconds: float) -> bool:
    """Return whether a guest boots, runs and ends itself within a time. ``accel``: of QEMU's."""
    # A boot sector that writes to the debug-exit port, which ends QEMU with 33.
    code = bytes.fromhex("b010e6f4f4ebfd")
    sector = code + bytes(510 - len(code)) + b"\x55\xaa"
    with tempfile.NamedTemporaryFile(prefix="partywall-") as disk:
        disk.write(sector)
        disk.flush()
        command = [str(program), "-accel", accel, "-display", "none", "-nodefaults"]
        command += ["-device", "isa-debug-exit,iobase=0xf4,iosize=1"]
        # An IDE disk can't be read-only, QEMU says; what is written is dropped with it.
        command += ["-drive", f"file={disk.name},format=raw,if=ide,snapshot=on"]
        nowhere = subprocess.DEVNULL
        try:
            process = subprocess.Popen(command, stdin=nowhere, stdout=nowhere, stderr=nowhere)
        except OSError:
            return False
        try:
            return process.wait(seconds) == _ENDED_ITSELF
        except subprocess.TimeoutExpired:
            process.kill()
            # One that hangs in the kernel can't be waited for, and ends some time.
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(1)
            return False
