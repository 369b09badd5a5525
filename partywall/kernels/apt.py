# SPDX-License-Identifier: GPL-2.0-or-later
"""Debian's packages: looked up, downloaded and unpacked without installing them.

They come through apt, so from whatever sources this machine trusts.
"""

from __future__ import annotations

import fcntl
import os
import re
import struct
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from partywall.core import cache, packages
from partywall.core.errors import EnvironmentProblem
from partywall.core.progress import Progress, duration
from partywall.kernels import suites

WHERE = "run apt-get update; of Debian 12 it is in -security, which apt's sources have to name"
"""What to do if apt does not know Linux 6.12, which an installed Debian's does."""

_LINE = 50
"""Mbit/s of a modest line, for who waits."""


@dataclass(frozen=True)
class Package:
    """One version of a binary package, as apt knows it. ``size`` in bytes.

    ``depends``: packages of the same version that it needs, as Debian splits a kernel
    from 7.0 on. ``suite``: of Debian's, None if this machine's apt has it.
    """

    name: str
    version: str
    size: int
    sha256: str
    depends: tuple[str, ...] = ()
    suite: str | None = None


LISTS = Path("/var/lib/apt/lists/lock")
"""What is locked by who fetches this machine's package lists."""

_FETCHED_WITHIN = 120.0
"""Seconds that are waited for others who fetch lists."""

# struct flock of x86-64: type, whence, start, length, process.
_FLOCK = struct.Struct("hh4xqqi4x")


def _fetching() -> bool:
    """Whether somebody fetches package lists, which are not whole meanwhile; False if unknown."""
    try:
        with LISTS.open("rb") as lock:
            wanted = _FLOCK.pack(fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0)
            found = fcntl.fcntl(lock, fcntl.F_GETLK, wanted)
    except OSError:
        # Not root, or no apt.
        return False
    return bool(_FLOCK.unpack(found)[0] != fcntl.F_UNLCK)


def ask(*command: str, suite: str | None = None) -> str:
    """Return what an apt program answers, of a suite if one is named; empty if nothing."""
    until = time.monotonic() + _FETCHED_WITHIN
    try:
        suites.refresh(suite)
        while True:
            done = subprocess.run(
                [*command, *suites.options(suite)], capture_output=True, text=True, check=False
            )
            # A suite's lists have a lock of their own.
            if suite is not None or not _fetching() or time.monotonic() > until:
                return done.stdout
            while _fetching() and time.monotonic() < until:
                time.sleep(0.2)
    except FileNotFoundError as error:
        raise EnvironmentProblem(
            f"{command[0]} is not here: this is no Debian",
            "use --kernel PATH/bzImage --vmlinux PATH/vmlinux",
        ) from error


_FACT = re.compile(r"^(Package|Version|Size|SHA256|Depends): (.*)$", re.MULTILINE)
_DEPENDS = re.compile(r"([a-z0-9][a-z0-9+.-]+) \(= ([^)]+)\)")


def parse_show(text: str, suite: str | None = None) -> list[Package]:
    """Return the packages that ``apt-cache show`` describes, as those of ``suite``."""
    found = []
    for paragraph in text.strip().split("\n\n"):
        facts = dict(_FACT.findall(paragraph))
        if {"Package", "Version", "Size", "SHA256"} <= facts.keys() and re.fullmatch(
            "[1-9][0-9]*", facts["Size"]
        ):
            version = facts["Version"]
            needs = (_DEPENDS.fullmatch(part) for part in facts.get("Depends", "").split(", "))
            found.append(
                Package(
                    facts["Package"],
                    version,
                    int(facts["Size"]),
                    facts["SHA256"],
                    tuple(need[1] for need in needs if need and need[2] == version),
                    suite,
                )
            )
    return found


def announce(name: str, packages: Sequence[Package], unpacking: float, progress: Progress) -> None:
    """Say what is still to come where these are not in the cache.

    ``unpacking``: seconds that it takes after the download.
    """
    size = sum(package.size for package in packages) / 1e6
    if packages:
        progress.ahead(
            f"first run with {name}: {size:.0f} MB to download, "
            f"{duration(size * 8 / _LINE)} at {_LINE} Mbit/s, then {duration(unpacking)} to unpack"
        )


def download(package: Package, into: Path, progress: Progress) -> Path:
    """The package's file, which apt has checked against its signed lists."""
    size = f"{package.size / 1e6:.0f} MB"
    with progress.step(f"downloading {package.name} ({size})") as step:
        process = subprocess.Popen(
            [
                *("apt-get", "-qq", "-o", "APT::Sandbox::User=root", "-o", "Acquire::Retries=3"),
                *("download", f"{package.name}={package.version}"),
                *suites.options(package.suite),
            ],
            cwd=into,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        said: list[str] = []
        assert process.stderr is not None
        reader = threading.Thread(target=lambda: said.append(process.stderr.read()))  # type: ignore[union-attr]
        reader.start()
        try:
            while process.poll() is None:
                have = sum(path.stat().st_size for path in into.glob("*.deb*"))
                step.done = min(have / package.size, 1.0)
                time.sleep(0.2)
        except BaseException:
            process.kill()
            raise
        finally:
            process.wait()
            reader.join()
    files = list(into.glob("*.deb"))
    if process.returncode or len(files) != 1:
        # A suite that moves on drops what older lists have.
        suites.forget(package.suite)
        errors = [line for line in "".join(said).splitlines() if line.startswith("E:")]
        why = re.sub(r"https?://\S+", "the archive", errors[0][2:].strip()) if errors else "no file"
        raise EnvironmentProblem(
            f"downloading {package.name} failed: {why[:160]}",
            "see that the network works and run this again"
            if package.suite
            else f"see that the network and apt's sources work; {packages.REFRESH}",
        )
    return files[0]


def unpack(deb: Path, into: Path, parts: tuple[str, ...], *options: str) -> None:
    """Unpacks ``parts`` (tar wildcards; all if there are none) of a package.

    ``options``: more of tar's.
    """
    with subprocess.Popen(
        ["dpkg-deb", "--fsys-tarfile", str(deb)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as source:
        command = ["tar", "-x", "-C", str(into), "--no-same-owner", *options]
        if parts:
            command += ["--wildcards", *parts]
        done = subprocess.run(
            command, stdin=source.stdout, capture_output=True, text=True, check=False
        )
        assert source.stdout is not None
        source.stdout.close()
        source.wait()
    # tar says which patterns matched nothing, and fails for them.
    errors = [
        line for line in done.stderr.splitlines() if line and "Not found in archive" not in line
    ]
    errors = [line for line in errors if "Exiting with failure status" not in line]
    if errors:
        raise EnvironmentProblem(
            f"unpacking {deb.name}: {errors[0][:160]}", f"free space in {cache.root()}"
        )


def _key(package: Package) -> str:
    return f"{package.name}-{package.sha256[:16]}"


def is_cached(package: Package) -> bool:
    """Whether the package is unpacked already."""
    return cache.has("debian", _key(package))


def fetched(
    package: Package, parts: tuple[str, ...], progress: Progress, others: Sequence[Package] = ()
) -> Path:
    """Return the folder with the package's files, downloaded if it is not in the cache.

    ``parts``: tar wildcards of what is unpacked; all if there are none. ``others``:
    packages of its version that are unpacked into the same folder.
    """

    def fill(directory: Path) -> None:
        for one in (package, *others):
            deb = download(one, directory, progress)
            with progress.step(f"unpacking {one.name}", 20 if parts else 3):
                unpack(deb, directory, parts)
            deb.unlink()

    return cache.entry("debian", _key(package), fill, progress)
