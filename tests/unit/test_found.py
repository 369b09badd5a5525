# SPDX-License-Identifier: GPL-2.0-or-later
"""The symbol at an address is the one that drgn would find."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import pytest
from drgn import Program, SymbolBinding, SymbolKind

from partywall.analyse.names.found import symbol_at

BASE = 0xFFFFFFFF81000000
ASKED = object()
"""What drgn says that is asked itself."""


@dataclass
class Known:
    """A symbol, as far as it is looked at."""

    name: str
    start: int
    size: int
    binding: SymbolBinding = SymbolBinding.LOCAL
    kind: SymbolKind = SymbolKind.FUNC

    @property
    def address(self) -> int:
        return BASE + self.start


class Names:
    """A program that has these symbols."""

    def __init__(self, *symbols: Known) -> None:
        self._symbols = list(symbols)

    def main_module(self) -> Names:
        return self

    @property
    def address_ranges(self) -> list[tuple[int, int]]:
        return [(BASE, BASE + 4096)]

    def symbols(self) -> list[Known]:
        return self._symbols

    def symbol(self, address: int) -> object:
        return ASKED

    def at(self, offset: int) -> Any:
        return symbol_at(cast(Program, self), BASE + offset)


def test_what_contains_an_address_is_found_and_no_more() -> None:
    names = Names(Known("one", 0, 16), Known("two", 16, 16), Known("far", 64, 8))
    assert [names.at(n).name for n in (0, 15, 16, 31, 64, 71)] == [
        "one",
        "one",
        "two",
        "two",
        "far",
        "far",
    ]
    # Assembly may go on here: drgn knows.
    assert all(names.at(n) is ASKED for n in (-1, 32, 63, 72))


def test_of_several_the_one_that_starts_last_is_it() -> None:
    names = Names(Known("whole", 0, 256), Known("part", 32, 16), Known("last", 128, 8))
    assert [names.at(n).name for n in (31, 32, 47, 48, 127, 130, 136, 255)] == [
        "whole",
        "part",
        "part",
        "whole",
        "whole",
        "last",
        "whole",
        "whole",
    ]


@pytest.mark.parametrize(
    ("symbols", "name"),
    [
        ([Known("long", 0, 32), Known("short", 0, 16)], "short"),
        ([Known("local", 0, 16), Known("global", 0, 16, SymbolBinding.GLOBAL)], "global"),
        ([Known("weak", 0, 16, SymbolBinding.WEAK), Known("local", 0, 16)], "weak"),
        (
            [
                Known("first", 0, 16, SymbolBinding.GLOBAL),
                Known("second", 0, 16, SymbolBinding.GLOBAL),
            ],
            "first",
        ),
        ([Known("file", 0, 16, kind=SymbolKind.FILE), Known("other", 0, 32)], "other"),
        ([Known("assembly", 8, 0), Known("around", 0, 16)], "around"),
    ],
)
def test_of_those_that_start_together_it_is_drgns(symbols: list[Known], name: str) -> None:
    assert Names(*symbols).at(8).name == name


@pytest.mark.parametrize("start", [-BASE, 4096, 8192])
def test_what_is_not_the_kernels_own_is_drgns_to_find(start: int) -> None:
    # Offsets of per-CPU variables, and modules.
    assert Names(Known("elsewhere", start, 64)).at(start + 4) is ASKED
