# SPDX-License-Identifier: GPL-2.0-or-later
"""A container is started and confined as a service asks, and as its image says elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import builders
import pytest

from partywall.advice import checked
from partywall.cli.program import Program
from partywall.core.errors import UsageProblem
from partywall.core.progress import Quiet
from partywall.core.topology import Topology
from partywall.guest import asked, oci, rooted, roots
from partywall.guest.roots import images
from partywall.guest.roots.disks import Disk, Start
from partywall.workloads import Root, Service
from partywall.workloads.service import Limit, Tmpfs

START = Start(args=("/in", "it", "-v"), entry=2, env=("PATH=/bin", "A=1"), cwd="/w", uid=5, gid=6)
LONG = "9" * 5000
PASSWD = (
    f"root:x:0:0::/root:/bin/sh\nbroken\nlong:x:{LONG}:1::/:\nfar:x:9:99999999999::/:\n"
    + "me:x:7:8::/home/me:/bin/sh\nno:x:number:8::/:\n"
)
GROUP = f"root:x:0:\nfar:x:{LONG}:me\nmine:x:8:\nmore:x:9:you,me\nother:x:10:you\n"


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    """A disk whose root has users."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "root"
    (folder / "etc").mkdir(parents=True)
    (folder / "etc/passwd").write_text(PASSWD)
    (folder / "etc/group").write_text(GROUP)
    found = roots.disk(Root(kind="directory", what=str(folder)), Quiet())
    return found.model_copy(update={"start": START})


def service(**facts: Any) -> Service:
    return Service(name="one", image="one", **facts)


@pytest.mark.parametrize(
    ("facts", "args"),
    [
        ({}, ("/in", "it", "-v")),
        ({"command": ("x",)}, ("/in", "it", "x")),
        ({"command": ()}, ("/in", "it")),
        ({"entrypoint": ("y",)}, ("y",)),
        ({"entrypoint": (), "command": ("x",)}, ("x",)),
        ({"entrypoint": ("y",), "command": ("x",)}, ("y", "x")),
    ],
)
def test_an_entrypoint_of_ones_own_has_no_command_of_the_image(
    facts: dict[str, Any], args: tuple[str, ...]
) -> None:
    found = roots.started(Disk(file=Path("none"), start=START), service(**facts))
    assert found.args == args
    assert (found.uid, found.gid, found.cwd, found.env) == (5, 6, "/w", START.env)


def test_a_service_that_runs_nothing_is_refused() -> None:
    with pytest.raises(UsageProblem, match="one runs nothing"):
        roots.started(Disk(file=Path("none"), start=Start()), service())


def test_variables_are_added_changed_and_taken_away() -> None:
    more = service(environment=(("A", None), ("B", "=2")), cwd="/x")
    found = roots.started(Disk(file=Path("none"), start=START), more)
    assert found.env == ("PATH=/bin", "B==2")
    assert found.cwd == "/x"


@pytest.mark.parametrize(
    ("user", "who", "home"),
    [
        ("me", (7, 8, (9,)), "/home/me"),
        ("7", (7, 8, (9,)), "/home/me"),
        ("me:mine", (7, 8, ()), "/home/me"),
        ("me:99", (7, 99, ()), "/home/me"),
        ("1234", (1234, 0, ()), None),
        ("1234:more", (1234, 9, ()), None),
        ("me:", (7, 8, (9,)), "/home/me"),
    ],
)
def test_users_are_those_of_the_root(
    disk: Disk, user: str, who: tuple[int, int, tuple[int, ...]], home: str | None
) -> None:
    found = roots.started(disk, service(user=user))
    assert (found.uid, found.gid, found.groups) == who
    assert dict(one.split("=") for one in found.env).get("HOME") == home


def test_home_is_of_who_runs_it_unless_the_image_says_it(disk: Disk) -> None:
    # As umoci writes it, for the user whom the image names.
    env = ("PATH=/bin", "HOME=/home/other")
    for own, user, home in [
        (False, "me", "/home/me"),
        (False, "1234", None),
        (False, None, "/home/other"),
        (True, "me", "/home/other"),
    ]:
        start = START.model_copy(update={"env": env, "home": own})
        found = roots.started(disk.model_copy(update={"start": start}), service(user=user))
        assert dict(one.split("=") for one in found.env).get("HOME") == home


def test_an_image_says_home_where_its_own_variables_have_it() -> None:
    process = {"env": ["PATH=/bin", "HOME=/root"]}
    for facts, own in [
        ({}, False),
        ({"config": {"Env": ["PATH=/bin"]}}, False),
        ({"config": {"Env": ["HOME=/root"], "Entrypoint": ["a"]}}, True),
    ]:
        assert images._start(process, facts).home is own


def test_numbers_of_users_are_bounded_wherever_they_stand(disk: Disk) -> None:
    found = roots.started(disk, service(user="0" * 5000))
    assert (found.uid, found.gid) == (0, 0)
    for user in ("0000000000099999999999", "9" * 5000, "1:" + "9" * 5000, "\u0663"):
        with pytest.raises(UsageProblem, match=r"its image has no (user|group) '") as refused:
            roots.started(disk, service(user=user))
        assert len(refused.value.message) < 200


def test_groups_are_added_to_those_of_the_image(disk: Disk) -> None:
    found = roots.started(disk, service(groups=("other", "77")))
    assert (found.uid, found.gid, found.groups) == (5, 6, (10, 77))


@pytest.mark.parametrize(
    "user", ["you", "no", "long", "far", "me:you", "me:far", "99999999999", "-1"]
)
def test_who_is_not_there_is_named(disk: Disk, user: str) -> None:
    with pytest.raises(UsageProblem, match=r"its image has no (user|group) '"):
        roots.started(disk, service(user=user))


def made(**more: Any) -> dict[str, Any]:
    usual = oci.config(
        number=3,
        cpus=range(3, 5),
        arguments=["x"],
        environment={},
        capabilities=(),
        confined=True,
        apparmor=True,
        systempaths=True,
        more=rooted.CONFINEMENT,
        **more,
    )
    return rooted.config(usual, Start())


def test_nothing_changes_for_who_asks_for_nothing() -> None:
    assert asked.config(made(), service(), 2) == made()


def test_limits_are_the_groups_and_the_processes() -> None:
    limits = (Limit(kind="RLIMIT_NOFILE", soft=1, hard=-1),)
    wants = service(cpus=1.5, memory=9, pids=4, limits=limits, sysctls=(("net.a", "1"),))
    found = asked.config(made(), wants, 2)
    assert found["linux"]["resources"] == {
        "cpu": {"cpus": "3-4", "quota": 150_000, "period": 100_000},
        "memory": {"limit": 9},
        "pids": {"limit": 4},
    }
    whole = 2**64 - 1
    assert found["process"]["rlimits"] == [{"type": "RLIMIT_NOFILE", "soft": 1, "hard": whole}]
    assert found["linux"]["sysctl"] == {"net.a": "1"}


def test_as_many_cpus_as_there_are_are_no_limit() -> None:
    found = asked.config(made(), service(cpus=2.0), 2)
    assert found["linux"]["resources"]["cpu"] == {"cpus": "3-4"}


def test_a_tmpfs_hides_nothing_of_ours() -> None:
    wants = service(tmpfs=(Tmpfs(place="/run/a"), Tmpfs(place="/run", options=("size=1m",))), shm=7)
    mounts = asked.config(made(), wants, 2)["mounts"]
    places = [one["destination"] for one in mounts]
    ours = [place for place in places if place.startswith("/run/partywall")]
    assert len(ours) == 2
    assert places.index("/dev") < places.index("/run") < places.index("/run/a")
    assert places.index("/run/a") < min(places.index(place) for place in ours)
    shm = mounts[places.index("/dev/shm")]
    assert [word for word in shm["options"] if word.startswith("size")] == ["size=7"]


def test_a_tmpfs_is_mounted_over_nothing_but_shared_memory() -> None:
    before = [one["destination"] for one in made()["mounts"]]
    for place in ("/run/partywall", "/dev", "/proc", "/dev/pts"):
        mounts = asked.config(made(), service(tmpfs=(Tmpfs(place=place),)), 2)["mounts"]
        assert len(mounts) == len(before) + 1
    mounts = asked.config(made(), service(tmpfs=(Tmpfs(place="/dev/shm"),)), 2)["mounts"]
    assert sorted(one["destination"] for one in mounts) == sorted(before)


def test_a_root_that_is_only_read_and_privileges_that_stay() -> None:
    found = asked.config(made(), service(read_only=True, no_new_privileges=True), 2)
    assert found["root"]["readonly"]
    assert found["process"]["noNewPrivileges"]


@pytest.mark.parametrize(
    ("dropped", "capabilities", "held"),
    [
        ((), (), set(oci.CAPABILITIES)),
        (("CAP_CHOWN",), (), set(oci.CAPABILITIES) - {"CAP_CHOWN"}),
        (("ALL",), ("CAP_SYS_TIME",), {"CAP_SYS_TIME"}),
        (("CAP_CHOWN",), ("CAP_CHOWN",), set(oci.CAPABILITIES)),
    ],
)
def test_capabilities_are_dropped_before_others_are_added(
    dropped: tuple[str, ...], capabilities: tuple[str, ...], held: set[str]
) -> None:
    found = oci.config(
        number=0,
        cpus=range(1),
        arguments=["x"],
        environment={},
        capabilities=capabilities,
        confined=False,
        apparmor=False,
        systempaths=False,
        dropped=dropped,
    )
    assert set(found["process"]["capabilities"]["bounding"]) == held


def program(wants: Service) -> Program:
    root = Root(kind="image", what="one.tar")
    return Program((), None, False, None, None, (), (), (), root, None, wants)


@pytest.mark.parametrize(
    ("facts", "given", "shape"),
    [
        ({}, (None, None), None),
        ({"replicas": 1}, (None, None), None),
        ({"replicas": 3}, (None, None), Topology(3, 1)),
        ({"replicas": 100}, (None, None), Topology(8, 1)),
        ({"replicas": 3, "cpus": 1.5}, (None, None), Topology(3, 2)),
        ({"cpus": 0.5}, (None, None), Topology(8, 1)),
        ({"replicas": 3, "cpus": 1.5}, (2, 4), Topology(2, 4)),
    ],
)
def test_replicas_and_cpus_are_the_topology_unless_it_is_given(
    facts: dict[str, Any], given: tuple[int | None, int | None], shape: Topology | None
) -> None:
    assert program(service(**facts)).shape(*given) == shape


def test_a_service_is_no_ready_made_server() -> None:
    wants = service(added=("CAP_NET_ADMIN",), seccomp="unconfined").model_copy(
        update={"name": "redis"}
    )
    (found,) = program(wants).workloads(())
    assert found.title == "redis/compose"
    assert found.capabilities == ("CAP_NET_ADMIN",)
    assert found.seccomp == "unconfined"
    # It is not what explain --check would run for it.
    measured = builders.workload(found.name, [], variant=found.variant)
    with pytest.raises(UsageProblem, match="a program of yours"):
        checked.workload_of(measured)


def test_all_capabilities_but_those_that_are_dropped() -> None:
    (found,) = program(service(added=("ALL",), dropped=("CAP_SYS_TIME",))).workloads(())
    assert "CAP_SYS_ADMIN" in found.capabilities
    assert "CAP_SYS_TIME" not in found.capabilities
