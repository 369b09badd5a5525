# SPDX-License-Identifier: GPL-2.0-or-later
"""Containers of two servers, half of them one and half the other, from one root."""

from __future__ import annotations

from partywall.core.topology import Topology
from partywall.guest import image, rooted
from partywall.guest.cpio import Archive
from partywall.guest.roots import Fitted
from partywall.guest.sitting import Round


def job(each: Round, topology: Topology, *, confined: bool, disk: Fitted) -> Archive:
    """Return the archive that tells the guest which containers to make.

    All are confined as the first server says. ``disk``: what the root of both is on.
    """
    numbers = range(topology.containers)
    both = each.workload.window, (each.beside or each.workload).window
    told = {
        "PW_MARKED": "0",
        "PW_PATIENCE": str(rooted.patience(topology)),
        "PW_MIX": f"{each.first} {both[0]} {both[1]}",
    }
    commands = [
        [rooted.INSIDE, *rooted.arguments(each.of(one), disk.start, one)] for one in numbers
    ]
    own = [
        {
            "PW_VARIANT": each.of(one).variant,
            "PW_WARMUP": str(each.of(one).warmup),
            "PW_WINDOW": str(each.of(one).window),
        }
        for one in numbers
    ]
    return image.containers(
        each.workload,
        topology,
        commands,
        told,
        confined=confined,
        more=rooted.CONFINEMENT,
        disk=disk,
        own=own,
        clients=[rooted.client(each.of(one), one) for one in numbers] if each.workload.peer else (),
    )
