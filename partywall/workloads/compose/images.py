# SPDX-License-Identifier: GPL-2.0-or-later
"""Where the image of a service is: nothing is pulled, so it is a file or a folder here."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from partywall.core.errors import UsageProblem

_ENDS = re.compile(r"(?:\.oci)?(?:\.tar)?(?:\.(?:gz|xz|bz2|zst)|\.tgz)?$")
HINT = "save it with docker save or skopeo copy, and say --images NAME=ARCHIVE[:TAG]"


def _plain(name: str) -> str:
    """Return the name of an image as Docker shows it: without its usual registry and a digest."""
    name = name.partition("@")[0]
    for usual in ("docker.io/", "index.docker.io/", "library/"):
        name = name.removeprefix(usual)
    return name


def _repository(name: str) -> str:
    """Return a name without its tag."""
    front, colon, tag = name.rpartition(":")
    return front if colon and "/" not in tag else name


def _as_file(name: str) -> str:
    return re.sub(r"[/:_-]+", "-", name).lower()


def _within(folder: Path, image: str) -> Path | None:
    """Return the archive or layout in a folder that is called like an image."""
    try:
        there = sorted(folder.iterdir())
    except OSError as error:
        raise UsageProblem(f"{folder}: {error.strerror}", "--images takes a folder") from error
    # Beside a file are folders that only their owner may enter: these are none.
    there = [
        one
        for one in there
        if os.path.isfile(one) or os.path.exists(one / "oci-layout")  # noqa: PTH110, PTH113
    ]
    whole, last = image, image.rpartition("/")[2]
    for name in dict.fromkeys((whole, last, _repository(whole), _repository(last))):
        wanted = _as_file(name)
        found = [
            one
            for one in there
            if _as_file(_ENDS.sub("", one.name)) == wanted and one.suffix not in {".yaml", ".yml"}
        ]
        if len(found) > 1:
            names = ", ".join(one.name for one in found)
            raise UsageProblem(f"{folder}: {image} may be any of {names}", HINT)
        if found:
            return found[0]
    return None


def place(image: str, service: str, given: Sequence[str], usual: Path) -> str:
    """Return where an image is, as --image takes it.

    ``given``: folders, and ``NAME=ARCHIVE[:TAG]`` of an image or a service; ``usual``: a
    folder where it may be if none is given.
    """
    names = {_plain(image), _repository(_plain(image)), image, service} - {""}
    folders = []
    for one in given:
        name, sign, archive = one.partition("=")
        if os.path.isdir(one):  # noqa: PTH112
            folders.append(Path(one))
        elif not sign or not name or not archive:
            raise UsageProblem(
                f"--images {one}: it is neither a folder nor NAME=ARCHIVE",
                "such as redis=redis.tar",
            )
        elif _plain(name) in names or name in names:
            return archive
    for folder in folders or [usual]:
        found = _within(folder, _plain(image) or service)
        if found is not None:
            return str(found)
    asked = image or f"what {service} is built from"
    where = ", ".join(map(str, folders or [usual]))
    raise UsageProblem(f"there is no archive of {asked} in {where}", HINT)
