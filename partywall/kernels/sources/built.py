# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernels that are built here: ``stock``, ``partywall``, or a tree of yours.

``stock`` is Debian's source as it is, ``partywall`` the same with our series.
``+debug`` and the like behind the name add fragments of configuration.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from partywall.core.errors import UsageProblem
from partywall.core.progress import Progress
from partywall.kernels import build, series
from partywall.kernels.kernel import Kernel

if TYPE_CHECKING:
    from partywall.kernels.resolve import Request

FORMS = ("stock", "partywall", "either with +VARIANT behind it", "--kernel-tree DIR")
_NAMES = ("stock", "partywall")


def understands(request: Request) -> bool:
    """``stock`` or ``partywall``, or a folder given as a tree."""
    return request.tree is not None or request.kernel.partition("+")[0] in _NAMES


def get(request: Request, progress: Progress) -> Kernel:
    """The kernel, built if it is not in the cache."""
    if request.vmlinux is not None or request.modules is not None:
        raise UsageProblem(
            "--vmlinux and --modules belong to a kernel given as a file",
            "leave them out: what is built here brings both",
        )
    name, *fragments = request.kernel.split("+")
    variant = build.Variant(tuple(fragments))
    if request.tree is not None:
        return build.from_tree(request.tree, variant, progress)
    patches = series.read() if name == "partywall" else []
    return build.from_series(name, patches, variant, progress)
