# SPDX-License-Identifier: GPL-2.0-or-later
"""What reports at a terminal are made of.

Names come last in every row, numbers before them. So a name that is too long
for the terminal goes on in the next row with nothing else in between, and none
needs to be cut. What we draw ourselves is ASCII and is said in words, colour
only repeats it: a report reads the same in a file or a mail.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from partywall.report.words import count, plain

# Spaces at a line's end, between them and it nothing but codes of colour.
_TRAILING = re.compile(r" +((?:\x1b\[[0-9;]*m)*)$")

WIDEST = 120
"""Columns used at most: a row that is longer is harder to follow."""


def print_blocks(blocks: Iterable[RenderableType], console: Console) -> None:
    """Print blocks below each other, no wider than `WIDEST`, without trailing spaces."""
    width = min(console.width, WIDEST)
    for block in blocks:
        with console.capture() as capture:
            console.print(block, width=width, highlight=False)
        # Tables pad their rows, which shows when a report is pasted elsewhere.
        lines = [_TRAILING.sub(r"\1", line) for line in capture.get().split("\n")]
        console.file.write("\n".join(lines))
    console.file.flush()


def text(words: str, style: str = "") -> Text:
    """Return text as it is: no markup in it, nothing unprintable, never cut off."""
    return Text(plain(words), style=style, overflow="fold")


def indent(block: RenderableType, columns: int) -> Padding:
    """Return the block so many columns further to the right."""
    return Padding(block, (0, 0, 0, columns), expand=False)


def more(left: int, noun: str, rest: str = "", columns: int = 2) -> Padding:
    """Return a row that says how many there are besides, and what of, if any is said.

    ``rest``: what these have together; ``columns``: to the right, as in `indent`.
    """
    words = count(left, f"more {noun}") + (f", {rest}" if rest else "")
    return indent(Text(f"{words}; --all shows them", style="dim"), columns)


class Flow:
    """Pieces of text on one row while they fit; the next rows are indented.

    A piece is broken only if it is wider than a row of its own, so that what
    belongs together stays together at any width.
    """

    inset = 2

    def __init__(self, *pieces: Text) -> None:
        self.pieces = pieces

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        row, used, inset = Text(overflow="fold"), 0, 0
        for piece in self.pieces:
            if used and inset + used + 2 + piece.cell_len > options.max_width:
                yield indent(row, inset)
                row, used, inset = Text(overflow="fold"), 0, self.inset
            if used:
                row.append("  ")
            row.append_text(piece)
            used = row.cell_len
        yield indent(row, inset)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        whole = sum(piece.cell_len + 2 for piece in self.pieces) - 2
        return Measurement(min(whole, 20), whole).with_maximum(options.max_width)


class Fitting:
    """A table if all of it has room in the width that there is, else the same in other words."""

    def __init__(self, table: Table, words: RenderableType) -> None:
        self.table, self.words = table, words

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        wide = Measurement.get(console, options.update_width(WIDEST * 10), self.table)
        yield self.table if wide.maximum <= options.max_width else self.words


def columns(numbers: Iterable[str], name: str) -> Table:
    """Return a table with columns of numbers, then one of names."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for heading in numbers:
        # Wide enough for any rate, so that tables below each other line up.
        table.add_column(heading, justify="right", no_wrap=True, min_width=5, overflow="fold")
    table.add_column(name, overflow="fold")
    return table
