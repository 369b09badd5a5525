# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads what the recorder wrote. `docs/recording.md` describes the file."""

from __future__ import annotations

import enum
import struct
import tomllib
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from partywall.core.errors import EnvironmentProblem
from partywall.record.plugin import SOURCE

# Numbers that the recorder is built with.
_NUMBERS: dict[str, dict[str, int]] = tomllib.loads((SOURCE / "numbers.toml").read_text())

MAGIC = b"PWALLREC"
VERSION: int = _NUMBERS["format"]["version"]
LINE_SHIFT: int = _NUMBERS["format"]["line_shift"]
LINE_SIZE = 1 << LINE_SHIFT
"""Bytes."""

THREAD_CONTAINER = (1 << _NUMBERS["thread"]["container_bits"]) - 1
"""Bits of a party's thread: the number of its container and 1; 0 for none."""

LINE = np.dtype(
    [
        ("key", "<u8"),
        ("reads", "<u4"),
        ("writes", "<u4"),
        ("turns", "<u4"),
        ("returns", "<u4"),
        ("crossings", "<u4"),
        ("slices", "<u4"),
    ]
)
# Before version 7 the recorder knew no containers, before version 8 no time, which
# version 8 had too short: these are passed over; before version 10 no visits under locks; before
# version 11 no times by themselves; before version 12 all that is done later was nobody's;
# before 13 nobody counted what was left and not done; before 14 which visits lie in one hold.
_UNCROSSED = 6
_UNTIMED = 7
_TOO_SHORT = 8
_NOT_UNDER = 9
_NO_SPANS = 10
_NO_CAUSES = 11
_NOT_LEFT = 12
_NOT_REPEATED = 13
_BYTES_TOO_SHORT = (88, 56, 48)
_LINE_UNCROSSED = np.dtype([(name, LINE[name]) for name in LINE.names or () if name != "crossings"])
PATTERN = np.dtype([("key", "<u8"), ("read", "u1"), ("written", "u1"), ("visits", "<u4")])
REPEATED = np.dtype([("key", "<u8"), ("again", "<u4"), ("loose", "<u4")])
ACCESS = np.dtype(
    [
        ("address", "<u8"),
        ("site", "<u4"),
        ("context", "<u2"),
        ("size", "u1"),
        ("flags", "u1"),
        ("reads", "<u4"),
        ("writes", "<u4"),
    ]
)
LOCK = np.dtype(
    [
        ("address", "<u8"),
        ("exclusive", "<u8"),
        ("shared", "<u8"),
        ("own", "<u8"),
        ("all", "<u8"),
        ("slept", "<u8"),
        ("waited", "<u8"),
    ]
)
HOLD = np.dtype(
    [
        ("address", "<u8"),
        ("taker", "<u8"),
        ("kind", "<u8"),
        ("times", "<u8"),
        ("slept", "<u8"),
        ("instructions", "<u8"),
        ("own_asleep_ns", "<u8"),
        ("asleep_ns", "<u8"),
        ("asleep_at_most_ns", "<u8"),
        ("longest_ns", "<u8"),
        ("longest_slept_ns", "<u8"),
        ("longest_at_most_ns", "<u8"),
        ("tried", "<u8"),
        ("tried_ns", "<u8"),
        ("longest_tried_ns", "<u8"),
        ("cpu", "<u8"),
    ]
)
SLEEP = np.dtype(
    [
        ("address", "<u8"),
        ("taker", "<u8"),
        ("kind", "<u8"),
        ("function", "<u8"),
        ("at", "<u8"),
        ("times", "<u8"),
        ("ns", "<u8"),
    ]
)
WAIT = np.dtype(
    [
        ("function", "<u8"),
        ("at", "<u8"),
        ("kind", "<u8"),
        ("times", "<u8"),
        ("slept", "<u8"),
        ("ns", "<u8"),
        ("asleep_ns", "<u8"),
        ("asleep_at_most_ns", "<u8"),
        ("unlocked_ns", "<u8"),
        ("longest_ns", "<u8"),
        ("longest_at_most_ns", "<u8"),
    ]
)
UNDER = np.dtype([("key", "<u8"), ("set", "<u8"), ("visits", "<u8")])
SPAN = np.dtype(
    [
        ("address", "<u8"),
        ("taker", "<u8"),
        ("kind", "<u8"),
        ("cpu", "<u8"),
        ("from_ns", "<u8"),
        ("to_ns", "<u8"),
        ("function", "<u8"),
        ("at", "<u8"),
    ]
)
LEFT = np.dtype(
    [
        ("context", "<u8"),
        ("site", "<u8"),
        ("late", "<u8"),
        ("times", "<u8"),
        ("done", "<u8"),
        ("containers", "<u8"),
    ]
)
SHARED, IN_CHARGED_WORK = 1, 2
"""Bits of ``kind`` in HOLD, SLEEP and SPAN, and the second one in WAIT."""

WANTED = 4
"""Another one in SPAN: the lock was slept for."""

SEVERAL_CPUS, SEVERAL_CONTAINERS, UNSEEN = 4, 8, 16
"""Further bits of ``kind`` in HOLD: who held it besides ``cpu``, UNSEEN: nobody knows who."""

NOWHERE = 0xFFFF
"""Number of no function that waits: the task was preempted."""

ATOMIC = 1

_CONTEXT = _NUMBERS["context"]
USER, IRQ, SOFTIRQ = _CONTEXT["user"], _CONTEXT["irq"], _CONTEXT["softirq"]
EXCEPTION, NEW_TASK = _CONTEXT["exception"], _CONTEXT["new_task"]
SYSCALL_UNKNOWN, SCHEDULER = _CONTEXT["syscall_unknown"], _CONTEXT["scheduler"]
WORK, CALLBACK = _CONTEXT["work"], _CONTEXT["callback"]
"""Work items and callbacks of RCU, those of which nobody was seen to be the cause."""

BACKGROUND = (IRQ, SOFTIRQ, SCHEDULER, WORK, CALLBACK)
CHARGED, SYSCALL, TASK = _CONTEXT["charged"], _CONTEXT["syscall"], _CONTEXT["task"]
DEFERRED, WORKED, CALLED_BACK = (_CONTEXT[name] for name in ("deferred", "worked", "called_back"))
OTHER = 0xFFF
"""In place of a system call: an exception, or charged work."""


Array = npt.NDArray[Any]


class Kind(enum.IntEnum):
    """Whose work it is.

    FOREGROUND: what runs in system calls and exceptions of the workload, and charged work;
    DEFERRED: softirqs that such a system call ran, work items that it queued and callbacks
    that it left to RCU; BACKGROUND: all else.
    """

    BACKGROUND = _NUMBERS["kind"]["background"]
    FOREGROUND = _NUMBERS["kind"]["foreground"]
    DEFERRED = _NUMBERS["kind"]["deferred"]


_KIND_BITS = np.uint64(_NUMBERS["kind"]["bits"])


def key(number: int, kind: Kind) -> int:
    """Return the key of a line, by its number, in a kind of work."""
    return number << int(_KIND_BITS) | kind


def numbers_of(keys: Array) -> Array:
    """Return the numbers of the lines that keys are of."""
    return keys >> _KIND_BITS


def kinds_of(keys: Array) -> Array:
    """Return the kinds of work that keys are of."""
    return keys & ((np.uint64(1) << _KIND_BITS) - np.uint64(1))


def kind_in(context: Array) -> Array:
    """Return the kind of work that goes on in these contexts."""
    background = (context >= TASK) | np.isin(context, BACKGROUND)
    own = np.where(context < DEFERRED, Kind.FOREGROUND, Kind.DEFERRED)
    return np.where(background, Kind.BACKGROUND, own)


class RecordingError(EnvironmentProblem):
    """The file is no whole recording of this version."""


@dataclass(frozen=True)
class Party:
    """What one vCPU did, or one kernel thread on it, in work the workload pays for.

    ``thread``: base of that thread's stack, 0 for the vCPU itself. ``lines`` (dtype
    LINE): key (of line number and `Kind`, see `key`), visits that only read, visits
    that wrote, stretches of the party's own work in which it visited (turns), visits
    with one of another party since its one before (returns), of these those with one of
    another container (crossings; of version 6 all returns, which that does not tell apart),
    slices of the emulator's in which it had turns (slices). ``patterns`` (dtype
    PATTERN): by key, but for the background, visits that used the same words of 8 bytes,
    a bit for each word read and written; their sum is reads + writes. ``accesses``
    (dtype ACCESS): by address, code (index into Recording.sites) and context. Both
    hold only lines that several parties visited and one wrote; ``lines`` holds those
    whose aligned pair of 128 bytes is such, ``still_lines`` counts the rest. ``repeated``
    (dtype REPEATED): by key, of a line with a lock, visits in one hold of it with the visit
    before (again), and those not under it (loose); see docs/recording.md.
    """

    cpu: int
    thread: int
    windows: int
    kernel_instructions: int
    spinning_instructions: int
    user_instructions: int
    background_instructions: int
    deferred_instructions: int
    foreground_accesses: int
    background_accesses: int
    still_lines: int
    calls: tuple[int, ...]
    lines: Array
    patterns: Array
    accesses: Array
    repeated: Array = field(default_factory=lambda: np.zeros(0, REPEATED))


@dataclass(frozen=True)
class Recording:
    """One window: vCPUs in order, then threads.

    ``sites``, shape (n, 2): addresses of an instruction and of the call that led
    into its function, 0 unless that is a leaf (`partywall.record.hooks`). ``stacks``:
    base of the stack of thread n, for contexts TASK + n. ``locks`` (dtype LOCK):
    by address of the lock's word, how often it was held for one alone and shared;
    of the former, instructions meanwhile (own: while nothing was taken after it)
    and how often the holder was switched away from or waited for RCU.
    """

    visit_distance: int
    sites: Array
    stacks: Array
    locks: Array
    parties: tuple[Party, ...]
    instruction_ns: int = 0
    """Of the guest's time; 0 if that was not read, and sleep is not known."""
    holds: Array = field(default_factory=lambda: np.zeros(0, HOLD))
    """Locks by who took them (dtype HOLD); what they slept for meanwhile is in ``sleeps``."""
    sleeps: Array = field(default_factory=lambda: np.zeros(0, SLEEP))
    waits: Array = field(default_factory=lambda: np.zeros(0, WAIT))
    """Functions that wait, by where they were called (dtype WAIT)."""
    under: Array = field(default_factory=lambda: np.zeros(0, UNDER))
    """Visits while locks were held (dtype UNDER), of all parties, by the line's key and the
    number of a set in ``sets``."""
    spans: Array = field(default_factory=lambda: np.zeros(0, SPAN))
    """The longest times that locks were had with sleep in them, or slept for (dtype SPAN), by lock
    and by when they began."""
    left: Array | None = None
    """What containers left for later (dtype LEFT), by the context in which it is done and the
    call that left it, in such work itself (late) or not: how often in the windows, how often it
    was done by their end, and for how many containers. None: not counted."""
    sets: tuple[tuple[int, ...], ...] = ()
    """Addresses of the words of locks that are held at once, those taken first in front."""


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
    form = (lines, version > _NOT_REPEATED)
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
    body: _Reader, counts: int, sites: int, form: tuple[Callable[[_Reader, int], Array], bool]
) -> Party:
    read_lines, repeats = form
    cpu, windows, lines, accesses, still, patterns = body.numbers("6I")
    (repeated,) = body.numbers("I") if repeats else (0,)
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
    )


def load(path: Path) -> Recording:
    """A recording from a file."""
    try:
        return parse(path.read_bytes())
    except OSError as error:
        raise RecordingError(f"{path}: {error.strerror}") from error
