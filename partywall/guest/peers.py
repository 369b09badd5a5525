# SPDX-License-Identifier: GPL-2.0-or-later
"""Pairs of containers on one bridge: a server's, and one of who asks it.

What joins them is there before they start: ``harness/network.c``.
"""

from __future__ import annotations

from ipaddress import IPv4Address
from typing import Any, Literal

from partywall.core.topology import Topology
from partywall.workloads import PEERS, Workload

FOLDER = "/run/partywall-peer"
"""Where both of a pair have the folder by which one tells the other what to do."""

NETWORK, OUTSIDE = IPv4Address("172.17.0.0"), IPv4Address("172.18.0.0")
"""Docker's, with the bridge's address behind it, and another one; as in network.c."""

Side = Literal["server", "client"]
_LETTERS: dict[Side, str] = {"server": "c", "client": "p"}


def name(number: int, side: Side = "server") -> str:
    """Return what a container calls itself."""
    return f"{_LETTERS[side]}{number}"


def address(workload: Workload, number: int, side: Side = "server") -> str:
    """Return the address of a container by which others reach it."""
    if workload.peer is None:
        return "127.0.0.1"
    network = OUTSIDE if workload.peer == "outside" and side == "client" else NETWORK
    return str(network + 2 + 2 * number + (side == "client"))


def _apart(workload: Workload) -> bool:
    """Return whether clients have CPUs of their own."""
    return workload.peer is not None and PEERS[workload.peer].apart


def cpus(workload: Workload, topology: Topology, number: int, side: Side = "server") -> range:
    """Return the CPUs that a container has, of those of its pair."""
    first, many = number * topology.cpus, topology.cpus
    if _apart(workload):
        many //= 2
        first += many * (side == "client")
    return range(first, first + many)


def topology(workload: Workload, asked: Topology) -> Topology:
    """Return how many CPUs each pair has in all, ``asked`` being what the servers have."""
    if not _apart(workload):
        return asked
    return Topology(asked.containers, 2 * asked.cpus)


def of_servers(workload: Workload, has: Topology) -> Topology:
    """Return what `topology` made ``has`` of."""
    if not _apart(workload):
        return has
    return Topology(has.containers, has.cpus // 2)


def client_of(workload: Workload) -> Workload:
    """Return how a client's container is confined.

    As the server's, unless that is a service: its client is none, and has Docker's defaults
    but for AppArmor, of which a guest has a policy or none.
    """
    if workload.service is None:
        return workload
    usual = {"service": None, "capabilities": (), "seccomp": "docker", "systempaths": "docker"}
    return workload.model_copy(update=usual)


def environment(workload: Workload) -> dict[str, str]:
    """Return what both of a pair are told."""
    if workload.peer is None:
        return {}
    return {"PW_PEER": FOLDER} | ({"PW_APART": "1"} if _apart(workload) else {})


def told(workload: Workload, pairs: int) -> bytes:
    """Return what init hands to who joins so many pairs."""
    return f"{pairs}{' outside' if workload.peer == 'outside' else ''}\n".encode()


def config(made: dict[str, Any], number: int, side: Side) -> dict[str, Any]:
    """Return a container's config.json with its place on the bridge, and in its pair."""
    space = {"type": "network", "path": f"/run/netns/{name(number, side)}"}
    kept = [one for one in made["linux"]["namespaces"] if one["type"] != "network"]
    folder = {
        "destination": FOLDER,
        "type": "bind",
        "source": f"/run/peers/{number}",
        "options": ["bind", "rw"],
    }
    own = name(number, side)
    linux = made["linux"] | {"namespaces": [*kept, space], "cgroupsPath": f"/partywall/{own}"}
    return made | {"hostname": own, "linux": linux, "mounts": [*made["mounts"], folder]}
