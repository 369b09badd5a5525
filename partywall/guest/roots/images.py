# SPDX-License-Identifier: GPL-2.0-or-later
"""A container image as the root of containers: an OCI layout, or an archive of images.

skopeo reads it and umoci unpacks it: neither lets a name or a link in a layer lead out of
the folder. What is too large or for another machine is refused before it is unpacked.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import tarfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any, cast

from partywall.core.errors import UsageProblem
from partywall.core.progress import Progress
from partywall.guest.roots import disks
from partywall.guest.roots.disks import FORM, Disk, Start, kept, say, tool

_CHUNK = 1 << 20
_GZIP = b"\x1f\x8b"
MOST_FILES = 1_000_000
"""Of a layer: each takes an inode, however short it is."""

_LONGEST_HEADER = 1 << 20
_HEADERS = {
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
}
# Of headers that are no numbers, no lengths, or come one after the other without end.
_UNREADABLE = (
    tarfile.TarError,
    zlib.error,
    EOFError,
    OSError,
    ValueError,
    OverflowError,
    RecursionError,
)
_BROKEN = "an OCI layout, or an archive that docker save or skopeo made, is what --image takes"


def _split(what: str) -> tuple[Path, str]:
    """Return where images are, and the tag of one of them, empty if none is named."""
    if Path(what).exists():
        return Path(what).resolve(), ""
    name, colon, tag = what.rpartition(":")
    if colon and "/" not in tag and Path(name).exists():
        return Path(name).resolve(), tag
    # Docker's own tags have one more colon.
    name, colon, first = name.rpartition(":")
    if colon and Path(name).exists():
        return Path(name).resolve(), f"{first}:{tag}"
    raise UsageProblem(f"{what}: there is no such file", _BROKEN)


def _has_member(archive: Path, name: str) -> bool:
    """Whether a tar archive has a file of that name at its top."""
    status, listed, why = say([tool("tar"), "-tf", str(archive)])
    if status:
        raise UsageProblem(f"{archive.name} is no archive: {why[:120]}", _BROKEN)
    return any(line.removeprefix("./") == name for line in listed.splitlines())


def _reference(place: Path, tag: str) -> str:
    """Return what skopeo calls an image."""
    if ":" in str(place):
        raise UsageProblem(f"{place}: skopeo takes no colon in a path", "give it another name")
    behind = f":{tag}" if tag else ""
    if place.is_dir():
        if not (place / "oci-layout").exists():
            raise UsageProblem(f"{place} is no OCI layout: it has no file oci-layout", _BROKEN)
        return f"oci:{place}{behind}"
    kind = "oci-archive" if _has_member(place, "oci-layout") else "docker-archive"
    return f"{kind}:{place}{behind}"


def _key(place: Path, tag: str) -> str:
    # The index of a layout has hashes of all that belongs to it.
    total = hashlib.sha256(f"{FORM} {tag}\n".encode())
    file = place / "index.json" if place.is_dir() else place
    try:
        with file.open("rb") as data:
            while piece := data.read(_CHUNK):
                total.update(piece)
    except OSError as error:
        raise UsageProblem(f"{file}: {error.strerror}", _BROKEN) from error
    return total.hexdigest()


class _Padded:
    """A layer, unpacked, and zeroes behind it: umoci ends an archive without them."""

    def __init__(self, data: IO[bytes]) -> None:
        self._data, self._left = data, tarfile.RECORDSIZE

    def read(self, size: int) -> bytes:
        piece = self._data.read(size)
        if not piece:
            piece = bytes(min(size, self._left))
            self._left -= len(piece)
        return piece


class _Member(tarfile.TarInfo):
    """A file of a layer; what is said of it before it is no longer than runtimes take."""

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        # tarfile keeps all of it, and a megabyte of zeroes may be a thousand times as long.
        if self.type in _HEADERS and self.size > _LONGEST_HEADER:
            raise tarfile.ReadError(f"a header of {self.size} bytes")
        found: tarfile.TarInfo = super()._proc_member(archive)  # type: ignore[misc]
        return found


def _members(layer: Path, what: str) -> int:
    """Return how many bytes the files of a layer have, as it says."""
    with layer.open("rb") as packed:
        zipped = packed.read(len(_GZIP)) == _GZIP
        packed.seek(0)
        padded = _Padded(cast(IO[bytes], gzip.GzipFile(fileobj=packed) if zipped else packed))
        total = 0
        with tarfile.open(fileobj=cast(IO[bytes], padded), mode="r|", tarinfo=_Member) as archive:
            for count, member in enumerate(archive):
                if count == MOST_FILES:
                    raise UsageProblem(f"{what}: a layer has more than {count:,} files", _BROKEN)
                total += _size(member, what)
                archive.members.clear()  # type: ignore[attr-defined]
        return total


def _unpacked(blob: Path, most: int) -> int:
    """Return bytes of a blob when it is unpacked, or more than ``most`` if there are."""
    with blob.open("rb") as data:
        head = data.read(len(_GZIP))
        data.seek(0)
        if head != _GZIP:
            return blob.stat().st_size
        total, unpacker = 0, zlib.decompressobj(31)
        while piece := data.read(_CHUNK):
            while piece and total <= most:
                total += len(unpacker.decompress(piece, _CHUNK))
                piece = unpacker.unconsumed_tail
    return total


def _layers(layout: Path) -> list[Path]:
    """Return the layers of the one image of a layout that skopeo has made."""
    blobs = layout / "blobs" / "sha256"

    def read(digest: str) -> Any:
        return json.loads((blobs / digest.partition(":")[2]).read_text())

    index = json.loads((layout / "index.json").read_text())
    manifest = read(index["manifests"][0]["digest"])
    return [blobs / layer["digest"].partition(":")[2] for layer in manifest["layers"]]


def _refuse_hostile(layers: Iterable[Path], what: str) -> None:
    """UsageProblem if layers are too large together, or have what no image needs."""
    total = 0
    for layer in layers:
        try:
            unpacked = _unpacked(layer, disks.MOST - total)
            if total + unpacked <= disks.MOST:
                unpacked = max(unpacked, _members(layer, what))
        except _UNREADABLE as error:
            raise UsageProblem(f"{what}: a layer is broken: {error}", _BROKEN) from error
        total += unpacked
        if total > disks.MOST:
            raise UsageProblem(
                f"{what} has more than {disks.MOST >> 30} GiB when it is unpacked",
                "leave out of it what the program does not need",
            )


def _size(member: tarfile.TarInfo, what: str) -> int:
    """Return the size of a file in a layer; UsageProblem if it is of no honest one."""
    parts = [part for part in member.name.split("/") if part not in {"", "."}]
    if ".." in parts:
        raise UsageProblem(f"{what} has a file that leads out of it: {member.name}", _BROKEN)
    # /dev of a container is its own, whatever is under it.
    if (member.isblk() or member.ischr()) and parts[:1] != ["dev"]:
        raise UsageProblem(
            f"{what} has a device: {member.name}",
            "containers get theirs from their runtime: leave it out of the image",
        )
    return member.size


def _refuse_foreign(config: dict[str, Any], what: str) -> None:
    found = f"{config.get('os', 'unknown')}/{config.get('architecture', 'unknown')}"
    if found != "linux/amd64":
        raise UsageProblem(f"{what} is an image for {found}", "the guest is linux/amd64")


def _start(process: dict[str, Any]) -> Start:
    user = process.get("user", {})
    return Start(
        args=tuple(process.get("args") or ()),
        env=tuple(process.get("env") or ()) or Start().env,
        cwd=process.get("cwd") or "/",
        uid=user.get("uid", 0),
        gid=user.get("gid", 0),
        groups=tuple(user.get("additionalGids") or ()),
    )


def _must(command: list[str], what: str, hint: str = _BROKEN) -> str:
    status, said, why = say(command)
    if status:
        reason = (why.partition(" msg=")[2].strip('"') or why).removeprefix("⨯ ")
        raise UsageProblem(f"{what} can't be read: {reason[:160]}", hint)
    return said


def disk(what: str, progress: Progress) -> Disk:
    """Return the disk of an image."""
    place, tag = _split(what)
    skopeo, umoci = tool("skopeo"), tool("umoci")

    def fill(work: Path) -> tuple[Path, Start]:
        layout, bundle = work / "layout", work / "bundle"
        image = f"{layout}:image"
        # Whose image it is makes no difference to who measures it: no signature is asked for.
        command = [skopeo, "--insecure-policy", "--override-os", "linux"]
        command += ["--override-arch", "amd64", "--tmpdir", str(work), "copy", "--quiet"]
        command += [_reference(place, tag), f"oci:{image}"]
        with progress.step(f"reading {place.name}"):
            _must(command, what, "give the tag of one behind it with a colon, if it has several")
            config = _must([skopeo, "inspect", "--config", f"oci:{image}"], what)
            _refuse_foreign(json.loads(config), what)
            _refuse_hostile(_layers(layout), what)
        command = [umoci, "unpack", "--image", image, str(bundle)]
        if os.geteuid():
            command.insert(2, "--rootless")
        with progress.step(f"unpacking {place.name}"):
            _must(command, what)
        made = json.loads((bundle / "config.json").read_text())
        return bundle / "rootfs", _start(made["process"])

    return kept(_key(place, tag), fill, progress)
