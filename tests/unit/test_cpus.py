# SPDX-License-Identifier: GPL-2.0-or-later
"""Which CPUs containers are put on, and what is said of the machine."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partywall.clock import cpus
from partywall.clock.cpus import Cpu
from partywall.core.errors import UsageProblem


def machine(sockets: int, cores: int, threads: int) -> list[Cpu]:
    """CPUs as Linux numbers them: first threads of all cores, then second ones."""
    found = []
    for thread in range(threads):
        for socket in range(sockets):
            for core in range(cores):
                number = (thread * sockets + socket) * cores + core
                found.append(Cpu(thread, socket, core, number))
    return found


def sysfs(folder: Path, there: list[Cpu]) -> Path:
    for cpu in there:
        topology = folder / f"cpu{cpu.number}" / "topology"
        topology.mkdir(parents=True)
        (topology / "physical_package_id").write_text(f"{cpu.socket}\n")
        (topology / "core_id").write_text(f"{cpu.core}\n")
    return folder


def test_the_machine_is_read(tmp_path: Path) -> None:
    there = machine(2, 4, 2)
    folder = sysfs(tmp_path, there)
    assert cpus.allowed(folder, set(range(16))) == there
    # Where only second threads are lent, they are the first of their cores.
    assert [cpu.thread for cpu in cpus.allowed(folder, {8, 9})] == [0, 0]


def test_a_machine_that_tells_nothing_has_a_core_for_each_cpu(tmp_path: Path) -> None:
    found = cpus.allowed(tmp_path, {0, 1, 5})
    assert found == [Cpu(0, 0, 0, 0), Cpu(0, 0, 1, 1), Cpu(0, 0, 5, 5)]


def test_whole_cores_come_first_over_sockets_in_turn_or_not() -> None:
    there = machine(2, 4, 2)
    spread = cpus.choose(there, 10, "spread")
    assert [cpu.number for cpu in spread] == [0, 4, 1, 5, 2, 6, 3, 7, 8, 12]
    packed = cpus.choose(there, 10, "packed")
    assert [cpu.number for cpu in packed] == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert cpus.describe(spread) == "10 CPUs on 8 cores of 2 sockets, two threads on some"
    assert cpus.describe(packed[:4]) == "4 CPUs on 4 cores of 1 sockets"


@given(
    st.integers(1, 3), st.integers(1, 6), st.integers(1, 2), st.sampled_from(["spread", "packed"])
)
def test_no_cpu_is_chosen_twice(
    sockets: int, cores: int, threads: int, placement: cpus.Placement
) -> None:
    there = machine(sockets, cores, threads)
    for count in range(1, len(there) + 1):
        chosen = cpus.choose(there, count, placement)
        assert len(set(chosen)) == count
        busy_cores = len({(cpu.socket, cpu.core) for cpu in chosen})
        assert busy_cores == min(count, sockets * cores)


def test_too_many_are_refused() -> None:
    with pytest.raises(UsageProblem, match="3 CPUs are needed and this machine lends 2"):
        cpus.choose(machine(1, 2, 1), 3, "spread")


def test_what_disturbs_is_said(tmp_path: Path) -> None:
    there = machine(1, 2, 1)
    tmp_path = tmp_path / "system" / "cpu"
    folder = sysfs(tmp_path, there)
    assert cpus.disturbances(there, folder) == []
    (folder / "cpu1" / "cpufreq").mkdir()
    (folder / "cpu1" / "cpufreq" / "scaling_governor").write_text("powersave\n")
    (folder / "intel_pstate").mkdir()
    (folder / "intel_pstate" / "no_turbo").write_text("0\n")
    clock = tmp_path.parent / "clocksource" / "clocksource0"
    clock.mkdir(parents=True)
    (clock / "current_clocksource").write_text("hpet\n")
    scaled, slow, turbo = cpus.disturbances(there, folder)
    assert "hpet" in slow
    assert "powersave" in scaled
    assert "turbo" in turbo


def test_time_is_that_of_the_chosen_cpus(tmp_path: Path) -> None:
    (tmp_path / "stat").write_text(
        "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 1 2 3 100 10 4 5 6 0 0\ncpu1 7 7 7 7 7 7 7 7 0 0\nintr 5\n"
    )
    found = cpus.times([Cpu(0, 0, 0, 0)], tmp_path)
    assert (found.busy, found.stolen, found.total) == (15, 6, 131)
    assert cpus.times([Cpu(0, 0, 0, 0)], tmp_path / "none").total == 0
    assert cpus.busy_share([Cpu(0, 0, 0, 0)], 0, tmp_path) == 0


def test_the_processor_has_a_name(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nmodel name\t: AMD EPYC: 7R13\n")
    assert cpus.model(tmp_path) == "AMD EPYC: 7R13"
    assert cpus.model(tmp_path / "none") == "unknown processor"
