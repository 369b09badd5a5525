# SPDX-License-Identifier: GPL-2.0-or-later
"""Lines made by hand, judged."""

from __future__ import annotations

from typing import Any

import numpy as np
from recordings import party, recording, visits

from partywall.analyse import transfers, verdict
from partywall.analyse.judgement import Judgement
from partywall.analyse.transfers import Parties
from partywall.core.topology import Scope, Topology
from partywall.results.lines import LineObject

WINDOW = 400
ONCE = 400
"""Visits of who visits in each operation."""


def thing(name: str, state: str = "live", **more: Any) -> LineObject:
    """An object of the slab, or a variable if it is static."""
    given: dict[str, Any] = {"kind": "global" if state == "static" else "slab", "type": "struct x"}
    given |= {"address": "0xffff888000000000", "size": 64, "line": 0}
    return LineObject.model_validate({"name": name, "state": state, **(given | more)})


def judged(
    lines: list[list[Any]],
    objects: list[LineObject],
    *,
    seen: list[LineObject] | None = None,
    at: int | None = None,
    cpus: int = 1,
    scope: Scope = "between",
    window: int = WINDOW,
    thread: tuple[int, int, int, int] | None = None,
    in_turn: float | None = None,
    after: list[float] | None = None,
) -> Judgement:
    """The judgement on lines, each with its writing visits by each CPU.

    Visits, turns, returns, slices and crossings, as far as they are told. Where only visits
    are given, each is a turn and returns after another container's. ``thread``:
    the visits of a kernel thread, at every line but the last.
    """
    number = len(lines[0])
    rows: list[list[tuple[int, ...]]] = [[] for _ in range(number)]
    for line, counts in enumerate(lines):
        for cpu, count in enumerate(counts):
            made, turns, *rest = count if isinstance(count, tuple) else (count, count)
            if made:
                # Of whoever has it but for some turns, the emulator sees none come back.
                returns = 0 if isinstance(count, tuple) else min(7, turns - 1)
                returns, slices, crossings = (
                    (*rest, None, None, None)[:3]
                    if rest
                    else (
                        returns,
                        None,
                        None,
                    )
                )
                given = {"turns": turns, "returns": returns, "slices": slices}
                given["crossings"] = crossings
                rows[cpu].append(visits(line, 0, made, **given))
    parts = [party(cpu, made) for cpu, made in enumerate(rows)]
    if thread is not None:
        made, turns, returns, slices = thread
        given = {"turns": turns, "returns": returns, "slices": slices}
        there = [visits(line, 0, made, **given) for line in range(len(lines) - 1)]
        parts.append(party(0, there, thread=0xFFFF888000100000))
    whole = recording(*parts)
    shape = Topology(number // cpus, cpus)
    parties = Parties.of(whole, cpus)
    found = transfers.analyse(
        transfers.visits(whole).moving(),
        parties,
        window * number,
        ran=shape.containers,
        at=shape.containers if at is None else at,
    )
    named = dict(enumerate(objects))
    return Judgement(
        found,
        parties,
        shape,
        scope,
        window=window,
        threshold=verdict.THRESHOLD,
        in_turn=in_turn,
        after=None if after is None else np.array(after),
        objects=named,
        look=lambda row: (objects if seen is None else seen)[row],
    )


def counter(parties: int, window: int, each: int = 5) -> list[tuple[int, ...]]:
    """A counter that all take in each operation, in so many turns."""
    return [(each * window, each * window, window // 3 - 1)] * parties
