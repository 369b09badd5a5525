# SPDX-License-Identifier: GPL-2.0-or-later
"""What all pages have in common: their folder, and how templates are read."""

from __future__ import annotations

import math
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from partywall.report.predict import speed
from partywall.report.words import count, percent, plain, rate, signed_hex, topology

_HERE = Path(__file__).resolve().parent


def environment() -> Environment:
    """Return templates with filters for what results hold; all text is escaped."""
    made = Environment(
        loader=FileSystemLoader(_HERE),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "rate": rate,
        "speed": speed,
        "percent": percent,
        "shape": topology,
        "plain": plain,
        "count": count,
        "hex": signed_hex,
    }
    return made


def heat(transfers: float, hottest: float) -> str:
    """Return how hot a cell is, from 0 to 1: by the logarithm of its transfers."""
    return f"{min(1.0, math.log1p(transfers) / math.log1p(hottest)):.3f}"


def asset(name: str) -> Markup:
    """Return a style sheet or a script of ours, for a page."""
    return Markup((_HERE / name).read_text())  # noqa: S704
