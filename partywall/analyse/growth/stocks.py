# SPDX-License-Identifier: GPL-2.0-or-later
"""Free objects that CPUs keep for themselves, which their slabs count as used.

Without debugging SLUB takes all free objects of a slab at once for a CPU; from Linux 6.18 on
caches have sheaves beside, arrays of free objects of each CPU, and barns of full ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from drgn import Object
from drgn.helpers.linux.cpumask import for_each_possible_cpu
from drgn.helpers.linux.list import list_for_each_entry

from partywall.analyse.growth.memory import Cache, Kernel

MASK = (1 << 64) - 1

_PAGE = 4096
_MOST = 1 << 16
"""Objects of a list: one that goes in circles has an end."""


class Stocks:
    """Counts them while the guest stands."""

    def __init__(self, kernel: Kernel) -> None:
        prog = kernel.prog
        self._kernel = kernel
        self._offsets = [
            prog["__per_cpu_offset"][cpu].value_() for cpu in for_each_possible_cpu(prog)
        ]
        self._slab = kernel.has("struct kmem_cache", "cpu_slab")
        self._sheaves = kernel.has("struct kmem_cache", "cpu_sheaves")
        if self._slab:
            self._first = kernel.at("struct kmem_cache_cpu", "freelist")

    def free(self, caches: dict[int, Cache]) -> Counter[int]:
        """Return how many there are, by address of the cache."""
        found: Counter[int] = Counter()
        for address, cache in caches.items():
            known = Object(self._kernel.prog, "struct kmem_cache *", address)
            if self._slab:
                found[address] += sum(self._listed(cache, one) for one in self._lists(known))
            if self._sheaves:
                found[address] += sum(one.size.value_() for one in self._all_sheaves(known))
        return found

    def _lists(self, cache: Object) -> Iterator[int]:
        """The first free object of each CPU's list."""
        prog, base = self._kernel.prog, cache.cpu_slab.value_()
        for offset in self._offsets:
            yield prog.read_u64((base + offset + self._first) & MASK)

    def _listed(self, cache: Cache, first: int) -> int:
        at, count = first, 0
        # A list is one slab's: few pages, and each is read once.
        pages: dict[int, bytes] = {}
        while at and count < _MOST:
            count += 1
            place = at + cache.free_at
            at = self._word(place, pages)
            if cache.random:
                at ^= cache.random ^ int.from_bytes(place.to_bytes(8, "little"), "big")
        return count

    def _word(self, address: int, pages: dict[int, bytes]) -> int:
        """The word at an address; pages that were read are kept in ``pages``."""
        prog, (page, offset) = self._kernel.prog, divmod(address, _PAGE)
        if offset > _PAGE - 8:
            return int(prog.read_u64(address))
        if page not in pages:
            pages[page] = prog.read(page * _PAGE, _PAGE)
        return int.from_bytes(pages[page][offset : offset + 8], "little")

    def _all_sheaves(self, cache: Object) -> Iterator[Object]:
        """Sheaves of all CPUs, and those that are full in barns."""
        prog, base = self._kernel.prog, cache.cpu_sheaves.value_()
        for offset in self._offsets if base else ():
            own = Object(prog, "struct slub_percpu_sheaves *", (base + offset) & MASK)
            yield from filter(None, (own.main, own.spare, own.rcu_free))
        for barn in self._barns(cache):
            yield from list_for_each_entry(
                "struct slab_sheaf", barn.sheaves_full.address_of_(), "barn_list"
            )

    def _barns(self, cache: Object) -> Iterator[Object]:
        apart = self._kernel.has("struct kmem_cache", "per_node")
        for number in range(self._kernel.prog["nr_node_ids"].value_()):
            # A node's own until Linux 6.19.
            at = cache.per_node[number] if apart else cache.node[number]
            if (apart or at) and at.barn:
                yield at.barn
