# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernel functions that a user asks to be watched: whether this kernel has them."""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from partywall.core.elf import Symbol, Symbols, load_symbols
from partywall.core.errors import UsageProblem
from partywall.record.functions import in_source

_SHARED = 3
"""First letters that a name has to share with another to be offered in its place."""


def _is_code(symbols: Symbols, symbol: Symbol) -> bool:
    start, end = symbols.by_name("_stext"), symbols.by_name("_etext")
    return not (start and end) or start[0].address <= symbol.address < end[0].address


def require_functions(vmlinux: Path, names: Iterable[str]) -> None:
    """UsageProblem if the kernel of ``vmlinux`` has one of these functions not.

    ``names``: as in the source. A workload of ours may name what only some kernels
    have; who types a name means it.
    """
    names = list(names)
    if not names:
        return
    symbols = load_symbols(vmlinux)
    found: dict[str, list[Symbol]] = defaultdict(list)
    for symbol in symbols:
        found[in_source(symbol.name)].append(symbol)
    for name in names:
        there = found.get(name, [])
        code = [symbol for symbol in there if _is_code(symbols, symbol)]
        if any(symbol.size for symbol in code):
            continue
        if code:
            raise UsageProblem(
                f"'{name}' has no size in this kernel's symbols, so where it ends is not known",
                "name a function that calls it, or that it calls",
            )
        if there:
            raise UsageProblem(
                f"'{name}' is no function of this kernel, but data", "name a function"
            )
        alike = [
            other
            for other, group in found.items()
            if (other.startswith(name[:_SHARED]) or name in other)
            and not other.startswith("__pfx_")
            and any(symbol.size and _is_code(symbols, symbol) for symbol in group)
        ]
        near = difflib.get_close_matches(name, sorted(alike), 3)
        inlined = "one that is inlined everywhere, or in a module, can't be watched"
        raise UsageProblem(
            f"this kernel has no function '{name}'",
            f"near: {', '.join(near)}; {inlined}" if near else inlined,
        )
