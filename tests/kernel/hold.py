# SPDX-License-Identifier: GPL-2.0-or-later
"""Holds a processor at an instruction of the kernel, by a plugin for the emulator.

A race of two processors that is a few instructions wide never shows by chance. With one of them
held there until the other one is done it shows each time, on the kernel as it is built.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from capstone import CS_ARCH_X86, CS_MODE_64, Cs

from partywall.core import cache, elf
from partywall.core.progress import Quiet
from partywall.guest.qemu import Qemu
from partywall.kernels import Kernel

SOURCE = Path(__file__).parent / "plugin" / "hold.c"
OPTIONS = ("gcc", "-O2", "-fPIC", "-shared", "-fvisibility=hidden")


@dataclass(frozen=True)
class Hold:
    """Where a processor is held.

    ``at``: an instruction of ``function``, as a disassembler has it, by a regular expression
    for its start; calls and jumps have names. Of several it is the first. ``behind``: not before
    it, but before the next one. ``passes``: how often the processor comes by before it is held.
    """

    function: str
    at: str
    behind: bool = False
    passes: int = 0

    def address(self, kernel: Kernel) -> int:
        """Return the instruction's address. LookupError if the kernel has none."""
        names = {symbol.address: symbol.name for symbol in elf.load_symbols(kernel.vmlinux)}
        machine = Cs(CS_ARCH_X86, CS_MODE_64)
        for symbol in elf.load_symbols(kernel.vmlinux).by_name(self.function):
            code = elf.read_memory(kernel.vmlinux, symbol.address, symbol.size)
            for one in machine.disasm(code, symbol.address):
                operands = one.op_str
                if operands.startswith("0x"):
                    operands = names.get(int(operands, 16), operands)
                if re.match(self.at, f"{one.mnemonic} {operands}"):
                    return int(one.address) + (one.size if self.behind else 0)
        raise LookupError(f"{kernel.release}: {self.function} has no {self.at}")


def plugin(qemu: Qemu) -> Path:
    """Return the path of the plugin for an emulator, built if it is not kept."""
    options = [*OPTIONS, f"-DABI={qemu.plugin_abi}"]
    digest = hashlib.sha256(" ".join(options).encode() + SOURCE.read_bytes()).hexdigest()

    def fill(folder: Path) -> None:
        subprocess.run([*options, "-o", folder / "hold.so", SOURCE], check=True)

    return cache.entry("hold", digest, fill, Quiet()) / "hold.so"


def words(hold: Hold, kernel: Kernel, qemu: Qemu, out: Path) -> list[str]:
    """Return the emulator's arguments; what was waited for is a line each in ``out``."""
    what = f"at={hold.address(kernel):x},pass={hold.passes},out={out}"
    return ["-plugin", f"{plugin(qemu)},{what}"]
