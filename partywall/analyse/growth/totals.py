# SPDX-License-Identifier: GPL-2.0-or-later
"""How much memory of each kind there is in a guest whose kernel does not keep who made it.

That is any guest, and so the one in which lines are measured. Slabs are not as exact as with
``slub_debug=U``: what a CPU keeps of free objects is counted and taken off.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from partywall.analyse.growth import frames
from partywall.analyse.growth.frames import Frames
from partywall.analyse.growth.looks import PAGE, least, per_operation
from partywall.analyse.growth.memory import Kernel
from partywall.analyse.growth.slabs import Slabs
from partywall.analyse.growth.stocks import Stocks
from partywall.results.memory import Grown, Memory

IN_BATCHES = ("vmap_area",)
"""Slab caches of what is given back in batches of megabytes, so that it grows in any window:
areas of the kernel's address space. `partywall growth` does enough operations to tell."""

Kind = tuple[Literal["slab", "pages", "per-cpu"], str]
"""Slab, pages or per-CPU memory, and of what."""


@dataclass(frozen=True)
class Total:
    """Objects of one kind. ``size``: of all of them, in bytes; ``charged``: to a container."""

    objects: int = 0
    size: int = 0
    charged: int = 0


Totals = Mapping[Kind, Total]


def totals(kernel: Kernel, stocks: Stocks) -> Totals:
    """Return what there is now. The guest stands still."""
    kernel.anew()
    pages = kernel.struct_pages()
    slabs = Slabs(kernel, pages)
    found: dict[Kind, Total] = {}

    def add(kind: Kind, objects: int, size: int, charged: int) -> None:
        so_far = found.get(kind, Total())
        found[kind] = Total(so_far.objects + objects, so_far.size + size, so_far.charged + charged)

    counts, charged, free = slabs.counts(), slabs.charged(), stocks.free(slabs.caches)
    for address, cache in slabs.caches.items():
        objects = counts[address] - free[address]
        add(("slab", cache.name), objects, objects * cache.size, charged[address])
    there = Frames.read(kernel, pages, slabs.frames)
    for kind, words in frames.WORDS.items():
        paid, unpaid = (there.pages(kind, charged=charged) for charged in (True, False))
        add(("pages", words), paid + unpaid, PAGE * (paid + unpaid), paid)
    for size, owner in frames.per_cpu(kernel.prog).values():
        paid = int(kernel.owner(owner, objects=True) is not None)
        add(("per-cpu", "per-CPU memory"), 1, size, paid)
    return found


def grown(looks: Sequence[Totals], operations: int) -> Memory:
    """Return what operations leave behind, by three looks.

    ``operations``: of all containers between the first two; twice as many after these.
    """
    every = sorted(_grown(looks, operations), key=lambda one: (-one.bytes, one.kind, one.what))
    return Memory(operations=operations, least=round(least(operations), 4), grown=every)


def _grown(looks: Sequence[Totals], operations: int) -> Iterator[Grown]:
    for kind in sorted({kind for look in looks for kind in look}):
        before, some, more = (look.get(kind, Total()) for look in looks)
        rate = per_operation(some.objects - before.objects, more.objects - some.objects, operations)
        if not rate or kind[1] in IN_BATCHES:
            continue
        step = more.objects - some.objects
        share = min(max((more.charged - some.charged) / step, 0.0), 1.0)
        yield Grown(
            kind=kind[0],
            what=kind[1],
            objects=round(rate, 4),
            bytes=round((more.size - some.size) / (2 * operations), 2),
            charged=round(share, 4),
            more=[one.objects - before.objects for one in (some, more)],
        )
