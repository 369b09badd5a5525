# SPDX-License-Identifier: GPL-2.0-or-later
"""What the recorder wrote, as `partywall.record.reading` returns it."""

from __future__ import annotations

import enum
import tomllib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from partywall.record.plugin import SOURCE

# Numbers that the recorder is built with.
_NUMBERS: dict[str, dict[str, int]] = tomllib.loads((SOURCE / "numbers.toml").read_text())

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


@dataclass(frozen=True)
class Slices:
    """In how many of the emulator's slices a CPU did its workload's own work.

    ``after_others``: of these, those between which and its one before another CPU did, and
    ``after_containers``, one of another container.
    """

    count: int
    after_others: int
    after_containers: int


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
    slices: Slices | None = None
    """None: not counted."""


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
