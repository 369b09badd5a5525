# SPDX-License-Identifier: GPL-2.0-or-later
"""What is seen to before a kernel is downloaded or built: that a check can run here at all."""

from __future__ import annotations

from collections.abc import Sequence

from partywall import kernels
from partywall.core import packages
from partywall.core.errors import EnvironmentProblem, PartywallError
from partywall.core.progress import Progress
from partywall.guest import qemu, roots
from partywall.kernels import Kernel, Request
from partywall.record import plugin
from partywall.workloads import Root, Workload


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


def with_roots(
    wanted: Sequence[Workload], progress: Progress
) -> tuple[list[Workload], dict[str, PartywallError]]:
    """Return the workloads whose containers have a root, and why others have none, by title.

    Roots are made now, each once. The error itself if no workload is left.
    """
    wrong: dict[Root, PartywallError] = {}
    for root, service in dict.fromkeys((one.root, one.service) for one in wanted):
        if root is None:
            continue
        try:
            roots.started(roots.disk(root, progress), service)
        except PartywallError as error:
            wrong[root] = error
    left = [one for one in wanted if one.root not in wrong]
    if wrong and not left:
        raise next(iter(wrong.values()))
    return left, {one.title: wrong[one.root] for one in wanted if one.root in wrong}
