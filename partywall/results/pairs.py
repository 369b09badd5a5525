# SPDX-License-Identifier: GPL-2.0-or-later
"""What a result says of lines of 128 bytes."""

from __future__ import annotations

from pydantic import Field

from partywall.results.document import Model


class PairOfLines(Model):
    """An aligned pair of lines that would cost more if it were one line of 128 bytes."""

    address: str = Field(description="Of the pair, hexadecimal.")
    first: str | None = Field(description="What lies in its first line; null: nothing that counts.")
    second: str | None
    apart: float = Field(description="Transfers per op of its two lines.")
    least: float = Field(description="Of both as one, at least: each CPU always visits both.")
    most: float = Field(description="Of both as one, at most: each CPU never does.")


class PairsOfLines(Model):
    """All that moves, if aligned pairs of lines moved as one. Transfers per op."""

    apart: float = Field(description="Of all lines as they are.")
    least: float
    most: float
    worse: int = Field(description="Pairs that cost more than the threshold more, at least.")
    listed: list[PairOfLines] = Field(description="The worst of them.")
