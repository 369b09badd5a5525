# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs whose code looks like the kernel's, and what is told of it by registers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import drgn
import programs
from elftools.elf.elffile import ELFFile

from partywall.analyse.names.code import CodeNamer
from partywall.analyse.names.types import Evidence, Guess, TypeGuesser

REGISTERS = """
struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax;
	unsigned long ip, cs, flags, sp, ss;
} pt_regs;
"""


@dataclass(frozen=True)
class Code:
    """A program that was compiled with optimization, and where its labels are."""

    prog: drgn.Program
    at: dict[str, int]
    reads: list[int]
    """Where the program's memory was read."""

    def call_before(self, label: str) -> int:
        """The address of the call that returns to a label: five bytes long."""
        return self.at[label] - 5


def coded(directory: Path, source: str, labels: Sequence[str]) -> Code:
    """A program of this source, with struct pt_regs."""
    flags = (*programs.BARE[:-1], "-g", "-O2", "-fno-optimize-sibling-calls")
    path = programs.compiled(directory, "program", REGISTERS + source, *flags)
    prog = drgn.Program(drgn.host_platform)
    reads: list[int] = []
    with path.open("rb") as file:
        elf = ELFFile(file)
        for segment in elf.iter_segments("PT_LOAD"):
            data = segment.data() + bytes(64)

            def read(
                address: int, count: int, offset: int, physical: bool, data: bytes = data
            ) -> bytes:
                reads.append(address)
                return data[offset : offset + count]

            prog.add_memory_segment(segment["p_vaddr"], len(data), read)
        table = elf.get_section_by_name(".symtab")
        at = {name: table.get_symbol_by_name(name)[0]["st_value"] for name in labels}
    module = prog.extra_module("program", create=True)
    module.address_range = (0x400000, 0x500000)
    module.try_file(path, force=True)
    return Code(prog, at, reads)


def told(found: Iterable[tuple[drgn.Type, int]]) -> set[tuple[str | None, int]]:
    return {(type_.tag, inside) for type_, inside in found}


def guess(code: Code, size: int, *evidence: Evidence) -> Guess | None:
    """The guess; who asks again, in another order, is told the same."""
    guesser = TypeGuesser(code.prog, CodeNamer(code.prog))
    found = guesser.guess(size, evidence, kmalloc=True)
    assert guesser.guess(size, evidence[::-1], kmalloc=True) is found
    return found
