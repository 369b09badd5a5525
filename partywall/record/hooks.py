# SPDX-License-Identifier: GPL-2.0-or-later
"""Which kernel functions the recorder has to watch, by address."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Container, Iterable
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

from partywall.core.elf import Symbol, Symbols, load_symbols, read_memory
from partywall.core.errors import EnvironmentProblem
from partywall.record import clock
from partywall.record.functions import (
    BIT,
    COUNTED,
    LATER,
    NEEDED,
    ROLES,
    SLEEPS,
    TAKES,
    TRIED,
    WAITS,
    by_clock,
    in_source,
)
from partywall.workloads import Workload

_PAGE, _STACK = 0x1000, 0x4000


@dataclass(frozen=True)
class Sleep:
    """A function in which a task sleeps. ``kind``: what for, as `SLEEPS` has it."""

    function: str
    kind: str


SMALLEST_STACK = 0x4000
"""Bytes of a kernel's smallest stacks: with KASAN they have twice as many."""


@dataclass(frozen=True)
class Hooks:
    """The recorder's ``hooks=`` file, and what its numbers stand for."""

    text: str
    counted: tuple[str, ...]
    """Functions whose calls are counted; ``waits`` has the numbers behind them."""
    charged: tuple[str, ...]
    waits: tuple[str, ...]
    sleeps: tuple[Sleep, ...] = ()
    """Functions in which tasks sleep, by their numbers."""
    unfollowed: tuple[str, ...] = ()
    """What of that which is left for later can't be followed on this kernel, and why."""
    stack_size: int = SMALLEST_STACK
    """Bytes of a task's stack in the kernel."""


def _functions(symbols: Symbols) -> dict[str, list[Symbol]]:
    """All that each function was compiled to, by its name in the source; all has a size."""
    found: dict[str, list[Symbol]] = defaultdict(list)
    for symbol in sorted(symbols, key=attrgetter("address", "name")):
        if symbol.size:
            name = symbol.name
            found[in_source(name) if "." in name else name].append(symbol)
    return found


def _existing(functions: Container[str], names: Iterable[str]) -> list[str]:
    """For each ``a|b|c``, the first that the kernel has."""
    found = []
    for alternatives in names:
        for name in alternatives.split("|"):
            if name in functions:
                found.append(name)
                break
    return found


def _lines(role: str, functions: Iterable[Symbol], number: int | None = None) -> list[str]:
    tail = "" if number is None else f" {number}"
    return [
        f"{role} {symbol.address:x} {symbol.address + symbol.size:x}{tail}" for symbol in functions
    ]


def require(vmlinux: Path) -> None:
    """EnvironmentProblem if the kernel has no function that contexts depend on."""
    _require(vmlinux, _functions(load_symbols(vmlinux)))


def _require(vmlinux: Path, functions: Container[str]) -> None:
    lacking = [name for name in NEEDED if not _existing(functions, [name])]
    if not lacking:
        return
    names = " and ".join(name.replace("|", " or ") for name in lacking[:2])
    more = f" and {len(lacking) - 2} more" if len(lacking) > 2 else ""
    raise EnvironmentProblem(
        f"{vmlinux} has no {names}{more}: what runs on whose behalf can't be told",
        "give an x86-64 vmlinux of 5.8 or newer that is not stripped; if a newer one calls it "
        "otherwise, partywall/record/functions.py has the names",
    )


def stack_size(vmlinux: Path) -> int:
    """Return the bytes of a kernel stack: 16 KiB, or twice that with KASAN."""
    symbols = load_symbols(vmlinux)
    # The linker gives the first task's stack the size of all, between two symbols that have
    # been renamed since.
    for what in ("stack", "task"):
        bounds = [symbols.by_name(f"__{edge}_init_{what}") for edge in ("start", "end")]
        if all(bounds):
            size = bounds[1][0].address - bounds[0][0].address
            if size >= _PAGE and not size & (size - 1):
                return size
    return _STACK


def _unfollowed(functions: Container[str]) -> tuple[str, ...]:
    """What `LATER` has and this kernel has not: 'callbacks of RCU (no rcu_do_batch)'."""
    found = []
    for what, names in LATER:
        lacking = [name for name in names if not _existing(functions, [name])]
        if lacking:
            found.append(f"{what} (no {', '.join(name.partition('|')[0] for name in lacking)})")
    return tuple(found)


def _system_calls(vmlinux: Path, symbols: Symbols) -> list[str]:
    table = symbols.by_name("sys_call_table")
    lines: list[str] = []
    if not table:
        return lines
    data = read_memory(vmlinux, table[0].address, table[0].size)
    seen: set[int] = set()
    for number in range(len(data) // 8):
        address = int.from_bytes(data[8 * number : 8 * number + 8], "little")
        if address and address not in seen:
            seen.add(address)
            lines.append(f"syscall {address:x} {address + 1:x} {number}")
    return lines


def _waiting(kind: str, name: str) -> str:
    """The recorder's word for how a function waits."""
    if COUNTED.match(name):
        return "sleep_count"
    if BIT.match(name):
        return "sleep_bit"
    if name in TAKES:
        return "sleep_take"
    if name in TRIED:
        return "sleep_lock"
    return "sleep_time" if by_clock(kind, name) else "sleep"


# Each of these patterns alone would be tried on all functions of a kernel.
_WATCHED = re.compile("|".join(f"(?:{pattern})\\Z" for _, pattern in (*ROLES, *SLEEPS)))


def _sleeps(
    functions: dict[str, list[Symbol]], watched: list[str]
) -> tuple[list[str], list[Sleep]]:
    lines: list[str] = []
    found: list[Sleep] = []
    for kind, pattern in SLEEPS:
        whole = re.compile(rf"(?:{pattern})\Z")
        for name in sorted(filter(whole.match, watched)):
            lines += _lines(_waiting(kind, name), functions[name], len(found))
            found.append(Sleep(name, kind))
    return lines, found


def build(vmlinux: Path, workload: Workload, *, waits: bool = True) -> Hooks:
    """Return the hooks for one workload on the kernel of ``vmlinux``.

    ``waits``: whether sleeps are told, and timed; locks are followed in any case, as lines
    need that. EnvironmentProblem as for `require`.
    """
    symbols = load_symbols(vmlinux)
    functions = _functions(symbols)
    _require(vmlinux, functions)
    size = stack_size(vmlinux)
    lines = [f"stack {size:x}"]
    lines += [f"percpu {array.address:x}" for array in symbols.by_name("__per_cpu_offset")[:1]]
    watched = [name for name in functions if _WATCHED.match(name)]
    for role, pattern in ROLES:
        whole = re.compile(rf"(?:{pattern})\Z")
        names = set(filter(whole.match, watched))
        # Kernels since 6.6 have both; only the assembly part is the first code.
        if "ret_from_fork_asm" in names:
            names.discard("ret_from_fork")
        for name in sorted(names):
            lines += _lines(role, functions[name])
    sleeps: list[Sleep] = []
    if waits:
        lines += [f"{word} {at:x}" for word, at in clock.places(vmlinux, symbols).items()]
        sleeping, sleeps = _sleeps(functions, watched)
        lines += sleeping
    lines += _system_calls(vmlinux, symbols)
    charged = _existing(functions, workload.charge)
    counted = _existing(functions, workload.count)
    grace = _existing(functions, WAITS)
    for number, name in enumerate([*counted, *grace]):
        lines += _lines("count", functions[name], number)
    # Of two hooks of one function the last one runs first: its call is one of charged work.
    for number, name in enumerate(charged):
        lines += _lines("charge", functions[name], number)
    return Hooks(
        "\n".join(lines) + "\n",
        tuple(counted),
        tuple(charged),
        tuple(grace),
        tuple(sleeps),
        _unfollowed(functions),
        size,
    )
