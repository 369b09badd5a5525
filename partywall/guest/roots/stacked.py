# SPDX-License-Identifier: GPL-2.0-or-later
"""Layers of an image, each in a folder of its own, as an overlay has them one upon the other.

umoci unpacks each by itself, which leaves out what a layer removes of those below; the layer's
archive says that. A folder is called by its layer and all below it, as on a host: images that
begin alike have those folders in common.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from partywall.core.errors import UsageProblem
from partywall.guest.roots import layers
from partywall.guest.roots.disks import Stack

MOST = 100
"""Layers of an image that go into folders of their own: more don't fit into a page of options."""

_DIGITS = 12
_GONE, _OPAQUE = ".wh.", ".wh..wh..opq"
_XATTR = "trusted.overlay.opaque"
_LONGEST = 1 << 20


class FlatError(Exception):
    """Layers can't be in folders of their own and be what they are upon each other."""


def chain(diffs: Sequence[str]) -> list[str]:
    """Return names of layers, the lowest first: the chain IDs of the image specification."""
    found = list[str]()
    for diff in diffs:
        told = f"{found[-1]} {diff}" if found else diff
        hashed = f"sha256:{hashlib.sha256(told.encode()).hexdigest()}" if found else diff
        found.append(hashed)
    return found


@dataclass
class _Archive:
    """What the archive of a layer has beside files; paths without a slash before or behind.

    ``implied``: folders that are only part of longer names.
    """

    folders: set[str] = field(default_factory=set)
    implied: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)
    opaque: set[str] = field(default_factory=set)

    @classmethod
    def read(cls, blob: Path, what: str) -> _Archive:
        found, parents = cls(), set[str]()
        for member in layers.members(blob, what):
            parts = [part for part in member.name.split("/") if part not in {"", "."}]
            *above, name = parts or [""]
            folder = "/".join(above)
            parents |= {"/".join(above[:depth]) for depth in range(1, len(above) + 1)}
            if name == _OPAQUE:
                found.opaque.add(folder)
            elif name.startswith(_GONE):
                found.gone.add("/".join([*above, name.removeprefix(_GONE)]))
            elif member.isdir():
                found.folders.add("/".join([*above, name]))
        found.implied = parents - found.folders
        return found

    def hides(self, path: str) -> bool:
        """Whether a path is another one than that below, by what is said of it or above it."""
        parts = path.split("/")
        above = {"/".join(parts[:depth]) for depth in range(1, len(parts))}
        return path in self.gone or bool(above & (self.gone | self.opaque))


def _is_whiteout(seen: os.stat_result) -> bool:
    return stat.S_ISCHR(seen.st_mode) and seen.st_rdev == 0


def _is_opaque(folder: Path) -> bool:
    try:
        return os.getxattr(folder, _XATTR) == b"y"
    except OSError:
        return False


class _Lower:
    """Folders of layers as an overlay shows them: the topmost first. No link is followed."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = list(folders)

    def _step(self, folders: Sequence[Path], name: str) -> tuple[list[Path], Path | None]:
        """Return folders of a name in a merged folder, or the one thing it is, if none."""
        merged = list[Path]()
        for folder in folders:
            path = folder / name
            try:
                seen = path.lstat()
            except OSError:
                continue
            if not stat.S_ISDIR(seen.st_mode):
                return merged, None if merged or _is_whiteout(seen) else path
            merged.append(path)
            if _is_opaque(path):
                break
        return merged, None

    def folders(self, path: str) -> list[Path]:
        """Return the folders that one is merged of; none if there is no folder."""
        merged = self._folders
        for name in path.split("/"):
            merged, _ = self._step(merged, name)
        return merged

    def find(self, path: str) -> Path | None:
        """Return what a path is, in the layer that it is seen of; None if it is not there."""
        above, _, name = path.rpartition("/")
        merged, other = self._step(self.folders(above) if above else self._folders, name)
        return merged[0] if merged else other

    def names(self, path: str) -> Iterator[str]:
        """Yield what is seen in a folder."""
        for name in sorted({name for one in self.folders(path) for name in os.listdir(one)}):  # noqa: PTH208
            if self.find(f"{path}/{name}") is not None:
                yield name

    def text(self, path: str) -> str:
        """Return the text of a file; empty if there is none."""
        found = self.find(path)
        if found is None or not stat.S_ISREG(found.lstat().st_mode):
            return ""
        with found.open("rb") as data:
            return data.read(_LONGEST).decode(errors="replace")


def _like(folder: Path, other: Path) -> None:
    """Have a folder whose archive does not say what it is as the one below it."""
    seen = other.lstat()
    with suppress(PermissionError):
        os.chown(folder, seen.st_uid, seen.st_gid)
    folder.chmod(stat.S_IMODE(seen.st_mode))


def _has_folder(top: Path, path: str, told: _Archive, lower: _Lower) -> bool:
    """Make a folder that names imply as it is below; False if it is nowhere. FlatError if it can't.

    Those above it are there or nowhere.
    """
    own = top / path
    below = None if told.hides(path) else lower.find(path)
    if below is not None and not stat.S_ISDIR(below.lstat().st_mode):
        # Whoever unpacks them into one folder goes through a link, or replaces a file.
        raise FlatError(path)
    if own.is_symlink():
        raise FlatError(path)
    if not own.is_dir():
        if below is None:
            return False
        own.mkdir()
    if below is not None:
        _like(own, below)
    return True


def _remove(top: Path, path: str) -> None:
    os.mknod(top / path, stat.S_IFCHR, 0)


def _make_opaque(top: Path, path: str, lower: _Lower) -> None:
    """Hide what is below in a folder."""
    try:
        os.setxattr(top / path, _XATTR, b"y")
    except OSError:
        # Who may not say so removes each of them.
        for name in lower.names(path):
            if not os.path.lexists(top / path / name):
                _remove(top, f"{path}/{name}")


def _apply(top: Path, told: _Archive, lower: _Lower) -> None:
    """Have in the folder of a layer what it says of those below it."""
    there = {"", *told.folders}
    for path in sorted(told.implied):
        if _has_folder(top, path, told, lower):
            there.add(path)
    opaque = set(told.opaque)
    for path in sorted(told.gone):
        if os.path.lexists(top / path):
            # Another one in its place.
            opaque |= {path} if (top / path).is_dir() and not (top / path).is_symlink() else set()
        elif path.rpartition("/")[0] in there and lower.find(path) is not None:
            _remove(top, path)
    for path in sorted(opaque - {""}):
        if lower.folders(path):
            if (top / path).is_symlink() or not (top / path).is_dir():
                raise FlatError(path)
            _make_opaque(top, path, lower)
    if "" in opaque:
        raise FlatError("/")


def unpack(
    layout: Path,
    blobs: Sequence[Path],
    facts: dict[str, Any],
    into: Path,
    unpack_one: Callable[[str, Path], None],
) -> Stack:
    """Unpack layers into folders of their own below ``into``, and return what these are.

    ``layout``, ``blobs``: of one image, and its layers, the lowest first; ``facts``: its
    configuration; ``unpack_one``: unpacks the image of a tag there into a folder. FlatError if
    they can't be there, or if one is not what the image says.
    """
    rootfs = facts.get("rootfs")
    diffs = rootfs.get("diff_ids") if isinstance(rootfs, dict) else None
    if not isinstance(diffs, list) or len(diffs) != len(blobs) or len(blobs) > MOST:
        raise FlatError("layers")
    names = [one.partition(":")[2][:_DIGITS] for one in chain([str(one) for one in diffs])]
    if any(len(name) != _DIGITS or not name.isalnum() for name in names):
        raise FlatError("hashes")
    if len(set(names)) != len(names):
        raise FlatError("names")
    tops = list[Path]()
    tags = layers.singled(layout, diffs)
    for tag, blob, name in zip(tags, blobs, names, strict=True):
        top = into / name
        try:
            unpack_one(tag, top)
            _apply(top, _Archive.read(blob, str(layout)), _Lower(tops[::-1]))
        except (UsageProblem, OSError, *layers.UNREADABLE) as error:
            raise FlatError(str(error)) from error
        tops.append(top)
    lower = _Lower(tops[::-1])
    return Stack(
        folders=tuple(names[::-1]), passwd=lower.text("etc/passwd"), group=lower.text("etc/group")
    )


def users(stack: Stack, root: Path) -> Path:
    """Make a root that has only who is known in the layers, and return it."""
    (root / "etc").mkdir(parents=True)
    (root / "etc/passwd").write_text(stack.passwd)
    (root / "etc/group").write_text(stack.group)
    return root
