# SPDX-License-Identifier: GPL-2.0-or-later
"""A kernel module of a test's own, built for Debian's kernel and laid to its modules."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from partywall.core import cache
from partywall.core.errors import EnvironmentProblem
from partywall.core.progress import Progress
from partywall.kernels import Kernel, apt
from partywall.kernels.apt import Package

_HERE = re.compile(rb"/usr/src/(linux-headers-\S+)")


def _packages(kernel: Kernel) -> list[Package]:
    """The headers of Debian's kernel, what they include, and its programs for builds."""
    version = kernel.source.removeprefix("debian ")
    name = f"linux-headers-{kernel.release}"
    found = []
    for text in apt.ask("apt-cache", "show", name).split("\n\n"):
        if f"\nVersion: {version}\n" in text:
            more = re.findall(r"\b(linux-(?:headers|kbuild)-[^ ,]+)", text.partition("Depends:")[2])
            for package in dict.fromkeys([name, *more]):
                shown = apt.parse_show(apt.ask("apt-cache", "show", package))
                found += [one for one in shown if one.version == version][:1]
            break
    if len(found) < 3:
        raise EnvironmentProblem(f"apt lacks {name} of version {version}", apt.WHERE)
    return found


def headers(kernel: Kernel, progress: Progress) -> Path:
    """Folder to build modules for one of Debian's kernels in, downloaded if need be."""
    packages = _packages(kernel)

    def fill(directory: Path) -> None:
        for package in packages:
            deb = apt.download(package, directory, progress)
            apt.unpack(deb, directory, ())
            deb.unlink()
        # The packages name each other by where they are when they are installed.
        makefile = directory / f"usr/src/linux-headers-{kernel.release}/Makefile"
        above = b"$(dir $(lastword $(MAKEFILE_LIST)))../"
        makefile.write_bytes(_HERE.sub(lambda found: above + found[1], makefile.read_bytes()))

    key = hashlib.sha256(" ".join(package.sha256 for package in packages).encode())
    where = cache.entry("debian", f"headers-{key.hexdigest()[:16]}", fill, progress)
    return where / f"usr/src/linux-headers-{kernel.release}"


def build(source: Path, kernel: Kernel, progress: Progress) -> Path:
    """The module whose Kbuild is in folder ``source``, with debug information; kept."""
    place = headers(kernel, progress)
    digest = hashlib.sha256(str(place).encode())
    for path in sorted(source.iterdir()):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())

    def fill(directory: Path) -> None:
        shutil.copytree(source, directory / "build")
        done = subprocess.run(
            [
                *("make", "-C", place, f"M={directory / 'build'}"),
                f"KCFLAGS=-Werror -ffile-prefix-map={directory / 'build'}/=",
                # That would need pahole.
                *("CONFIG_DEBUG_INFO_BTF_MODULES=", "modules"),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise EnvironmentProblem(f"building {source} failed:\n{done.stderr[-4000:]}")
        for module in (directory / "build").glob("*.ko"):
            module.rename(directory / module.name)
        shutil.rmtree(directory / "build")

    (module,) = cache.entry("module", digest.hexdigest(), fill, progress).glob("*.ko")
    return module


def _linked(files: Iterable[Path], top: Path, into: Path) -> None:
    for path in files:
        link = into / path.relative_to(top)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(path)


def loaded(source: Path, kernel: Kernel, folder: Path, progress: Progress) -> Kernel:
    """``kernel`` with the module of ``source``, built for it; ``folder`` as in `with_module`."""
    return with_module(kernel, build(source / "module", kernel, progress), folder)


def with_module(kernel: Kernel, module: Path, folder: Path) -> Kernel:
    """``kernel`` with one more module, loaded where a workload asks for its name.

    ``folder``: where links to all modules may lie, empty.
    """
    modules, debug = folder / "modules", folder / "debug"
    assert kernel.modules and kernel.debug_modules
    _linked(kernel.modules.rglob("*.ko*"), kernel.modules, modules)
    _linked(kernel.modules.glob("modules.*"), kernel.modules, modules)
    _linked(kernel.debug_modules.rglob("*.ko"), kernel.debug_modules, debug)
    for place in (modules, debug):
        (place / module.name).symlink_to(module)
    return replace(kernel, modules=modules, debug_modules=debug)
