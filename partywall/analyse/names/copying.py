# SPDX-License-Identifier: GPL-2.0-or-later
"""Code that clears and copies memory, whatever lies there.

It says nothing of what the memory is, and often writes more of a line than all who use it.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from partywall.core.elf import Symbols

Array = npt.NDArray[Any]

# Of 6.1 to 7.3; those of users' memory as well.
_FUNCTIONS = re.compile(
    r"(?:__|__asan_)?(?:memset|memcpy|memmove)(?:\d+|_orig|_erms|_flushcache)?$|"
    r"(?:clear|copy)_page(?:_orig|_rep|_regs|_erms)?$|clear_pages(?:\.|$)|__clear_pages_unrolled$|"
    r"rep_(?:movs|stos)_alternative$|clear_user_(?:original|rep_good|erms)$|"
    r"copy_user_(?:generic_unrolled|generic_string|enhanced_fast_string|flushcache)$|"
    r"__copy_user_nocache$|copy_mc_(?:fragile|enhanced_fast_string|generic)$|"
    r"csum_partial_copy_generic$"
)


class Copying:
    """Tells of code addresses whether they are in such a function."""

    def __init__(self, symbols: Symbols) -> None:
        spans = sorted(
            (one.address, one.address + one.size)
            for one in symbols.matching(_FUNCTIONS)
            if one.size
        )
        self._starts = np.array([start for start, _ in spans], np.uint64)
        self.at = lru_cache(maxsize=None)(self._at)
        # One may lie within another, as an alias does: what ends last counts.
        self._ends = np.maximum.accumulate(np.array([end for _, end in spans], np.uint64))

    def __call__(self, code: Array) -> Array:
        """Return which addresses are; ``code``: uint64, any shape, as the result, bool."""
        if not len(self._starts):
            return np.zeros(np.shape(code), bool)
        before = np.searchsorted(self._starts, code, side="right")
        inside = code < self._ends[np.maximum(before, 1) - 1]
        return np.asarray((before > 0) & inside)

    def _at(self, code: int) -> bool:
        """Return whether one address is."""
        return bool(self(np.array([code], np.uint64))[0])
