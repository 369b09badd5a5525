# SPDX-License-Identifier: GPL-2.0-or-later
"""A root made of Debian's packages and all that they depend on.

They are unpacked and not configured: no script of theirs runs. So there is no user but
those that every Debian has, and nothing is started.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from partywall.core.errors import EnvironmentProblem, UsageProblem
from partywall.core.progress import Progress
from partywall.guest.roots.disks import FORM, Disk, Filled, Start, kept, tool
from partywall.kernels import apt

_NAME = re.compile(r"[a-z0-9][a-z0-9+.-]+")
_INST = re.compile(r"^Inst (\S+) \((\S+) .*\[(?:amd64|all)\]\)", re.MULTILINE)
# As if nothing were installed, so that all that they need is found.
_BARE = ("-o", "Dir::State::status=/dev/null", "-o", "Debug::NoLocking=1")
_PLAIN = ("-o", "APT::Install-Recommends=0", "-o", "APT::Architecture=amd64")


def versions(told: str) -> list[tuple[str, str]]:
    """Return packages and their versions, from what ``apt-get -s install`` says."""
    return sorted(set(_INST.findall(told)))


def _resolved(names: Sequence[str]) -> list[tuple[str, str]]:
    command = [tool("apt-get"), "-s", *_BARE, *_PLAIN, "install", *names]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = versions(done.stdout)
    if done.returncode or not found:
        errors = [line[2:].strip() for line in done.stderr.splitlines() if line.startswith("E:")]
        raise UsageProblem(
            f"apt can't install {', '.join(names)}: {''.join(errors[:1])[:160] or 'no reason'}",
            "name packages that apt-cache knows, with commas between them; or run apt-get update",
        )
    return found


def _download(packages: Sequence[tuple[str, str]], into: Path) -> None:
    command = [tool("apt-get"), "-qq", "-o", "APT::Sandbox::User=root"]
    command += ["-o", "Acquire::Retries=3", "download"]
    command += [f"{name}={version}" for name, version in packages]
    done = subprocess.run(command, cwd=into, capture_output=True, text=True, check=False)
    if done.returncode or len(list(into.glob("*.deb"))) < len(packages):
        errors = [line[2:].strip() for line in done.stderr.splitlines() if line.startswith("E:")]
        why = re.sub(r"https?://\S+", "the archive", (errors or ["files are missing"])[0])
        raise EnvironmentProblem(
            f"downloading {len(packages)} packages failed: {why[:160]}",
            "see that the network and apt's sources work and run this again",
        )


def _users(root: Path) -> None:
    """Have the users and groups that every Debian has."""
    masters = root / "usr/share/base-passwd"
    for name in ("passwd", "group"):
        master, own = masters / f"{name}.master", root / "etc" / name
        if own.exists():
            continue
        if master.exists():
            shutil.copyfile(master, own)
        else:
            own.write_text("root:x:0:0:root:/root:/bin/sh\n" if name == "passwd" else "root:x:0:\n")


def disk(what: str, progress: Progress) -> Disk:
    """Return the disk of packages, of the versions that apt would install."""
    names = [name for name in what.split(",") if name]
    wrong = [name for name in names if not _NAME.fullmatch(name)]
    if wrong or not names:
        raise UsageProblem(
            f"'{(wrong or [what])[0]}' is no name of a package",
            "--debian takes names with commas between them, such as redis-server,redis-tools",
        )
    packages = _resolved(names)
    text = "\n".join([FORM, *(f"{name} {version}" for name, version in packages)])

    def fill(work: Path) -> Filled:
        debs, root = work / "debs", work / "root"
        debs.mkdir()
        root.mkdir()
        root.chmod(0o755)
        with progress.step(f"downloading {len(packages)} packages"):
            _download(packages, debs)
        # As Debian has it since 12; its dynamic linker is looked for in /lib64.
        for name in ("bin", "sbin", "lib", "lib64"):
            (root / "usr" / name).mkdir(parents=True)
            (root / name).symlink_to(f"usr/{name}")
        with progress.step("unpacking them"):
            for deb in sorted(debs.glob("*.deb")):
                apt.unpack(deb, root, (), "--keep-directory-symlink")
        for name in ("etc", "root", "run", "tmp", "var/tmp"):
            (root / name).mkdir(parents=True, exist_ok=True)
        for name in ("tmp", "var/tmp"):
            (root / name).chmod(0o1777)
        _users(root)
        # What is not in the linker's own places is found by its list, if one can be made.
        subprocess.run([tool("ldconfig"), "-r", str(root)], capture_output=True, check=False)
        return Filled(root, Start())

    return kept(hashlib.sha256(text.encode()).hexdigest(), fill, progress)
