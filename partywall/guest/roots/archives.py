# SPDX-License-Identifier: GPL-2.0-or-later
"""An archive of images, looked through once before anybody unpacks it.

skopeo unpacks all of it, with what belongs to no image, so that it is bounded here: each of its
files and all together.
"""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

from partywall.core.errors import UsageProblem
from partywall.guest.roots import disks, layers
from partywall.guest.roots.disks import tool
from partywall.guest.roots.layers import REF_NAME, UNREADABLE, WANTED

_LONGEST_LIST = 8 << 20
_PIECE = 1 << 20
_PACKED: dict[bytes, Callable[..., Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ": lzma.open,
}


@dataclass
class _Lists:
    """What an archive says of its images: by name of the file, as JSON."""

    found: dict[str, Any] = field(default_factory=dict)
    layout: bool = False

    def docker_tags(self) -> list[str]:
        """Return tags in the list that `docker save` writes."""
        return [
            tag
            for image in _all(self.found.get("manifest.json"), dict)
            for tag in _all(image.get("RepoTags"), str)
        ]

    def tags(self) -> list[Any]:
        """Return tags of an OCI layout."""
        index = self.found.get("index.json")
        manifests = index.get("manifests") if isinstance(index, dict) else None
        notes = (one.get("annotations") for one in _all(manifests, dict))
        return [one.get(REF_NAME) for one in notes if isinstance(one, dict)]


def _all(listed: Any, kind: type) -> list[Any]:
    """What is of one kind in what is to be a list, whatever a stranger has written."""
    return [one for one in listed if isinstance(one, kind)] if isinstance(listed, list) else []


def _head(archive: Path) -> bytes:
    with archive.open("rb") as data:
        return data.read(6)


def _is_packed(archive: Path) -> bool:
    return _head(archive).startswith((layers.ZSTD, *_PACKED))


@contextmanager
def _unpacked(archive: Path) -> Iterator[IO[bytes]]:
    """An archive without what it is packed with."""
    head = _head(archive)
    if not head.startswith(layers.ZSTD):
        opens = next((opens for mark, opens in _PACKED.items() if head.startswith(mark)), open)
        with opens(archive, "rb") as plain:
            yield plain
        return
    command = [tool("zstd"), "-dcq", str(archive)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as unpacks:
        try:
            yield cast(IO[bytes], unpacks.stdout)
        finally:
            unpacks.kill()


def _look(archive: Path, what: str) -> _Lists:
    """Return what an archive says of its images; UsageProblem if it is too large or none."""
    lists, total = _Lists(), 0
    # In a stream it is unpacked once; what is not packed is skipped through.
    mode: Any = "r|" if _is_packed(archive) else "r:"
    with (
        _unpacked(archive) as data,
        tarfile.open(fileobj=data, mode=mode, tarinfo=layers.Member) as files,
    ):
        for count, member in enumerate(files):
            total += layers.size_of(member, what)
            if total > disks.MOST:
                raise layers.too_large(what)
            if count == layers.MOST_FILES:
                raise UsageProblem(f"{what} has more than {count:,} files", WANTED)
            name = member.name.removeprefix("./")
            lists.layout |= name == "oci-layout"
            listed = name in ("manifest.json", "index.json") and member.isreg()
            if listed and member.size <= _LONGEST_LIST:
                text = files.extractfile(member)
                lists.found[name] = json.loads(text.read()) if text else None
            files.members.clear()  # type: ignore[attr-defined]
    return lists


def _plain(archive: Path, into: Path, what: str) -> Path:
    """Return an archive that is not packed: skopeo can't read some that are."""
    if not _is_packed(archive):
        return archive
    left = disks.MOST
    with _unpacked(archive) as data, into.open("wb") as out:
        while piece := data.read(_PIECE):
            out.write(piece)
            left -= len(piece)
            if left < 0:
                raise layers.too_large(what)
    return into


def reference(archive: Path, tag: str, what: str, work: Path) -> str:
    """Return what skopeo calls an image of an archive, which may be Docker's and a layout as well.

    Docker's own list has whole names, a layout often what is behind their colon. ``work``:
    folder that may be written.
    """
    try:
        lists = _look(archive, what)
        archive = _plain(archive, work / "archive.tar", what)
    except UNREADABLE as error:
        why = str(error).partition("\n")[0]
        raise UsageProblem(f"{archive.name} is no archive: {why[:120]}", WANTED) from error
    if "manifest.json" in lists.found:
        known = lists.docker_tags()
        for full in (tag, f"{tag}:latest"):
            if tag and full in known:
                return f"docker-archive:{archive}:{full}"
    behind = f":{tag}" if tag else ""
    if lists.layout and (tag in lists.tags() or "manifest.json" not in lists.found):
        return f"oci-archive:{archive}{behind}"
    return f"docker-archive:{archive}{behind}"
