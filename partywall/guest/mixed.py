# SPDX-License-Identifier: GPL-2.0-or-later
"""Containers of two servers, half of them one and half the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from partywall.core.topology import Topology
from partywall.guest import image, rooted
from partywall.guest.cpio import Archive
from partywall.guest.roots import Fitted, Place
from partywall.guest.sitting import Round


def job(
    each: Round,
    topology: Topology,
    *,
    confined: bool,
    disk: Fitted,
    places: Sequence[Place],
) -> Archive:
    """Return the archive that tells the guest which containers to make.

    All are confined as the first server says. ``disk``: what the roots of both are on;
    ``places``: where those are.
    """
    both = each.workload.window, (each.beside or each.workload).window
    told = {
        "PW_MARKED": "0",
        "PW_PATIENCE": str(rooted.patience(topology)),
        "PW_MIX": f"{each.first} {both[0]} {both[1]}",
    }

    def contained(number: int) -> image.Contained:
        workload, place = each.of(number), places[number >= each.first]
        more = {
            "PW_VARIANT": workload.variant,
            "PW_WARMUP": str(workload.warmup),
            "PW_WINDOW": str(workload.window),
        }
        return replace(image.rooted_one(workload, place.start, number), told=more, place=place)

    return image.containers(
        each.workload,
        topology,
        [contained(number) for number in range(topology.containers)],
        told,
        confined=confined,
        more=rooted.CONFINEMENT,
        disk=disk,
    )
