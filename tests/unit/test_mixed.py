# SPDX-License-Identifier: GPL-2.0-or-later
"""A mixed machine: what goes together in one guest, what each half runs, and what it is told."""

from __future__ import annotations

import gzip
import importlib
import json
from pathlib import Path
from typing import Any

import pytest
from builders import met, pairs
from commands import run

from partywall import workloads
from partywall.cli import commands
from partywall.core.errors import EnvironmentProblem, PartywallError, UsageProblem
from partywall.core.topology import Topology
from partywall.guest import mixed as containers
from partywall.guest.roots import Place, media
from partywall.guest.roots.disks import Disk, Start
from partywall.guest.sitting import Round
from partywall.measure import beside, mixed, served
from partywall.results.touches import Beside
from partywall.workloads import Root, Service, Workload, joined

SERVERS = workloads.load_servers()


def of(*names: str) -> list[Workload]:
    """Workloads and servers of these names."""
    return workloads.select(names, more=SERVERS)


def test_servers_of_debians_packages_have_one_root_together() -> None:
    redis, nginx = (one.root for one in of("redis", "nginx"))
    assert redis is not None
    assert nginx is not None
    both = joined([redis, nginx])
    assert both is not None
    assert both.kind == "debian"
    # What both need is there once.
    again = joined([both, nginx])
    assert again == both
    assert set(both.what.split(",")) == {*redis.what.split(","), *nginx.what.split(",")}
    image = Root(kind="image", what="a.tar")
    assert joined([image, image]) == image
    assert joined([image, redis]) is None
    assert joined([image, Root(kind="image", what="b.tar")]) is None


def test_what_opens_a_window_is_the_same_in_both_halves() -> None:
    assert beside.servers(of("redis"), of("nginx", "python"))
    assert not beside.servers(of("signal"), of("fork"))
    with pytest.raises(UsageProblem, match="a server and an operation"):
        beside.servers(of("redis"), of("fork"))
    own = Workload(
        name="p", summary="", operation="", warmup=0, window=1, command=("./p",), marked=True
    )
    with pytest.raises(UsageProblem, match="p is a program that ends, and no server"):
        beside.servers([own], of("redis"))
    with pytest.raises(UsageProblem, match="build/tcc is a program that ends"):
        beside.servers(of("redis"), of("build"))
    (redis,) = of("redis")
    service = redis.model_copy(update={"service": Service(name="s", image="a.tar")})
    with pytest.raises(UsageProblem, match="a service of a file"):
        beside.servers([redis], [service])


def _variables(archive: Any, number: int) -> tuple[list[str], dict[str, str]]:
    """What a container runs, and its environment."""
    _, text = archive.entries[f"job/{number}/config.json"]
    process = json.loads(text)["process"]
    return process["args"], dict(one.split("=", 1) for one in process["env"])


def test_each_half_runs_its_own_and_knows_of_the_other(tmp_path: Path) -> None:
    (tmp_path / "root").write_bytes(bytes(1 << 20))
    medium = media.Medium(media.RAM, media._SYSTEMS[0])
    disk = media.Fitted(tmp_path / "root", Place((), Start()), "key", medium)
    redis, nginx = of("redis/set", "nginx/close")
    places = [Place((), Start()), Place(("b", "a"), Start(env=("A=b",)))]
    job = containers.job(
        Round(redis, nginx, 1), Topology(3, 1), confined=False, disk=disk, places=places
    )
    for number, (server, client) in enumerate([("redis-server", "set"), *[("nginx", "ab")] * 2]):
        words, told = _variables(job, number)
        assert any(server in word for word in words)
        assert client in words
        mine = redis if number < 1 else nginx
        assert (told["PW_WINDOW"], told["PW_WARMUP"]) == (str(mine.window), str(mine.warmup))
        # Of the second one's root, which has a folder of the disk.
        assert (told.get("A") == "b") == (number > 0)
        layers = b"/image/b:/image/a\n" if number else b"/image\n"
        assert job.entries[f"job/{number}/layers"][1] == layers
        assert told["PW_MIX"] == f"1 {redis.window} {nginx.window}"


def test_servers_that_are_asked_from_elsewhere_go_with_their_like() -> None:
    assert beside.servers(of("redis/get-apart"), of("nginx/keep-apart"))
    for one, other in (("redis/get", "nginx/keep-peer"), ("redis/get-apart", "redis/get-peer")):
        with pytest.raises(UsageProblem, match="clients of some have containers of their own"):
            beside.servers(of(one), of(other))


def _console(*counts: int) -> str:
    return "".join(f"PARTYWALL requests {n} {count} 2000\n" for n, count in enumerate(counts))


def test_requests_of_each_half_are_its_own() -> None:
    said = _console(900_000, 1_100_000, 40_000, 60_000)
    shape = Topology(4, 1)
    assert served.requests(said, shape, range(2)) == 1000
    assert served.requests(said, shape, range(2, 4)) == 50
    # One has nearly all of its half's, though not of all.
    uneven = _console(900_000, 1_100_000, 40_000, 400_000)
    with pytest.raises(EnvironmentProblem, match="40 requests in one container and 400"):
        served.requests(uneven, shape, range(2, 4))


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--with", "nginx"], "the other half does"),
        (["-w", "redis", "--with", "signal"], "a server and an operation"),
        (["-w", "redis", "--with", "gone"], "no workload 'gone'"),
        (["-w", "redis", "--with", "nginx", "--layers", "own"], "--layers and --with"),
        (["-w", "signal", "--with", "fork", "--fail-above", "1"], "--fail-above and --with"),
        (["-w", "signal", "--with", "fork", "--cpus", "2"], "--cpus and --with"),
    ],
)
def test_what_can_not_be_mixed_is_refused_before_anything_is_made(
    arguments: list[str], told: str
) -> None:
    status, out, complaint = run("check", *arguments)
    assert (status, out) == (2, "")
    assert told in complaint
    assert len(complaint.splitlines()) == 2


def _check(monkeypatch: pytest.MonkeyPatch, found: Beside, *words: str | Path) -> Any:
    command = importlib.import_module("partywall.cli.check")
    monkeypatch.setattr(command, "resolve", lambda *_: None)
    asked: list[tuple[list[str], list[str]]] = []

    def measured(wanted: Any, others: list[Workload], _: object) -> Beside:
        asked.append(([one.title for one in wanted.workloads], [one.title for one in others]))
        return found

    monkeypatch.setattr(beside, "beside", measured)
    status = commands.main(["check", *map(str, words)], standalone_mode=False)
    return status, asked


def test_a_mixed_check_tells_what_each_half_costs_the_other(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    both = [met("redis/get", "nginx/keep", label=2.0), met("nginx/keep", "redis/get", label=1.0)]
    like = met("redis/get", "redis/get", other=0.5)
    found = pairs(["redis/get"], ["nginx/keep"], *both, like).model_copy(update={"failed": []})
    page, copy = tmp_path / "page.html", tmp_path / "both.json"
    words = ["-w", "redis", "--with", "nginx", "--html", page, "--output", copy]
    status, asked = _check(monkeypatch, found, *words)
    assert status == 0
    assert asked == [(["redis/get", "nginx/keep"],) * 2]
    assert "redis/get beside nginx/keep" in capsys.readouterr().out
    assert Beside.model_validate_json(copy.read_text()) == found
    assert "redis/get" in page.read_text()


def test_a_mixed_check_is_packed_if_its_file_is_called_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = pairs(["redis/get"], ["nginx/keep"], met("redis/get", "redis/get", other=0.5))
    copy = tmp_path / "both.json.gz"
    _check(monkeypatch, found, "-w", "redis", "--with", "nginx", "--output", copy)
    assert Beside.model_validate_json(gzip.decompress(copy.read_bytes())) == found


def test_a_pair_that_failed_is_the_status_of_a_mixed_check(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = pairs(["redis/get"], ["nginx/keep"], met("redis/get", "redis/get", label=2.0))
    assert found.failed
    status, _ = _check(monkeypatch, found, "-w", "redis", "--with", "nginx")
    assert status == EnvironmentProblem.exit_code
    assert "redis/get beside nginx/keep" in capsys.readouterr().out


def test_a_pair_that_can_not_be_in_one_guest_stops_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    redis, nginx = of("redis", "nginx")
    image = nginx.model_copy(update={"root": Root(kind="image", what="a.tar")})
    rounds = [Round(redis, nginx, 2), Round(redis, image, 2)]
    monkeypatch.setattr(mixed.Plan, "check", lambda _: None)

    def disk(root: Root, _: object) -> Disk:
        if root.kind == "image":
            raise UsageProblem("a.tar: there is no such file")
        return Disk(file=Path("/nowhere/root"), start=Start())

    monkeypatch.setattr(mixed.roots, "disk", disk)
    monkeypatch.setattr(mixed, "recorder", lambda *_: None)
    ran: list[str] = []

    def side_by_side(calls: Any, *_: object) -> list[Any]:
        ran.extend(call.title for call in calls)
        return [((met("a", "b"), met("b", "a")), "version") for _ in calls]

    monkeypatch.setattr(mixed.run, "side_by_side", side_by_side)
    plan: Any = mixed.Plan(kernel=None, qemu=None, workload=redis, topology=Topology(4, 1))  # type: ignore[arg-type]
    (one, other), versions = mixed.in_guests(plan, rounds, 2, None)  # type: ignore[arg-type]
    assert ran == [rounds[0].title]
    assert isinstance(one, tuple)
    assert isinstance(other, PartywallError)
    assert "no such file" in other.message
    assert versions == {"version"}
