# SPDX-License-Identifier: GPL-2.0-or-later
"""What a result says of the fields of a line: how often each is used, and which together."""

from __future__ import annotations

from pydantic import Field

from partywall.results.document import Model


class FieldUse(Model):
    """One field touched in a line, with its share of the line's accesses."""

    path: str = Field(description="Field path, e.g. 'rlimit[UCOUNT_RLIMIT_SIGPENDING]'.")
    offset: int = Field(description="Byte offset within the cache line, 0..63.")
    size: int
    reads: float
    writes: float
    atomics: float
    share: float = Field(description="Of all accesses to the line, 0..1.")


class Visits(Model):
    """Visits of a line that use the same words of it, of all containers together.

    A word is one of the line's eight of 8 bytes, the lowest bit the first. Who made
    which visits is not told: containers are taken for equal, see `analyse.layout`.
    """

    read: int = Field(description="Mask of the words that are read and not written.")
    written: int = Field(description="Mask of the words that are written.")
    visits: float = Field(description="Per op.")
