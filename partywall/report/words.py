# SPDX-License-Identifier: GPL-2.0-or-later
"""Numbers, names and groups of lines, as every view for people writes them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from partywall.core.topology import Scope, Topology
from partywall.results.lines import Line, LineObject
from partywall.results.result import WorkloadResult
from partywall.results.sites import Site, Uses

SCOPES: dict[Scope, str] = {
    "between": "between containers",
    "within": "between CPUs of one container",
}


def rate(value: float) -> str:
    """A number per operation with the digits that mean something.

    >>> [rate(x) for x in (0, 0.031, 0.25, 4, 44.04, 2049.6)]
    ['0', '0.031', '0.25', '4.00', '44.0', '2,050']
    """
    size = abs(value)
    if not math.isfinite(value):
        return str(value)
    if size == 0:
        return "0"
    if size < 0.001:
        return "<0.001" if value > 0 else ">-0.001"
    # Each limit lies where rounding would carry into one digit more.
    for limit, digits in ((0.00995, 4), (0.0995, 3), (9.995, 2), (99.95, 1)):
        if size < limit:
            return f"{value:.{digits}f}"
    return f"{value:,.0f}"


def percent(share: float) -> str:
    """A share of 1 in per cent; only all of it is 100%, only nothing is 0%.

    >>> [percent(x) for x in (0, 0.004, 0.62, 0.9972, 0.9999, 1)]
    ['0%', '<1%', '62%', '99.7%', '99.9%', '100%']
    """
    if share <= 0:
        return "0%"
    if share >= 1:
        return "100%"
    if share > 0.99:
        return f"{math.floor(share * 1000) / 10}%"
    return f"{share:.0%}" if share >= 0.01 else "<1%"


def ranges(numbers: Iterable[int]) -> str:
    """Numbers as a kernel's CPU list writes them.

    >>> ranges([5, 0, 1, 2])
    '0-2,5'
    """
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def count(number: int, noun: str) -> str:
    """A number and its noun: ``1 wall``, ``3 walls``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def signed_hex(offset: int) -> str:
    """An offset with its sign, as after a symbol: ``+0x40``."""
    return f"{'-' if offset < 0 else '+'}{abs(offset):#x}"


def plain(text: str) -> str:
    """The text with whatever is not printable escaped.

    Names come out of a guest's memory or a file somebody sent: none may move
    the cursor, start a new line or reverse the reading direction.
    """
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text
    )


def topology(shape: Topology) -> str:
    """Containers by CPUs of each: ``8 x 1``."""
    return f"{shape.containers} x {shape.cpus}"


def sharers(line: Line, containers: int) -> str:
    """Which containers write a line, and which only read it."""
    if containers == 1:
        return "shared by CPUs of the one container"

    def some(numbers: list[int]) -> str:
        if len(set(numbers)) == containers:
            return "both containers" if containers == 2 else f"all {containers} containers"
        return f"{count(len(set(numbers)), 'container')} ({ranges(numbers)})"

    said = []
    if line.writers:
        said.append(f"written by {some(line.writers)}")
    if line.readers:
        said.append(f"only read by {some(line.readers)}")
    return ", ".join(said) or "containers unknown"


def function(site: Site) -> str:
    """The code of a site: ``function+0x35``, with the module it is in."""
    return f"{site.function}{signed_hex(site.offset)}" + (
        f" [{site.module}]" if site.module else ""
    )


def accesses(site: Site) -> float:
    """All accesses per operation that a site makes to its line."""
    return site.reads + site.writes + site.atomics


def busiest(line: Line | Uses) -> list[Site]:
    """The code of a line, the one with the most accesses first."""
    return sorted(line.code, key=lambda site: (-accesses(site), site.function, site.offset))


@dataclass(frozen=True)
class Walled:
    """One object, with its lines that are walls, the worst first."""

    object: LineObject
    lines: tuple[Line, ...]

    @property
    def transfers(self) -> float:
        """Transfers per operation on all of these lines, as the verdict has it."""
        return sum(line.judged for line in self.lines)


def by_object(lines: Iterable[Line]) -> list[Walled]:
    """The lines, those of one object together; objects and lines worst first."""
    found: dict[tuple[str, str, str], list[Line]] = {}
    for line in lines:
        key = (line.object.kind, line.object.name, line.object.address)
        found.setdefault(key, []).append(line)
    walled = [
        Walled(group[0].object, tuple(sorted(group, key=lambda x: (-x.judged, x.object.line))))
        for group in found.values()
    ]
    return sorted(walled, key=lambda x: (-x.transfers, x.object.name, x.object.address))


def known(workload: WorkloadResult) -> str:
    """Return how much of all that moves has a name, a type, and is freed by now."""
    said = f"{percent(workload.named)} of transfers have a name"
    if workload.typed is None or workload.freed is None:
        return said
    said += f", {percent(workload.typed)} a type"
    return f"{said}, {percent(workload.freed)} are of freed memory" if workload.freed else said
