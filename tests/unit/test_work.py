# SPDX-License-Identifier: GPL-2.0-or-later
"""One kind of work of a recording, judged as the emulator ran it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from recordings import access, party, recording, visits

from partywall.analyse import names, transfers
from partywall.analyse.names.copying import Copying
from partywall.analyse.names.lines import Named
from partywall.analyse.transfers import Parties
from partywall.analyse.work import Setting, Work
from partywall.core.elf import Symbols
from partywall.core.topology import Topology
from partywall.record.recording import Kind, Slices
from partywall.results.lines import LineObject

LINE = 0xFF11000003B2C400


class Namer:
    """Stands for a guest: all lines are of one object of the slab."""

    def __init__(self, *_: Any) -> None:
        pass

    def object_of(self, address: int) -> LineObject:
        return self.line(address, 1).object

    def line(self, line: int, operations: int) -> Named:
        what = {"kind": "slab", "name": "cred", "type": "struct cred", "address": hex(LINE)}
        whole = what | {"size": 64, "line": 0, "state": "live"}
        return Named(LineObject.model_validate(whole), [], [])


@pytest.mark.parametrize(("kind", "shared"), [(Kind.FOREGROUND, True), (Kind.DEFERRED, False)])
def test_own_work_is_asked_for_returns_where_others_worked_before(
    monkeypatch: pytest.MonkeyPatch, kind: Kind, shared: bool
) -> None:
    monkeypatch.setattr(names, "LineNamer", Namer)
    # Of deferred work nobody counted before which slices others worked.
    order = ((0, 3, 2), (0, 4, 1), (1, 4, 2), (1, 5, 1))
    parties = [
        party(
            cpu,
            [visits(LINE // 64, 0, 400, kind=kind, turns=400, returns=met, slices=ran)],
            [access(LINE, writes=400, site=0)],
            slices=Slices(ran, after, 0),
        )
        for cpu, (met, ran, after) in enumerate(order)
    ]
    whole = recording(*parties, sites=[(0xAA, 0)])
    of = Parties.of(whole, 4)
    setting = Setting(of, Topology(1, 4), "within", 400, 1600, 0.01, None)
    seen = transfers.visits(whole).moving()
    made = transfers.analyse if kind == Kind.FOREGROUND else transfers.late
    known = cast(names.Knowledge, SimpleNamespace(copying=Copying(Symbols([]))))
    work = Work(whole, kind, made(seen, of, 1600), setting, known)
    judged = work.judged("within", work.objects())
    assert judged.walls.any() == shared
