# SPDX-License-Identifier: GPL-2.0-or-later
"""How much memory of each kind there is in a guest whose kernel does not keep who made it.

That is any guest, and so the one in which lines are measured. Slabs are not as exact as with
``slub_debug=U``: what a CPU keeps of free objects is counted and taken off.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from partywall.analyse.growth import frames
from partywall.analyse.growth.frames import Frames
from partywall.analyse.growth.memory import Kernel
from partywall.analyse.growth.slabs import Slabs
from partywall.analyse.growth.slope import at_most, least, per_operation
from partywall.analyse.growth.stocks import Stocks
from partywall.results.bookkeeping import LISTS
from partywall.results.memory import PAGE, Grown, Kind, Memory, Unsettled

IN_BATCHES = ("vmap_area",)
"""Slab caches of what is given back in batches of megabytes, so that it grows in any window:
areas of the kernel's address space. `partywall growth` does enough operations to tell."""

Of = tuple[Kind, str, bool]
"""Slab, pages or per-CPU memory, of what, and whether a container is charged."""


@dataclass(frozen=True)
class Total:
    """Objects of one kind. ``size``: of all of them, in bytes."""

    objects: int = 0
    size: int = 0


Totals = Mapping[Of, Total]


def totals(kernel: Kernel, stocks: Stocks) -> Totals:
    """Return what there is now. The guest stands still."""
    kernel.anew()
    pages = kernel.struct_pages()
    slabs = Slabs(kernel, pages)
    found: dict[Of, Total] = {}

    def add(kind: Kind, what: str, charged: bool, objects: int, size: int) -> None:
        so_far = found.get((kind, what, charged), Total())
        found[kind, what, charged] = Total(so_far.objects + objects, so_far.size + size)

    counts, charged, free = slabs.counts(), slabs.charged(), stocks.free(slabs.caches)
    lists = slabs.lists()
    for address, cache in slabs.caches.items():
        paid, listed = charged[address], lists[address]
        unpaid = counts[address] - free[address] - paid - listed
        for what, pays, objects in (
            (cache.name, True, paid),
            (cache.name, False, unpaid),
            (LISTS, False, listed),
        ):
            add("slab", what, pays, objects, objects * cache.size)
    there = Frames.read(kernel, pages, slabs.frames)
    for use in there.uses():
        for pays in (True, False):
            number = there.pages(use, charged=pays)
            add("pages", use.words, pays, number, PAGE * number)
    for size, owner in frames.per_cpu(kernel.prog).values():
        pays = kernel.owner(owner, objects=True) is not None
        add("per-cpu", "per-CPU memory", pays, 1, size)
    return found


def grown(looks: Sequence[Totals], operations: int) -> Memory:
    """Return what operations leave behind, by three looks.

    ``operations``: of all containers between the first two; twice as many after these.
    """
    known = sorted({one for look in looks for one in look if one[1] not in IN_BATCHES})
    steps = [_Steps(one, *(look.get(one, Total()) for look in looks)) for one in known]
    every = [step.grown(operations) for step in steps]
    rest = [step.unsettled(operations) for step in steps]
    return Memory(
        operations=operations,
        least=round(least(operations), 4),
        grown=sorted(filter(None, every), key=_most),
        unsettled=sorted(filter(None, rest), key=_most),
    )


def _most(one: Grown | Unsettled) -> tuple[float, str, str]:
    return -one.bytes, one.kind, one.what


@dataclass(frozen=True)
class _Steps:
    """Three looks at one kind."""

    of: Of
    before: Total
    some: Total
    more: Total

    @property
    def _first(self) -> int:
        return self.some.objects - self.before.objects

    @property
    def _second(self) -> int:
        return self.more.objects - self.some.objects

    @property
    def _size(self) -> float:
        """Bytes of one of those that are new."""
        return max((self.more.size - self.some.size) / self._second, 0.0) if self._second else 0.0

    @property
    def _more(self) -> list[int]:
        return [one.objects - self.before.objects for one in (self.some, self.more)]

    def grown(self, operations: int) -> Grown | None:
        rate = per_operation(self._first, self._second, operations, self._size)
        if not rate:
            return None
        kind, what, charged = self.of
        return Grown(
            kind=kind,
            what=what,
            objects=round(rate, 4),
            bytes=round(rate * self._size, 2),
            charged=float(charged),
            bookkeeping=what == LISTS,
            more=self._more,
        )

    def unsettled(self, operations: int) -> Unsettled | None:
        kind, what, charged = self.of
        most = at_most(self._first, self._second, operations, self._size)
        # What bounds lists is told of.
        if not most or what == LISTS:
            return None
        size = round(most * self._size, 2)
        return Unsettled(kind=kind, what=what, charged=charged, bytes=size, more=self._more)
