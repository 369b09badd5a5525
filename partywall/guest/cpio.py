# SPDX-License-Identifier: GPL-2.0-or-later
"""Initramfs archives in the kernel's "newc" form, the same bytes every time.

The kernel's Documentation/driver-api/early-userspace/buffer-format.rst
describes the form. Times, inode numbers and owners are fixed, which cpio(1)
can't do, so that equal inputs give an equal guest.
"""

from __future__ import annotations

import stat
from dataclasses import dataclass, field


@dataclass
class Archive:
    """Files of an archive by path, without leading slash."""

    entries: dict[str, tuple[int, bytes]] = field(default_factory=dict)

    def directory(self, path: str, mode: int = 0o755) -> None:
        """Adds a directory and those above it."""
        parts = path.strip("/").split("/")
        for depth in range(1, len(parts)):
            self.entries.setdefault("/".join(parts[:depth]), (stat.S_IFDIR | 0o755, b""))
        self.entries["/".join(parts)] = (stat.S_IFDIR | mode, b"")

    def file(self, path: str, data: bytes, mode: int = 0o644) -> None:
        """Adds a file and the directories above it."""
        path = path.strip("/")
        if "/" in path and path.rsplit("/", 1)[0] not in self.entries:
            self.directory(path.rsplit("/", 1)[0])
        self.entries[path] = (stat.S_IFREG | mode, data)

    def symlink(self, path: str, target: str) -> None:
        """Adds a symbolic link and the directories above it."""
        self.file(path, target.encode())
        self.entries[path.strip("/")] = (stat.S_IFLNK | 0o777, target.encode())

    def pack(self) -> bytes:
        """The archive; several of them can stand one behind the other."""
        parts: list[bytes] = []
        ordered = sorted(self.entries.items())
        for number, (name, (mode, data)) in enumerate(ordered, start=1):
            parts.append(_member(number, name, mode, data))
        parts.append(_member(0, "TRAILER!!!", 0, b""))
        packed = b"".join(parts)
        return packed + bytes(-len(packed) % 512)


def around(name: str, size: int) -> tuple[bytes, bytes]:
    """Return what is before and behind the data of an archive's one file of ``size`` bytes."""
    end = bytes(-size % 4) + _member(0, "TRAILER!!!", 0, b"")
    head = _head(1, name, stat.S_IFREG | 0o644, size)
    return head, end + bytes(-(len(head) + size + len(end)) % 512)


def _member(number: int, name: str, mode: int, data: bytes) -> bytes:
    return _head(number, name, mode, len(data)) + data + bytes(-len(data) % 4)


def _head(number: int, name: str, mode: int, size: int) -> bytes:
    encoded = name.encode() + b"\0"
    links = 2 if stat.S_ISDIR(mode) else 1
    numbers = (number, mode, 0, 0, links, 0, size, 0, 0, 0, 0, len(encoded), 0)
    head = b"070701" + b"".join(b"%08X" % value for value in numbers) + encoded
    return head + bytes(-len(head) % 4)
