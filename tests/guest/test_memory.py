# SPDX-License-Identifier: GPL-2.0-or-later
"""What operations leave behind, in the guest of a check: known by construction, and on Debian's."""

from __future__ import annotations

import kmodule
import pytest
from test_growth import KNOWN, LEAKS, NONE, uneven

from partywall import workloads
from partywall.core.progress import Quiet
from partywall.core.topology import Topology
from partywall.kernels import Kernel
from partywall.measure import run, sweep
from partywall.measure.run import Wanted
from partywall.results.bookkeeping import LISTS
from partywall.results.memory import Grown, Memory
from partywall.results.result import WorkloadResult
from partywall.workloads import Workload


@pytest.fixture(scope="module")
def leaks(kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Memory:
    """What the module's operation leaves behind."""
    ready = kmodule.loaded(LEAKS, kernel, tmp_path_factory.mktemp("modules"), Quiet())
    workload = Workload(
        name="leaks",
        source=LEAKS,
        summary="memory of which is known what becomes of it",
        operation="all cases in turn",
        # The pool is full then: what fills up while it is looked at is told as growth.
        warmup=620,
        window=64,
        modules=("leaks",),
    )
    found = run.check(Wanted(kernel=ready, workloads=[workload]), Quiet()).result
    assert found is not None
    memory = found.workloads[0].memory
    assert memory is not None
    return memory


def of_cache(memory: Memory, name: str) -> list[Grown]:
    return [one for one in memory.grown if one.what == name]


@pytest.mark.parametrize("name", KNOWN)
def test_what_is_left_is_found_with_who_pays(leaks: Memory, name: str) -> None:
    (left,) = of_cache(leaks, name)
    assert (left.objects, left.charged) == KNOWN[name][:2]
    assert left.bytes == 112 * left.objects


@pytest.mark.parametrize("name", NONE)
def test_what_is_freed_replaced_or_made_once_is_not(leaks: Memory, name: str) -> None:
    assert not of_cache(leaks, name)
    assert name not in {one.what for one in leaks.unsettled}


def test_what_leaks_beside_a_pool_is_found(leaks: Memory) -> None:
    (left,) = of_cache(leaks, "leak_mixed")
    assert left.objects == 0.5


def test_pages_and_per_cpu_memory_are_found(leaks: Memory) -> None:
    pages = {one.charged: one for one in of_cache(leaks, "pages of the kernel")}
    assert pages[0.0].objects == pytest.approx(1.0, abs=0.05)
    assert pages[1.0].objects == pytest.approx(1.0, abs=0.05)
    (together,) = of_cache(leaks, "pages of the kernel, 4 together")
    assert together.objects == pytest.approx(4.0, abs=0.05)
    assert (together.bytes, together.charged) == (pytest.approx(together.objects * 4096), 0.0)
    # 48 and 80 bytes on each of eight CPUs.
    everywhere = {one.charged: one for one in of_cache(leaks, "per-CPU memory")}
    assert [(everywhere[paid].objects, everywhere[paid].bytes) for paid in (0.0, 1.0)] == [
        (1.0, 384),
        (1.0, 640),
    ]


def test_what_rises_unevenly_is_not_settled_and_bounded(leaks: Memory) -> None:
    (rises,) = [one for one in leaks.unsettled if one.what == "leak_uneven"]
    # After warm-up and window each process does 32 and 64 operations.
    first, second = range(684, 716), range(716, 780)
    at_most = 112 * max(uneven(first) / 32, uneven(second) / 64)
    assert (rises.charged, rises.bytes) == (False, at_most)
    assert rises.bytes >= 112 * (uneven(first) + uneven(second)) / 96
    assert not of_cache(leaks, "leak_uneven")
    assert leaks.uncharged_at_most >= leaks.uncharged + at_most


def test_books_of_who_is_charged_are_told_apart(leaks: Memory) -> None:
    (books,) = [one for one in leaks.grown if one.bookkeeping]
    assert (books.what, books.uncharged) == (LISTS, 0)
    # A list for each slab of what is charged, of which 36 fit into a page, in three caches.
    assert books.objects == pytest.approx(3 / 36, abs=0.02)


@pytest.fixture(scope="module")
def debian(kernel: Kernel) -> dict[str, WorkloadResult]:
    """Three operations on Debian's kernel, in one guest."""
    chosen = workloads.select(["negative/unique", "negative/repeat", "signal"])
    shape = Topology(4, 1)
    found = sweep.sweep(Wanted(kernel=kernel, workloads=chosen, topology=shape), Quiet()).result
    assert found is not None
    assert not found.failed
    return {one.title: one for one in found.workloads}


def test_a_name_that_is_not_there_stays_once_for_each_layer_and_once_more(
    debian: dict[str, WorkloadResult],
) -> None:
    memory = debian["negative/unique"].memory
    assert memory is not None
    (names,) = of_cache(memory, "dentry")
    assert (names.objects, names.bytes, names.charged) == (2.0, 384.0, 1.0)
    # With what the kernel keeps of who is charged, which is no growth by itself.
    assert memory.verdict == "charged"
    assert [one.what for one in memory.grown if not one.charged] == [LISTS]


@pytest.mark.parametrize("title", ["negative/repeat", "signal"])
def test_what_leaves_nothing_behind_leaves_nothing_behind(
    debian: dict[str, WorkloadResult], title: str
) -> None:
    memory = debian[title].memory
    assert memory is not None
    assert (memory.grown, memory.unsettled, memory.verdict) == ([], [], "nothing")


def test_lines_are_measured_as_before(debian: dict[str, WorkloadResult]) -> None:
    """Looks are over when the next round begins, and come after its windows."""
    assert debian["signal"].operations == 4 * debian["signal"].window
    assert "init_ucounts" in {wall.name for wall in debian["signal"].objects}
