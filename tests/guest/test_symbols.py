# SPDX-License-Identifier: GPL-2.0-or-later
"""Symbols of a real kernel: ours and drgn's."""

from __future__ import annotations

import random
from typing import cast

import drgn
import pytest

from partywall.analyse.names.found import symbol_at
from partywall.core import elf
from partywall.kernels import Kernel

ASKED = 300


class Opened:
    """A program that has a kernel's symbols, and no memory."""

    def __init__(self, kernel: Kernel) -> None:
        prog = drgn.Program(drgn.Platform(drgn.Architecture.X86_64))
        self._module = prog.extra_module("vmlinux", create=True)
        known = elf.load_symbols(kernel.vmlinux)
        self.start = known.by_name("_text")[0].address
        self._module.address_range = self.start, known.by_name("_end")[0].address
        self._module.try_file(str(kernel.vmlinux), force=True)
        self.symbols, self.symbol = prog.symbols, prog.symbol

    def main_module(self) -> drgn.Module:
        # Of a kernel without memory drgn knows none.
        return self._module


def test_a_kernels_symbols_are_found_as_drgn_finds_them(kernel: Kernel) -> None:
    opened = Opened(kernel)
    prog = cast(drgn.Program, opened)
    chosen = random.Random(1)

    def found(address: int) -> tuple[str, int, int] | None:
        try:
            drgns = prog.symbol(address)
        except LookupError:
            with pytest.raises(LookupError):
                symbol_at(prog, address)
            return None
        assert symbol_at(prog, address) == drgns, hex(address)
        return drgns.name, drgns.address, drgns.size

    known = [one for one in prog.symbols() if one.address >= opened.start]
    near = [one.address + chosen.randrange(one.size + 64) for one in chosen.sample(known, ASKED)]
    told = [found(address) for address in near]
    assert sum(one is not None for one in told) > ASKED / 2
    # Aliases: which of a function's names it has is drgn's choice.
    assert found(elf.load_symbols(kernel.vmlinux).by_name("__x64_sys_vfork")[0].address + 4)
