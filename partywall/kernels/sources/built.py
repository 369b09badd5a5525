# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernels that are built here: ``stock``, ``partywall``, or a tree of yours.

``stock`` is Debian's source as it is, ``partywall`` the same with our series, of
Linux 6.12 or of the version behind an at sign. ``+debug`` and the like behind the
name add fragments of configuration. A tree is also a kernel's name: the path of its folder.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from partywall.core.errors import UsageProblem
from partywall.core.progress import Progress
from partywall.kernels import build, series
from partywall.kernels.kernel import Kernel
from partywall.kernels.series import bases

if TYPE_CHECKING:
    from partywall.kernels.resolve import Request

FORMS = (
    "stock",
    "partywall",
    "either with @VERSION (stock@7.3) and +VARIANT behind it",
    "the folder of a tree of Linux",
)
_NAMES = ("stock", "partywall")


def understands(request: Request) -> bool:
    """``stock`` or ``partywall``, or a folder given as a tree."""
    return _parted(request.kernel)[0] in _NAMES or _tree(request) is not None


def _tree(request: Request) -> Path | None:
    """The folder of a tree, if one is meant."""
    if request.tree is not None:
        return request.tree
    if "/" in request.kernel:
        return Path(request.kernel) if os.path.isdir(request.kernel) else None  # noqa: PTH112 (never raises)
    # Without a slash it may be a name, whatever folders are here.
    named = re.split("[:@+]", request.kernel)[0] in ("debian", *_NAMES)
    return None if named or not build.is_linux(Path(request.kernel)) else Path(request.kernel)


def _parted(kernel: str) -> tuple[str, str | None, tuple[str, ...]]:
    """Name, version if one is said, and fragments."""
    title, *fragments = kernel.split("+")
    name, at, version = title.partition("@")
    return name, version if at else None, tuple(fragments)


def get(request: Request, progress: Progress) -> Kernel:
    """The kernel, built if it is not in the cache."""
    if request.vmlinux is not None or request.modules is not None:
        raise UsageProblem(
            "--vmlinux and --modules belong to a kernel given as a file",
            "leave them out: what is built here brings both",
        )
    tree = _tree(request)
    # There may be a plus sign in a path.
    name, version, fragments = _parted("" if tree and not request.tree else request.kernel)
    variant = build.Variant(fragments)
    if tree is not None:
        return build.from_tree(tree, variant, progress)
    base = bases.get() if version is None else bases.get(version)
    patches = series.read(base.folder) if name == "partywall" else []
    title = name if version is None else f"{name}@{base.version}"
    return build.from_series(title, patches, variant, progress, base)
