# SPDX-License-Identifier: GPL-2.0-or-later
"""The recorder is told the right addresses, in a form it reads."""

from __future__ import annotations

from pathlib import Path

import programs
import pytest

from partywall.core import elf
from partywall.core.errors import UsageProblem
from partywall.record import hooks
from partywall.workloads import Workload

FUNCTIONS = (
    "__switch_to_asm entry_SYSCALL_64 asm_sysvec_apic_timer_interrupt asm_common_interrupt "
    "asm_exc_page_fault handle_softirqs __schedule ret_from_fork ret_from_fork_asm kthread "
    "_raw_spin_lock _raw_spin_unlock_irqrestore _raw_spinner memcpy_orig cleanup_net "
    "kmem_cache_alloc kmem_cache_free pcpu_alloc_noprof schedule switch_to_asm sys_a sys_b sys_ni "
    "kthread_stop __schedule_bug entry_SYSCALL_64_after_hwframe __switch_to_asm_end"
).split()

LOCKS = (
    "mutex_lock mutex_lock_killable mutex_unlock down_write down_write_trylock up_write down_read "
    "_raw_spin_lock _raw_spin_unlock _raw_spin_trylock _raw_write_lock_irq _raw_read_lock "
    "_raw_read_unlock __mutex_lock __mutex_add_waiter rwsem_mark_wake "
    "native_queued_spin_lock_slowpath synchronize_rcu "
    "synchronize_rcu_expedited rcu_barrier kmem_cache_free"
).split()


def functions(names: list[str]) -> str:
    return "".join(
        f'__attribute__((noinline)) void {name}(void) {{ __asm__(""); }}\n' for name in names
    )


SOURCE = (
    functions(FUNCTIONS)
    + """
void *const sys_call_table[] = { sys_a, sys_ni, sys_b, sys_ni, 0, sys_a };
__asm__(".globl sizeless\\n.type sizeless, @function\\nsizeless: ret\\n");
void _start(void) {}
"""
)


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return programs.compiled(tmp_path_factory.mktemp("hooks"), "vmlinux", SOURCE, *programs.BARE)


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # Compilers make copies of functions, and these have a name of their own.
    copy = '__attribute__((noinline)) void copy(void) __asm__("__mutex_lock.constprop.0");\n'
    copy += 'void copy(void) { __asm__(""); }\n'
    source = functions(LOCKS) + copy + "void _start(void) { copy(); }"
    return programs.compiled(tmp_path_factory.mktemp("locks"), "vmlinux", source, *programs.BARE)


def workload(*count: str, charge: tuple[str, ...] = ()) -> Workload:
    return Workload(
        name="test", summary="", operation="", warmup=0, window=1, count=count, charge=charge
    )


def address(kernel: Path, name: str) -> tuple[int, int]:
    (symbol,) = elf.load_symbols(kernel).by_name(name)
    return symbol.address, symbol.address + symbol.size


def lines(text: str, role: str) -> list[tuple[int, ...]]:
    """Start and end, and the number if there is one, of each line of a role, in order."""
    found = []
    for line in text.splitlines():
        words = line.split(" ")
        if words[0] == role:
            found.append((int(words[1], 16), int(words[2], 16), *map(int, words[3:])))
    return found


@pytest.mark.parametrize(
    ("role", "names"),
    [
        ("switch", ["__switch_to_asm"]),
        ("syscall_entry", ["entry_SYSCALL_64"]),
        ("irq", ["asm_common_interrupt", "asm_sysvec_apic_timer_interrupt"]),
        ("exception", ["asm_exc_page_fault"]),
        ("softirq", ["handle_softirqs"]),
        ("scheduler", ["__schedule"]),
        ("fork", ["ret_from_fork_asm"]),
        ("thread", ["kthread"]),
        ("leaf", ["_raw_spin_lock", "_raw_spin_unlock_irqrestore", "memcpy_orig"]),
        ("count", []),
        ("charge", []),
    ],
)
def test_each_role_has_its_functions(kernel: Path, role: str, names: list[str]) -> None:
    text = hooks.build(kernel, workload()).text
    assert sorted(lines(text, role)) == sorted(address(kernel, name) for name in names)


def test_an_older_kernel_starts_its_tasks_in_ret_from_fork(tmp_path: Path) -> None:
    source = SOURCE.replace("ret_from_fork_asm", "ret_from_somewhere")
    kernel = programs.compiled(tmp_path, "vmlinux", source, *programs.BARE)
    text = hooks.build(kernel, workload()).text
    assert lines(text, "fork") == [address(kernel, "ret_from_fork")]


@pytest.mark.parametrize(("size", "line"), [(0x4000, "stack 4000"), (0x8000, "stack 8000")])
def test_the_first_line_is_the_size_of_a_stack(kernel: Path, size: int, line: str) -> None:
    assert hooks.build(kernel, workload(), stack_size=size).text.splitlines()[0] == line


def test_the_usual_stack_is_of_four_pages(kernel: Path) -> None:
    assert hooks.build(kernel, workload()).text.startswith("stack 4000\n")


def test_every_line_is_one_that_the_recorder_reads(kernel: Path) -> None:
    text = hooks.build(kernel, workload("kmem_cache_free", charge=("cleanup_net",))).text
    assert text.endswith("\n")
    numbered = {"syscall", "count", "charge"}
    for line in text.splitlines()[1:]:
        role, start, end, *number = line.split(" ")
        assert int(start, 16) < int(end, 16)
        assert len(number) == (role in numbered)


def test_counted_functions_are_numbered_in_the_order_asked_for(kernel: Path) -> None:
    names = ("kmem_cache_free", "cleanup_net", "__schedule")
    built = hooks.build(kernel, workload(*names))
    assert built.counted == names
    assert lines(built.text, "count") == [(*address(kernel, n), i) for i, n in enumerate(names)]


def test_the_first_of_alternatives_that_exists_is_counted(kernel: Path) -> None:
    wanted = ("kmem_cache_alloc_noprof|kmem_cache_alloc", "pcpu_alloc_noprof|pcpu_alloc")
    built = hooks.build(kernel, workload(*wanted))
    assert built.counted == ("kmem_cache_alloc", "pcpu_alloc_noprof")
    assert [number for _, _, number in lines(built.text, "count")] == [0, 1]


def test_only_the_first_of_alternatives_is_counted(kernel: Path) -> None:
    built = hooks.build(kernel, workload("kmem_cache_free|kmem_cache_alloc|kthread"))
    assert built.counted == ("kmem_cache_free",)
    assert len(lines(built.text, "count")) == 1


def test_what_the_kernel_lacks_leaves_no_gap(kernel: Path) -> None:
    built = hooks.build(kernel, workload("no_such|nor_this", "kmem_cache_free", "neither"))
    assert built.counted == ("kmem_cache_free",)
    assert lines(built.text, "count") == [(*address(kernel, "kmem_cache_free"), 0)]


def test_charged_functions_are_numbered_apart(kernel: Path) -> None:
    built = hooks.build(kernel, workload("kmem_cache_free", charge=("gone|cleanup_net",)))
    assert built.charged == ("cleanup_net",)
    assert lines(built.text, "charge") == [(*address(kernel, "cleanup_net"), 0)]
    assert lines(built.text, "count") == [(*address(kernel, "kmem_cache_free"), 0)]


def test_a_function_that_cannot_be_watched_is_not_counted(kernel: Path) -> None:
    built = hooks.build(kernel, workload("kmem_cache_free", "sizeless"))
    assert len(built.counted) == len(lines(built.text, "count"))


def test_system_calls_are_numbered_by_the_table(kernel: Path) -> None:
    found = lines(hooks.build(kernel, workload()).text, "syscall")
    # What several numbers share (not implemented) has the first of them.
    names = ["sys_a", "sys_ni", "sys_b"]
    starts = [address(kernel, name)[0] for name in names]
    assert found == [(start, start + 1, number) for number, start in enumerate(starts)]


def test_a_kernel_that_lacks_everything_gets_the_stack_alone(tmp_path: Path) -> None:
    bare = programs.compiled(tmp_path, "bare", "void _start(void) {}", *programs.BARE)
    built = hooks.build(bare, workload("kmem_cache_free", charge=("cleanup_net",)))
    assert built == hooks.Hooks("stack 4000\n", (), (), ())


@pytest.mark.parametrize(
    ("role", "names"),
    [
        (
            "lock",
            "_raw_spin_lock _raw_spin_trylock _raw_write_lock_irq mutex_lock mutex_lock_killable "
            "down_write down_write_trylock",
        ),
        ("lock_shared", "_raw_read_lock down_read"),
        (
            "spin",
            "__mutex_lock native_queued_spin_lock_slowpath __mutex_add_waiter rwsem_mark_wake "
            "__mutex_lock.constprop.0",
        ),
        ("wait", "synchronize_rcu synchronize_rcu_expedited rcu_barrier"),
    ],
)
def test_locks_are_taken_and_never_given_back_by_these(locked: Path, role: str, names: str) -> None:
    found = lines(hooks.build(locked, workload()).text, role)
    assert sorted(found) == sorted(address(locked, name) for name in names.split())


def test_waits_for_rcu_are_counted_behind_what_the_workload_counts(locked: Path) -> None:
    built = hooks.build(locked, workload("kmem_cache_free"))
    assert built.waits == ("synchronize_rcu", "synchronize_rcu_expedited", "rcu_barrier")
    assert lines(built.text, "count") == [
        (*address(locked, name), number)
        for number, name in enumerate((*built.counted, *built.waits))
    ]


def test_what_is_no_kernel_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem):
        hooks.build(tmp_path / "missing", workload())
