# SPDX-License-Identifier: GPL-2.0-or-later
"""The instructions that run before another one, as far as its function's own jumps tell.

Where code is decoded from matters on x86, so it is from where its function begins. What
jumps into a function from elsewhere is not looked for: its part that hardly ever runs, which
the compiler has put apart, fixups of exceptions, and tables of addresses.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from capstone import CS_ARCH_X86, CS_GRP_RET, CS_MODE_64, Cs
from capstone.x86 import X86_INS_INT3, X86_INS_JMP, X86_INS_UD2
from drgn import FaultError, Program

from partywall.analyse.names.found import symbol_at
from partywall.analyse.names.unreadable import UNREADABLE

# As far as the compiler moves a load from where it is used, hardly ever more.
_MOST = 24
_LONGEST = 1 << 16
_ENDS = (X86_INS_JMP, X86_INS_UD2, X86_INS_INT3)


class Straight:
    """Reads a program's code backwards."""

    def __init__(self, prog: Program, decoder: Cs) -> None:
        self._prog, self._decoder = prog, decoder
        self._plain = Cs(CS_ARCH_X86, CS_MODE_64)
        self._function = lru_cache(maxsize=None)(self._read)

    def before(self, address: int) -> Iterator[Any]:
        """Yield instructions, nearest first, up to where control may come from elsewhere.

        That is a jump's target, and what is no instruction or does not go on.
        """
        try:
            symbol = symbol_at(self._prog, address)
            starts, targets = self._function(symbol.address, symbol.size)
        except UNREADABLE:
            return
        here = bisect_left(starts, address)
        if here == len(starts) or starts[here] != address:
            return
        for number in range(here - 1, max(here - 1 - _MOST, -1), -1):
            if starts[number + 1] in targets:
                return
            code = self._prog.read(starts[number], starts[number + 1] - starts[number])
            insn = next(self._decoder.disasm(code, starts[number], 1), None)
            if insn is None or insn.group(CS_GRP_RET) or insn.id in _ENDS:
                return
            yield insn

    def _read(self, start: int, size: int) -> tuple[list[int], frozenset[int]]:
        """Where a function's instructions begin, and which of them its jumps lead to.

        Nothing of one that can't be decoded to its end: any jump may be missing.
        """
        nothing: tuple[list[int], frozenset[int]] = [], frozenset()
        if size > _LONGEST:
            return nothing
        try:
            code = self._prog.read(start, size)
        except FaultError:
            return nothing
        starts, targets, end = [], set(), start
        for address, length, mnemonic, operands in self._plain.disasm_lite(code, start):
            starts.append(address)
            end = address + length
            if mnemonic.startswith(("j", "loop")) and operands.startswith("0x"):
                targets.add(int(operands, 16))
        return (starts, frozenset(targets)) if end == start + size else nothing
