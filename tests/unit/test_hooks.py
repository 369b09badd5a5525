# SPDX-License-Identifier: GPL-2.0-or-later
"""The recorder is told the right addresses, in a form it reads."""

from __future__ import annotations

from pathlib import Path

import programs
import pytest

from partywall.core import elf
from partywall.core.errors import EnvironmentProblem, UsageProblem
from partywall.record import hooks
from partywall.workloads import Workload

FUNCTIONS = (
    "__switch_to_asm entry_SYSCALL_64 asm_sysvec_apic_timer_interrupt asm_common_interrupt "
    "asm_exc_page_fault handle_softirqs __schedule ret_from_fork ret_from_fork_asm kthread "
    "_raw_spin_lock _raw_spin_unlock_irqrestore _raw_spinner memcpy_orig cleanup_net "
    "kmem_cache_alloc kmem_cache_free pcpu_alloc_noprof schedule switch_to_asm sys_a sys_b sys_ni "
    "__x86_indirect_thunk_array __x86_return_thunk retbleed_parse_cmdline "
    "kthread_stop __schedule_bug entry_SYSCALL_64_after_hwframe __switch_to_asm_end"
).split()

NEEDED = (
    "__switch_to_asm entry_SYSCALL_64 asm_exc_page_fault asm_sysvec_apic_timer_interrupt "
    "handle_softirqs __schedule kthread"
).split()

LOCKS = (
    "mutex_lock mutex_lock_killable mutex_unlock down_write down_write_trylock up_write down_read "
    "_raw_spin_lock _raw_spin_unlock _raw_spin_trylock _raw_write_lock_irq _raw_read_lock "
    "_raw_read_unlock __mutex_lock __mutex_add_waiter rwsem_mark_wake "
    "native_queued_spin_lock_slowpath synchronize_rcu "
    "synchronize_rcu_expedited rcu_barrier kmem_cache_free "
    "percpu_down_write percpu_up_write rwsem_down_write_slowpath __flush_work schedule "
    "down down_trylock down_interruptible __down up __folio_lock __lock_buffer unlock_buffer "
    "out_of_line_wait_on_bit_lock"
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
    needed = [*NEEDED, "ret_from_fork"]
    source = functions(LOCKS + needed) + copy + "void _start(void) { copy(); }"
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
        ("irq", ["asm_common_interrupt"]),
        ("timer", ["asm_sysvec_apic_timer_interrupt"]),
        ("exception", ["asm_exc_page_fault"]),
        ("softirq", ["handle_softirqs"]),
        ("scheduler", ["__schedule"]),
        ("fork", ["ret_from_fork_asm"]),
        ("thread", ["kthread"]),
        ("leaf", ["_raw_spin_lock", "_raw_spin_unlock_irqrestore", "memcpy_orig"]),
        ("thunk", ["__x86_indirect_thunk_array", "__x86_return_thunk"]),
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


def linked(directory: Path, source: str, *symbols: str) -> Path:
    """A kernel in which the linker sets symbols, as NAME=ADDRESS."""
    flags = [f"-Wl,--defsym={symbol}" for symbol in symbols]
    return programs.compiled(directory, "vmlinux", source, *programs.BARE, *flags)


@pytest.mark.parametrize(
    ("what", "size", "line"),
    [
        ("stack", 0x4000, "stack 4000"),
        ("stack", 0x8000, "stack 8000"),
        # As it was called before.
        ("task", 0x8000, "stack 8000"),
        ("task", 0x10000, "stack 10000"),
    ],
)
def test_the_first_line_is_the_size_of_this_kernels_stacks(
    tmp_path: Path, what: str, size: int, line: str
) -> None:
    start = 0x600000
    bounds = (f"__start_init_{what}={start:#x}", f"__end_init_{what}={start + size:#x}")
    kernel = linked(tmp_path, SOURCE, *bounds)
    assert hooks.build(kernel, workload()).text.splitlines()[0] == line


@pytest.mark.parametrize("bounds", [(), ("__start_init_stack=0x600000",), (0, 0x3000), (0x4000, 0)])
def test_the_usual_stack_is_of_four_pages(tmp_path: Path, bounds: tuple[int | str, ...]) -> None:
    edges = ("start", "end")
    symbols = [
        name if isinstance(name, str) else f"__{edge}_init_stack={0x600000 + name:#x}"
        for edge, name in zip(edges, bounds, strict=False)
    ]
    kernel = linked(tmp_path, SOURCE, *symbols)
    assert hooks.build(kernel, workload()).text.startswith("stack 4000\n")


def test_every_line_is_one_that_the_recorder_reads(kernel: Path) -> None:
    text = hooks.build(kernel, workload("kmem_cache_free", charge=("cleanup_net",))).text
    assert text.endswith("\n")
    numbered = {"syscall", "count", "charge", "sleep", "sleep_time", "sleep_lock", "sleep_take"}
    numbered |= {"sleep_count", "sleep_bit"}
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


def without(directory: Path, name: str, new: str = "") -> Path:
    """The kernel without a function, or with another name for it."""
    source = SOURCE.replace(f" {name}(void)", f" {new or f'no_{name}'}(void)")
    assert source != SOURCE
    return programs.compiled(directory, "vmlinux", source, *programs.BARE)


@pytest.mark.parametrize("name", NEEDED)
def test_a_kernel_whose_contexts_cannot_be_told_is_refused(tmp_path: Path, name: str) -> None:
    kernel = without(tmp_path, name)
    with pytest.raises(EnvironmentProblem, match=rf"has no {name}\b") as caught:
        hooks.build(kernel, workload())
    assert "functions.py" in (caught.value.hint or "")


def test_either_name_of_a_function_will_do(tmp_path: Path) -> None:
    kernel = without(tmp_path, "handle_softirqs", "__do_softirq")
    assert lines(hooks.build(kernel, workload()).text, "softirq")


def test_a_file_that_is_no_kernel_is_refused_in_one_line(tmp_path: Path) -> None:
    bare = programs.compiled(tmp_path, "bare", "void _start(void) {}", *programs.BARE)
    with pytest.raises(
        EnvironmentProblem, match=r"has no __switch_to_asm and entry_SYSCALL_64 and 6 more"
    ):
        hooks.build(bare, workload())


def renamed(directory: Path, name: str, *suffixes: str) -> Path:
    """The kernel with copies of a function in its place, as compilers name them."""
    source = SOURCE.replace(f'void {name}(void) {{ __asm__(""); }}\n', "void CUT(void) {}\n")
    assert source != SOURCE
    for number, suffix in enumerate(suffixes):
        source += f'void copy{number}(void) __asm__("{name}{suffix}");\n'
        source += f'void copy{number}(void) {{ __asm__(""); }}\n'
    return programs.compiled(directory, "vmlinux", source, *programs.BARE)


@pytest.mark.parametrize("suffix", [".llvm.8712345678901", ".isra.0", ".constprop.0.isra.0"])
def test_a_function_that_a_compiler_renamed_keeps_its_role(tmp_path: Path, suffix: str) -> None:
    kernel = renamed(tmp_path, "__schedule", suffix)
    found = lines(hooks.build(kernel, workload()).text, "scheduler")
    assert found == [address(kernel, f"__schedule{suffix}")]


@pytest.mark.parametrize("suffix", [".cold", ".part.0", ".llvm.1.cold", ".llvm", ".x"])
def test_a_part_of_a_function_is_not_the_function(tmp_path: Path, suffix: str) -> None:
    with pytest.raises(EnvironmentProblem, match="has no __schedule"):
        hooks.build(renamed(tmp_path, "__schedule", suffix), workload())


def test_all_copies_of_a_counted_function_are_counted_as_one(tmp_path: Path) -> None:
    kernel = renamed(tmp_path, "cleanup_net", ".constprop.0", "", ".llvm.77", ".cold")
    built = hooks.build(kernel, workload("cleanup_net"))
    assert built.counted == ("cleanup_net",)
    names = [f"cleanup_net{suffix}" for suffix in (".constprop.0", "", ".llvm.77")]
    assert lines(built.text, "count") == [(*address(kernel, name), 0) for name in names]


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
            "rwsem_down_write_slowpath "
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


def test_a_function_that_is_charged_and_counted_is_charged_first(kernel: Path) -> None:
    both = workload("cleanup_net", charge=("cleanup_net",))
    roles = [line.split()[0] for line in hooks.build(kernel, both).text.splitlines()]
    assert roles.index("count") < roles.index("charge")


def test_what_is_left_for_later_and_cannot_be_followed_is_known(tmp_path: Path) -> None:
    needed = [*NEEDED, "ret_from_fork"]
    items = ["process_one_work", "queue_work_on", "__queue_work", "queue_delayed_work_on"]
    items += ["mod_delayed_work_on", "queue_rcu_work", "try_to_grab_pending"]
    for number, (more, unfollowed) in enumerate(
        [
            ([*items, "__call_rcu_common", "rcu_do_batch"], ()),
            ([*items, "call_rcu", "rcu_do_batch"], ()),
            (items, ("callbacks of RCU (no __call_rcu_common, rcu_do_batch)",)),
            ([*items[1:], "call_rcu", "rcu_do_batch"], ("work items (no process_one_work)",)),
        ]
    ):
        source = functions(needed + more) + "void _start(void) {}\n"
        name = f"vmlinux{number}"
        vmlinux = programs.compiled(tmp_path, name, source, *programs.BARE)
        assert hooks.build(vmlinux, workload()).unfollowed == unfollowed


def test_of_lines_alone_no_sleep_is_told_and_all_else_is(locked: Path) -> None:
    asked = workload("kmem_cache_free")
    whole, less = hooks.build(locked, asked), hooks.build(locked, asked, waits=False)
    assert whole.sleeps
    assert less.sleeps == ()
    told = [line for line in whole.text.splitlines() if not line.startswith("sleep")]
    assert less.text.splitlines() == told
    assert (less.counted, less.waits) == (whole.counted, whole.waits)


def test_functions_in_which_tasks_sleep_are_numbered_with_what_for(locked: Path) -> None:
    built = hooks.build(locked, workload())
    numbers = {one.function: (number, one.kind) for number, one in enumerate(built.sleeps)}
    roles = {
        "synchronize_rcu": ("sleep_time", "rcu"),
        "rcu_barrier": ("sleep_time", "rcu"),
        "__flush_work": ("sleep", "work"),
        "rwsem_down_write_slowpath": ("sleep_lock", "lock"),
        "percpu_down_write": ("sleep_take", "lock"),
        "schedule": ("sleep", "event"),
        "down": ("sleep_count", "lock"),
        "down_trylock": ("sleep_count", "lock"),
        "down_interruptible": ("sleep_count", "lock"),
        "__down": ("sleep", "lock"),
        "__folio_lock": ("sleep_bit", "lock"),
        "__lock_buffer": ("sleep_bit", "lock"),
        "out_of_line_wait_on_bit_lock": ("sleep_bit", "lock"),
    }
    for name, (role, kind) in roles.items():
        number, found = numbers[name]
        assert found == kind
        assert (*address(locked, name), number) in lines(built.text, role)
    # Its copy is what is there.
    number, _ = numbers["__mutex_lock"]
    copy = address(locked, "__mutex_lock.constprop.0")
    assert (*copy, number) in lines(built.text, "sleep_lock")
    assert lines(built.text, "give") == [address(locked, "percpu_up_write")]
    assert lines(built.text, "up") == [address(locked, "up")]
    assert "unlock_buffer" not in numbers
    assert "mutex_unlock" not in numbers


CLOCK = """
struct rq { int lock; unsigned long more[3]; unsigned long long clock; };
struct rq runqueues;
"""


@pytest.mark.parametrize(("flags", "known"), [(["-g"], True), ([], False)])
def test_the_clock_is_where_debug_information_has_it(
    tmp_path: Path, flags: list[str], known: bool
) -> None:
    kernel = programs.compiled(tmp_path, "vmlinux", SOURCE + CLOCK, *programs.BARE, *flags)
    text = hooks.build(kernel, workload()).text
    start, _ = address(kernel, "runqueues")
    assert (f"clock {start + 32:x}" in text.splitlines()) == known
    assert ("\nclock " in text) == known
