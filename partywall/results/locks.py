# SPDX-License-Identifier: GPL-2.0-or-later
"""Locks of which the word's line is a wall."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from partywall.results.document import Model
from partywall.results.held import lock_name

Address = Annotated[str, Field(pattern=r"^0x[0-9a-f]{1,16}$")]


class Lock(Model):
    """A lock whose line is a wall. Rates are per operation.

    Only what it is held for exclusively keeps others out; the word is that of a
    spinlock, a mutex, a rwsem or a rwlock.
    """

    address: Address = Field(description="Of the lock's word.")
    object: str = Field(description="What it lies in; another than the wall's, if that is small.")
    field: str = Field(description="Field path of the lock in it, if known.")
    exclusive: float = Field(description="Times held exclusively.")
    shared: float = Field(description="Times held shared with others.")
    instructions: float = Field(description="Run while it was held exclusively, spinning apart.")
    own: float = Field(description="Of these, those run while no other lock was taken after it.")
    transfers: float = Field(
        default=0.0,
        description="Of lines of walls, made while it was held exclusively: who waits for it "
        "waits for these. As the lines' own, among those that ran.",
    )
    last_transfers: float = Field(
        default=0.0,
        description="Of these, those made while no other lock of these was taken after it.",
    )
    word_transfers: float = Field(
        default=0.0, description="Of those made while it was held, those of its word's own line."
    )
    slept: float = Field(description="Exclusive times in which the holder was switched away from.")
    waited: float = Field(description="Exclusive times in which the holder waited for RCU.")

    @property
    def name(self) -> str:
        """Object and field, unless the object is the lock."""
        return lock_name(self.object, self.field)
