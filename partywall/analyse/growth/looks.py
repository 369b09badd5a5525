# SPDX-License-Identifier: GPL-2.0-or-later
"""What operations leave behind in memory, from looks at it while nobody works.

Memory is looked at before a number of operations, after them, and after twice as many
more. What grows with the operations has grown in both steps, and twice as much in the
second. Of that each object is followed: is it there when the processes are gone, when
all that can be was reclaimed, and when the containers are gone?
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from drgn import Program
from numpy.typing import NDArray

from partywall.analyse.growth import frames
from partywall.analyse.growth.frames import Frames
from partywall.analyse.growth.makers import Makers
from partywall.analyse.growth.memory import Kernel
from partywall.analyse.growth.slabs import Made, Slabs
from partywall.results.growth import AFTER, Left

LEAST = 8
"""Objects in the second step: fewer may be what anything else made, or slabs that fill up."""

RATE = 0.02
"""Objects an operation: one in fifty. Less is what a longer window would have to show."""

PAGE = 4096


@dataclass(frozen=True)
class Look:
    """Memory as it was."""

    ticks: int
    counts: dict[int, int]
    frames: Frames
    per_cpu: dict[int, tuple[int, int]]
    slabs: Slabs


def look(kernel: Kernel) -> Look:
    """Return what there is now. The guest stands still."""
    pages = kernel.struct_pages()
    slabs = Slabs(kernel, pages)
    return Look(
        ticks=kernel.prog["jiffies_64"].value_(),
        counts=slabs.count(),
        frames=Frames.read(kernel, pages, slabs.frames),
        per_cpu=frames.per_cpu(kernel.prog),
        slabs=slabs,
    )


def per_operation(first: float, second: float, operations: int) -> float:
    """Return how much there is more of for each operation; 0.0 if it does not grow.

    ``first``: how much more there was after so many operations of all containers;
    ``second``: how much more than that after twice as many. What grows with the operations
    grows twice as much then, and what only fills up a cache less and less; between half
    of that and twice as much may be batches, such as pages.
    """
    rate = second / (2 * operations)
    if second < LEAST or rate < RATE or not first <= second <= 4 * first:
        return 0.0
    return rate


@dataclass
class _Followed:
    """Objects of one kind that grew, and who of them is there at a look.

    ``there``: the identities of all of this kind at a look.
    """

    left: Left
    identities: frozenset[Hashable]
    there: Callable[[Look], Iterable[Hashable]]

    def share(self, now: Look) -> float:
        return len(self.identities & set(self.there(now))) / len(self.identities)


@dataclass
class Growth:
    """Looks at one operation. ``operations``: of all containers in the first step."""

    kernel: Kernel
    makers: Makers
    operations: int
    _looks: list[Look] = field(default_factory=list)
    _followed: list[_Followed] = field(default_factory=list)

    def during(self, now: Look) -> None:
        """Take a look while the processes are there: the first three."""
        self._looks.append(now)
        if len(self._looks) == 3:
            before, some, more = self._looks
            self._followed = [
                *self._slabs(before, some, more),
                *self._frames(before, some, more),
                *self._per_cpu(before, some, more),
            ]
            # Its arrays are large, and there are many operations.
            self._looks.clear()

    def after(self, which: str, now: Look) -> None:
        """Take a look at what is left, one of `AFTER`."""
        assert which in AFTER
        for one in self._followed:
            one.left = one.left.model_copy(
                update={"after": one.left.after | {which: round(one.share(now), 4)}}
            )

    @property
    def left(self) -> list[Left]:
        """What operations leave behind, the most bytes first."""
        found = [one.left for one in self._followed]
        return sorted(found, key=lambda one: (-one.bytes, one.what, one.made_by))

    def _slabs(self, before: Look, some: Look, more: Look) -> Iterable[_Followed]:
        for cache, count in more.counts.items():
            first = some.counts.get(cache, 0) - before.counts.get(cache, 0)
            second = count - some.counts.get(cache, 0)
            if second < LEAST:
                continue
            if more.slabs.caches[cache].track is None:
                # Nobody knows which of them are new.
                if per_operation(first, second, self.operations):
                    yield self._slab(cache, (), second, more.slabs.objects(cache))
            else:
                yield from self._by_maker(cache, before.ticks, some.ticks, more)

    def _by_maker(self, cache: int, begun: int, half: int, more: Look) -> Iterable[_Followed]:
        """Of a cache that has more objects, those that are there by who made them.

        ``begun``, ``half``: ticks of the looks before. What takes the place of an older one
        of its kind is not more: of those made before ``half`` as many have to be there.
        """
        grouped: dict[tuple[str, ...], list[Made]] = defaultdict(list)
        for made in more.slabs.objects(cache):
            if made.when > begun:
                grouped[self.makers(made.handle)].append(made)
        for made_by, objects in grouped.items():
            new = [one for one in objects if one.when > half]
            if per_operation(len(objects) - len(new), len(new), self.operations):
                yield self._slab(cache, made_by, len(new), new)

    def _slab(
        self, cache: int, made_by: tuple[str, ...], second: int, objects: Sequence[Made]
    ) -> _Followed:
        known = self.kernel.cache(cache)
        rate = second / (2 * self.operations)
        owners = Counter(self.kernel.owner(one.owner, objects=True) for one in objects)
        left = Left(
            kind="slab",
            what=known.name,
            made_by=made_by,
            objects=round(rate, 4),
            bytes=round(rate * known.size, 2),
            charged=round(1 - owners[None] / len(objects), 4),
            after={},
        )
        return _Followed(
            left,
            frozenset((one.address, one.when) for one in objects),
            lambda now: ((one.address, one.when) for one in now.slabs.objects(cache)),
        )

    def _frames(self, before: Look, some: Look, more: Look) -> Iterable[_Followed]:
        for kind in (frames.OTHER, frames.ANONYMOUS, frames.FILE, frames.TABLE):
            pages = [one.frames.pages(kind) for one in (before, some, more)]
            rate = per_operation(pages[1] - pages[0], pages[2] - pages[1], self.operations)
            if rate:
                yield self._of_kind(kind, rate, more.frames.since(some.frames, kind), more)

    def _of_kind(self, kind: int, rate: float, new: NDArray[np.intp], more: Look) -> _Followed:
        sizes = more.frames.size[new]
        owners: Counter[str | None] = Counter()
        uses: Counter[str] = Counter()
        for frame, size in zip(new, sizes, strict=True):
            owner = int(more.frames.owner[frame])
            owners[self.kernel.owner(owner & ~7, objects=bool(owner & 2))] += int(size)
            uses[frames.describe(self.kernel, int(frame), kind)] += int(size)
        left = Left(
            kind="pages",
            what=uses.most_common(1)[0][0],
            made_by=(),
            objects=round(rate, 4),
            bytes=round(rate * PAGE, 2),
            charged=round(1 - owners[None] / max(1, sum(owners.values())), 4),
            after={},
        )
        return _Followed(
            left, frozenset(map(int, new)), lambda now: map(int, now.frames.still(new, kind))
        )

    def _per_cpu(self, before: Look, some: Look, more: Look) -> Iterable[_Followed]:
        counts = [len(one.per_cpu) for one in (before, some, more)]
        rate = per_operation(counts[1] - counts[0], counts[2] - counts[1], self.operations)
        new = {at: one for at, one in more.per_cpu.items() if some.per_cpu.get(at) != one}
        if not rate or not new:
            return
        sizes = [size for size, _ in new.values()]
        owners = Counter(self.kernel.owner(owner, objects=True) for _, owner in new.values())
        left = Left(
            kind="per-cpu",
            what="per-CPU memory",
            made_by=(),
            objects=round(rate, 4),
            bytes=round(rate * sum(sizes) / len(sizes), 2),
            charged=round(1 - owners[None] / len(new), 4),
            after={},
        )
        yield _Followed(left, frozenset(new.items()), lambda now: now.per_cpu.items())


def watch(prog: Program) -> tuple[Kernel, Makers]:
    """Return what reads a guest's memory, for all of its operations."""
    return Kernel(prog), Makers(prog)
