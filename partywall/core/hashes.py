# SPDX-License-Identifier: GPL-2.0-or-later
"""Hashes of files by what is in them."""

from __future__ import annotations

import hashlib
from collections.abc import Set
from pathlib import Path


def of_files(place: Path, but: Set[str] = frozenset()) -> str:
    """Return a hash of a file, or of all files in a folder with their names, hex.

    ``but``: names of folders in it that are left out.
    """
    total = hashlib.sha256()
    for path in sorted(place.rglob("*")) if place.is_dir() else [place]:
        name = path.relative_to(place)
        if path.is_file() and not but & set(name.parts):
            # A vmlinux is larger than what anybody wants to have in memory.
            with path.open("rb") as file:
                content = hashlib.file_digest(file, "sha256").hexdigest()
            total.update(f"{name} {content}\n".encode())
    return total.hexdigest()
