# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernel functions that a user asks to be watched: whether this kernel has them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path

from partywall.core.elf import Symbol, Symbols, load_symbols
from partywall.core.errors import UsageProblem

_SHARED = 3
"""First letters that a name has to share with another to be offered in its place."""


def _is_code(symbols: Symbols, symbol: Symbol) -> bool:
    start, end = symbols.by_name("_stext"), symbols.by_name("_etext")
    if not (start and end):
        return symbol.size > 0
    return symbol.size > 0 and start[0].address <= symbol.address < end[0].address


def require_functions(vmlinux: Path, names: Iterable[str]) -> None:
    """UsageProblem if the kernel of ``vmlinux`` has one of these functions not.

    A workload of ours may name what only some kernels have; who types a name means it.
    """
    symbols = load_symbols(vmlinux)
    for name in names:
        there = symbols.by_name(name)
        if any(_is_code(symbols, symbol) for symbol in there):
            continue
        if there:
            raise UsageProblem(
                f"'{name}' is no function of this kernel, but data", "name a function"
            )
        alike = {
            symbol.name
            for symbol in symbols
            if (symbol.name.startswith(name[:_SHARED]) or name in symbol.name)
            and _is_code(symbols, symbol)
        }
        near = difflib.get_close_matches(name, sorted(alike), 3)
        inlined = "one that is inlined everywhere, or in a module, can't be watched"
        raise UsageProblem(
            f"this kernel has no function '{name}'",
            f"near: {', '.join(near)}; {inlined}" if near else inlined,
        )
