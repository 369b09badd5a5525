# SPDX-License-Identifier: GPL-2.0-or-later
"""Pages that are in use and in no slab, and per-CPU memory: what they are, who is charged."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from drgn import Object, Program
from drgn.helpers.linux.list import list_for_each_entry
from drgn.helpers.linux.mm import compound_order
from numpy.typing import NDArray

from partywall.analyse.growth.memory import Kernel, Words, bits
from partywall.analyse.names import pages as naming
from partywall.analyse.names.unreadable import UNREADABLE

_CHARGES_OBJECTS = 2

Mask = NDArray[np.bool_]

OTHER, ANONYMOUS, FILE, TABLE = range(4)
"""What a page is for."""

WORDS = {
    OTHER: "pages of the kernel",
    ANONYMOUS: "anonymous memory",
    FILE: "pages of files",
    TABLE: "page tables",
}


@dataclass(frozen=True)
class Use:
    """What pages are for. ``together``: how many are one; None: however many."""

    kind: int
    together: int | None = None

    @property
    def words(self) -> str:
        """For people."""
        some = f", {self.together} together" if (self.together or 1) > 1 else ""
        return f"{WORDS[self.kind]}{some}"


@dataclass(frozen=True)
class Frames:
    """All pages as the guest stands, by frame, without those of slabs.

    ``apart``: pages that are the RAM disk on which containers live, which is no memory of
    theirs, and those that per-CPU memory is in, which is told of by what is allocated;
    ``size``: how many pages each is the first one of, 0 if nobody has it; ``kind``: as
    above; ``charged``: whether a container is; ``content``: what tells a page from another
    one that has its frame later.
    """

    apart: int
    size: NDArray[np.int64]
    kind: NDArray[np.int64]
    charged: Mask
    content: Words

    @staticmethod
    def read(kernel: Kernel, pages: Words, slabs: NDArray[np.intp]) -> Frames:
        """Return them. ``slabs``: the first frames of slabs.

        Of what is larger than a page and not compound, the first page is all that is seen.
        """

        def member(name: str, size: int = 64) -> Words:
            return bits(pages, 8 * kernel.at("struct page", name), size)

        flags = pages[:, 0]
        count = member("_refcount", 32)
        # What is negative is no count.
        there = (count > 0) & (count < 1 << 31)
        there &= flags & np.uint64(1 << kernel.constant("PG_reserved")) == 0
        there[slabs] = False
        size = there.astype(np.int64)
        heads = np.nonzero(there & (flags & np.uint64(1 << kernel.constant("PG_head")) != 0))[0]
        for head in heads:
            page = Object(kernel.prog, "struct page *", kernel.map + int(head) * kernel.page)
            size[head] = 1 << compound_order(page).value_()
        mapping = member("mapping")
        owner = np.zeros_like(mapping)
        if kernel.has("struct page", "memcg_data"):
            owner = np.where(there, member("memcg_data"), 0).astype(np.uint64)
        kind = np.full(len(size), OTHER)
        kind[mapping >= 1 << 63] = FILE
        kind[(mapping >= 1 << 63) & (mapping & np.uint64(1) != 0)] = ANONYMOUS
        kind[_tables(kernel, member("page_type", 32))] = TABLE
        # The kernel's own, whatever lies where a mapping would.
        kind[(owner & np.uint64(_CHARGES_OBJECTS) != 0) & (kind == FILE)] = OTHER
        content = (
            mapping
            ^ (owner << np.uint64(1))
            ^ member("index" if kernel.has("struct page", "index") else "__folio_index")
        )
        apart = _of_disks(kernel.prog) + _of_per_cpu(kernel.prog)
        return Frames(apart, size, kind, _charged(kernel, owner), content)

    def uses(self) -> list[Use]:
        """Return what pages are for; of the kernel's own, by how many are one allocation."""
        together = np.unique(self.size[(self.kind == OTHER) & (self.size > 1)]).tolist()
        own = [Use(OTHER, number) for number in (1, *together)]
        return [*own, *(Use(kind) for kind in (ANONYMOUS, FILE, TABLE))]

    def pages(self, use: Use, *, charged: bool) -> int:
        """Return how many pages of a use there are, without those that are told of apart."""
        found = int(self.size[self._of(use, charged)].sum())
        # These are allocated one by one.
        return found - (self.apart if use == Use(OTHER, 1) and not charged else 0)

    def since(self, before: Frames, use: Use, *, charged: bool) -> NDArray[np.intp]:
        """Return the frames of a use that had another content then, or nobody had."""
        same = (before.kind == use.kind) & (before.size == self.size)
        same &= before.content == self.content
        return np.nonzero(self._of(use, charged) & ~same)[0]

    def _of(self, use: Use, charged: bool) -> Mask:
        """Which pages are of a use, the first ones of several."""
        size = self.size > 0 if use.together is None else self.size == use.together
        found: Mask = size & (self.kind == use.kind) & (self.charged == charged)
        return found

    def still(self, frames: NDArray[np.intp], then: Frames) -> NDArray[np.intp]:
        """Return those of the frames that have the content they had then."""
        same = (
            (self.size[frames] == then.size[frames])
            & (self.kind[frames] == then.kind[frames])
            & (self.content[frames] == then.content[frames])
        )
        found: NDArray[np.intp] = frames[same]
        return found


def _charged(kernel: Kernel, owner: Words) -> Mask:
    """Which pages a container is charged for, by who their owner is."""
    known, which = np.unique(owner, return_inverse=True)
    # Where the root has an obj_cgroup, files' and anonymous pages have one as well, so that
    # they can be handed to a parent.
    every = kernel.has("struct obj_cgroup", "is_root")
    paths = [
        kernel.owner(int(one) & ~7, objects=every or bool(int(one) & _CHARGES_OBJECTS))
        for one in known
    ]
    found: Mask = np.array([path is not None for path in paths], bool)[which]
    return found


def _of_disks(prog: Program) -> int:
    """How many pages the driver of RAM disks has; none if it is not there."""
    try:
        disks = list_for_each_entry(
            "struct brd_device", prog["brd_devices"].address_of_(), "brd_list"
        )
        return sum(int(disk.brd_nr_pages.value_()) for disk in disks)
    except UNREADABLE:
        return 0


def _of_per_cpu(prog: Program) -> int:
    """How many pages per-CPU memory is in: the allocator makes and drops them in batches."""
    return int(prog["pcpu_nr_populated"].value_() * prog["pcpu_nr_units"].value_())


def _tables(kernel: Kernel, types: Words) -> Mask:
    """Which pages are page tables, by their type; see `partywall.analyse.names.pages`."""
    number = kernel.optional("PGTY_table")
    if number is not None:
        numbered: Mask = types >> np.uint64(24) == number
        return numbered
    bit = kernel.optional("PG_table") or naming.PG_TABLE
    marked: Mask = types & np.uint64(0xF000_0000 | bit) == 0xF000_0000
    return marked


def describe(kernel: Kernel, frame: int, use: Use) -> str:
    """Return what pages are that are like this one."""
    if use.kind != FILE:
        return use.words
    page = Object(kernel.prog, "struct page *", kernel.map + frame * kernel.page)
    _, told = naming.kind(kernel.prog, page)
    # Of which file system is what tells: of files there may be thousands.
    return f"{use.words}{told[told.rindex(' (') :]}" if " (" in told else use.words


def per_cpu(prog: Program) -> dict[int, tuple[int, int]]:
    """Allocations of per-CPU memory: bytes on all CPUs and who is charged, by address.

    The address is that of CPU 0's; 0 is nobody.
    """
    found: dict[int, tuple[int, int]] = {}
    units = prog["pcpu_nr_units"].value_()
    lists = prog["pcpu_chunk_lists"]
    for number in range(prog["pcpu_nr_slots"].value_()):
        for chunk in list_for_each_entry("struct pcpu_chunk", lists[number].address_of_(), "list"):
            found |= _of_chunk(prog, chunk, units)
    return found


def _of_chunk(prog: Program, chunk: Object, units: int) -> dict[int, tuple[int, int]]:
    # 4 bytes are the least that is allocated: PCPU_MIN_ALLOC_SIZE.
    count = chunk.nr_pages.value_() * 1024
    used, ends = _bitmap(prog, chunk.alloc_map, count), _bitmap(prog, chunk.bound_map, count + 1)
    base = chunk.base_addr.value_()
    edges = np.nonzero(ends)[0]
    starts = edges[:-1][used[edges[:-1]] if len(edges) > 1 else []]
    sizes = np.diff(edges)[used[edges[:-1]] if len(edges) > 1 else []]
    owners = _owners(prog, chunk, count)
    return {
        base + int(start) * 4: (
            int(size) * 4 * units,
            owners[int(start)] if owners is not None else 0,
        )
        for start, size in zip(starts, sizes, strict=True)
    }


def _bitmap(prog: Program, pointer: Object, count: int) -> NDArray[np.bool_]:
    size = -(-count // 64) * 8
    data = np.frombuffer(prog.read(pointer.value_(), size), np.uint8)
    return np.unpackbits(data, bitorder="little")[:count].astype(bool)


def _owners(prog: Program, chunk: Object, count: int) -> list[int] | None:
    """Who is charged for what begins at each place; None if nobody is for any."""
    for member in ("obj_exts", "obj_cgroups"):
        if prog.type("struct pcpu_chunk").has_member(member):
            listed = chunk.member_(member)
            break
    else:
        return None
    if not listed:
        return None
    size = listed.type_.type.size or 8
    data = np.frombuffer(prog.read(listed.value_(), count * size), np.uint64)
    return [int(one) for one in data.reshape(count, size // 8)[:, 0]]
