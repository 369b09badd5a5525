# SPDX-License-Identifier: GPL-2.0-or-later
"""Root file systems of containers that somebody else made, as disks for guests.

A disk is a file with a squashfs in it: the lower layer of all containers, which can't be
written. It is made by mksquashfs and kept, by what it was made from.
"""

from __future__ import annotations

from collections.abc import Callable

from partywall.core.progress import Progress
from partywall.guest.roots import debian, directories, images
from partywall.guest.roots.disks import Disk, Start
from partywall.guest.roots.media import Fitted, choose, fitted
from partywall.guest.roots.started import started
from partywall.guest.roots.together import Place, together
from partywall.workloads import Root

_MAKERS: dict[str, Callable[[str, Progress], Disk]] = {
    "directory": directories.disk,
    "image": images.disk,
    "debian": debian.disk,
}


def disk(root: Root, progress: Progress) -> Disk:
    """Return the disk of a root; made now if it is not kept.

    UsageProblem if there can't be one: the source is missing, broken or for another machine.
    """
    return _MAKERS[root.kind](root.what, progress)


__all__ = [
    "Disk",
    "Fitted",
    "Place",
    "Start",
    "choose",
    "disk",
    "fitted",
    "started",
    "together",
]
