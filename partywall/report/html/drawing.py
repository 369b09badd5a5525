# SPDX-License-Identifier: GPL-2.0-or-later
"""The 64 bytes of a line: which fields lie where, and who reads and writes which."""

from __future__ import annotations

from dataclasses import dataclass, field

from partywall.record.recording import LINE_SIZE
from partywall.report.words import accesses, busiest, function, rate
from partywall.results.fields import FieldUse
from partywall.results.lines import Line
from partywall.results.sites import Site, Uses

USERS = 8
"""Functions drawn for each line; the table below it has them all."""


@dataclass(frozen=True)
class Box:
    """A stretch of the line. ``left`` and ``width`` in per cent of it."""

    label: str
    told: str
    left: float
    width: float
    how: str
    """``atomic``, ``write``, ``read`` or ``none``: the strongest use."""


@dataclass(frozen=True)
class User:
    """What one function does to the line."""

    name: str
    boxes: list[Box]
    total: float


@dataclass(frozen=True)
class Drawing:
    """A line with its fields, and the functions that use them, the busiest first."""

    fields: list[Box]
    users: list[User]
    more: int = field(default=0)


def _how(reads: float, writes: float, atomics: float) -> str:
    if atomics:
        return "atomic"
    if writes:
        return "write"
    return "read" if reads else "none"


def _told(reads: float, writes: float, atomics: float) -> str:
    parts = ((reads, "reads"), (writes, "writes"), (atomics, "atomics"))
    return ", ".join(f"{rate(value)} {name}/op" for value, name in parts if value)


# Last words of a path that say nothing without the one before.
_BARE = frozenset("count counter counts lock owner refs refcount refcnt rlock next prev".split())


def short(path: str) -> str:
    """The end of a field's path, which has to fit into a box of a few bytes.

    >>> [short(path) for path in ("ns", "vfs_inode.i_data.i_mmap_rwsem.count", "a.label.hname")]
    ['ns', 'i_mmap_rwsem.count', 'hname']
    """
    words = path.split(".")
    at = len(words) - 1
    while at > 0 and words[at] in _BARE:
        at -= 1
    return ".".join(words[at:])


def _box(label: str, use: FieldUse, reads: float, writes: float, atomics: float) -> Box:
    size = max(1, min(use.size, LINE_SIZE - use.offset))
    where = f"{use.path or 'bytes'} at {use.offset:#x}, {use.size} bytes"
    said = _told(reads, writes, atomics)
    return Box(
        label=label,
        told=f"{where}: {said}" if said else where,
        left=100 * use.offset / LINE_SIZE,
        width=100 * size / LINE_SIZE,
        how=_how(reads, writes, atomics),
    )


def _spans(fields: list[FieldUse]) -> dict[str, FieldUse]:
    """Fields by path. What has no type has one path for several places: from first to last."""
    found: dict[str, FieldUse] = {}
    for use in fields:
        before = found.get(use.path, use)
        start = min(before.offset, use.offset)
        end = max(before.offset + before.size, use.offset + use.size)
        found[use.path] = use.model_copy(update={"offset": start, "size": end - start})
    return found


def _user(name: str, sites: list[Site], fields: dict[str, FieldUse]) -> User:
    boxes = []
    for path, use in fields.items():
        here = [site for site in sites if site.field == path]
        if here:
            reads = sum(site.reads for site in here)
            writes = sum(site.writes for site in here)
            atomics = sum(site.atomics for site in here)
            boxes.append(_box("", use, reads, writes, atomics))
    return User(name, boxes, sum(accesses(site) for site in sites))


def draw(line: Line | Uses) -> Drawing:
    """What there is to draw of a line, in one kind of work."""
    fields = sorted(line.fields, key=lambda use: (use.offset, -use.size))
    by_function: dict[str, list[Site]] = {}
    for site in busiest(line):
        by_function.setdefault(site.function, []).append(site)
    spans = _spans(fields)
    users = [_user(name, sites, spans) for name, sites in by_function.items()]
    users.sort(key=lambda user: (-user.total, user.name))
    return Drawing(
        fields=[_box(short(use.path), use, use.reads, use.writes, use.atomics) for use in fields],
        users=users[:USERS],
        more=max(0, len(users) - USERS),
    )


def place(site: Site) -> str:
    """A site in one line: code, source, how it got there."""
    parts = [function(site)]
    if site.source:
        parts.append(site.source)
    if site.caller:
        parts.append(f"from {site.caller}")
    parts.append(site.context)
    return "  ".join(parts)
