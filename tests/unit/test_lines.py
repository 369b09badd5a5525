# SPDX-License-Identifier: GPL-2.0-or-later
"""A line is named after what is used most in it, and not after who clears it."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from partywall.analyse.names.code import Code
from partywall.analyse.names.copying import Copying
from partywall.analyse.names.lines import Knowledge, LineNamer
from partywall.analyse.names.objects import Thing
from partywall.analyse.sharing import Use, Uses
from partywall.core.elf import Symbol, Symbols

LINE = 0xFF11000003B2C400
MEMSET, CODE = 0xFFFFFFFF81000000, 0xFFFFFFFF82000000
KNOWN: Any = SimpleNamespace(
    prog=None,
    contexts=SimpleNamespace(name=lambda _: "syscall fork"),
    code=SimpleNamespace(name=lambda _: Code("function", 0, None, None, ())),
    guesser=None,
    # Two objects of half a line.
    objects=SimpleNamespace(at=lambda address: Thing("stack", "ab"[address >> 5 & 1], LINE, 32)),
    copying=Copying(Symbols([Symbol("memset_orig", MEMSET, 256)])),
)


def use(offset: int, code: int, writes: int) -> Use:
    return Use(LINE + offset, 8, code, 0, 0, atomic=False, reads=0, writes=writes)


def named(*uses: Use) -> str:
    def all_uses(start: int, end: int) -> Iterator[Use]:
        return iter(one for one in uses if start <= one.address < end)

    return LineNamer(cast(Knowledge, KNOWN), cast(Uses, all_uses)).line(LINE, 1).object.name


@pytest.mark.parametrize(
    ("uses", "name"),
    [
        ([use(0, MEMSET, 90), use(8, MEMSET, 90), use(40, CODE, 1)], "b"),
        ([use(0, MEMSET, 90), use(40, MEMSET, 1)], "a"),
        ([use(0, CODE, 9), use(40, CODE, 10)], "b"),
    ],
)
def test_who_clears_a_line_names_it_where_nobody_else_comes(uses: list[Use], name: str) -> None:
    assert named(*uses) == name
