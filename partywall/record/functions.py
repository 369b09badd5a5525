# SPDX-License-Identifier: GPL-2.0-or-later
"""Functions of the kernel by what they do: the one place that knows their names.

The names are those of x86-64 kernels since 5.8. A kernel that lacks one of most of
them (they are renamed now and then) loses only the distinction that name makes; one
without those that `NEEDED` lists is refused.

A kernel that can enter by FRED has the entries of the IDT as well, and takes them
here: the processor that guests see has no FRED (guest/processor.py), nor can the
emulator's.
"""

from __future__ import annotations

import re

# Waiting for readers of RCU takes as long as those take, on all CPUs.
WAITS = (
    "synchronize_rcu",
    "synchronize_rcu_expedited",
    "synchronize_srcu",
    "synchronize_srcu_expedited",
    "rcu_barrier",
    "srcu_barrier",
)

ROLES: tuple[tuple[str, str], ...] = (
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
    ("wait", "|".join(WAITS)),
    # They call, jump or return for others, so that a processor does not speculate.
    ("thunk", r"__x86_indirect_\w*thunk\w*|\w+_return_thunk|(srso|retbleed)_\w*(thunk|_ret)"),
)
"""Regular expressions of whole names, by the recorder's word for what they do."""

NEEDED = (
    "__switch_to_asm",
    "entry_SYSCALL_64",
    "asm_exc_page_fault",
    "asm_sysvec_apic_timer_interrupt",
    "handle_softirqs|__do_softirq",
    "__schedule",
    "ret_from_fork_asm|ret_from_fork",
    "kthread",
)
"""What tells contexts apart: without one of these, accesses are taken for those of others."""

_COPY = re.compile(r"(?:\.(?:llvm|isra|constprop)\.\d+)+\Z")
"""What compilers append to the name of a function that they change, or make global.

Not what is a part of one, as .part and .cold: who enters that has entered the whole.
"""

# Of any kernel whose result was saved, and wider than what is watched: helpers of locks,
# which others are inlined into, say as well that a line has a lock in it.
_LOCKING = re.compile(
    r"_raw_(?:spin|read|write)_(?:try)?lock|queued_spin_lock|osq_lock|rwsem_|"
    r"(?:__)?mutex_(?:try)?lock|(?:__)?down_(?:read|write)"
)


def in_source(name: str) -> str:
    """Return a function's name without what compilers append to it.

    >>> in_source("free_pcp.isra.0")
    'free_pcp'
    """
    return _COPY.sub("", name)


def takes_lock(function: str) -> bool:
    """Return whether code of this name is that of a lock."""
    return _LOCKING.match(function) is not None
