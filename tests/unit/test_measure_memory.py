# SPDX-License-Identifier: GPL-2.0-or-later
"""Guests side by side fit into the memory there is, with what they record."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partywall import workloads
from partywall.core.topology import Topology
from partywall.measure import memory, run

EIGHT = Topology(8, 1)


def machine(place: Path, available: int, cgroup: str = "0::/\n") -> Path:
    """A /proc that says so many MiB are available; as the kernel writes it."""
    (place / "self").mkdir(parents=True)
    (place / "self/cgroup").write_text(cgroup)
    (place / "meminfo").write_text(
        f"MemTotal:       {available << 11} kB\nMemFree:  1 kB\nMemAvailable:   "
        f"{available << 10} kB\nHugePages_Total:       0\n"
    )
    return place


def limited(folder: Path, limit: str, current: int, inactive: int) -> None:
    """A cgroup's files; sizes in MiB."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memory.max").write_text(f"{limit}\n")
    (folder / "memory.current").write_text(f"{current << 20}\n")
    (folder / "memory.stat").write_text(f"anon 1\ninactive_file {inactive << 20}\nslab 5\n")


def test_what_the_machine_has_is_what_meminfo_says(tmp_path: Path) -> None:
    assert memory.available(machine(tmp_path / "proc", 3500), tmp_path / "none") == 3500


@pytest.mark.parametrize("where", ["", "outer", "outer/inner"])
def test_a_limit_of_any_cgroup_above_counts(tmp_path: Path, where: str) -> None:
    proc = machine(tmp_path / "proc", 16000, "1:name=x:/old\n0::/outer/inner\n")
    root = tmp_path / "cgroup"
    limited(root / "outer/inner", "max", 0, 0)
    limited(root / "outer", "max", 0, 0)
    limited(root / where, str(2048 << 20), 1000, 200)
    assert memory.available(proc, root) == 1248


def test_a_limit_elsewhere_does_not_count(tmp_path: Path) -> None:
    proc = machine(tmp_path / "proc", 16000, "0::/mine\n")
    limited(tmp_path / "cgroup/other", "1", 0, 0)
    assert memory.available(proc, tmp_path / "cgroup") == 16000


def test_this_machine_has_some() -> None:
    assert memory.available() > 0


def test_the_promise_of_four_gigabytes_holds() -> None:
    # 4 GB less what a small Debian uses; all that `check` runs by itself, on two CPUs.
    shapes = [shape for one in workloads.select(()) for shape in run.topologies(one)]
    jobs = memory.side_by_side(shapes, 2, 3400)
    assert jobs == 2
    assert jobs * (memory.limit(EIGHT, jobs, 3400) + memory.beside(EIGHT)) <= 3400


def test_fewer_run_side_by_side_where_memory_is_short() -> None:
    need = memory.beside(EIGHT) + memory.RECORDED
    assert memory.side_by_side([EIGHT] * 8, 8, 3 * need) == 3
    assert memory.side_by_side([EIGHT] * 8, 8, 2 * need - 1) == 1


def test_no_more_run_than_there_are() -> None:
    assert memory.side_by_side([EIGHT, EIGHT], 8, 1 << 20) == 2


def test_a_machine_that_may_be_too_small_is_said_and_tried() -> None:
    assert memory.side_by_side([EIGHT] * 4, 4, 1000) == 1
    assert memory.limit(EIGHT, 1, 1000) == memory.RECORDED
    said = memory.short([EIGHT], 1000)
    assert said is not None
    assert said.startswith("1,000 MiB of memory are available")
    assert "may take 1,280" in said
    assert memory.short([EIGHT], 1280) is None


@given(
    st.lists(st.builds(Topology, st.integers(1, 32), st.integers(1, 4)), min_size=1, max_size=5),
    st.integers(1, 64),
    st.integers(0, 1 << 18),
)
def test_all_together_never_take_more_than_there_is(
    shapes: list[Topology], jobs: int, free: int
) -> None:
    fit = memory.side_by_side(shapes, jobs, free)
    assert 1 <= fit <= jobs
    if memory.short(shapes, free):
        assert fit == 1
        return
    most = max(memory.beside(shape) + memory.limit(shape, fit, free) for shape in shapes)
    assert fit * most <= free
