# SPDX-License-Identifier: GPL-2.0-or-later
"""The map as a page that stands alone: what differs, objects, and operations x kernels."""

from __future__ import annotations

import re
from collections.abc import Iterator

from partywall import __version__
from partywall.advice.changes import Change, changes, pairs
from partywall.advice.map import Cell, Map, Operation
from partywall.report import map as view
from partywall.report.html import pages
from partywall.report.words import count, plain

OBJECTS, CHANGES = 40, 40
"""Objects, and operations that differ between kernels, before what opens."""

_HOT = 100.0
"""Transfers per operation of the hottest colour."""


def heat(cell: Cell) -> str:
    """Return how hot a cell is, as `pages.heat`."""
    return pages.heat(cell.transfers, _HOT)


def heads(found: Map) -> list[str]:
    """Return what kernels are called over narrow columns: as short as tells them apart."""
    short = [re.sub("(-cloud)?-amd64$", "", one.kernel.release) for one in found.kernels]
    return short if len(set(short)) == len(short) else found.labels


def families(found: Map) -> dict[str, list[Operation]]:
    """Return operations by the part of their titles before the slash."""
    grouped: dict[str, list[Operation]] = {}
    for one in found.operations:
        grouped.setdefault(one.title.partition("/")[0], []).append(one)
    return grouped


def walls(one: Operation) -> str:
    """Return the objects that are a wall of an operation on any kernel, a line each.

    Each as it is shown: the script parts them, and compares.
    """
    names = (plain(share.object) for cell in one.cells if cell for share in cell.walls)
    return "\n".join(dict.fromkeys(names))


def compared(found: Map, every: list[Change]) -> Iterator[str]:
    """Yield for each two kernels of how many operations it is known whether they differ."""
    for pair in pairs(found, every):
        yield (
            f"{found.labels[pair.before]} to {found.labels[pair.after]}: "
            f"{count(pair.both, 'operation')} with a figure on both{pair.between}, "
            f"{pair.less + pair.more} of which differ by more than who meets whom makes of a "
            f"figure, and of {pair.turned} a wall came or went."
        )


def render(found: Map) -> str:
    """Return the page. Equal maps give equal pages."""
    every = changes(found)
    return (
        pages.environment()
        .get_template("map.html.j2")
        .render(
            map=found,
            objects=found.objects[:OBJECTS],
            others=found.objects[OBJECTS:],
            changes=every,
            compared=list(compared(found, every)),
            unknown=view.UNKNOWN if any(map(any, (one.unknown for one in found.objects))) else "",
            operations=view.operations,
            walls=walls,
            worst=view.worst,
            older=view.older,
            otherwise=view.otherwise(found),
            shown=CHANGES,
            families=families(found),
            heat=heat,
            stays=view.stays,
            kinds=view.kinds,
            asleep=view.asleep,
            heads=heads(found),
            made=view.made,
            apart=view.apart(found) if found.again else "",
            left_out=[view.left_out(found, *one) for one in found.lacks.items()],
            sharers=found.kernels[0].sharers,
            version=__version__,
            script=pages.asset("map.js"),
            style=pages.asset("page.css") + pages.asset("map.css"),
        )
    )
