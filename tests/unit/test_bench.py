# SPDX-License-Identifier: GPL-2.0-or-later
"""Counts of workloads become throughput of containers, in the form of the posts."""

from __future__ import annotations

import io
import json
import tomllib

import builders
import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from partywall import workloads
from partywall.clock import bench, constant, native
from partywall.clock.bench import Bench, Point, Series
from partywall.clock.native import Count
from partywall.core.errors import UsageProblem
from partywall.model import profiles, queues
from partywall.report import bench as view
from partywall.results import document
from partywall.results.counts import CallCount


def made(*rates: list[float]) -> Bench:
    return Bench(
        created="2026-01-01T00:00:00Z",
        workload="signal",
        operation="one signal",
        processor="AMD EPYC",
        placement="spread: 2 CPUs",
        cpus=1,
        seconds=2.0,
        series=[
            Series(
                kernel=f"6.12-{number}",
                runs_on="KVM",
                points=[
                    Point(containers=2**n, runs=[rate, rate * 1.1, rate * 0.9], slowest=rate / 2)
                    for n, rate in enumerate(one)
                ],
            )
            for number, one in enumerate(rates)
        ],
        warnings=["turbo is on"],
    )


def shown(found: Bench, expected: queues.Prediction | None = None, width: int = 80) -> str:
    file = io.StringIO()
    view.render(found, expected, Console(file=file, width=width))
    return file.getvalue()


def test_counts_are_read_from_whatever_else_is_printed() -> None:
    said = (
        b"[    1.0] noise\nPARTYWALL ops 1 50 1000\nPARTYWALL ops 0 40 1000\nPARTYWALL ops 2 5 0\n"
        b"PARTYWALL ops 3 7\nPARTYWALL ready\nPARTYWALL ops 1 60 1000\nPARTYWALL ops 9 1 1"
    )
    assert native.parse(said) == [Count(0, 40, 1000), Count(1, 60, 1000), Count(9, 1, 1)]


@given(st.binary(max_size=200))
def test_no_output_breaks_the_reader(said: bytes) -> None:
    assert all(count.nanoseconds > 0 for count in native.parse(said))


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (b"", "nothing was said"),
        (b"PARTYWALL ops 0 1 1\n", "nothing was said"),
        (b"no cgroups\nmore\n", "no cgroups"),
        (
            b"x\npartywall: workload: unshare: EPERM\npartywall: workload: exit status 1\n",
            "workload: unshare: EPERM",
        ),
    ],
)
def test_the_line_that_says_most_is_told(said: bytes, told: str) -> None:
    assert native.reason(said) == told


def test_guests_need_no_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    (workload,) = workloads.select(["signal"])
    wanted = bench.Wanted(workload, counts=[1])
    assert bench.check(wanted, guests=True)
    with pytest.raises(UsageProblem, match="root"):
        bench.check(wanted, guests=False)


@pytest.mark.parametrize("name", ["cgroup/io-stat", "container/exec", "traffic/udp-own"])
def test_what_changes_the_machine_runs_in_guests_alone(name: str) -> None:
    (workload,) = workloads.select([name])
    wanted = bench.Wanted(workload, counts=[1])
    assert bench.check(wanted, guests=True)
    with pytest.raises(UsageProblem, match="own kernel"):
        bench.check(wanted, guests=False)


def test_a_containers_processes_are_added_up() -> None:
    counts = [Count(n, 10 * (n + 1), 1_000_000_000) for n in range(4)]
    assert bench.each(counts, 1) == pytest.approx([10, 20, 30, 40])
    assert bench.each(counts, 2) == pytest.approx([30, 70])


def test_the_table_is_that_of_the_posts() -> None:
    text = shown(made([380068.4, 353204.2]))
    assert "| containers |      1 |      2 |" in text
    assert "| throughput | 380068 | 353204 |" in text
    assert "mind: turbo is on" in text
    assert "93%" in text


def test_kernels_stand_side_by_side_and_beside_the_model() -> None:
    expected = queues.predict(builders.signal(), profiles.load(profiles.DEFAULT), [1])
    text = shown(made([100.0, 50.0], [110.0, 100.0]), expected)
    assert "6.12-1, on KVM" in text
    assert "2.00" in text
    assert "100% to 100%" in text


def test_json_is_what_the_schema_says() -> None:
    found = made([1.0, 2.0])
    jsonschema.validate(json.loads(document.dump(found)), document.schema(Bench))
    assert Bench.model_validate_json(document.dump(found)) == found


def test_the_time_of_an_instruction_is_that_of_one_container() -> None:
    # 4,811.2 instructions of the kernel and 212 of the program: 5,023.2.
    sample = builders.result(builders.signal())
    one = constant.counted(sample, "signal", "x.json")
    found = bench.with_constant(made([200_000.0, 50_000.0]), sample, one)
    assert found.constant is not None
    assert found.constant.usual == pytest.approx(5000 / 5023.2)
    assert found.constant.least == pytest.approx(5000 / 1.1 / 5023.2)
    assert found.constant.most == pytest.approx(5000 / 0.9 / 5023.2)
    text = shown(found, width=200)
    assert "over 5,023 instructions/op, counted on 6.12.117+deb12-cloud-amd64" in text
    assert "\ninstruction_ns = [0.905, 0.995, 1.106]\n" in text
    assert "the time is that of 6.12-0: another kernel" in text
    assert Bench.model_validate_json(document.dump(found)) == found


def test_the_line_is_what_a_machines_file_takes() -> None:
    sample = builders.result(builders.signal())
    one = constant.counted(sample, "signal", "x.json")
    told = bench.with_constant(made([200_000.0]), sample, one).constant
    assert told is not None
    values = tomllib.loads(told.line)["instruction_ns"]
    given = profiles.load(profiles.DEFAULT).model_dump() | {"instruction_ns": values}
    assert profiles.Profile(**given).instruction_ns[1] == pytest.approx(told.usual, abs=0.001)


def test_what_waits_is_in_the_constant_and_said() -> None:
    sample = builders.signal()
    assert constant.doubts(sample, "6.12", "6.12") == []
    waits = [CallCount(function="synchronize_rcu", per_op=0.5)]
    (said,) = constant.doubts(sample.model_copy(update={"waits": waits}), "6.12", "6.12")
    assert "wait for RCU" in said
    lock = builders.lock("m", 10, slept=0.5)
    assert constant.doubts(sample.model_copy(update={"locks": [lock]}), "6.12", "6.12")


def test_what_gives_no_constant_is_refused() -> None:
    with pytest.raises(UsageProblem, match="how many instructions fork takes"):
        constant.counted(builders.result(builders.signal()), "fork", "x.json")
    constant.alone([1, 2], 1)
    for counts, cpus in (([2], 1), ([1], 2)):
        with pytest.raises(UsageProblem, match="alone"):
            constant.alone(counts, cpus)
    with pytest.raises(UsageProblem, match="did nothing"):
        constant.constant([1.0, 0.0], 1.0, "6.12", builders.signal())


@pytest.mark.parametrize("width", [60, 80, 200])
def test_it_fits(width: int) -> None:
    assert max(map(len, shown(made([1e6, 2e5]), width=width).splitlines())) <= width
