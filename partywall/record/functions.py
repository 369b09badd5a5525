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
from collections.abc import Iterable

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
    (
        "irq",
        r"asm_sysvec_(?!apic_timer_interrupt\Z)\w+|asm_common_interrupt|asm_spurious_interrupt",
    ),
    ("timer", r"asm_sysvec_apic_timer_interrupt"),
    ("exception", r"asm_exc_\w+"),
    ("softirq", r"handle_softirqs|__do_softirq"),
    ("scheduler", r"__schedule"),
    ("fork", r"ret_from_fork_asm|ret_from_fork"),
    ("thread", r"kthread"),
    # Functions that work on what they are handed. A wall in a lock is worth
    # nothing to a reader without the code that takes the lock.
    (
        "leaf",
        r"_raw_(spin|read|write)_(try)?(un)?lock\w*|_{0,2}(down|up)_(read|write)\w*|downgrade_write"
        r"|(__|ww_)?mutex_(try|un)?lock\w*|rtnl_(lock|lock_killable|trylock)|_atomic_dec_and_\w+"
        r"|lockref_\w+|refcount_\w+"
        r"|rcuref_\w+|__srcu_read_(un)?lock|percpu_counter_\w+|list_lru_\w+"
        r"|(__)?list_(add|del)_\w+|rb_(insert_color|erase|next|first)|idr_\w+|ida_\w+"
        r"|xas_\w+|__?xa_\w+|radix_tree_\w+|(__)?mem(cpy|set|move|cmp)(_orig|_erms)?"
        r"|str(cmp|ncmp|len|lcpy|scpy)|clear_page_\w+|copy_page\w*|find_next_\w+|__bitmap_\w+",
    ),
    (
        "lock",
        r"_raw_(spin|write)_(try)?lock\w*|(ww_)?mutex_(try)?lock\w*"
        r"|down_write(_killable|_trylock)?(_nested)?|_down_write_nest_lock",
    ),
    (
        "lock_shared",
        r"_raw_read_(try)?lock\w*|down_read(_killable|_interruptible|_trylock)?(_nested|_non_owner)?",
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
    # What a timer calls that wakes who sleeps until a time.
    ("wakes", r"hrtimer_wakeup|process_timeout"),
    # What gives a lock back whose word only shows then, see `TAKES`.
    ("give", r"percpu_up_write"),
    # What queues a work item, by an atomic access that marks it as pending; what marks it for
    # those, or to cancel it; what is entered if it was not pending.
    ("queue", r"queue_(delayed_)?work_on|queue_work_node|queue_rcu_work|mod_delayed_work_on"),
    ("grab", r"(try_to|work)_grab_pending"),
    ("queued", r"__queue_(delayed_)?work"),
    # What leaves something to RCU, and what does all that was left.
    ("call_rcu", r"__call_rcu_common|__call_rcu|call_rcu(_hurry)?"),
    ("work", r"process_one_work"),
    ("callbacks", r"rcu_do_batch"),
    # What gives a semaphore back, whose count it need not write.
    ("up", r"up"),
    # They call, jump or return for others, so that a processor does not speculate.
    ("thunk", r"__x86_indirect_\w*thunk\w*|\w+_return_thunk|(srso|retbleed)_\w*(thunk|_ret)"),
)
"""Regular expressions of whole names, by the recorder's word for what they do."""

SLEEPS: tuple[tuple[str, str], ...] = (
    (
        "rcu",
        r"synchronize_s?rcu(_tasks|_tasks_rude|_tasks_trace)?(_normal|_expedited)?(\.part\.\d+)?"
        r"|__synchronize_srcu(\.part\.\d+)?|s?rcu_barrier(_tasks\w*)?|cond_synchronize_\w+|__wait_rcu_gp",
    ),
    (
        "work",
        r"(__)?flush_work|(__)?flush_workqueue|flush_delayed_work|cancel_(delayed_)?work_sync"
        r"|__cancel_work_(sync|timer)|disable_(delayed_)?work_sync|drain_workqueue"
        r"|schedule_on_each_cpu|lru_add_drain_all|kthread_(stop|park|flush_work|flush_worker)",
    ),
    ("stop", r"stop_machine(_cpuslocked)?|stop_(one|two)_cpus?"),
    (
        "lock",
        r"__(ww_)?mutex_lock|rwsem_down_(read|write)_slowpath|percpu_down_write"
        r"|percpu_rwsem_wait|__percpu_down_read|(__)?down(_interruptible|_killable|_timeout)?"
        r"|down_trylock|__(folio|page)_lock\w*|__lock_page\w*|__lock_buffer"
        r"|out_of_line_wait_on_bit_lock|__lock_sock",
    ),
    ("completion", r"wait_for_completion\w*|(__|do_)?wait_for_common"),
    (
        "memory",
        r"try_to_free_(mem_cgroup_)?pages|reclaim_throttle|(__)?mem_cgroup_handle_over_high"
        r"|__alloc_pages_direct_compact",
    ),
    (
        "device",
        r"io_schedule(_timeout)?|submit_bio_wait|blk_execute_rq|folio_wait_\w+"
        r"|wait_on_page_\w+|__wait_on_buffer|jbd2_log_wait_commit",
    ),
    (
        "timer",
        r"schedule_timeout(_(idle|interruptible|killable|uninterruptible))?"
        r"|schedule_hrtimeout(_range)?|usleep_range(_state)?|msleep(_interruptible)?"
        r"|do_nanosleep",
    ),
    ("event", r"__wait_on_bit(_lock)?|schedule|schedule_preempt_disabled"),
)
"""Functions in which a task sleeps, by what it waits for: regular expressions of whole names.

Of those that call each other the outermost one counts.
"""

TRIED = frozenset(("__mutex_lock", "__ww_mutex_lock", "rwsem_down_read_slowpath"))
TRIED |= {"rwsem_down_write_slowpath"}
"""Of these, those that wait for a lock that their caller has just tried to take."""

TAKES = frozenset(("percpu_down_write",))
"""Those that wait for a lock which their caller has then, but which others may take for him."""

COUNTED = re.compile(r"down(_interruptible|_killable|_timeout|_trylock)?\Z")
"""Those that take a semaphore, and wait for it if need be."""

BIT = re.compile(
    r"__(folio|page)_lock\w*\Z|__lock_(page\w*|buffer)\Z|out_of_line_wait_on_bit_lock\Z"
)
"""Those that wait for a lock which is one bit, and which their caller has just tried to take."""

_BY_CLOCK = frozenset(("rcu", "timer"))


def by_clock(kind: str, function: str) -> bool:
    """Return whether what a function waits for comes by the clock: a timer, or a grace period.

    One that is expedited ends when all CPUs have answered an interrupt.

    >>> [by_clock("rcu", name) for name in ("synchronize_rcu", "synchronize_rcu_expedited")]
    [True, False]
    """
    return kind in _BY_CLOCK and "_expedited" not in function


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

LATER = (
    (
        "work items",
        (
            "queue_work_on",
            "queue_delayed_work_on",
            "mod_delayed_work_on",
            "queue_rcu_work",
            "try_to_grab_pending|work_grab_pending",
            "__queue_work",
            "process_one_work",
        ),
    ),
    ("callbacks of RCU", ("__call_rcu_common|__call_rcu|call_rcu", "rcu_do_batch")),
)
"""What is left for later, and by what that is followed: without one of these, by none of it."""

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


_PLAIN = {
    "__flush_work": "flush_work",
    "__folio_lock": "folio_lock",
    "__folio_lock_killable": "folio_lock",
    "__folio_lock_or_retry": "folio_lock",
    "__lock_buffer": "lock_buffer",
    "out_of_line_wait_on_bit_lock": "wait_on_bit_lock",
    "__flush_workqueue": "flush_workqueue",
    "__mutex_lock": "mutex_lock",
    "__wait_for_common": "wait_for_completion",
    "do_wait_for_common": "wait_for_completion",
    "wait_for_common": "wait_for_completion",
    "rwsem_down_read_slowpath": "down_read",
    "rwsem_down_write_slowpath": "down_write",
    "percpu_rwsem_wait": "percpu_down_read",
    "__percpu_down_read": "percpu_down_read",
    "usleep_range_state": "usleep_range",
}


def plain_name(name: str) -> str:
    """Return what a function of `SLEEPS` is called by those who use it.

    >>> plain_name("synchronize_rcu_normal.part.0")
    'synchronize_rcu'
    """
    name = name.partition(".")[0].removesuffix("_normal")
    return _PLAIN.get(name, name)


def waits_for_lock(function: str) -> bool:
    """Return whether it is known for which lock a function of `SLEEPS` waits.

    >>> [waits_for_lock(name) for name in ("__mutex_lock", "down", "__lock_buffer", "__lock_sock")]
    [True, True, True, False]
    """
    return function in TRIED or bool(COUNTED.match(function) or BIT.match(function))


_SETS_BIT = re.compile(r"(?:arch_)?(?:test_and_)?set_bit\Z")
_LOCKS_BIT = re.compile(
    r"test_and_set_bit_lock\Z|bit_spin_(?:try)?lock|hlist_bl_lock|\w*trylock|wait_on_bit_lock"
)


def only_sets_bit(inlined: Iterable[str]) -> bool:
    """Return whether code sets a bit that is no lock, by what is inlined there.

    Many a flag is set by who does something and cleared when that is done, and nobody waits for it.

    >>> [only_sets_bit(("test_and_set_bit", by)) for by in ("hlist_bl_lock", "queue_work_on")]
    [False, True]
    >>> only_sets_bit(("arch_set_bit", "set_bit", "cpumask_set_cpu"))
    True
    """
    names = tuple(inlined)
    return any(map(_SETS_BIT.match, names)) and not any(map(_LOCKS_BIT.match, names))


def takes_lock(function: str) -> bool:
    """Return whether code of this name is that of a lock."""
    return _LOCKING.match(function) is not None
