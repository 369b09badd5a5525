# SPDX-License-Identifier: GPL-2.0-or-later
"""This machine as a machine's file: which pairs are measured, and what is said of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import test_cpus
from commands import run

from partywall.clock import transfer
from partywall.clock.constant import Constant
from partywall.clock.cpus import Cpu
from partywall.clock.transfer import Pair
from partywall.core.errors import UsageProblem
from partywall.core.progress import Progress, Quiet
from partywall.model import machine, profiles


def sysfs(folder: Path, there: list[Cpu], shared: int) -> Path:
    """A machine whose last-level caches have ``shared`` cores each."""
    test_cpus.sysfs(folder, there)
    for cpu in there:
        for index, level, who in ((0, 1, str(cpu.number)), (3, 3, f"l3-{cpu.core // shared}")):
            cache = folder / f"cpu{cpu.number}" / "cache" / f"index{index}"
            cache.mkdir(parents=True)
            (cache / "level").write_text(f"{level}\n")
            (cache / "shared_cpu_list").write_text(f"{who}\n")
    return folder


def test_levels_are_those_of_caches_sockets_and_the_machine(tmp_path: Path) -> None:
    there = test_cpus.machine(2, 8, 2)
    found = transfer.groups(there, sysfs(tmp_path, there, 4))
    assert [(one.name, one.cores) for one in found] == [
        ("last-level cache", 4),
        ("socket", 8),
        ("machine", 16),
    ]
    # Each pair of cores once, at the nearest place that they share; no second threads.
    assert [len(one.pairs) for one in found] == [4 * 6, 2 * 16, 64]
    assert sum(len(one.pairs) for one in found) == 16 * 15 // 2
    assert {cpu for one in found for pair in one.pairs for cpu in pair} == set(range(16))
    assert (0, 3) in found[0].pairs
    assert (0, 4) in found[1].pairs
    assert (0, 8) in found[2].pairs


def test_a_level_that_is_the_next_one_is_no_level(tmp_path: Path) -> None:
    there = test_cpus.machine(1, 4, 1)
    (only,) = transfer.groups(there, sysfs(tmp_path, there, 4))
    assert (only.cores, len(only.pairs)) == (4, 6)


def test_parts_of_unequal_size_are_no_level(tmp_path: Path) -> None:
    there = test_cpus.machine(1, 6, 1)
    (only,) = transfer.groups(there, sysfs(tmp_path, there, 4))
    assert (only.cores, len(only.pairs)) == (6, 15)


def test_one_core_has_no_level_and_its_threads_are_told_apart(tmp_path: Path) -> None:
    there = test_cpus.machine(1, 1, 2)
    assert transfer.groups(there, sysfs(tmp_path, there, 1)) == []
    assert transfer.threads(there) == [(0, 1)]
    with pytest.raises(UsageProblem, match="lends one"):
        machine.machine(there[:1], None, [], Quiet(), tmp_path)


def test_of_many_pairs_always_the_same_are_drawn() -> None:
    many = [(one, other) for one in range(64) for other in range(one)]
    assert transfer.drawn(many) == transfer.drawn(many)
    assert len(set(transfer.drawn(many))) == transfer.MOST
    assert transfer.drawn(many[:5]) == many[:5]


def test_a_line_that_is_there_takes_a_time() -> None:
    (own,) = transfer.measure([(0, 0)], Quiet())
    assert own.nanoseconds > 0


@pytest.fixture
def far(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines take 10 ns for each number that lies between two CPUs; CPUs 0 and 1 are one core."""

    def measured(pairs: Sequence[tuple[int, int]], _: Progress) -> list[Pair]:
        return [
            Pair(one, other, 3.0 if {one, other} == {0, 1} else 5.0 + 10 * abs(one - other))
            for one, other in pairs
        ]

    monkeypatch.setattr(transfer, "measure", measured)


@pytest.mark.usefixtures("far")
def test_what_is_written_is_a_machines_file(tmp_path: Path) -> None:
    told = Constant(instructions=5000, counted_on="6.12", least=0.4, usual=0.5, most=0.7)
    found = machine.machine(test_cpus.machine(1, 4, 1), told, ["turbo is on"], Quiet(), tmp_path)
    assert found.own_ns == 5
    file = tmp_path / "mine.toml"
    file.write_text(machine.written(found))
    profile = profiles.load(str(file))
    assert profile.instruction_ns == (0.4, 0.5, 0.7)
    # 3, 15, 15, 25, 25, 35 ns.
    assert [(level.cores, level.transfer_ns) for level in profile.levels] == [(4, 20)]
    assert "turbo is on" in file.read_text()
    assert "5,000 instructions per operation of 6.12" in profile.sources[1]


@pytest.mark.usefixtures("far")
def test_without_a_result_the_constant_is_the_usual_one_and_that_is_said(
    tmp_path: Path,
) -> None:
    found = machine.machine(test_cpus.machine(1, 4, 1), None, [], Quiet(), tmp_path)
    assert found.profile.instruction_ns == profiles.load(profiles.DEFAULT).instruction_ns
    assert "not measured" in found.profile.sources[1]


@pytest.mark.usefixtures("far")
def test_threads_that_the_machine_hides_are_told(tmp_path: Path) -> None:
    found = machine.machine(test_cpus.machine(1, 4, 1), None, [], Quiet(), tmp_path)
    (said,) = [text for text in found.warnings if "threads of one core" in text]
    assert "CPUs 0-1 reach" in said


def test_a_result_that_is_none_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    file = tmp_path / "none.json"
    file.write_text("{}")
    status, out, err = run("machine", "--instruction-ns", file)
    assert (status, out) == (2, "")
    assert str(file) in err


@pytest.mark.parametrize(
    "option",
    [("--workload", "fork"), ("--seconds", "2.0"), ("--runs", "3")],
    ids=lambda one: one[0],
)
def test_what_is_of_the_container_is_refused_where_none_is_timed(option: tuple[str, str]) -> None:
    # Given, be it the value that it has anyhow.
    status, out, err = run("machine", *option)
    assert (status, out) == (2, "")
    assert option[0] in err
    assert "--instruction-ns" in err


def test_a_file_that_profiles_would_not_take_is_not_written(tmp_path: Path) -> None:
    status, out, err = run("machine", "--output", tmp_path / "mine.txt")
    assert (status, out) == (2, "")
    assert ".toml" in err
