# SPDX-License-Identifier: GPL-2.0-or-later
"""Layers of an image: looked at before anything of them is unpacked, and made such as umoci takes.

What is too large, or has what no image needs, is refused.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import subprocess
import tarfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, cast

from partywall.core.errors import UsageProblem
from partywall.guest.roots import disks
from partywall.guest.roots.disks import tool

_CHUNK = 1 << 20
_GZIP = b"\x1f\x8b"
ZSTD = b"\x28\xb5\x2f\xfd"
REF_NAME = "org.opencontainers.image.ref.name"
"""The annotation of an image in a layout that has its tag."""

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
UNREADABLE = (
    tarfile.TarError,
    zlib.error,
    EOFError,
    OSError,
    ValueError,
    OverflowError,
    RecursionError,
)
WANTED = "an OCI layout, or an archive that docker save or skopeo made, is what --image takes"
"""What to do about what is no honest image."""


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


class Member(tarfile.TarInfo):
    """A file of a layer; what is said of it before it is no longer than runtimes take."""

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        # tarfile keeps all of it, and a megabyte of zeroes may be a thousand times as long.
        if self.type in _HEADERS and self.size > _LONGEST_HEADER:
            raise tarfile.ReadError(f"a header of {self.size} bytes")
        found: tarfile.TarInfo = super()._proc_member(archive)  # type: ignore[misc]
        return found


def members(layer: Path, what: str) -> Iterator[tarfile.TarInfo]:
    """Yield what a layer has, in its order; ``UNREADABLE`` if it is broken."""
    with layer.open("rb") as packed:
        zipped = packed.read(len(_GZIP)) == _GZIP
        packed.seek(0)
        padded = _Padded(cast(IO[bytes], gzip.GzipFile(fileobj=packed) if zipped else packed))
        with tarfile.open(fileobj=cast(IO[bytes], padded), mode="r|", tarinfo=Member) as archive:
            for count, member in enumerate(archive):
                if count == MOST_FILES:
                    raise UsageProblem(f"{what}: a layer has more than {count:,} files", WANTED)
                yield member
                archive.members.clear()  # type: ignore[attr-defined]


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


def too_large(what: str) -> UsageProblem:
    """Return what is said of an image that takes more than a root may."""
    return UsageProblem(
        f"{what} has more than {disks.MOST >> 30} GiB when it is unpacked",
        "leave out of it what the program does not need",
    )


def refuse_hostile(layers: Iterable[Path], what: str) -> None:
    """UsageProblem if layers are too large together, or have what no image needs."""
    total = 0
    for layer in layers:
        try:
            unpacked = _unpacked(layer, disks.MOST - total)
            if total + unpacked <= disks.MOST:
                sizes = sum(size_of(member, what) for member in members(layer, what))
                unpacked = max(unpacked, sizes)
        except UNREADABLE as error:
            raise UsageProblem(f"{what}: a layer is broken: {error}", WANTED) from error
        total += unpacked
        if total > disks.MOST:
            raise too_large(what)


def size_of(member: tarfile.TarInfo, what: str) -> int:
    """Return the size of a file in a layer; UsageProblem if it is of no honest one."""
    if member.size < 0:
        # Who goes on behind it goes back.
        raise tarfile.ReadError("a file has less than nothing")
    parts = [part for part in member.name.split("/") if part not in {"", "."}]
    if ".." in parts:
        raise UsageProblem(f"{what} has a file that leads out of it: {member.name}", WANTED)
    if parts and parts[-1] in (".wh.", ".wh..", ".wh..."):
        # To remove a folder itself, or that above it: runtimes differ in what they do.
        raise UsageProblem(f"{what} removes what is no name: {member.name}", WANTED)
    # /dev of a container is its own, whatever is under it.
    if (member.isblk() or member.ischr()) and parts[:1] != ["dev"]:
        raise UsageProblem(
            f"{what} has a device: {member.name}",
            "containers get theirs from their runtime: leave it out of the image",
        )
    return member.size


def _blob(layout: Path, digest: str) -> Path:
    return layout / "blobs" / "sha256" / digest.partition(":")[2]


def _write(layout: Path, text: str) -> dict[str, Any]:
    """Put a text among the blobs, and return what refers to it."""
    name = hashlib.sha256(text.encode()).hexdigest()
    _blob(layout, f"sha256:{name}").write_text(text)
    return {"digest": f"sha256:{name}", "size": len(text.encode())}


def prepare(layout: Path, what: str) -> list[Path]:
    """Return the layers of the one image of a layout that skopeo has made.

    Those that zstd has packed are unpacked: umoci takes none.
    """
    index = json.loads((layout / "index.json").read_text())
    manifest = json.loads(_blob(layout, index["manifests"][0]["digest"]).read_text())
    most, unpacked = disks.MOST, dict[str, dict[str, Any]]()
    for layer in manifest["layers"]:
        packed = layer["digest"]
        if packed not in unpacked:
            with _blob(layout, packed).open("rb") as data:
                if data.read(len(ZSTD)) != ZSTD:
                    continue
            unpacked[packed] = _unzstd(_blob(layout, packed), most, what)
        layer.update(unpacked[packed])
        layer["mediaType"] = "application/vnd.oci.image.layer.v1.tar"
        most -= layer["size"]
    if unpacked:
        index["manifests"][0] |= _write(layout, json.dumps(manifest))
        (layout / "index.json").write_text(json.dumps(index))
    return [_blob(layout, layer["digest"]) for layer in manifest["layers"]]


def singled(layout: Path, diffs: list[str]) -> list[str]:
    """Write an image of each layer alone into a layout, and return their tags.

    ``diffs``: hashes of what layers are unpacked, as the one image has them.
    """
    index = json.loads((layout / "index.json").read_text())
    entry = index["manifests"][0]
    manifest = json.loads(_blob(layout, entry["digest"]).read_text())
    tags = list[str]()
    for number, (layer, diff) in enumerate(zip(manifest["layers"], diffs, strict=True)):
        config = {
            "architecture": "amd64",
            "os": "linux",
            "rootfs": {"type": "layers", "diff_ids": [diff]},
        }
        alone = manifest | {
            "config": manifest["config"] | _write(layout, json.dumps(config)),
            "layers": [layer],
        }
        tags.append(f"layer-{number}")
        told = {REF_NAME: tags[-1]}
        index["manifests"].append(entry | _write(layout, json.dumps(alone)) | {"annotations": told})
    (layout / "index.json").write_text(json.dumps(index))
    return tags


def _unzstd(blob: Path, most: int, what: str) -> dict[str, Any]:
    """Unpack a blob beside itself, and return what refers to that."""
    total, name, draft = 0, hashlib.sha256(), blob.with_suffix(".plain")
    command = [tool("zstd"), "-dcq", str(blob)]
    with (
        draft.open("wb") as out,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as unpacks,
    ):
        assert unpacks.stdout is not None
        while total <= most and (piece := unpacks.stdout.read(_CHUNK)):
            total += len(piece)
            name.update(piece)
            out.write(piece)
        if total > most:
            unpacks.kill()
            raise too_large(what)
    if unpacks.returncode:
        raise UsageProblem(f"{what}: a layer is broken: zstd can't unpack it", WANTED)
    blob.unlink()
    draft.rename(blob.with_name(name.hexdigest()))
    return {"digest": f"sha256:{name.hexdigest()}", "size": total}
