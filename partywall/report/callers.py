# SPDX-License-Identifier: GPL-2.0-or-later
"""Which of a program's system calls pay: the transfers on walls, by what its code ran for."""

from __future__ import annotations

from collections.abc import Iterable

from partywall.report.walls import Wall
from partywall.report.words import rate
from partywall.results.lines import Line

LISTED = 5
"""System calls that are listed; those behind them are told together."""


def _of_line(line: Line) -> dict[str, float]:
    """A line's transfers by context, as its accesses are shared out among them."""
    accesses: dict[str, float] = {}
    for site in line.code:
        done = site.reads + site.writes + site.atomics
        accesses[site.context] = accesses.get(site.context, 0.0) + done
    total = sum(accesses.values())
    return {name: line.judged * done / total for name, done in accesses.items() if total}


def transfers(walls: Iterable[Wall]) -> dict[str, float]:
    """Return transfers per operation on walls by context, most first.

    Those lines of a wall that a result does not list are taken to be as those that it lists.
    """
    found: dict[str, float] = {}
    for wall in walls:
        shares: dict[str, float] = {}
        for line in wall.lines:
            for name, moved in _of_line(line).items():
                shares[name] = shares.get(name, 0.0) + moved
        total = sum(shares.values())
        for name, moved in shares.items() if total else ():
            found[name] = found.get(name, 0.0) + wall.transfers * moved / total
    return dict(sorted(found.items(), key=lambda one: (-one[1], one[0])))


def summary(walls: Iterable[Wall]) -> str | None:
    """Return the system calls that pay most; None if there are not several."""
    found = transfers(walls)
    if len(found) < 2:
        return None
    names = list(found)
    said = [f"{name.removeprefix('syscall ')} {rate(found[name])}" for name in names[:LISTED]]
    rest = names[LISTED:]
    if rest:
        said.append(f"{len(rest)} more {rate(sum(found[name] for name in rest))}")
    return f"by system call, of transfers on walls: {', '.join(said)}"
