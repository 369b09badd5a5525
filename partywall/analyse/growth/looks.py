# SPDX-License-Identifier: GPL-2.0-or-later
"""What operations leave behind in memory, from looks at it while nobody works.

Memory is looked at before a number of operations, after them, and after twice as many
more. What grows with the operations has grown in both steps, and twice as much in the
second. Of that each object is followed: is it there when the processes are gone, when
all that can be was reclaimed, and when the containers are gone?
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field

from drgn import Program

from partywall.analyse.growth import counters, frames
from partywall.analyse.growth.counters import Numbers
from partywall.analyse.growth.frames import Frames
from partywall.analyse.growth.makers import Makers
from partywall.analyse.growth.memory import Kernel
from partywall.analyse.growth.slabs import Slabs
from partywall.results.growth import AFTER, Left, Raised

LEAST = 8
"""Objects in the second step: fewer may be what anything else made, or slabs that fill up."""

RATE = 0.02
"""Objects an operation: one in fifty. Less is what a longer window would have to show."""

PAGE = 4096


@dataclass(frozen=True)
class Look:
    """Memory as it was. ``made_by``: how many slab objects, by cache and handle of a stack."""

    ticks: int
    made_by: Counter[tuple[int, int]]
    frames: Frames
    per_cpu: dict[int, tuple[int, int]]
    values: Numbers
    slabs: Slabs


def look(kernel: Kernel, *, counted: bool = True) -> Look:
    """Return what there is now. The guest stands still.

    ``counted``: by who made them; what is only followed needs no counts.
    """
    kernel.anew()
    pages = kernel.struct_pages()
    slabs = Slabs(kernel, pages)
    return Look(
        ticks=kernel.prog["jiffies_64"].value_(),
        made_by=slabs.made_by() if counted else Counter(),
        frames=Frames.read(kernel, pages, slabs.frames),
        per_cpu=frames.per_cpu(kernel.prog),
        values=kernel.counters.read(),
        slabs=slabs,
    )


def least(operations: int) -> float:
    """Return the objects per operation below which nothing is said.

    ``operations``: of all containers in the first step.
    """
    return max(RATE, LEAST / (2 * operations))


def per_operation(first: float, second: float, operations: int) -> float:
    """Return how much there is more of for each operation; 0.0 if it does not grow.

    ``first``: how much more there was after so many operations of all containers;
    ``second``: how much more than that after twice as many. What grows with the operations
    grows twice as much then, and what only fills up a cache less and less. Between one and
    a half times, less a batch such as a page of objects, and four times is said to.
    """
    rate = second / (2 * operations)
    if rate < least(operations) or not 1.5 * first - LEAST <= second <= 4 * first:
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
        return len(self.identities & set(self.there(now))) / max(1, len(self.identities))


@dataclass
class Growth:
    """Looks at one operation. ``operations``: of all containers in the first step."""

    kernel: Kernel
    makers: Makers
    operations: int
    _looks: list[Look] = field(default_factory=list)
    _followed: list[_Followed] = field(default_factory=list)
    _raised: list[tuple[int, int]] = field(default_factory=list)
    _values: tuple[Numbers, Numbers] | None = None
    raised: list[Raised] = field(default_factory=list)
    """Counters that operations raise, and that go down again with the processes."""

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
            rises = counters.raised(before.values, some.values, more.values, self.operations)
            self._raised = list(rises)
            self._values = before.values, more.values
            # Its arrays are large, and there are many operations.
            self._looks.clear()

    def after(self, which: str, now: Look) -> None:
        """Take a look at what is left, one of `AFTER`."""
        assert which in AFTER
        if self._values is not None:
            self._raised_and_returned(now.values)
        for one in self._followed:
            one.left = one.left.model_copy(
                update={"after": one.left.after | {which: round(one.share(now), 4)}}
            )

    def _raised_and_returned(self, gone: Numbers) -> None:
        """Name the counters that went down again when the processes were gone."""
        assert self._values is not None
        before, more = self._values
        for place, each in self._raised:
            back = counters.returned(before, more, gone, place)
            if counters.RETURNED[0] <= back <= counters.RETURNED[1]:
                name = self.kernel.counters.name(place)
                if name is None:
                    continue
                self.raised.append(Raised(name=name, each=each, returned=round(back, 4)))
        self._values = None

    @property
    def grew(self) -> bool:
        """Whether there is anything to follow."""
        return bool(self._followed or self._raised)

    @property
    def left(self) -> list[Left]:
        """What operations leave behind, the most bytes first."""
        found = [one.left for one in self._followed]
        return sorted(found, key=lambda one: (-one.bytes, one.what, one.made_by))

    def _slabs(self, before: Look, some: Look, more: Look) -> Iterable[_Followed]:
        """Of slabs, by cache and maker: what is there more of, whatever took whose place."""
        steps = _differences(before.made_by, some.made_by, more.made_by)
        named: dict[tuple[int, tuple[str, ...]], tuple[int, int]] = defaultdict(lambda: (0, 0))
        for (cache, handle), (first, second) in steps.items():
            key = cache, self.makers(handle)
            named[key] = named[key][0] + first, named[key][1] + second
        for (cache, made_by), (first, second) in named.items():
            rate = per_operation(first, second, self.operations)
            if rate and cache in more.slabs.caches:
                yield self._slab(cache, made_by, rate, some.ticks, more)

    def _slab(
        self, cache: int, made_by: tuple[str, ...], rate: float, since: int, more: Look
    ) -> _Followed:
        """Follow the objects of a cache that these made since a tick.

        All of them if nobody knows when they were made.
        """
        known = self.kernel.cache(cache)
        objects = [
            one
            for one in more.slabs.objects(cache)
            if self.makers(one.handle) == made_by and (known.track is None or one.when > since)
        ]
        owners = Counter(self.kernel.owner(one.owner, objects=True) for one in objects)
        left = Left(
            kind="slab",
            what=known.name,
            made_by=made_by,
            objects=round(rate, 4),
            bytes=round(rate * known.size, 2),
            charged=_share(owners),
            after={},
        )
        return _Followed(
            left,
            frozenset((one.address, one.when) for one in objects),
            lambda now: ((one.address, one.when) for one in now.slabs.objects(cache)),
        )

    def _frames(self, before: Look, some: Look, more: Look) -> Iterable[_Followed]:
        for kind in (frames.OTHER, frames.ANONYMOUS, frames.FILE, frames.TABLE):
            for charged in (False, True):
                pages = [one.frames.pages(kind, charged=charged) for one in (before, some, more)]
                rate = per_operation(pages[1] - pages[0], pages[2] - pages[1], self.operations)
                if rate:
                    yield self._of_kind(kind, charged, rate, some.frames, more.frames)

    def _of_kind(
        self, kind: int, charged: bool, rate: float, some: Frames, more: Frames
    ) -> _Followed:
        new = more.since(some, kind, charged=charged)
        uses: Counter[str] = Counter()
        for frame in new:
            uses[frames.describe(self.kernel, int(frame), kind)] += int(more.size[frame])
        left = Left(
            kind="pages",
            what=uses.most_common(1)[0][0] if uses else frames.WORDS[kind],
            made_by=(),
            objects=round(rate, 4),
            bytes=round(rate * PAGE, 2),
            charged=float(charged),
            after={},
        )
        return _Followed(
            left, frozenset(map(int, new)), lambda now: map(int, now.frames.still(new, more))
        )

    def _per_cpu(self, before: Look, some: Look, more: Look) -> Iterable[_Followed]:
        looks = (before, some, more)
        for paid in (False, True):

            def of(now: Look, paid: bool = paid) -> dict[int, tuple[int, int]]:
                return {
                    at: one
                    for at, one in now.per_cpu.items()
                    if (self.kernel.owner(one[1], objects=True) is not None) == paid
                }

            there = [of(one) for one in looks]
            counts = [len(one) for one in there]
            rate = per_operation(counts[1] - counts[0], counts[2] - counts[1], self.operations)
            new = {at: one for at, one in there[2].items() if there[1].get(at) != one}
            if not rate or not new:
                continue
            sizes = [size for size, _ in new.values()]
            left = Left(
                kind="per-cpu",
                what="per-CPU memory",
                made_by=(),
                objects=round(rate, 4),
                bytes=round(rate * sum(sizes) / len(sizes), 2),
                charged=float(paid),
                after={},
            )
            yield _Followed(left, frozenset(new.items()), lambda now: now.per_cpu.items())


def _differences(
    before: Counter[tuple[int, int]],
    some: Counter[tuple[int, int]],
    more: Counter[tuple[int, int]],
) -> dict[tuple[int, int], tuple[int, int]]:
    """How much more there is of each in both steps; of those of which there is not, nothing."""
    found = {}
    for key in before.keys() | some.keys() | more.keys():
        step = some[key] - before[key], more[key] - some[key]
        if any(step):
            found[key] = step
    return found


def _share(owners: Counter[str | None]) -> float:
    """The share that a container is charged for."""
    return round(1 - owners[None] / max(1, owners.total()), 4)


def watch(prog: Program) -> tuple[Kernel, Makers]:
    """Return what reads a guest's memory, for all of its operations."""
    return Kernel(prog), Makers(prog)
