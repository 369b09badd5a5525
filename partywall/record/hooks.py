# SPDX-License-Identifier: GPL-2.0-or-later
"""Which kernel functions the recorder has to watch, by address.

The names are those of x86-64 kernels since 5.8; a kernel that lacks one (they
are renamed now and then) loses only the distinction that name makes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from partywall.core.elf import Symbols, load_symbols, read_memory
from partywall.workloads import Workload

_ROLES: tuple[tuple[str, str], ...] = (
    ("switch", r"__switch_to_asm"),
    ("syscall_entry", r"entry_SYSCALL_64"),
    ("irq", r"asm_sysvec_\w+|asm_common_interrupt|asm_spurious_interrupt"),
    ("exception", r"asm_exc_\w+"),
    ("softirq", r"handle_softirqs|__do_softirq"),
    ("scheduler", r"__schedule"),
    ("fork", r"ret_from_fork_asm|ret_from_fork"),
    ("thread", r"kthread"),
    # Functions that work on what they are handed. A wall in a lock is worth
    # nothing to a reader without the code that takes the lock.
    (
        "leaf",
        r"_raw_(spin|read|write)_(try)?(un)?lock\w*|(__)?(down|up)_(read|write)\w*|downgrade_write"
        r"|(__)?mutex_(try|un)?lock\w*|_atomic_dec_and_\w+|lockref_\w+|refcount_\w+"
        r"|rcuref_\w+|__srcu_read_(un)?lock|percpu_counter_\w+|list_lru_\w+"
        r"|(__)?list_(add|del)_\w+|rb_(insert_color|erase|next|first)|idr_\w+|ida_\w+"
        r"|xas_\w+|__?xa_\w+|radix_tree_\w+|(__)?mem(cpy|set|move|cmp)(_orig|_erms)?"
        r"|str(cmp|ncmp|len|lcpy|scpy)|clear_page_\w+|copy_page\w*|find_next_\w+|__bitmap_\w+",
    ),
    (
        "lock",
        r"_raw_(spin|write)_(try)?lock\w*|mutex_(try)?lock\w*|down_write(_killable|_trylock)?",
    ),
    (
        "lock_shared",
        r"_raw_read_(try)?lock\w*|down_read(_killable|_interruptible|_trylock)?",
    ),
    (
        # What is done while a lock is waited for, and what writes the lock's word meanwhile.
        # Compilers make copies of these: __mutex_lock.constprop.0.
        "spin",
        r"((native_|__pv_)?queued_(spin|read|write)_lock_slowpath|osq_lock|__(ww_)?mutex_lock\w*"
        r"|__mutex_(add|remove)_waiter|(mutex|rwsem)_spin_on_owner|rwsem_optimistic_spin\w*"
        r"|rwsem_down_(read|write)_slowpath|rwsem_mark_wake)(\.\w+)*",
    ),
    ("wait", r"synchronize_s?rcu(_expedited)?|s?rcu_barrier"),
)

# Waiting for readers of RCU takes as long as those take, on all CPUs.
_WAITS = (
    "synchronize_rcu",
    "synchronize_rcu_expedited",
    "synchronize_srcu",
    "synchronize_srcu_expedited",
    "rcu_barrier",
    "srcu_barrier",
)


@dataclass(frozen=True)
class Hooks:
    """The recorder's ``hooks=`` file, and what its numbers stand for."""

    text: str
    counted: tuple[str, ...]
    """Functions whose calls are counted; ``waits`` has the numbers behind them."""
    charged: tuple[str, ...]
    waits: tuple[str, ...]


def _existing(symbols: Symbols, names: Iterable[str]) -> list[str]:
    """For each ``a|b|c``, the first that the kernel has."""
    found = []
    for alternatives in names:
        for name in alternatives.split("|"):
            if any(symbol.size for symbol in symbols.by_name(name)):
                found.append(name)
                break
    return found


def _lines(role: str, symbols: Symbols, name: str, number: int | None = None) -> list[str]:
    tail = "" if number is None else f" {number}"
    return [
        f"{role} {symbol.address:x} {symbol.address + symbol.size:x}{tail}"
        for symbol in symbols.by_name(name)
        if symbol.size
    ]


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


def build(vmlinux: Path, workload: Workload, *, stack_size: int = 0x4000) -> Hooks:
    """The hooks for one workload on the kernel of ``vmlinux``."""
    symbols = load_symbols(vmlinux)
    lines = [f"stack {stack_size:x}"]
    lines += [f"percpu {array.address:x}" for array in symbols.by_name("__per_cpu_offset")[:1]]
    for role, pattern in _ROLES:
        names = {symbol.name for symbol in symbols.matching(re.compile(rf"(?:{pattern})\Z"))}
        # Kernels since 6.6 have both; only the assembly part is the first code.
        if "ret_from_fork_asm" in names:
            names.discard("ret_from_fork")
        for name in sorted(names):
            lines += _lines(role, symbols, name)
    lines += _system_calls(vmlinux, symbols)
    charged = _existing(symbols, workload.charge)
    counted = _existing(symbols, workload.count)
    for number, name in enumerate(charged):
        lines += _lines("charge", symbols, name, number)
    waits = _existing(symbols, _WAITS)
    for number, name in enumerate([*counted, *waits]):
        lines += _lines("count", symbols, name, number)
    return Hooks("\n".join(lines) + "\n", tuple(counted), tuple(charged), tuple(waits))
