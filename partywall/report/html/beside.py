# SPDX-License-Identifier: GPL-2.0-or-later
"""Pairs of operations as a page that stands alone: a matrix, and what only pairs show."""

from __future__ import annotations

from partywall import __version__
from partywall.report.beside import not_known
from partywall.report.html import pages
from partywall.results.touches import Beside, Touch

LISTED = 60
"""Pairs in the table of what no operation shows by itself."""

_HOT = 30.0
"""Transfers per operation of the hottest colour."""


def heat(touch: Touch) -> str:
    """Return how hot a cell is, as `pages.heat`."""
    return pages.heat(touch.transfers, _HOT)


def told(touch: Touch) -> str:
    """Return where the two meet, in one line."""
    where = ", ".join(f"{one.object} {one.transfers:.3g}" for one in touch.objects[:4])
    return f"{touch.victim} beside {touch.neighbour}: {where or 'nothing'}"


def render(found: Beside) -> str:
    """Return the page. Equal results give equal pages."""
    of = {(touch.victim, touch.neighbour): touch for touch in found.touches}
    rows = [
        (one, of.get((one, one)), [(other, of.get((one, other))) for other in found.neighbours])
        for one in found.victims
    ]
    new = found.new
    return (
        pages.environment()
        .get_template("beside.html.j2")
        .render(
            found=found,
            rows=rows,
            like=any(one not in found.neighbours for one in found.victims),
            new=new[:LISTED],
            left=len(new[LISTED:]),
            marked={(touch.victim, touch.neighbour) for touch in new},
            not_known=not_known(found) if found.unknown else "",
            heat=heat,
            told=told,
            version=__version__,
            style=pages.asset("page.css") + pages.asset("map.css"),
        )
    )
