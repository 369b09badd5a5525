# SPDX-License-Identifier: GPL-2.0-or-later
"""What others measured on large machines and published, for the model to be held against."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Published:
    """Throughput of each container, operations per second, by number of containers."""

    title: str
    source: str
    workload: str
    scope: str
    throughput: dict[int, float]


SIGNALS: Final = Published(
    title="will-it-scale signal1 in Docker containers, more than 64 cores",
    source="Chen Ridong, 'ucounts: turn the atomic rlimit to percpu_counter', "
    "linux-kernel mailing list, 19 May 2025",
    workload="signal",
    scope="between",
    throughput={1: 380068, 4: 353204, 8: 308948, 16: 306453, 32: 180659, 64: 129152},
)

ALL: Final = (SIGNALS,)

OVERLAY_STALLS: Final = {56: 0.057, 100: 0.30}
"""Share of CPU time stalled on the mounter's credential by a web workload in one
container, by cores; "over 100" is taken as 100. Chen Hu, 'overlayfs: Optimize
override/revert creds', linux-unionfs mailing list, October 2023."""


def of(workload: str, scope: str) -> Published | None:
    """The published series of a workload, if there is one."""
    for one in ALL:
        if (one.workload, one.scope) == (workload, scope):
            return one
    return None
