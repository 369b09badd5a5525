# SPDX-License-Identifier: GPL-2.0-or-later
"""Recordings made by hand, and a writer of the recorder's file."""

from __future__ import annotations

import dataclasses
import struct
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from partywall.record.reading import MAGIC
from partywall.record.recording import (
    ACCESS,
    LEFT,
    LINE,
    LOCK,
    PATTERN,
    REPEATED,
    SYSCALL,
    VERSION,
    Kind,
    Party,
    Recording,
    Slices,
    key,
)

TGKILL = SYSCALL + 234


def visits(
    number: int,
    reads: int,
    writes: int,
    *,
    kind: Kind = Kind.FOREGROUND,
    turns: int | None = None,
    returns: int | None = None,
    crossings: int | None = None,
    slices: int | None = None,
) -> tuple[int, ...]:
    """One party's visits of line ``number``, as a row of dtype LINE.

    Each is a turn, and returns after another container's, if not told otherwise; and no
    slice has more than the first visit after a return.
    """
    count = reads + writes
    turns = min(count, 2**32 - 1) if turns is None else turns
    returns = max(0, turns - 1) if returns is None else returns
    slices = min(returns + 1, count) if slices is None else slices
    crossings = returns if crossings is None else crossings
    return (key(number, kind), reads, writes, turns, returns, crossings, slices)


def pattern(
    number: int,
    visits: int,
    *,
    read: int = 0,
    written: int = 0,
    kind: Kind = Kind.FOREGROUND,
) -> tuple[int, ...]:
    """A row of dtype PATTERN: ``visits`` of line ``number`` with these masks of words."""
    return (key(number, kind), read, written, visits)


def access(
    address: int,
    size: int = 8,
    *,
    reads: int = 0,
    writes: int = 0,
    site: int = 0,
    context: int = TGKILL,
    flags: int = 0,
) -> tuple[int, ...]:
    """A row of dtype ACCESS."""
    return (address, site, context, size, flags, reads, writes)


def repeated(
    number: int, again: int, loose: int = 0, *, kind: Kind = Kind.FOREGROUND
) -> tuple[int, ...]:
    """A row of dtype REPEATED: visits of line ``number`` in one hold with the one before."""
    return (key(number, kind), again, loose)


def party(
    cpu: int,
    lines: Iterable[tuple[int, ...]] = (),
    accesses: Iterable[tuple[int, ...]] = (),
    patterns: Iterable[tuple[int, ...]] = (),
    repeats: Iterable[tuple[int, ...]] = (),
    **more: Any,
) -> Party:
    """A party in its one window."""
    given: dict[str, Any] = {
        "thread": 0,
        "windows": 1,
        "kernel_instructions": 1000 + cpu,
        "spinning_instructions": 50 + cpu,
        "user_instructions": 100 + cpu,
        "background_instructions": 10 + cpu,
        "deferred_instructions": 4 + cpu,
        "foreground_accesses": 300 + cpu,
        "background_accesses": 30 + cpu,
        "still_lines": 3,
        "calls": (),
        "lines": np.array(sorted(lines), LINE),
        "patterns": np.array(sorted(patterns), PATTERN),
        "accesses": np.array(sorted(accesses), ACCESS),
        "repeated": np.array(sorted(repeats), REPEATED),
        "slices": Slices(8, 7, 7),
    }
    return Party(cpu=cpu, **(given | more))


def recording(
    *parties: Party, sites: Sequence[tuple[int, int]] = ((0xFFFFFFFF81000000, 0),)
) -> Recording:
    """A recording of one window."""
    return Recording(
        visit_distance=8,
        sites=np.array(sites, np.uint64).reshape(-1, 2),
        stacks=np.zeros(0, np.uint64),
        locks=np.zeros(0, LOCK),
        parties=parties,
        left=np.zeros(0, LEFT),
    )


def header(**more: int) -> bytes:
    """The first 68 bytes; of versions 12 and 11 64, of 10 60, of 9 and 8 52, of older ones 36."""
    given = {"version": VERSION, "parties": 0, "distance": 8, "sites": 0, "stacks": 0}
    given |= {"counts": 0, "locks": 0, "holds": 0, "sleeps": 0, "waits": 0}
    given |= {"instruction_ns": 0, "sets": 0, "under": 0, "spans": 0, "left": 0}
    return MAGIC + struct.pack("<15I", *(given | more).values())


def sealed(body: bytes) -> bytes:
    """``body`` with its length and its checksum."""
    body += struct.pack("<Q", len(body))
    return body + struct.pack("<I", zlib.crc32(body))


def written(whole: Recording, *, version: int = VERSION) -> bytes:
    """What the recorder would write; the body is that of a ``version`` from 13 on."""
    counts = len(whole.parties[0].calls) if whole.parties else 0
    parts = [
        header(
            parties=len(whole.parties),
            distance=whole.visit_distance,
            sites=len(whole.sites),
            stacks=len(whole.stacks),
            counts=counts,
            locks=len(whole.locks),
            holds=len(whole.holds),
            sleeps=len(whole.sleeps),
            waits=len(whole.waits),
            instruction_ns=whole.instruction_ns,
            sets=len(whole.sets),
            under=len(whole.under),
            spans=len(whole.spans),
            left=0 if whole.left is None else len(whole.left),
        ),
        whole.sites.astype("<u8").tobytes(),
        whole.stacks.astype("<u8").tobytes(),
        whole.locks.tobytes(),
        *(one.tobytes() for one in (whole.holds, whole.sleeps, whole.waits)),
        whole.spans.tobytes(),
        b"" if whole.left is None else whole.left.tobytes(),
        *(struct.pack(f"<{len(one) + 1}Q", len(one), *one) for one in whole.sets),
        whole.under.tobytes(),
    ]
    for one in whole.parties:
        numbers: tuple[int, ...] = (
            one.cpu,
            one.windows,
            len(one.lines),
            len(one.accesses),
            one.still_lines,
        )
        numbers += (len(one.patterns), len(one.repeated))[: 1 + (version > 13)]
        slices = one.slices or Slices(0, 0, 0)
        numbers += dataclasses.astuple(slices) if version > 14 else ()
        parts.append(struct.pack(f"<{len(numbers)}I", *numbers))
        kernel = (one.kernel_instructions, one.spinning_instructions)
        instructions: tuple[int, ...] = (
            *kernel,
            one.user_instructions,
            one.background_instructions,
        )
        instructions += (one.deferred_instructions,)
        accesses = (one.foreground_accesses, one.background_accesses)
        parts.append(struct.pack("<8Q", one.thread, *instructions, *accesses))
        parts.append(struct.pack(f"<{counts}Q", *one.calls))
        tables = (one.lines, one.patterns, one.repeated, one.accesses)
        parts += [table.tobytes() for table in tables]
    return sealed(b"".join(parts))
