# SPDX-License-Identifier: GPL-2.0-or-later
"""Containers of clients: where they are, what they run, and what they share with a server's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from partywall import workloads
from partywall.core.topology import Topology
from partywall.guest import image, mixed, oci, peers, rooted
from partywall.guest.cpio import Archive
from partywall.guest.roots import Place, media
from partywall.guest.roots.disks import Start
from partywall.guest.sitting import Round
from partywall.workloads import PEERS, Root, Service, Workload


def of(name: str) -> Workload:
    """A server of this name."""
    (found,) = workloads.select([name], more=workloads.load_servers())
    return found


@pytest.fixture
def disk(tmp_path: Path) -> media.Fitted:
    (tmp_path / "root").write_bytes(bytes(1 << 20))
    return media.Fitted(
        tmp_path / "root", Place((), Start()), "key", media.Medium(media.RAM, media._SYSTEMS[0])
    )


def job(workload: Workload, asked: Topology, disk: media.Fitted) -> Archive:
    """What a guest is told of a server in so many containers."""
    shape = peers.topology(workload, asked)
    every = [image.rooted_one(workload, disk.place.start, n) for n in range(shape.containers)]
    return image.containers(workload, shape, every, {}, confined=False, disk=disk)


def config(archive: Archive, name: str) -> Any:
    return json.loads(archive.entries[f"job/{name}/config.json"][1])


def cpus(archive: Archive, name: str) -> str:
    told: str = config(archive, name)["linux"]["resources"]["cpu"]["cpus"]
    return told


def told(archive: Archive, name: str) -> dict[str, str]:
    return dict(one.split("=", 1) for one in config(archive, name)["process"]["env"])


def test_a_client_in_the_servers_container_is_in_no_other(disk: media.Fitted) -> None:
    archive = job(of("redis"), Topology(2, 1), disk)
    assert archive.entries["job/containers"][1] == b"0 1\n"
    assert "job/peers" not in archive.entries
    assert {"type": "network"} in config(archive, "1")["linux"]["namespaces"]
    assert "PW_PEER" not in told(archive, "1")


def test_a_pair_is_joined_by_a_bridge_and_a_folder(disk: media.Fitted) -> None:
    archive = job(of("redis/get-peer"), Topology(2, 1), disk)
    assert archive.entries["job/containers"][1] == b"0 1 p0 p1\n"
    assert archive.entries["job/peers"][1] == b"2\n"
    server, client = config(archive, "1"), config(archive, "p1")
    for made, name in ((server, "c1"), (client, "p1")):
        spaces = [one for one in made["linux"]["namespaces"] if one["type"] == "network"]
        assert spaces == [{"type": "network", "path": f"/run/netns/{name}"}]
        assert made["linux"]["cgroupsPath"] == f"/partywall/{name}"
        assert made["hostname"] == name
        (folder,) = [one for one in made["mounts"] if one["destination"] == peers.FOLDER]
        assert folder["source"] == "/run/peers/1"
    # Who serves has no client among its words, and who asks no server.
    assert "redis-benchmark" not in server["process"]["args"]
    asks = client["process"]["args"]
    assert asks[:2] == [rooted.INSIDE, "0"]
    assert asks[asks.index("-h") + 1] == "172.17.0.4"
    assert b"172.17.0.4\tc1\n" in archive.entries["job/1/hosts"][1]
    assert b"172.17.0.5\tp1\n" in archive.entries["job/p1/hosts"][1]


def test_a_client_has_the_servers_cpus_or_as_many_others(disk: media.Fitted) -> None:
    near = job(of("redis/get-peer"), Topology(2, 2), disk)
    assert (cpus(near, "1"), cpus(near, "p1")) == ("2-3", "2-3")
    assert "PW_APART" not in told(near, "1")
    far = job(of("redis/get-apart"), Topology(2, 2), disk)
    assert (cpus(far, "0"), cpus(far, "p0")) == ("0-1", "2-3")
    assert (cpus(far, "1"), cpus(far, "p1")) == ("4-5", "6-7")
    # All of a pair are in its window.
    assert [told(far, "1")[name] for name in ("PW_APART", "PW_CPU", "PW_CPUS", "PW_PROCS")] == [
        *("1", "4", "4", "8")
    ]


def test_what_was_measured_can_be_measured_again() -> None:
    asked = Topology(4, 2)
    for name, cpus in (
        ("redis", 2),
        ("redis/get-peer", 2),
        ("redis/get-apart", 4),
        ("redis/get-outside", 4),
    ):
        has = peers.topology(of(name), asked)
        assert has == Topology(4, cpus)
        assert peers.of_servers(of(name), has) == asked


def test_a_client_of_a_service_is_none_itself(disk: media.Fitted) -> None:
    service = Service(name="web", image="a.tar", dropped=("CAP_CHOWN",), read_only=True)
    update = {"service": service, "capabilities": ("CAP_SYS_ADMIN",)}
    archive = job(of("redis/get-peer").model_copy(update=update), Topology(2, 1), disk)
    server, client = config(archive, "0"), config(archive, "p0")
    held, usual = (one["process"]["capabilities"]["effective"] for one in (server, client))
    assert "CAP_SYS_ADMIN" in held
    assert "CAP_CHOWN" not in held
    assert usual == sorted(oci.CAPABILITIES)
    assert (server["root"]["readonly"], client["root"]["readonly"]) == (True, False)


def test_who_asks_from_where_is_in_the_name_of_what_was_measured() -> None:
    root = Root(kind="directory", what="/srv")
    asks = "ask {server} {requests}"
    titles = [
        workloads.from_root(
            root, ["/bin/oned"], marked=None, window=None, client=asks, peer=peer
        ).title
        for peer in (None, *PEERS)
    ]
    assert titles == ["oned", "oned/peer", "oned/apart", "oned/outside"]


def test_addresses_of_many_pairs_are_their_own() -> None:
    near, far = of("redis/get-apart"), of("redis/get-outside")
    sides: tuple[peers.Side, ...] = ("server", "client")
    found = [peers.address(near, number, side) for number in range(200) for side in sides]
    assert len(set(found)) == 400
    # The bridge has the first one.
    assert found[0] == "172.17.0.2"
    assert "172.17.1.0" in found
    assert peers.address(of("redis"), 3) == "127.0.0.1"
    # Who is outside of the network is in another one.
    assert (peers.address(far, 1), peers.address(far, 1, "client")) == ("172.17.0.4", "172.18.0.5")


def test_two_servers_that_are_asked_from_elsewhere_have_their_own_clients(
    disk: media.Fitted,
) -> None:
    pair = Round(of("redis/set-peer"), of("nginx/close-peer"), 1)
    places = [disk.place] * 2
    archive = mixed.job(pair, Topology(2, 1), confined=False, disk=disk, places=places)
    assert "set" in config(archive, "p0")["process"]["args"]
    assert "http://172.17.0.4:8080/index.html" in config(archive, "p1")["process"]["args"]
