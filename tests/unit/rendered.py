# SPDX-License-Identifier: GPL-2.0-or-later
"""Markdown as a reader of the page sees it."""

from __future__ import annotations

import re

from markdown_it import MarkdownIt


def cells(text: str) -> list[list[str]]:
    """Return the rows of all tables, with code as plain text."""
    html = MarkdownIt("commonmark").enable("table").render(text)
    rows = re.findall(r"<tr>(.*?)</tr>", html, re.DOTALL)
    return [
        [
            re.sub(r"</?code>", "", cell)
            for cell in re.findall(r"<t[dh]>(.*?)</t[dh]>", row, re.DOTALL)
        ]
        for row in rows
    ]
