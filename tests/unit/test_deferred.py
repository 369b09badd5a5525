# SPDX-License-Identifier: GPL-2.0-or-later
"""What is told of a line that system calls and softirqs both use."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import builders
import jsonschema
import pytest
from recordings import access, party, recording, visits

from partywall.analyse import names, transfers
from partywall.analyse.names.copying import Copying
from partywall.analyse.names.lines import Named
from partywall.analyse.sharing import Uses
from partywall.analyse.transfers import Parties
from partywall.analyse.work import Setting, Work
from partywall.core.elf import Symbols
from partywall.core.topology import Topology
from partywall.record.recording import DEFERRED, LINE_SIZE, Kind
from partywall.results import document
from partywall.results.lines import LineObject
from partywall.results.reading import read
from partywall.results.result import Result

LINE = 0xFF11000003B2C400


class Namer:
    """Stands for a guest: code is called by its number, and all of it is of one object."""

    def __init__(self, known: Any, uses: Uses) -> None:
        self._uses = uses

    def object_of(self, address: int) -> LineObject:
        return self.line(address & -LINE_SIZE, 1).object

    def line(self, line: int, operations: int) -> Named:
        what = LineObject(kind="global", name="lock", address=hex(LINE), size=64, line=0)
        fields, code = [], []
        for use in self._uses(line, line + LINE_SIZE):
            rate = use.writes / operations
            path = f"field_{use.address - line:#x}"
            fields.append(builders.field(path, use.address - line, writes=rate))
            code.append(builders.site(f"code_{use.code:x}", 0, path, writes=rate))
        return Named(what.model_copy(update={"state": "static"}), fields, code)


def told(monkeypatch: pytest.MonkeyPatch, called: list[int]) -> tuple[Any, Any]:
    """Lines of walls of both kinds of work, as two containers write a line in softirqs.

    ``called``: who of them writes another field of it in system calls.
    """
    monkeypatch.setattr(names, "LineNamer", Namer)
    parties = []
    for cpu in range(2):
        rows = [visits(LINE // 64, 0, 100, kind=Kind.DEFERRED)]
        uses = [access(LINE + 8, writes=100, site=1, context=DEFERRED + 44)]
        if cpu in called:
            rows.append(visits(LINE // 64, 0, 100))
            uses.append(access(LINE, writes=100, site=0))
        parties.append(party(cpu, rows, uses))
    whole = recording(*parties, sites=[(0xAA, 0), (0xBB, 0)])
    shape, of = Topology(2, 1), Parties.of(whole, 1)
    setting = Setting(of, shape, "between", 100, 200, 0.01, 64)
    seen = transfers.visits(whole).moving()
    known = cast(names.Knowledge, SimpleNamespace(copying=Copying(Symbols([]))))
    lines = transfers.analyse(seen, of, 200, ran=2, at=64)
    own = Work(whole, Kind.FOREGROUND, lines, setting, known)
    after = transfers.late(seen, of, 200, ran=2, at=64)
    late = Work(whole, Kind.DEFERRED, after, setting, known, before=own)
    return tuple(
        [
            line
            for _, found in work.walls(work.judged("between", work.objects()), {})
            for line in found
        ]
        for work in (own, late)
    )


def test_what_both_kinds_of_work_do_with_a_line_is_told_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (own,), (late,) = told(monkeypatch, [0, 1])
    assert [site.function for site in late.code] == ["code_bb"]
    assert [use.path for use in late.fields] == ["field_0x8"]
    assert [site.function for site in late.in_calls.code] == ["code_aa"]
    assert [use.path for use in late.in_calls.fields] == ["field_0x0"]
    assert late.in_calls.code[0].writes == 1.0
    # The foreground's transfers are those of system calls alone.
    assert (own.code, own.in_calls) == (late.in_calls.code, None)


def test_of_a_line_that_one_calls_and_one_puts_off_both_are_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own, (late,) = told(monkeypatch, [1])
    assert own == []
    assert late.in_calls.code[0].writes == 0.5


def test_what_only_softirqs_use_has_nothing_in_system_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, (late,) = told(monkeypatch, [])
    assert late.in_calls is None


def test_a_saved_result_has_both_and_each_place_once() -> None:
    late = builders.put_off([builders.both_kinds()])
    whole = builders.result(builders.workload("udp", [], deferred=late))
    written = json.loads(document.dump(whole))
    assert [place["function"] for place in written["sites"]] == ["tasklet", "ioctl"]
    jsonschema.validate(written, document.schema(Result))
    assert read(written) == whole
