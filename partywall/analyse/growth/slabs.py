# SPDX-License-Identifier: GPL-2.0-or-later
"""Objects in slabs: how many, which, who made each, and who is charged for it.

With ``slub_debug=U`` a kernel counts objects in a slab exactly, since it keeps no free
ones for a CPU, and writes beside each who made it and when.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from partywall.analyse.growth.memory import PAGE_SHIFT, Cache, Kernel, Words, bits
from partywall.core.errors import EnvironmentProblem

_WORD = struct.Struct("<Q")


@dataclass(frozen=True)
class Made:
    """An object in a slab.

    ``handle``: of the stack that made it, in the kernel's depot; ``when``: in ticks; ``cpu``: on
    which; all 0 where that is not kept. ``owner``: address of the ``obj_cgroup`` that is charged,
    0 if none is.
    """

    address: int
    handle: int
    when: int
    cpu: int
    owner: int


class Slabs:
    """Slabs of a guest as it stands."""

    def __init__(self, kernel: Kernel, pages: Words) -> None:
        self._kernel = kernel
        self.caches = kernel.caches()
        slab = kernel.prog.type("struct slab")
        owners = bits(pages, slab.member("slab_cache").bit_offset, 64)
        # No page that is none has the address of a cache there: what is free or on
        # another list has a list's.
        known = np.fromiter(self.caches, np.uint64, len(self.caches))
        self._frames = np.nonzero(np.isin(owners, known))[0]
        self._owners = owners[self._frames]
        self._pages = pages[self._frames]
        inuse = slab.member("inuse")
        self._made: dict[int, tuple[Made, ...]] = {}
        self._inuse = bits(self._pages, inuse.bit_offset, inuse.bit_field_size or 16)

    @property
    def frames(self) -> NDArray[np.intp]:
        """Frames of the first pages of slabs."""
        return self._frames

    @cached_property
    def _charged_at(self) -> tuple[int, int, int]:
        """Where a slab has its list of who is charged: bit of a slab; size of an entry, mask."""
        slab = self._kernel.prog.type("struct slab")
        if slab.has_member("obj_exts"):
            size = self._kernel.prog.type("struct slabobj_ext").size or 8
            return slab.member("obj_exts").bit_offset, size, ~7
        if slab.has_member("memcg_data"):
            return slab.member("memcg_data").bit_offset, 8, ~3
        return -1, 0, 0

    def objects(self, address: int) -> tuple[Made, ...]:
        """The objects of a cache; none if it is gone. Read once, while the guest stands."""
        if address not in self._made:
            cache = self.caches.get(address)
            places = np.nonzero(self._owners == np.uint64(address))[0] if cache else ()
            self._made[address] = tuple(
                made for place in places if cache for made in self._of_slab(cache, int(place))
            )
        return self._made[address]

    def made_by(self) -> Counter[tuple[int, int]]:
        """How many objects there are, by address of the cache and handle of who made them.

        The handle is 0 where it is not kept.
        """
        found: Counter[tuple[int, int]] = Counter()
        for place, owner in enumerate(self._owners):
            address = int(owner)
            cache = self.caches[address]
            if cache.track is None:
                found[address, 0] += int(self._inuse[place])
                continue
            data, count, free = self._content(cache, place)
            rows = np.frombuffer(data, np.uint8).reshape(count, cache.stride)
            start = cache.track + self._kernel.track[0]
            handles = rows[:, start : start + 4].copy().view(np.uint32)[:, 0]
            if free:
                kept = np.ones(count, bool)
                kept[[at // cache.stride for at in free]] = False
                handles = handles[kept]
            for handle, times in zip(*np.unique(handles, return_counts=True), strict=True):
                found[address, int(handle)] += int(times)
        return found

    def counts(self) -> Counter[int]:
        """How many objects slabs say that there are, by address of the cache."""
        found: Counter[int] = Counter()
        for address, count in zip(self._owners, self._inuse, strict=True):
            found[int(address)] += int(count)
        return found

    def charged(self) -> Counter[int]:
        """How many objects containers are charged for, by address of the cache.

        Who is charged is let go of with an object, wherever it is kept then.
        """
        found: Counter[int] = Counter()
        counts = self._counts
        for place, address in enumerate(self._owners):
            row, cache = self._pages[place : place + 1], self.caches[int(address)]
            listed = self._charged(row, int(counts[place]), cache)
            if any(listed) and self._entry(row, cache) == cache.stride:
                # Where one is in its object, the list of free ones may be in its place.
                _, _, free = self._content(cache, place)
                listed = [one for n, one in enumerate(listed) if n * cache.stride not in free]
            owners = Counter(listed)
            found[int(address)] += sum(
                times for one, times in owners.items() if self._kernel.owner(one, objects=True)
            )
        return found

    def lists(self) -> Counter[int]:
        """How many lists of who is charged slabs have, by address of the cache these are in."""
        bit, size, mask = self._charged_at
        found: Counter[int] = Counter()
        if not size or not len(self._frames):
            return found
        direct = np.uint64(self._kernel.direct)
        listed = bits(self._pages, bit, 64) & np.uint64(mask & (1 << 64) - 1)
        holders = np.nonzero(listed >= direct)[0]
        frames = ((listed[holders] - direct) >> np.uint64(PAGE_SHIFT)).astype(np.intp)
        # The slab that begins at or before a list; frames are in order.
        there = np.searchsorted(self._frames, frames, "right") - 1
        for holder, place, frame in zip(holders, there, frames, strict=True):
            # Of Linux 7.0 on one may be in the slab itself; a large one is in none.
            if place >= 0 and place != holder and frame < self._end(int(place)):
                found[int(self._owners[place])] += 1
        return found

    def _end(self, place: int) -> int:
        """The frame after a slab's last one."""
        size = self._counts[place] * self.caches[int(self._owners[place])].stride
        return int(self._frames[place]) + -(-int(size) >> PAGE_SHIFT)

    @cached_property
    def _counts(self) -> Words:
        """How many objects slabs have room for."""
        objects = self._kernel.prog.type("struct slab").member("objects")
        return bits(self._pages, objects.bit_offset, objects.bit_field_size or 15)

    def _content(self, cache: Cache, place: int) -> tuple[bytes, int, set[int]]:
        """A slab's memory, how many objects have room in it, and where the free ones are.

        EnvironmentProblem if these are not as many as the slab itself says.
        """
        kernel = self._kernel
        slab = kernel.prog.type("struct slab")
        row = self._pages[place : place + 1]
        count = int(self._counts[place])
        base = kernel.virtual(int(self._frames[place]))
        data = kernel.prog.read(base, count * cache.stride)
        if cache.track is not None and count == self._inuse[place]:
            return data, count, set()
        first = int(bits(row, slab.member("freelist").bit_offset, 64)[0])
        free = self._free(cache, base, data, first)
        if cache.track is not None and count - len(free) != self._inuse[place]:
            raise EnvironmentProblem(
                f"a slab of {cache.name} has {len(free)} free objects of {count}, and says "
                f"that {self._inuse[place]} are in use: its list is not read right",
                "this is a fault of partywall's, for this kernel",
            )
        return data, count, free

    def _of_slab(self, cache: Cache, place: int) -> Iterator[Made]:
        kernel = self._kernel
        data, count, free = self._content(cache, place)
        base = kernel.virtual(int(self._frames[place]))
        charged = self._charged(self._pages[place : place + 1], count, cache)
        for number in range(count):
            at = number * cache.stride
            if at in free:
                continue
            yield Made(base + at, *_track(kernel, cache, data, at), charged[number])

    def _free(self, cache: Cache, base: int, data: bytes, first: int) -> set[int]:
        """Offsets of a slab's free objects."""
        found: set[int] = set()
        at = first
        while at:
            offset = at - base
            if offset in found or not 0 <= offset < len(data):
                # Changed while the guest was stopped in it.
                break
            found.add(offset)
            at = _WORD.unpack_from(data, offset + cache.free_at)[0]
            if cache.random:
                place = base + offset + cache.free_at
                at ^= cache.random ^ int.from_bytes(place.to_bytes(8, "little"), "big")
        return found

    def _entry(self, row: Words, cache: Cache) -> int:
        """From one entry of who is charged to the next, in bytes: of Linux 7.0 on a stride.

        Entries may lie in the objects themselves then.
        """
        size = self._charged_at[1]
        slab = self._kernel.prog.type("struct slab")
        if slab.has_member("stride"):
            stride = slab.member("stride")
            return int(bits(row, stride.bit_offset, stride.bit_field_size or 16)[0]) or size
        if slab.has_member("obj_exts_in_object"):
            inside = slab.member("obj_exts_in_object")
            return cache.stride if bits(row, inside.bit_offset, 1)[0] else size
        return size

    def _charged(self, row: Words, count: int, cache: Cache) -> list[int]:
        bit, size, mask = self._charged_at
        listed = int(bits(row, bit, 64)[0]) & mask if size else 0
        if not listed:
            return [0] * count
        size = self._entry(row, cache)
        data = self._kernel.prog.read(listed, (count - 1) * size + _WORD.size)
        return [_WORD.unpack_from(data, n * size)[0] for n in range(count)]


def _track(kernel: Kernel, cache: Cache, data: bytes, at: int) -> tuple[int, int, int]:
    """Who made an object: the stack's handle, when in ticks, and on which CPU."""
    if cache.track is None:
        return 0, 0, 0
    handle, when, cpu = kernel.track
    at += cache.track
    return (
        struct.unpack_from("<I", data, at + handle)[0],
        _WORD.unpack_from(data, at + when)[0],
        struct.unpack_from("<i", data, at + cpu)[0],
    )
