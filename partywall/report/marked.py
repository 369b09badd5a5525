# SPDX-License-Identifier: GPL-2.0-or-later
"""Parts of Markdown: text as code, and tables."""

from __future__ import annotations

import re
from collections.abc import Iterator

from partywall.report.words import plain


def row(*cells: str) -> str:
    """Return a line of a table."""
    return f"| {' | '.join(cells)} |"


def heads(*columns: str) -> Iterator[str]:
    """Yield the two lines that begin a table."""
    yield row(*columns)
    yield "|---" * len(columns) + "|"


def code(text: str) -> str:
    """Text as code, in which nothing is markup, a link or somebody's name; of none, none.

    >>> code("a|b")
    '`a\\\\|b`'
    >>> code("a`b")
    '`` a`b ``'
    """
    text = plain(text)
    if not text:
        return ""
    if "\\|" in text:
        # Whether that ends a cell is told differently by who renders it.
        marks = (one if one.isalnum() or one == " " else f"&#{ord(one)};" for one in text)
        return f"<code>{''.join(marks)}</code>"
    text = text.replace("|", "\\|")
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * (longest + 1)
    return f"{fence} {text} {fence}" if longest else f"`{text}`"
