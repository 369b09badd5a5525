# SPDX-License-Identifier: GPL-2.0-or-later
"""Which kernel functions the recorder has to watch, by address."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from partywall.core.elf import Symbols, load_symbols, read_memory
from partywall.record.functions import ROLES, WAITS
from partywall.workloads import Workload


@dataclass(frozen=True)
class Hooks:
    """The recorder's ``hooks=`` file, and what its numbers stand for."""

    text: str
    counted: tuple[str, ...]
    """Functions whose calls are counted; ``waits`` has the numbers behind them."""
    charged: tuple[str, ...]
    waits: tuple[str, ...]


def _existing(symbols: Symbols, names: Iterable[str]) -> list[str]:
    """For each ``a|b|c``, the first that the kernel has."""
    found = []
    for alternatives in names:
        for name in alternatives.split("|"):
            if any(symbol.size for symbol in symbols.by_name(name)):
                found.append(name)
                break
    return found


def _lines(role: str, symbols: Symbols, name: str, number: int | None = None) -> list[str]:
    tail = "" if number is None else f" {number}"
    return [
        f"{role} {symbol.address:x} {symbol.address + symbol.size:x}{tail}"
        for symbol in symbols.by_name(name)
        if symbol.size
    ]


def _system_calls(vmlinux: Path, symbols: Symbols) -> list[str]:
    table = symbols.by_name("sys_call_table")
    lines: list[str] = []
    if not table:
        return lines
    data = read_memory(vmlinux, table[0].address, table[0].size)
    seen: set[int] = set()
    for number in range(len(data) // 8):
        address = int.from_bytes(data[8 * number : 8 * number + 8], "little")
        if address and address not in seen:
            seen.add(address)
            lines.append(f"syscall {address:x} {address + 1:x} {number}")
    return lines


def build(vmlinux: Path, workload: Workload, *, stack_size: int = 0x4000) -> Hooks:
    """The hooks for one workload on the kernel of ``vmlinux``."""
    symbols = load_symbols(vmlinux)
    lines = [f"stack {stack_size:x}"]
    lines += [f"percpu {array.address:x}" for array in symbols.by_name("__per_cpu_offset")[:1]]
    for role, pattern in ROLES:
        names = {symbol.name for symbol in symbols.matching(re.compile(rf"(?:{pattern})\Z"))}
        # Kernels since 6.6 have both; only the assembly part is the first code.
        if "ret_from_fork_asm" in names:
            names.discard("ret_from_fork")
        for name in sorted(names):
            lines += _lines(role, symbols, name)
    lines += _system_calls(vmlinux, symbols)
    charged = _existing(symbols, workload.charge)
    counted = _existing(symbols, workload.count)
    for number, name in enumerate(charged):
        lines += _lines("charge", symbols, name, number)
    waits = _existing(symbols, WAITS)
    for number, name in enumerate([*counted, *waits]):
        lines += _lines("count", symbols, name, number)
    return Hooks("\n".join(lines) + "\n", tuple(counted), tuple(charged), tuple(waits))
