# SPDX-License-Identifier: GPL-2.0-or-later
"""Curves of throughput, as SVG that takes its colours from the page around it."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from partywall.model.published import Published
from partywall.model.queues import Point
from partywall.report.predict import speed
from partywall.report.words import plain

# Stand-ins that are replaced by the page's own colours, which change with light and dark.
_COLOURS = {
    "#010101": "var(--fg)",
    "#020202": "var(--muted)",
    "#030303": "var(--rule)",
    "#040404": "var(--before)",
    "#050505": "var(--after)",
    "#060606": "var(--published)",
}
_FG, MUTED, RULE, BEFORE, _AFTER, _PUBLISHED = _COLOURS

STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "partywall",
    "font.family": "sans-serif",
    "font.size": 10,
    "text.parse_math": False,
    "text.color": _FG,
    "axes.labelcolor": _FG,
    "axes.edgecolor": RULE,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
}


# For a picture that has no page around it: the page's colours, light and dark.
_ALONE = """<style>
:root { --fg: #1b1f24; --muted: #57606a; --rule: #d0d7de; --before: #b3261e; --after: #1a7f37;
  --published: #6639ba; }
@media (prefers-color-scheme: dark) {
  :root { --fg: #e6edf3; --muted: #9aa4af; --rule: #343c46; --before: #ff7b72; --after: #56d364;
    --published: #c8a5ff; }
}
</style>"""


@dataclass(frozen=True)
class Curve:
    """One kernel's throughput by number of containers."""

    label: str
    points: Sequence[Point]


def drawn(figure: Figure, name: str) -> str:
    """The figure as SVG for a page: no prologue, no fixed size, colours of the page.

    ``name``: what makes its identifiers differ from those of other figures.
    """
    out = io.BytesIO()
    figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    text = out.getvalue().decode()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    # Names of groups, which nothing refers to and which would be there once for each curve.
    text = re.sub(r' id="[a-zA-Z0-9.]+_\d+"', "", text)
    text = re.sub(r'( id="|href="#|url\(#)', rf"\g<1>{name}-", text)
    text = re.sub(r'(<svg[^>]*?) (?:height|width)="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?) (?:height|width)="[^"]*"', r"\1", text, count=1)
    for stand_in, colour in _COLOURS.items():
        text = text.replace(stand_in, colour)
    return text


def standalone(svg: str) -> str:
    """A drawing of `throughput` as a file of its own, that follows the reader's light or dark."""
    # REUSE-IgnoreStart
    licence = "<!-- SPDX-License-Identifier: GPL-2.0-or-later -->\n"
    # REUSE-IgnoreEnd
    return licence + re.sub(r"(<svg[^>]*>)", rf"\g<1>{_ALONE}", svg, count=1) + "\n"


def throughput(
    name: str, curves: Sequence[Curve], published: Published | None, of: str, cores: int
) -> str:
    """Operations per second of each container by their number, with what it may be between."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7.2, 3.4), layout="constrained")
        figure.patch.set_alpha(0)
        axes = figure.add_subplot()
        axes.patch.set_alpha(0)
        # What comes last lies on top, and the first kernel is what it is about.
        for curve, colour in zip(curves, (BEFORE, _AFTER), strict=False):
            counts = [point.containers for point in curve.points]
            axes.fill_between(
                counts,
                [point.throughput.low for point in curve.points],
                [point.throughput.high for point in curve.points],
                color=colour,
                alpha=0.16,
                linewidth=0,
            )
            axes.plot(
                counts,
                [point.throughput.usual for point in curve.points],
                color=colour,
                linewidth=2,
                marker="o",
                markersize=4,
                label=plain(curve.label),
            )
        if published is not None:
            axes.plot(
                list(published.throughput),
                list(published.throughput.values()),
                linestyle="none",
                marker="D",
                markersize=5,
                color=_PUBLISHED,
                label="published",
            )
        counts = [point.containers for point in curves[0].points]
        axes.set_xscale("log", base=2)
        axes.set_xticks(counts, [str(count) for count in counts])
        axes.minorticks_off()
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter(lambda value, _: speed(value))
        axes.set_xlabel(of)
        axes.set_ylabel("operations/s of each")
        axes.grid(color=RULE, linewidth=0.6)
        axes.set_axisbelow(True)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        if counts[0] < cores < counts[-1]:
            axes.axvline(cores, color=MUTED, linewidth=1, linestyle=":")
            axes.annotate(
                f"{cores} cores",
                (cores, 1),
                xycoords=("data", "axes fraction"),
                xytext=(4, -10),
                textcoords="offset points",
                color=MUTED,
            )
        if len(curves) > 1 or published is not None:
            axes.legend(frameon=False, loc="best")
        return drawn(figure, name)
