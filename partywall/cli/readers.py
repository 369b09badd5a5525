# SPDX-License-Identifier: GPL-2.0-or-later
"""Who reads the help: commands are grouped by who needs them."""

from __future__ import annotations

from enum import Enum


class Reader(Enum):
    """A kind of reader; the value is the heading above his commands."""

    PLATFORM = "For platform engineers, what containers cost each other"
    KERNEL = "For kernel engineers, a change, a tree or a series"
    CONTRIBUTOR = "For contributors and other programs"


FIRST_RUN = (
    "A first run downloads Debian's kernel with its debug package (350 MB), and builds what "
    "it needs, which takes about two minutes more than the download. partywall doctor says "
    "what this machine lacks."
)
"""Of a check, whichever command makes it."""
