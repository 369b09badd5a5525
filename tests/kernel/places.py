# SPDX-License-Identifier: GPL-2.0-or-later
"""From ``function+offset/size`` in a kernel's report to lines of its source.

With binutils: ``objdump`` for where a function is, ``addr2line`` for what is there.
Inlined calls count: an address is in the innermost function's line and in those of
all that it was inlined into.
"""

from __future__ import annotations

import posixpath
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from reports import Frame

from partywall.core.errors import EnvironmentProblem
from partywall.kernels import Kernel

_SYMBOL = re.compile(
    r"^(?P<address>[0-9a-f]{8,16}) .{6}(?P<type>.) (?P<section>\S+)\t"
    r"(?P<size>[0-9a-f]+) +(?:(?:0x[0-9a-f]+|\.hidden|\.internal|\.protected) +)*(?P<name>\S+)$"
)
# Symbols that kallsyms leaves out, too.
_LOCAL = re.compile(r"\.L|L0|\$")


@dataclass(frozen=True)
class Place:
    """A line of the source, by the file's path in its tree."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class At:
    """An address in a section of an object; ``room`` is what is left to the next symbol."""

    section: str
    address: int
    room: int


def parse_symbols(listing: str) -> dict[str, list[At]]:
    """Where the functions of an object are, from what ``objdump -t`` prints.

    A function's size is to the kernel what is left to the next symbol of the section,
    which is not what the object says it to be.
    """
    named: list[tuple[str, int, str]] = []
    starts: dict[str, set[int]] = defaultdict(set)
    for line in listing.splitlines():
        found = _SYMBOL.match(line)
        if found is None or found["section"].startswith("*") or found["type"] in "df":
            continue
        if _LOCAL.match(found["name"]):
            continue
        address = int(found["address"], 16)
        starts[found["section"]].add(address)
        named.append((found["section"], address, found["name"]))
    following: dict[tuple[str, int], int] = {}
    for section, addresses in starts.items():
        ordered = sorted(addresses)
        for address, after in zip(ordered, [*ordered[1:], ordered[-1]], strict=True):
            following[section, address] = after - address
    found_at: dict[str, list[At]] = defaultdict(list)
    for section, address, name in named:
        found_at[name].append(At(section, address, following[section, address]))
    return dict(found_at)


def candidates(symbols: Mapping[str, Sequence[At]], frame: Frame) -> list[At]:
    """Where a frame may be: functions may share a name, and are told apart by their size.

    All of that name if none is of that size.
    """
    of_name = list(symbols.get(frame.function, []))
    return [at for at in of_name if at.room == frame.size] or of_name


def parse_lines(said: str) -> dict[int, list[tuple[str, int]]]:
    """From what ``addr2line -a -f -i`` prints, by address: files and lines, innermost first.

    Empty where it knows none.
    """
    found: dict[int, list[tuple[str, int]]] = {}
    at: list[tuple[str, int]] = []
    function = False
    for line in said.splitlines():
        if re.fullmatch(r"0x[0-9a-f]+", line):
            at = found.setdefault(int(line, 16), [])
            function = True
        elif function:
            function = False
        else:
            function = True
            if place := re.match(r"(.+):(\d+)(?: \(discriminator \d+\))?$", line):
                at.append((place[1], int(place[2])))
    return {
        address: [(file, line) for file, line in places if file != "??" and line]
        for address, places in found.items()
    }


def _said(*command: str, text: str | None = None) -> str:
    try:
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise EnvironmentProblem(f"{command[0]} is not installed", "run make setup") from error
    if done.returncode:
        why = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise EnvironmentProblem(f"{command[0]}: {why[:200]}")
    return done.stdout


@lru_cache(maxsize=8)
def _symbols(path: Path) -> dict[str, list[At]]:
    return parse_symbols(_said("objdump", "-t", "-w", str(path)))


def _lines(path: Path, section: str | None, addresses: Iterable[int]) -> dict[int, list[Place]]:
    """Lines at addresses of an object, with the paths that the compiler was told."""
    command = ["addr2line", "-a", "-f", "-i", "-e", str(path)]
    if section is not None:
        command += ["-j", section]
    said = _said(*command, text="".join(f"{address:#x}\n" for address in sorted(set(addresses))))
    return {
        address: [Place(posixpath.normpath(file), line) for file, line in places]
        for address, places in parse_lines(said).items()
    }


def _root(vmlinux: Path) -> str:
    """The folder that a kernel was built in, by a function whose file is known."""
    for at in _symbols(vmlinux).get("start_kernel", []):
        for places in _lines(vmlinux, None, [at.address]).values():
            for place in places:
                if place.file.endswith("/init/main.c"):
                    return place.file.removesuffix("init/main.c")
    return ""


def _object(kernel: Kernel, module: str | None) -> Path | None:
    if module is None:
        return kernel.vmlinux
    if kernel.debug_modules is None:
        return None
    # A module's name has underscores where its file may have dashes.
    files = kernel.debug_modules.rglob("*.ko")
    return next((path for path in files if path.stem.replace("-", "_") == module), None)


def of(kernel: Kernel, frames: Iterable[Frame]) -> dict[Frame, list[Place]]:
    """The lines that each frame may be in; none where the kernel has no debug information."""
    wanted = set(frames)
    found: dict[Frame, list[Place]] = {frame: [] for frame in wanted}
    root = _root(kernel.vmlinux) if wanted else ""
    by_object: dict[tuple[Path, str | None], list[tuple[Frame, int]]] = defaultdict(list)
    for frame in wanted:
        path = _object(kernel, frame.module)
        if path is None:
            continue
        for at in candidates(_symbols(path), frame):
            # A frame is where a call returns to: the call is before that.
            section = None if frame.module is None else at.section
            by_object[path, section].append((frame, at.address + frame.offset - 1))
    for (path, section), asked in by_object.items():
        lines = _lines(path, section, [address for _, address in asked])
        for frame, address in asked:
            for place in lines.get(address, []):
                found[frame].append(Place(place.file.removeprefix(root), place.line))
    return found
