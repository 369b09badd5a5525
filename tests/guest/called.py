# SPDX-License-Identifier: GPL-2.0-or-later
"""Held against a kernel's code: whether what is said to have called a function does so there."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from capstone import CS_ARCH_X86, CS_MODE_64, Cs
from capstone.x86 import X86_OP_IMM

from partywall.core import elf
from partywall.results.result import Result

Place = tuple[str, str]
"""A function, and its caller: function+offset."""

Found = Literal["calls it", "by a pointer", "one of its kind", "another", "no symbol"]
"""Of the instruction at a caller: whom it calls. One of its kind: of functions one of which a
processor is given when it boots, as of those that clear a page."""

LONGEST = 15
"""Bytes of an instruction."""
WORD = (1 << 64) - 1
KINDS = ("clear_page_", "copy_user_", "memset", "memcpy", "rep_movs")


class Calls:
    """Calls in a kernel's code, by where they are."""

    def __init__(self, vmlinux: Path) -> None:
        self._path = vmlinux
        self._symbols = elf.load_symbols(vmlinux)
        self._names: dict[int, set[str]] = defaultdict(set)
        for symbol in self._symbols:
            self._names[symbol.address].add(symbol.name)
        self._code = Cs(CS_ARCH_X86, CS_MODE_64)
        self._code.detail = True

    def at(self, place: Place) -> Found:
        """Return what the caller of a place calls; of several of its name, one that calls it."""
        function, caller = place
        name, _, offset = caller.rpartition("+")
        found = {
            self._of(symbol.address + int(offset, 16), function)
            for symbol in self._symbols.by_name(name)
        }
        order: tuple[Found, ...] = ("calls it", "one of its kind", "by a pointer", "another")
        return next((one for one in order if one in found), "no symbol")

    def _of(self, address: int, function: str) -> Found:
        code = elf.read_memory(self._path, address, LONGEST)
        call = next(self._code.disasm(code, address), None)
        alike = any(function.startswith(kind) for kind in KINDS)
        if call is None or not call.mnemonic.startswith(("call", "j")):
            # What is no call here may become one when the kernel boots.
            return "one of its kind" if alike else "another"
        (target,) = call.operands
        if target.type != X86_OP_IMM:
            return "by a pointer"
        names = self._names[target.imm & WORD]
        if function in names:
            return "calls it"
        if any(name.startswith("__x86_indirect_thunk") for name in names):
            return "by a pointer"
        same = any(name.startswith(kind) for name in names for kind in KINDS)
        return "one of its kind" if alike and same else "another"


def places(result: Result) -> set[Place]:
    """Return the places in the kernel's own code of which the caller is told, each once."""
    lines = [
        line
        for one in result.workloads
        for line in [
            *one.walls,
            *one.inside,
            *one.background,
            *(one.deferred.walls if one.deferred else []),
        ]
    ]
    sites = (
        site
        for line in lines
        for site in [*line.code, *(line.in_calls.code if line.in_calls else [])]
    )
    return {
        (site.function, site.caller)
        for site in sites
        if site.caller is not None and site.module is None
    }


def count(calls: Calls, of: Iterable[Place]) -> tuple[Counter[Found], list[Place]]:
    """Return how many places are which, and those that something else calls."""
    found: Counter[Found] = Counter()
    wrong = []
    for place in of:
        what = calls.at(place)
        found[what] += 1
        if what == "another":
            wrong.append(place)
    return found, wrong
