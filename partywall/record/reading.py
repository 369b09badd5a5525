# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads what the recorder wrote. `docs/recording.md` describes the file."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from partywall.core.errors import EnvironmentProblem
from partywall.record.recording import (
    ACCESS,
    HOLD,
    LEFT,
    LINE,
    LOCK,
    PATTERN,
    REPEATED,
    SLEEP,
    SPAN,
    UNDER,
    VERSION,
    WAIT,
    Party,
    Recording,
    Slices,
)

MAGIC = b"PWALLREC"

Array = npt.NDArray[Any]

# Before version 7 the recorder knew no containers, before version 8 no time, which
# version 8 had too short: these are passed over; before version 10 no visits under locks; before
# version 11 no times by themselves; before version 12 all that is done later was nobody's;
# before 13 nobody counted what was left and not done; before 14 which visits lie in one hold;
# before 15 in how many of the emulator's slices others worked in between.
_UNCROSSED = 6
_UNTIMED = 7
_TOO_SHORT = 8
_NOT_UNDER = 9
_NO_SPANS = 10
_NO_CAUSES = 11
_NOT_LEFT = 12
_NOT_REPEATED = 13
_NOT_IN_TURN = 14
_BYTES_TOO_SHORT = (88, 56, 48)
_LINE_UNCROSSED = np.dtype([(name, LINE[name]) for name in LINE.names or () if name != "crossings"])


class RecordingError(EnvironmentProblem):
    """The file is no whole recording of this version."""


class _Reader:
    """Takes typed pieces off a buffer; running out of it is an error."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, length: int) -> bytes:
        piece = self.data[self.at : self.at + length]
        if len(piece) != length:
            raise RecordingError("the recording is truncated", "run the check again")
        self.at += length
        return piece

    def numbers(self, form: str) -> tuple[int, ...]:
        return struct.unpack("<" + form, self.take(struct.calcsize("<" + form)))

    def array(self, dtype: Any, count: int) -> Array:
        dtype = np.dtype(dtype)
        return np.frombuffer(self.take(dtype.itemsize * count), dtype=dtype)


def parse(data: bytes) -> Recording:
    """A recording from its bytes; RecordingError if anything about them is off."""
    if data[: len(MAGIC)] != MAGIC:
        raise RecordingError("this is no recording: its first bytes are wrong")
    reader = _Reader(data)
    reader.take(len(MAGIC))
    version, parties, distance, sites, stacks, counts = reader.numbers("6I")
    if version not in range(_UNCROSSED, VERSION + 1):
        raise RecordingError(
            f"the recording is of version {version}, this program reads {VERSION}",
            "run partywall prepare, which builds the recorder anew",
        )
    (locks,) = reader.numbers("I")
    holds, sleeps, waits, instruction_ns = (0, 0, 0, 0)
    if version >= _TOO_SHORT:
        holds, sleeps, waits, instruction_ns = reader.numbers("4I")
    sets, under = reader.numbers("2I") if version > _NOT_UNDER else (0, 0)
    (spans,) = reader.numbers("I") if version >= _NO_CAUSES else (0,)
    (left,) = reader.numbers("I") if version > _NOT_LEFT else (0,)
    if len(data) < reader.at + 12:
        raise RecordingError("the recording is truncated", "run the check again")
    length, checksum = struct.unpack("<QI", data[-12:])
    if length != len(data) - 12 or checksum != zlib.crc32(data[:-4]):
        raise RecordingError(
            "the recording is truncated or damaged: its checksum is wrong", "run the check again"
        )
    body = _Reader(data[:-12])
    body.at = reader.at
    if 88 * parties > len(data):
        raise RecordingError("the recording is damaged: it claims more parties than it holds")
    site_array = body.array("<u8", 2 * sites).reshape(-1, 2)
    stack_array = body.array("<u8", stacks)
    lock_array = body.array(LOCK, locks)
    if version == _TOO_SHORT:
        rows = zip(_BYTES_TOO_SHORT, (holds, sleeps, waits), strict=True)
        body.take(sum(size * count for size, count in rows))
        holds = sleeps = waits = instruction_ns = 0
    hold_array = body.array(HOLD, holds)
    sleep_array = body.array(SLEEP, sleeps)
    wait_array = body.array(WAIT, waits)
    span_array = body.array(SPAN, spans)
    left_array = body.array(LEFT, left) if version > _NOT_LEFT else None
    if 8 * sets > len(data):
        raise RecordingError("the recording is damaged: it claims more locks than it holds")
    held = tuple(_set(body) for _ in range(sets))
    under_array = body.array(UNDER, under)
    if (under_array["set"] >= sets).any():
        raise RecordingError("the recording is damaged: it names locks that it does not hold")
    lines = _uncrossed if version == _UNCROSSED else _lines
    form = (lines, version > _NOT_REPEATED, version > _NOT_IN_TURN)
    read = tuple(_party(body, counts, sites, form) for _ in range(parties))
    if body.at != len(body.data):
        raise RecordingError("the recording has bytes that belong to nothing")
    return Recording(
        visit_distance=distance,
        sites=site_array,
        stacks=stack_array,
        locks=lock_array,
        parties=read,
        instruction_ns=instruction_ns,
        holds=hold_array,
        sleeps=sleep_array,
        waits=wait_array,
        spans=span_array,
        left=left_array,
        under=under_array,
        sets=held,
    )


def _set(body: _Reader) -> tuple[int, ...]:
    (count,) = body.numbers("Q")
    return tuple(map(int, body.array("<u8", count)))


def _lines(body: _Reader, count: int) -> Array:
    return body.array(LINE, count)


def _uncrossed(body: _Reader, count: int) -> Array:
    """Lines of version 6, whose returns may be between CPUs of one container."""
    old = body.array(_LINE_UNCROSSED, count)
    lines = np.zeros(count, LINE)
    for name in _LINE_UNCROSSED.names or ():
        lines[name] = old[name]
    lines["crossings"] = old["returns"]
    return lines


def _party(
    body: _Reader, counts: int, sites: int, form: tuple[Callable[[_Reader, int], Array], bool, bool]
) -> Party:
    read_lines, repeats, slices = form
    cpu, windows, lines, accesses, still, patterns = body.numbers("6I")
    (repeated,) = body.numbers("I") if repeats else (0,)
    in_turn = Slices(*body.numbers("3I")) if slices else None
    thread, kernel, spinning, user, background, deferred = body.numbers("6Q")
    foreground_accesses, background_accesses = body.numbers("2Q")
    calls = body.numbers(f"{counts}Q")
    line_array = read_lines(body, lines)
    pattern_array = body.array(PATTERN, patterns)
    repeated_array = body.array(REPEATED, repeated)
    access_array = body.array(ACCESS, accesses)
    if len(access_array) and int(access_array["site"].max()) >= sites:
        raise RecordingError("the recording is damaged: it names code that it does not list")
    return Party(
        cpu=cpu,
        thread=thread,
        windows=windows,
        kernel_instructions=kernel,
        spinning_instructions=spinning,
        user_instructions=user,
        background_instructions=background,
        deferred_instructions=deferred,
        foreground_accesses=foreground_accesses,
        background_accesses=background_accesses,
        still_lines=still,
        calls=calls,
        lines=line_array,
        patterns=pattern_array,
        accesses=access_array,
        repeated=repeated_array,
        slices=in_turn,
    )


def load(path: Path) -> Recording:
    """A recording from a file."""
    try:
        return parse(path.read_bytes())
    except OSError as error:
        raise RecordingError(f"{path}: {error.strerror}") from error
