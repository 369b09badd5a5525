# SPDX-License-Identifier: GPL-2.0-or-later
"""What a guest's kernel keeps of its memory: pages and slab caches, read at once.

The guest stands still. All struct pages are read as one array, since drgn takes some
microseconds for each member of each.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from drgn import Object, Program, offsetof
from drgn.helpers.linux.list import list_for_each_entry
from numpy.typing import NDArray

from partywall.analyse.growth.counters import Counters

PAGE_SHIFT = 12

# As `partywall.guest.oci` names the cgroups of containers.
_CONTAINER = re.compile(r"/partywall/c(\d+)(/|\Z)")

Words = NDArray[np.uint64]


@dataclass(frozen=True)
class Cache:
    """A slab cache. ``size``: of an object, without what debugging adds, in bytes.

    ``stride``: from one to the next; ``track``: where it is kept who made it, in bytes
    from an object's start, None if it is not.
    """

    name: str
    size: int
    stride: int
    track: int | None
    random: int
    free_at: int


class Kernel:
    """What does not change from one look to the next."""

    def __init__(self, prog: Program) -> None:
        self.prog = prog
        self.page = prog.type("struct page").size or 0
        self.map = prog["vmemmap"].value_()
        self.direct = prog["page_offset_base"].value_()
        self.frames = prog["max_pfn"].value_()
        self._caches: dict[int, Cache] = {}
        self._owners: dict[int, str | None] = {}
        self.counters = Counters(prog)

    def at(self, kind: str, member: str) -> int:
        """Where a member of a struct is, in bytes."""
        return int(offsetof(self.prog.type(kind), member))

    def has(self, kind: str, member: str) -> bool:
        """Whether a struct has a member."""
        return bool(self.prog.type(kind).has_member(member))

    def constant(self, name: str) -> int:
        """Return the value of an enumerator."""
        return int(self.prog.constant(name).value_())

    def optional(self, name: str) -> int | None:
        """Return the same, None where the kernel has none of this name."""
        try:
            return self.constant(name)
        except LookupError:
            return None

    def owner(self, address: int, *, objects: bool) -> str | None:
        """Return the path of the cgroup that is charged; None for nobody's and the root's.

        ``objects``: the address is an ``obj_cgroup``'s, else a ``mem_cgroup``'s.
        """
        if not address:
            return None
        if address not in self._owners:
            memcg = Object(self.prog, "struct mem_cgroup *", address)
            if objects:
                memcg = Object(self.prog, "struct obj_cgroup *", address).memcg
            path = _path(memcg.css.cgroup.kn) if memcg else ""
            self._owners[address] = path or None
        return self._owners[address]

    def container(self, address: int) -> int | None:
        """Return the number of the container that an ``obj_cgroup`` is of; None if of none."""
        path = self.owner(address, objects=True)
        found = _CONTAINER.match(path) if path else None
        return int(found[1]) if found else None

    @cached_property
    def track(self) -> tuple[int, int, int]:
        """Where a ``struct track`` has the handle of a stack, the time, and the CPU."""
        handle, when, cpu = (self.at("struct track", name) for name in ("handle", "when", "cpu"))
        return handle, when, cpu

    @cached_property
    def slab_flag(self) -> int:
        """The bit of SLAB_STORE_USER, which drgn finds as no constant before 6.9."""
        number = self.optional("_SLAB_STORE_USER")
        return 0x10000 if number is None else 1 << number

    def caches(self) -> dict[int, Cache]:
        """All slab caches, by address. What is known of one that is gone stays."""
        heads = list_for_each_entry(
            "struct kmem_cache", self.prog["slab_caches"].address_of_(), "list"
        )
        return {one.value_(): self._cache(one) for one in heads}

    def cache(self, address: int) -> Cache:
        """Return one that `caches` has found."""
        return self._caches[address]

    def _cache(self, cache: Object) -> Cache:
        address = cache.value_()
        name = cache.name.string_().decode(errors="replace")
        known = self._caches.get(address)
        if known is None or known.name != name:
            known = self._caches[address] = self._read(cache, name)
        return known

    def _read(self, cache: Object, name: str) -> Cache:
        track = None
        inside, offset = cache.inuse.value_(), cache.offset.value_()
        if cache.flags.value_() & self.slab_flag:
            track = inside + 8 if offset >= inside else inside
        return Cache(
            name=name,
            size=cache.object_size.value_(),
            stride=cache.size.value_(),
            track=track,
            random=cache.random.value_() if self.has("struct kmem_cache", "random") else 0,
            free_at=offset,
        )

    def anew(self) -> None:
        """Forget what may be another's by now: addresses are used again."""
        self._owners.clear()

    def struct_pages(self) -> Words:
        """All struct pages: [frame, 8 bytes of it]."""
        data = self.prog.read(self.map, self.frames * self.page)
        return np.frombuffer(data, np.uint64).reshape(self.frames, self.page // 8)

    def virtual(self, frame: int) -> int:
        """The address of a page's memory."""
        return int(self.direct + (frame << PAGE_SHIFT))


def _path(node: Object) -> str:
    """Return the path of a node of kernfs, empty for its root's.

    drgn's own helper asks for the root where Linux 6.12 has it, and our series does not.
    """
    names = []
    parent = "parent" if node.type_.type.has_member("parent") else "__parent"
    while above := node.member_(parent):
        names.append(node.name.string_().decode(errors="replace"))
        node = above
    return "".join(f"/{name}" for name in reversed(names))


def bits(words: Words, offset: int, size: int) -> Words:
    """A member of each struct, by its place and size in bits."""
    start = offset % 64
    assert start + size <= 64, "a member across two words"
    mask = np.uint64((1 << size) - 1)
    found: Words = (words[:, offset // 64] >> np.uint64(start)) & mask
    return found
