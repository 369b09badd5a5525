# SPDX-License-Identifier: GPL-2.0-or-later
"""The symbol at an address, found in an index: drgn goes through all of them each time.

One of 200,000 takes it two milliseconds, and a map asks for a hundred thousand.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import lru_cache
from itertools import accumulate

from drgn import Program, Symbol, SymbolBinding, SymbolKind

_NOWHERE = (SymbolKind.SECTION, SymbolKind.FILE, SymbolKind.TLS)
_STRONG = {SymbolBinding.GLOBAL: 2, SymbolBinding.UNIQUE: 2, SymbolBinding.WEAK: 1}


class _Index:
    """Symbols of the kernel itself that have a size, by address.

    A module's are few, and memory that it gave back when it had started may be another's.
    """

    def __init__(self, prog: Program) -> None:
        try:
            self._ranges = prog.main_module().address_ranges or ()
        except LookupError:
            self._ranges = ()
        # Of those that contain an address drgn takes the one that starts last, then the
        # shortest, the strongest, the first.
        known = [
            (symbol.address, -symbol.size, _STRONG.get(symbol.binding, 0), -number, symbol)
            for number, symbol in enumerate(prog.symbols())
            if symbol.size and symbol.kind not in _NOWHERE and self._has(symbol.address)
        ]
        known.sort()
        self._symbols = [symbol for *_, symbol in known]
        self._starts = [start for start, *_ in known]
        # How far any reaches that starts no later.
        self._ends = list(accumulate((one[0] - one[1] for one in known), max))

    def _has(self, address: int) -> bool:
        return any(start <= address < end for start, end in self._ranges)

    def at(self, address: int) -> Symbol | None:
        """Return the symbol that contains an address, None if none of the kernel's does."""
        if not self._has(address):
            return None
        place = bisect_right(self._starts, address) - 1
        while place >= 0 and self._ends[place] > address:
            symbol = self._symbols[place]
            if address < symbol.address + symbol.size:
                return symbol
            place -= 1
        return None


_index = lru_cache(maxsize=1)(_Index)


def symbol_at(prog: Program, address: int) -> Symbol:
    """Return what `Program.symbol` does. LookupError if there is none."""
    found = _index(prog).at(address)
    # Assembly has symbols without a size, of which drgn knows where they may end.
    return prog.symbol(address) if found is None else found
