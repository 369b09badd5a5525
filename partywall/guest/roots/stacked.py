# SPDX-License-Identifier: GPL-2.0-or-later
"""Layers of an image, each in a folder of its own, as an overlay has them one upon the other.

umoci unpacks each by itself, which leaves out what a layer removes of those below; the layer's
archive says that. A folder is called by its layer and all below it, as on a host: images that
begin alike have those folders in common.

A stranger has made both. Nothing is touched but by a path of which each part was seen to be a
folder and no link, below a folder that nobody else can come to.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from partywall.core.errors import UsageProblem
from partywall.guest.roots import layers
from partywall.guest.roots.disks import Stack, readable

MOST = 100
"""Layers of an image that go into folders of their own: more don't fit into a page of options."""

MOST_NODES = 200_000
"""Folders, and names that are removed, that an archive may have: each is looked up below."""

MOST_LOOKS = 5_000_000
"""Times that one of these is looked up in a layer below, in all of an image: half a minute."""

_DEEPEST = 200
_DIGITS = 12
_GONE, _OPAQUE = ".wh.", ".wh..wh..opq"
_XATTR = "trusted.overlay.opaque"
_OVERLAY = "trusted.overlay."
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


@dataclass(slots=True)
class _Node:
    """A folder that an archive has, or a name that it removes; ``said``: as a folder of its own.

    A folder that is not said is only part of longer names.
    """

    below: dict[str, _Node] = field(default_factory=dict)
    said: bool = False
    gone: bool = False
    opaque: bool = False
    made: bool = False
    """Something in it came first: whoever unpacks it into one folder had made it, or gone through
    a link..."""
    late: bool = False
    """...before it was said or removed."""


def _read(blob: Path, what: str) -> tuple[_Node, int]:
    """Return what the archive of a layer has of folders, and removes, and how many these are.

    FlatError of too many, or of what an overlay takes for a name that is removed.
    """
    top, count = _Node(said=True), 0
    for member in layers.members(blob, what):
        parts = [part for part in member.name.split("/") if part not in {"", "."}]
        if len(parts) > _DEEPEST:
            raise FlatError("a name is too long")
        if not parts:
            continue
        *above, name = parts
        if member.ischr() and not (member.devmajor or member.devminor):
            raise FlatError("a device is what removes a name")
        node = top
        wanted = parts if member.isdir() else above
        if name.startswith(_GONE) and name != _OPAQUE:
            wanted = [*above, name.removeprefix(_GONE)]
        for part in wanted:
            if part not in node.below:
                count += 1
                if count > MOST_NODES:
                    raise FlatError("a layer has too many folders")
                node.below[part] = _Node()
            node.made |= not name.startswith(_GONE)
            node = node.below[part]
        node.made |= not (name.startswith(_GONE) or member.isdir())
        if name == _OPAQUE:
            node.opaque = True
        elif name.startswith(_GONE):
            node.late |= node.made and not node.said
            node.gone = True
        elif member.isdir():
            node.late |= node.made and not node.said
            node.said = True
    return top, count


def _seen(path: Path) -> os.stat_result | None:
    """Return what lies at a path, by itself; None if nothing does."""
    try:
        return path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _is_folder(seen: os.stat_result | None) -> bool:
    return seen is not None and stat.S_ISDIR(seen.st_mode)


def _is_whiteout(seen: os.stat_result) -> bool:
    return stat.S_ISCHR(seen.st_mode) and seen.st_rdev == 0


def _is_opaque(folder: Path) -> bool:
    try:
        return os.getxattr(folder, _XATTR, follow_symlinks=False) == b"y"
    except OSError:
        return False


def _step(folders: Sequence[Path], name: str) -> tuple[list[Path], Path | None]:
    """Return what a name is in a merged folder: the folders it is merged of, or one other thing.

    ``folders``: the topmost first.
    """
    merged = list[Path]()
    for folder in folders:
        path = folder / name
        seen = _seen(path)
        if seen is None:
            continue
        if not stat.S_ISDIR(seen.st_mode):
            return merged, None if merged or _is_whiteout(seen) else path
        merged.append(path)
        if _is_opaque(path):
            break
    return merged, None


def _text(folders: Sequence[Path], name: str) -> str:
    """Return the text of a file in /etc of merged folders; empty if there is none.

    FlatError if it is there and no file, as a link is, or if /etc is no folder.
    """
    merged, other = _step(folders, "etc")
    if other is not None:
        raise FlatError("/etc is no folder")
    merged, found = _step(merged, name)
    if merged or (found is not None and not stat.S_ISREG(found.lstat().st_mode)):
        raise FlatError(f"/etc/{name} is no file")
    if found is None:
        return ""
    with found.open("rb") as data:
        return data.read(_LONGEST).decode(errors="replace")


def _like(folder: Path, other: Path) -> None:
    """Have a folder whose archive does not say what it is as the one below it."""
    seen = other.lstat()
    with suppress(PermissionError):
        os.chown(folder, seen.st_uid, seen.st_gid, follow_symlinks=False)
    folder.chmod(stat.S_IMODE(seen.st_mode))
    for name in os.listxattr(other, follow_symlinks=False):
        if not name.startswith(_OVERLAY):
            with suppress(OSError):
                value = os.getxattr(other, name, follow_symlinks=False)
                os.setxattr(folder, name, value, follow_symlinks=False)


def _same_time(folder: Path, other: Path) -> None:
    """The last thing that is done in a folder that is as another one."""
    seen = other.lstat()
    os.utime(folder, ns=(seen.st_atime_ns, seen.st_mtime_ns), follow_symlinks=False)


def _remove(path: Path) -> None:
    os.mknod(path, stat.S_IFCHR, 0)


def _make_opaque(folder: Path, lower: Sequence[Path]) -> None:
    """Hide what is below in a folder; ``lower``: that, the topmost first."""
    try:
        os.setxattr(folder, _XATTR, b"y", follow_symlinks=False)
    except OSError:
        # Who may not say so removes each of them.
        for name in sorted({name for one in lower for name in os.listdir(one)}):  # noqa: PTH208
            if _seen(folder / name) is None and any(_step(lower, name)):
                _remove(folder / name)


def _merge(own: Path, node: _Node, lower: Sequence[Path]) -> None:
    """Have in a folder of a layer what its archive says of what is below.

    ``own``: seen to be a folder, as all above it to the layer's own; ``lower``: the folders
    that it is merged with, the topmost first; none if it is with none, in which an overlay
    shows all that there is.
    """
    before = own.lstat()
    for name, child in sorted(node.below.items()):
        path, seen = own / name, _seen(own / name)
        merged, other = _step(lower, name)
        if child.late and (merged or other):
            raise FlatError(f"{name}: what is in it comes before it")
        if seen is None:
            if child.gone:
                if merged or other:
                    _remove(path)
                continue
            if other is not None:
                # In one folder that goes through a link.
                raise FlatError(f"{name}: below is no folder")
            if not merged:
                continue
            path.mkdir()
        elif not _is_folder(seen):
            if child.below or child.opaque:
                raise FlatError(f"{name}: above another name, and no folder")
            continue
        elif other is not None and not child.said and not child.gone:
            raise FlatError(f"{name}: below is no folder")
        alike = bool(merged) and not child.said and not child.gone
        if alike:
            _like(path, merged[0])
        if os.geteuid():
            path.chmod(stat.S_IMODE(path.lstat().st_mode) | 0o700)
        hides = child.gone or child.opaque
        if hides and merged:
            _make_opaque(path, merged)
        _merge(path, child, [] if hides else merged)
        if alike:
            _same_time(path, merged[0])
    # That of what was put there is when it was unpacked.
    os.utime(own, ns=(before.st_atime_ns, before.st_mtime_ns), follow_symlinks=False)


def _unsaid(own: Path, node: _Node) -> None:
    """FlatError if a layer has a folder that its archive has not: umoci went through a link."""
    with os.scandir(own) as entries:
        names = [one.name for one in entries if one.is_dir(follow_symlinks=False)]
    for name in names:
        if name not in node.below:
            raise FlatError(f"{name}: a link leads there")
        _unsaid(own / name, node.below[name])


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
        raise FlatError("it has too many layers, or not those that it says")
    names = [one.partition(":")[2][:_DIGITS] for one in chain([str(one) for one in diffs])]
    if any(len(name) != _DIGITS or not name.isalnum() for name in names):
        raise FlatError("a layer's hash is none")
    if len(set(names)) != len(names):
        raise FlatError("two layers have one name")
    tops, looks = list[Path](), 0
    tags = layers.singled(layout, diffs)
    for tag, blob, name in zip(tags, blobs, names, strict=True):
        top = into / name
        try:
            unpack_one(tag, top)
            if os.geteuid():
                top.chmod(stat.S_IMODE(top.lstat().st_mode) | 0o700)
                readable(top)
            told, nodes = _read(blob, str(layout))
            if told.opaque:
                raise FlatError("a layer removes all below it")
            looks += nodes * len(tops)
            if looks > MOST_LOOKS:
                raise FlatError("its layers have too many folders")
            _unsaid(top, told)
            _merge(top, told, tops[::-1])
        except (UsageProblem, OSError, *layers.UNREADABLE) as error:
            raise FlatError(str(error)) from error
        tops.append(top)
    folders = tops[::-1]
    return Stack(
        folders=tuple(names[::-1]),
        passwd=_text(folders, "passwd"),
        group=_text(folders, "group"),
    )


def users(stack: Stack, root: Path) -> Path:
    """Make a root that has only who is known in the layers, and return it."""
    (root / "etc").mkdir(parents=True)
    (root / "etc/passwd").write_text(stack.passwd)
    (root / "etc/group").write_text(stack.group)
    return root
