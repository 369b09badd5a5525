# SPDX-License-Identifier: GPL-2.0-or-later
"""What operations leave behind in memory: known by construction, and on Debian's kernel."""

from __future__ import annotations

from pathlib import Path

import kmodule
import pytest

from partywall import workloads
from partywall.core.progress import Quiet
from partywall.kernels import Kernel
from partywall.measure import growth
from partywall.measure.run import Wanted
from partywall.results.growth import Growth, Left, Operation
from partywall.workloads import Workload

LEAKS = Path(__file__).resolve().parent / "leaks"

# What is left of a cache: objects of an operation, who is charged, what takes it back.
KNOWN = {
    "leak_forever": (1.0, 0.0, "nothing"),
    "leak_half": (0.5, 0.0, "nothing"),
    "leak_exit": (1.0, 0.0, "exit"),
    "leak_charged": (1.0, 1.0, "exit"),
    "leak_reclaimed": (1.0, 0.0, "reclaim"),
    "leak_paid": (1.0, 1.0, "reclaim"),
    "leak_ended": (1.0, 0.0, "container's end"),
    "leak_mounted": (1.0, 0.0, "umount"),
}


def uneven(numbers: range) -> int:
    """Objects of ``leak_uneven`` that one process makes in the operations of these numbers."""
    return sum((n // 7 * 374761393 & 0xFFFF_FFFF) >> 27 for n in numbers if not n % 7)


NONE = ("leak_ring", "leak_warm", "leak_freed", "leak_later", "leak_drained")


@pytest.fixture(scope="module")
def leaks(kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Operation:
    """What the module's operation leaves behind."""
    ready = kmodule.loaded(LEAKS, kernel, tmp_path_factory.mktemp("modules"), Quiet())
    workload = Workload(
        name="leaks",
        source=LEAKS,
        summary="memory of which is known what becomes of it",
        operation="all cases in turn",
        warmup=16,
        window=128,
        modules=("leaks",),
    )
    (found,) = growth.growth(Wanted(kernel=ready, workloads=[workload]), Quiet()).operations
    return found


def of_cache(operation: Operation, name: str) -> list[Left]:
    return [one for one in operation.left if one.what == name]


@pytest.mark.parametrize("name", KNOWN)
def test_what_is_left_is_found_with_who_pays_and_what_takes_it_back(
    leaks: Operation, name: str
) -> None:
    (left,) = of_cache(leaks, name)
    objects, charged, back = KNOWN[name]
    assert (left.objects, left.charged, left.back, left.ways) == (objects, charged, back, [back])
    # Two words of a list, two of RCU's, ten of data.
    assert left.bytes == 112 * left.objects
    assert left.made_by[0] in {"leaks_make", "leaks_operation"}


@pytest.mark.parametrize("name", NONE)
def test_what_is_freed_replaced_or_made_once_is_not(leaks: Operation, name: str) -> None:
    assert not of_cache(leaks, name)


def test_pages_and_per_cpu_memory_are_found(leaks: Operation) -> None:
    pages = {one.charged: one for one in of_cache(leaks, "pages of the kernel")}
    assert pages[0.0].objects == pytest.approx(1.0, abs=0.05)
    assert pages[1.0].objects == pytest.approx(1.0, abs=0.05)
    (together,) = of_cache(leaks, "pages of the kernel, 4 together")
    assert together.objects == pytest.approx(4.0, abs=0.05)
    assert (together.bytes, together.charged) == (pytest.approx(together.objects * 4096), 0.0)
    everywhere = {one.charged: one for one in of_cache(leaks, "per-CPU memory")}
    assert {one.objects for one in everywhere.values()} == {1.0}
    # 48 and 80 bytes on each of two CPUs.
    assert everywhere[0.0].bytes == 96
    assert everywhere[1.0].bytes == 160
    assert {one.back for one in (*pages.values(), *everywhere.values())} == {"nothing"}


def test_a_pool_whose_objects_are_replaced_is_not_what_leaks_beside_it(leaks: Operation) -> None:
    (left,) = of_cache(leaks, "leak_mixed")
    assert left.made_by[:2] == ("leaks_make", "leaks_one_in_two")
    assert (left.objects, left.back) == (0.5, "nothing")


def test_what_rises_unevenly_is_settled_by_more_operations(leaks: Operation) -> None:
    (left,) = of_cache(leaks, "leak_uneven")
    # Those of the longer run's second step: eight windows of 128, after a warm-up of 16.
    step = range(16 + 1024, 16 + 3 * 1024)
    assert left.objects == pytest.approx(uneven(step) / len(step), abs=1e-4)
    assert (left.charged, left.back) == (0.0, "nothing")
    assert "leak_uneven" not in {one.what for one in leaks.unsettled}


def test_who_makes_another_pay_is_told(leaks: Operation) -> None:
    (others,) = of_cache(leaks, "leak_others")
    assert (others.objects, others.charged, others.elsewhere) == (1.0, 1.0, 1.0)
    (own,) = of_cache(leaks, "leak_charged")
    assert (own.charged, own.elsewhere) == (1.0, 0.0)
    (nobody,) = of_cache(leaks, "leak_forever")
    assert nobody.elsewhere is None


def test_a_counter_in_a_module_is_found(leaks: Operation) -> None:
    (counter,) = [one for one in leaks.raised if one.name == "leaks_until_exit"]
    # What it did to warm up goes down with the rest.
    assert counter.each == 1.0
    assert counter.returned == pytest.approx(1 + 16 / (3 * 1024), abs=1e-4)


@pytest.fixture(scope="module")
def debian(kernel: Kernel) -> Growth:
    """What some operations leave behind on Debian's kernel."""
    chosen = workloads.select(
        ["negative/unique", "negative/repeat", "signal", "negative/unique-layers"]
    )
    return growth.growth(Wanted(kernel=kernel, workloads=chosen), Quiet())


def test_a_name_that_is_not_there_stays_once_for_each_layer_and_once_more(debian: Growth) -> None:
    """Charged to its container, and bounded by nothing of its own."""
    found = of_cache(debian.operations[0], "dentry")
    assert [(one.objects, one.bytes, one.charged, one.back) for one in found] == [
        (1.0, 192.0, 1.0, "reclaim")
    ] * 2
    assert {one.verdict for one in found} == {"unlimited"}
    # The overlay's own go with it; those of its layer are another file system's.
    assert {"ovl_lookup_positive_unlocked" in one.made_by: one.ways for one in found} == {
        True: ["reclaim"],
        False: ["reclaim", "umount"],
    }
    assert debian.operations[0].unlimited == 384
    assert any("ovl_lookup_positive_unlocked" in one.made_by for one in found)


def test_of_six_layers_it_is_six_times_and_once_more(debian: Growth) -> None:
    (one,) = [one for one in debian.operations if one.title == "negative/unique-layers"]
    found = of_cache(one, "dentry")
    assert sum(left.objects for left in found) == 7.0
    assert {(left.charged, left.back) for left in found} == {(1.0, "reclaim")}


@pytest.mark.parametrize("number", [1, 2])
def test_what_leaves_nothing_behind_leaves_nothing_behind(debian: Growth, number: int) -> None:
    assert debian.operations[number].left == []


RAISED = {
    "hold/socketpair": {"unix_nr_socks": 2, "nr_files": 2},
    "hold/pty": {"pty_count": 1, "nr_files": 1},
    "hold/inotify": {"init_ucounts.ucount[UCOUNT_INOTIFY_INSTANCES]": 1, "nr_files": 1},
    "hold/process": {"nr_threads": 1, "init_pid_ns.pid_allocated": 1},
    "hold/aio": {"aio_nr": 1, "nr_files": 1},
    "signal": {},
}


@pytest.fixture(scope="module")
def kept(kernel: Kernel) -> dict[str, dict[str, float]]:
    """Counters that operations raise, by operation."""
    chosen = workloads.select(list(RAISED))
    found = growth.growth(Wanted(kernel=kernel, workloads=chosen), Quiet())
    return {
        one.title: {counter.name: counter.each for counter in one.raised}
        for one in found.operations
    }


@pytest.mark.parametrize("title", RAISED)
def test_counters_of_the_machine_are_found_by_what_raises_them(
    kept: dict[str, dict[str, float]], title: str
) -> None:
    wanted = RAISED[title]
    assert {name: kept[title].get(name) for name in wanted} == wanted
    others = {name for one in RAISED.values() for name in one} - set(wanted)
    assert not others & set(kept[title])
    assert title != "signal" or not kept[title]


def test_one_that_fails_is_said_and_those_after_it_are_measured(
    kernel: Kernel, tmp_path: Path
) -> None:
    source = tmp_path / "fails"
    source.mkdir()
    (source / "fails.c").write_text(
        '#include <errno.h>\n#include "harness.h"\n'
        "static void operation(const struct run *run, unsigned long n)\n"
        '{\n\t(void)run;\n\terrno = EIO;\n\tif (n == 40)\n\t\tfail("the fortieth");\n}\n'
        "const struct workload workload = { .operation = operation };\n"
    )
    (signal,) = workloads.select(["signal"])
    fails = signal.model_copy(update={"name": "fails", "source": source, "variant": ""})
    found = growth.growth(Wanted(kernel=kernel, workloads=[fails, signal]), Quiet())
    assert [one.title for one in found.operations] == [signal.title]
    (failed,) = found.failed
    assert "the fortieth: Input/output error" in failed.why
