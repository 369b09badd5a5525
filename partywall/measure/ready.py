# SPDX-License-Identifier: GPL-2.0-or-later
"""What is seen to before a kernel is downloaded or built: that a check can run here at all."""

from __future__ import annotations

from partywall import kernels
from partywall.core import packages
from partywall.core.errors import EnvironmentProblem
from partywall.core.progress import Progress
from partywall.guest import qemu
from partywall.kernels import Kernel, Request
from partywall.record import plugin


def lists() -> tuple[packages.Kind, ...]:
    """Return the lists of packages that a check on this machine needs."""
    try:
        there = plugin.is_there(qemu.find())
    except EnvironmentProblem:
        # For which QEMU it will have to be is not known yet.
        there = plugin.came_along()
    return ("check",) if there else ("check", "recorder")


def resolve(request: Request, progress: Progress) -> Kernel:
    """Return the kernel that is asked for; EnvironmentProblem at once if a check can't run here."""
    packages.require(*lists())
    return kernels.resolve(request, progress)
