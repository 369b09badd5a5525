# SPDX-License-Identifier: GPL-2.0-or-later
"""Code that clears and copies memory is told by the functions it is in."""

from __future__ import annotations

import numpy as np
import pytest

from partywall.analyse.names.copying import Copying
from partywall.core.elf import Symbol, Symbols

FUNCTIONS = {
    "memset": (0x1000, 0x10),
    "memset_orig": (0x1010, 0x100),
    "copy_page_range": (0x2000, 0x800),
    "__memcpy": (0x3000, 0x10),
    "memcpy_to_page": (0x4000, 0x10),
    "clear_page_dirty_for_io": (0x5000, 0x10),
    "rep_movs_alternative": (0x6000, 0x80),
    "memmove": (0x7000, 0),
    "clear_pages.constprop.0": (0x8000, 0x40),
    "copy_user_large_folio": (0x9000, 0x400),
}
COPYING = Copying(Symbols([Symbol(name, *where) for name, where in FUNCTIONS.items()]))


@pytest.mark.parametrize(
    ("code", "is_so"),
    [
        (0xFFF, False),
        (0x1000, True),
        (0x110F, True),
        (0x1110, False),
        (0x2004, False),
        (0x300F, True),
        (0x3010, False),
        (0x4000, False),
        (0x5000, False),
        (0x6001, True),
        (0x7000, False),
        (0x8000, True),
        (0x9000, False),
    ],
)
def test_code_is_told_by_its_function(code: int, is_so: bool) -> None:
    assert COPYING.at(code) == is_so
    assert COPYING(np.array([code, 0], np.uint64)).tolist() == [is_so, False]


def test_a_kernel_without_such_functions_has_no_such_code() -> None:
    assert not Copying(Symbols([])).at(0x1000)
