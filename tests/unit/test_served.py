# SPDX-License-Identifier: GPL-2.0-or-later
"""Servers and their clients: how they are described, and how requests are counted."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest
from commands import run

from partywall import workloads
from partywall.core.errors import EnvironmentProblem, UsageProblem
from partywall.core.progress import Quiet
from partywall.core.topology import Topology
from partywall.guest import rooted
from partywall.guest.roots import disks
from partywall.guest.sitting import Round
from partywall.kernels import Kernel
from partywall.measure import mixed, plan, served
from partywall.measure.plan import Plan
from partywall.workloads import Root

SERVER = """
summary = "one answers"
debian = ["one-server"]
server = "oned --name 'a b'"
warmup = 10
window = 20
default = "get"

[variants.get]
operation = "one answer"
client = "ask {server} -n {requests}"

[variants.put]
operation = "one put"
client = "put {server} -n {requests}"
"""


def written(folder: Path, text: str) -> Path:
    (folder / "one").mkdir(parents=True)
    (folder / "one" / "server.toml").write_text(text)
    return folder


def test_a_server_is_one_workload_for_each_client(tmp_path: Path) -> None:
    found = workloads.load_servers(written(tmp_path, SERVER))
    assert [(one.title, one.peer, usual) for one, usual in found] == [
        ("one/get", None, True),
        ("one/get-peer", "same-cpus", False),
        ("one/get-apart", "own-cpus", False),
        ("one/get-outside", "outside", False),
        ("one/put", None, False),
        ("one/put-peer", "same-cpus", False),
        ("one/put-apart", "own-cpus", False),
        ("one/put-outside", "outside", False),
    ]
    (get, _), (beside, _), *_ = found
    # Who asks over a bridge needs it.
    assert (get.options, get.modules) == ((), ())
    assert "CONFIG_VETH" in beside.options
    assert "veth" in beside.modules
    assert get.root == Root(kind="debian", what="one-server")
    assert get.client == ("ask", "{server}", "-n", "{requests}")
    # As the guest's launcher takes it: how many words are the server's.
    words = rooted.arguments(get, disks.Start(), 7)
    assert words == ["3", "oned", "--name", "a b", "ask", "127.0.0.1", "-n", "{requests}"]
    # Or nobody asks it from there.
    assert rooted.arguments(beside, disks.Start(), 7) == ["3", "oned", "--name", "a b"]
    assert rooted.client(beside, 7) == ["ask", "172.17.0.16", "-n", "{requests}"]


JOB = """
summary = "one ends"
debian = ["one-job"]
files = "project"
server = "job --of /run/partywall-files"
warmup = 1
window = 1
default = "c"

[variants.c]
operation = "one job"
"""


def test_what_ends_by_itself_has_no_client_and_finds_its_files(tmp_path: Path) -> None:
    folder = written(tmp_path, JOB) / "one" / "project"
    with pytest.raises(UsageProblem, match="files names no folder: project"):
        workloads.load_servers(tmp_path)
    (folder / "more").mkdir(parents=True)
    (folder / "a.c").write_text("int a;\n")
    (folder / "more" / "b.c").write_text("int b;\n")
    ((job, _),) = workloads.load_servers(tmp_path)
    assert (job.client, job.files, job.window, job.marked) == ((), folder, 1, False)
    assert rooted.arguments(job, disks.Start(), 0) == ["job", "--of", rooted.FILES]
    packed = rooted.files(0, job, folder=job.files)["files"]
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        assert tar.getnames() == ["a.c", "more/b.c"]
        data = tar.extractfile("more/b.c")
        assert data is not None
        assert data.read() == b"int b;\n"
    # A guest's hash is of what is in it, not of when that was written.
    os.utime(folder / "a.c", (1, 1))
    assert rooted.files(0, job, folder=job.files)["files"] == packed
    (get, _), *_ = workloads.load_servers(written(tmp_path / "more", SERVER))
    assert "files" not in rooted.files(0, get, folder=get.files)


def test_without_a_client_an_operation_is_one_run(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="window: without a client"):
        workloads.load_servers(written(tmp_path, JOB.replace("window = 1", "window = 2")))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("{requests}", "7"), "has no {requests}"),
        (("{server}", "127.0.0.1"), "has no {server}"),
        (('default = "get"', 'default = "gone"'), "names no variant: gone"),
        (("window = 20", "window = 0"), "window: "),
        (("window = 20", "windows = 20"), "window"),
        (("[variants.get]", "[variants.get"), "server.toml: "),
    ],
)
def test_what_is_wrong_in_a_file_is_said(
    tmp_path: Path, change: tuple[str, str], told: str
) -> None:
    with pytest.raises(UsageProblem, match=told):
        workloads.load_servers(written(tmp_path, SERVER.replace(*change)))


def test_servers_run_only_when_they_are_asked_for() -> None:
    servers = workloads.load_servers()
    assert "redis/get" in {one.title for one, _ in servers}
    assert not any(one.client for one in workloads.select([], more=servers))
    (redis,) = workloads.select(["redis"], more=servers)
    assert redis.title == "redis/get"
    assert len(workloads.select(["redis/*"], more=servers)) > 1
    # Nobody else has them: what makes rounds can't run them.
    with pytest.raises(UsageProblem, match="no workload 'redis'"):
        workloads.select(["redis"])


def console(*counts: int) -> str:
    lines = [f"PARTYWALL requests {n} {count} 2000" for n, count in enumerate(counts)]
    return "PARTYWALL ready\n" + "\n".join(lines) + "\n"


def test_requests_are_those_of_a_cpu() -> None:
    assert served.requests(console(400_000, 410_000), Topology(2, 1)) == 405
    assert served.requests(console(1_600_400), Topology(1, 4)) == 400
    # Of eight, none has more than all others.
    uneven = [264_000, 622_000, *[400_000] * 6]
    assert served.requests(console(*uneven), Topology(8, 1)) == 411


@pytest.mark.parametrize(
    ("counts", "told", "again"),
    [
        ((400_000,), "1 containers did not say", False),
        ((400_000, 100_000), "400 requests|100 requests", True),
        ((0, 0), "0 requests", True),
        ((19_000, 30_000), "19 requests", True),
    ],
)
def test_windows_that_say_nothing_of_a_request_are_no_result(
    counts: tuple[int, ...], told: str, again: bool
) -> None:
    with pytest.raises(EnvironmentProblem, match=told) as found:
        served.requests(console(*counts), Topology(2, 1))
    assert isinstance(found.value, served.Uneven) == again


IN_ROOT = ("--rootfs", "/var/empty")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--client", "ask {requests}"], "a root of its own"),
        ([*IN_ROOT, "--client", "ask", "--", "oned"], "{requests} is to be in it"),
        (
            [*IN_ROOT, "--client", "ask {requests}", "--peer", "same-cpus", "--", "oned"],
            "{server} is to be in it",
        ),
        ([*IN_ROOT, "--peer", "same-cpus", "--", "oned"], "--peer says where --client runs"),
        (["-w", "redis", "--peer", "own-cpus"], "--peer says where --client runs"),
        ([*IN_ROOT, "--client", "ask '{requests}", "--", "oned"], "No closing quotation"),
        ([*IN_ROOT, "--client", "a {requests}", "--markers", "--", "oned"], "leave --markers out"),
    ],
)
def test_a_client_has_a_server_and_knows_how_often_to_ask(arguments: list[str], told: str) -> None:
    status, _, complaint = run("check", *arguments)
    assert status == 2
    assert told in complaint
    assert len(complaint.splitlines()) == 2


OWN = """
summary = "mine"
image = "web.tar:1.0"
server = "webd"
warmup = 10
window = 20
default = "get"

[variants.get]
operation = "one answer"
client = "ask {server} {requests}"

[variants.put]
operation = "one put"
client = "put {server} {requests}"
"""


def test_a_server_of_ones_own_is_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "web.toml"
    file.write_text(OWN)
    (get,) = workloads.select_any([str(file)])
    assert (get.title, get.root) == ("web/get", Root(kind="image", what=f"{tmp_path}/web.tar:1.0"))
    (tmp_path / "tree.toml").write_text(OWN.replace("image", "rootfs"))
    (tree,) = workloads.select_any([f"{tmp_path}/tree.toml"])
    assert tree.root == Root(kind="directory", what=f"{tmp_path}/web.tar:1.0")
    put, again, signal = workloads.select_any([f"{file}/put-apart", str(file), "signal"])
    assert (put.title, put.peer) == ("web/put-apart", "own-cpus")
    assert (again, signal.name) == (get, "signal")
    with pytest.raises(UsageProblem, match=r"no workload 'web/gone'"):
        workloads.select_any([f"{file}/gone"])
    other = tmp_path / "more" / "web.toml"
    other.parent.mkdir()
    other.write_text(OWN)
    with pytest.raises(UsageProblem, match=r"two files are named web\.toml"):
        workloads.select_any([str(file), str(other)])
    status, _, complaint = run("check", "-w", str(file), "--with", str(other))
    assert (status, "web is two different things" in complaint) == (2, True)


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("redis.toml", OWN, "redis is one of ours"),
        ("signal.toml", OWN, "signal is one of ours"),
        ("web.toml", OWN.replace('image = "web.tar:1.0"', ""), "one of debian, image and rootfs"),
        ("web.toml", 'rootfs = "r"\n' + OWN, "one of debian, image and rootfs"),
        ("web.toml", "summary =", "web.toml: "),
        ("gone.toml", None, "No such file"),
        ("web.toml", OWN.replace("put {", "'put {"), "put: No closing quotation"),
        ("web.toml", OWN.replace("variants.put", "variants.default"), "'default' is no name"),
        ("web.toml", OWN.replace("variants.put", "variants.'a/b'"), "'a/b' is no name"),
        ("web.toml", OWN.replace("variants.put", "variants.get-peer"), "is two variants"),
        ("web.toml", OWN.replace("image", "rootfs").replace("webd", ""), "server: there is none"),
    ],
)
def test_what_is_wrong_in_ones_own_file_is_said(
    tmp_path: Path, name: str, text: str | None, told: str
) -> None:
    file = tmp_path / name
    if text is not None:
        file.write_text(text)
    with pytest.raises(UsageProblem, match=told):
        workloads.select_any([str(file)])


@pytest.mark.parametrize(
    ("even_from", "expected"), [(1, [1]), (2, [1, 2]), (4, [1, 2, 4]), (8, [1, 2, 4])]
)
def test_uneven_windows_are_tried_again_twice_as_long(even_from: int, expected: list[int]) -> None:
    """The emulator gives one of two containers most of a short time, and does so each time."""
    tried: list[int] = []

    def measure(times: int) -> str:
        tried.append(times)
        if times < even_from:
            raise served.Uneven("windows had 160 requests in one container and 646 in another")
        return "even"

    if even_from in expected:
        assert served.evened("redis", Quiet(), measure) == "even"
    else:
        with pytest.raises(served.Uneven, match="646 in another, and no better"):
            served.evened("redis", Quiet(), measure)
    assert tried == expected


def test_why_longer_windows_were_tried_is_told_if_they_fail_of_something_else() -> None:
    def measure(times: int) -> str:
        if times == 1:
            raise served.Uneven("uneven", "take more")
        raise EnvironmentProblem("the guest may hang")

    with pytest.raises(served.Uneven, match="uneven") as found:
        served.evened("redis", Quiet(), measure)
    assert str(found.value.__cause__) == "the guest may hang"


def test_a_server_is_measured_with_longer_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    (redis, nginx) = workloads.select_any(["redis/get", "nginx/keep"])
    tried: list[tuple[int, ...]] = []

    def uneven(of: Plan | Round) -> None:
        every = of.workloads if isinstance(of, Round) else (of.workload,)
        tried.append(tuple(one.window for one in every))
        raise served.Uneven("uneven")

    nothing: Any = None
    for module in (plan, mixed):
        monkeypatch.setattr(module.gc, "disable", lambda: None)
    monkeypatch.setattr(plan, "_measure", lambda one, *_: uneven(one))
    monkeypatch.setattr(Plan, "check", lambda _: None)
    kernel = Kernel("debian", "6.12", Path("bzImage"), Path("vmlinux"))
    own = Plan(kernel=kernel, qemu=nothing, workload=redis, topology=Topology(2, 1))
    with pytest.raises(served.Uneven):
        plan.measure(own, Path("plugin"), 256, Quiet())
    assert tried == [(400,), (800,), (1600,)]
    tried.clear()
    monkeypatch.setattr(mixed, "_measure", lambda _, each, *__: uneven(each))
    with pytest.raises(served.Uneven):
        mixed.measure(own, Round(redis, nginx, 1), Path("plugin"), 256, Quiet())
    assert tried == [(400, 400), (800, 800), (1600, 1600)]


def test_what_says_nothing_is_not_tried_again() -> None:
    def measure(times: int) -> str:
        assert times == 1
        served.requests("", Topology(2, 1))
        return ""

    with pytest.raises(EnvironmentProblem, match="2 containers did not say"):
        served.evened("redis", Quiet(), measure)


def test_longer_windows_are_of_the_same_workload() -> None:
    (redis,) = workloads.select_any(["redis/get"])
    longer = served.longer(redis, 4)
    assert longer.window == 4 * redis.window
    assert longer.model_copy(update={"window": redis.window}) == redis
