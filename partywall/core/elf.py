# SPDX-License-Identifier: GPL-2.0-or-later
"""What is asked of ELF files before a guest runs: symbols, bytes, build ID, module facts."""

from __future__ import annotations

import enum
import io
import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from elftools.common.exceptions import ELFError
from elftools.construct import ConstructError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import NoteSection

from partywall.core.errors import UsageProblem

# What pyelftools lets through from files that are not what they claim.
_DAMAGED = (ELFError, ConstructError, ValueError, KeyError, AttributeError, TypeError)

_LOCAL, _FILE = 0, 4  # binding and type of a symbol

_SYMBOL = np.dtype(
    [
        ("name", "<u4"),
        ("info", "u1"),
        ("other", "u1"),
        ("section", "<u2"),
        ("value", "<u8"),
        ("size", "<u8"),
    ]
)


class Symbol(NamedTuple):
    """A defined symbol: virtual address and bytes.

    ``file``: name of the source file, without folders, of one that is local to it. A kernel
    has 200,000, and tuples are made fastest.
    """

    name: str
    address: int
    size: int
    file: str | None = None


class Symbols:
    """A symbol table; several symbols may share a name."""

    def __init__(self, symbols: list[Symbol]) -> None:
        self._by_name: dict[str, list[Symbol]] = defaultdict(list)
        for symbol in symbols:
            self._by_name[symbol.name].append(symbol)

    def __iter__(self) -> Iterator[Symbol]:
        return (symbol for symbols in self._by_name.values() for symbol in symbols)

    def by_name(self, name: str) -> list[Symbol]:
        """All symbols of that name."""
        return self._by_name.get(name, [])

    def matching(self, pattern: re.Pattern[str]) -> list[Symbol]:
        """All symbols whose name matches from its start."""
        return [
            symbol
            for name, symbols in self._by_name.items()
            if pattern.match(name)
            for symbol in symbols
        ]


@contextmanager
def _opened(path: Path) -> Iterator[ELFFile]:
    try:
        with path.open("rb") as file:
            yield ELFFile(file)
    except OSError as error:
        raise UsageProblem(f"{path}: {error.strerror}") from error
    except (*_DAMAGED, MemoryError, OverflowError) as error:
        raise UsageProblem(f"{path} is not a whole ELF file") from error


@lru_cache(maxsize=4)
def load_symbols(path: Path) -> Symbols:
    """The symbol table of an executable; UsageProblem if it has none."""
    with _opened(path) as elf:
        table = elf.get_section_by_name(".symtab")
        strings = elf.get_section_by_name(".strtab")
        if table is None or strings is None:
            raise UsageProblem(
                f"{path} has no symbols", "give the vmlinux of the build, with debug information"
            )
        names = strings.data()
        entries = np.frombuffer(table.data(), dtype=_SYMBOL)
    found = []
    file: str | None = None
    for name, info, _, section, value, size in entries.tolist():
        if not section or name >= len(names):
            continue
        text = names[name : names.find(b"\0", name)].decode(errors="replace")
        # A file's local symbols follow it, those that are global come behind all files.
        if info & 0xF == _FILE:
            file = text or None
        found.append(Symbol(text, value, size, file if info >> 4 == _LOCAL else None))
    return Symbols(found)


def read_memory(path: Path, address: int, size: int) -> bytes:
    """Initial contents of ``size`` bytes at a virtual ``address``; empty if it has none."""
    with _opened(path) as elf:
        for segment in elf.iter_segments("PT_LOAD"):
            start = segment["p_vaddr"]
            if start <= address and address + size <= start + segment["p_filesz"]:
                elf.stream.seek(segment["p_offset"] + address - start)
                found = bytes(elf.stream.read(size))
                return found if len(found) == size else b""
    return b""


class Program(enum.Enum):
    """What a file is as a program for the guest."""

    STATIC = "static"
    DYNAMIC = "dynamic"
    FOREIGN = "foreign"


def program_kind(path: Path) -> Program:
    """Whether an ELF file runs in the guest; UsageProblem if it is not whole."""
    with _opened(path) as elf:
        if elf["e_machine"] != "EM_X86_64" or elf["e_type"] not in ("ET_EXEC", "ET_DYN"):
            return Program.FOREIGN
        interpreted = any(True for _ in elf.iter_segments("PT_INTERP"))
        return Program.DYNAMIC if interpreted else Program.STATIC


def build_id(path: Path) -> str:
    """GNU build ID, hex; UsageProblem if the file has none."""
    with _opened(path) as elf:
        for section in elf.iter_sections():
            if not isinstance(section, NoteSection):
                continue
            for note in section.iter_notes():
                if note["n_type"] == "NT_GNU_BUILD_ID" and note["n_name"] == "GNU":
                    return str(note["n_desc"])
    raise UsageProblem(
        f"{path} carries no build ID, so it can't be matched with a running kernel",
        "build the kernel with a linker that supports --build-id",
    )


def module_depends(data: bytes) -> list[str]:
    """Names of the modules that a kernel module, given as bytes, needs."""
    try:
        section = ELFFile(io.BytesIO(data)).get_section_by_name(".modinfo")
        facts = b"" if section is None else section.data()
    except _DAMAGED as error:
        raise UsageProblem("a kernel module is not a whole ELF file") from error
    for fact in facts.split(b"\0"):
        if fact.startswith(b"depends="):
            return [name for name in fact[8:].decode(errors="replace").split(",") if name]
    return []
