# SPDX-License-Identifier: GPL-2.0-or-later
"""Builds of a tree of yours, each in a folder of its own, as long as a job may measure it."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from partywall.core import hashes

_KEPT_FOR, _KEPT = 24 * 3600.0, 8
"""Seconds after which a build of a tree that was built again goes, and how many stay at most."""


def put(new: Path, output: Path) -> Path:
    """Put a build into a folder named by what is in it, and return that.

    Another job may be measuring the last one, which stays for a day.
    """
    place = output / f"kernel-{hashes.of_files(new)[:16]}"
    if place.exists():
        shutil.rmtree(new)
    else:
        new.rename(place)
    place.touch()
    for old in output.glob("gone-*"):
        shutil.rmtree(old, ignore_errors=True)
    # An older version of this program had one for all builds.
    others = [one for one in (output / "kernel", *output.glob("kernel-*")) if one.exists()]
    others.sort(key=lambda one: -one.stat().st_mtime)
    for number, old in enumerate(others):
        late = number >= _KEPT or time.time() - old.stat().st_mtime > _KEPT_FOR
        if old != place and late:
            # Renamed first: half of one has no name by which it would be taken for whole.
            gone = old.rename(output / f"gone-{old.name}")
            shutil.rmtree(gone, ignore_errors=True)
    return place
