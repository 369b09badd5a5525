# SPDX-License-Identifier: GPL-2.0-or-later
"""The kernel modules that a guest loads, in the order it has to load them."""

from __future__ import annotations

import gzip
import lzma
import re
import shutil
import subprocess
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from partywall.core import elf, packages
from partywall.core.errors import EnvironmentProblem, UsageProblem
from partywall.kernels.kernel import Kernel


@dataclass(frozen=True)
class Module:
    """A module's name and its uncompressed file."""

    name: str
    data: bytes


def _stem(path: Path) -> str:
    return path.name.split(".ko", 1)[0].replace("-", "_")


def _read(path: Path) -> bytes:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageProblem(f"{path}: {error.strerror}") from error
    try:
        if path.suffix == ".xz":
            return lzma.decompress(data)
        if path.suffix == ".gz":
            return gzip.decompress(data)
        if path.suffix == ".zst":
            return _unzstd(path)
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise UsageProblem(f"{path} can't be unpacked: {error}") from error
    return data


def _unzstd(path: Path) -> bytes:
    if shutil.which("zstd") is None:
        raise EnvironmentProblem("zstd is not installed", packages.mend("check"))
    done = subprocess.run(["zstd", "-dcq", str(path)], capture_output=True, check=False)
    if done.returncode:
        raise UsageProblem(f"{path} can't be unpacked: zstd refuses it")
    return done.stdout


def module_closure(
    kernel: Kernel, names: Iterable[str], optional: Iterable[str] = ()
) -> list[Module]:
    """``names`` with all that they depend on, each after what it needs.

    What is built in is left out. UsageProblem if a module that is not in
    ``optional`` is missing.
    """
    if kernel.modules is None:
        return []
    files = {_stem(path): path for path in sorted(kernel.modules.rglob("*.ko*"))}
    built_in = set()
    listing = kernel.modules / "modules.builtin"
    if listing.exists():
        built_in = {_stem(Path(line)) for line in listing.read_text().split()}
    order: dict[str, Module] = {}
    begun: set[str] = set()

    def add(name: str, needed_by: str) -> None:
        name = name.replace("-", "_")
        if name in order or name in built_in:
            return
        if name in begun:
            raise UsageProblem(f"{files[name]} needs {needed_by}, which needs it in turn")
        begun.add(name)
        if name not in files:
            raise UsageProblem(
                f"{needed_by} needs the module {name}, which {kernel.modules} lacks",
                f"build kernel {kernel.release} with it, built in or as a module",
            )
        data = _read(files[name])
        try:
            depends = elf.module_depends(data)
        except UsageProblem as error:
            raise UsageProblem(f"{files[name]}: {error.message}", error.hint) from error
        for other in depends:
            add(other, name)
        order[name] = Module(name, data)

    for name in names:
        add(name, "the guest")
    for name in optional:
        if name.replace("-", "_") in files:
            add(name, "the guest")
    return list(order.values())


def debug_files(folder: Path, names: Iterable[str]) -> list[Path]:
    """Return the files below a folder that have debug information of these modules.

    A distribution has thousands of others there.
    """
    wanted = set(names)
    files = [*folder.rglob("*.ko"), *folder.rglob("*.ko.debug")]
    return sorted(path for path in files if _stem(path) in wanted)


def release_of(directory: Path) -> str | None:
    """Release that the modules in a folder were built for."""
    for path in sorted(directory.rglob("*.ko*")):
        found = re.search(rb"\0vermagic=(\S+)|^vermagic=(\S+)", _read(path))
        if found:
            return (found[1] or found[2]).decode(errors="replace")
    return None
