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

import numpy as np
from drgn import Program
from numpy.typing import NDArray

from partywall.analyse.growth import counters, frames
from partywall.analyse.growth.counters import Numbers
from partywall.analyse.growth.frames import Frames, Use
from partywall.analyse.growth.makers import Makers
from partywall.analyse.growth.memory import Kernel
from partywall.analyse.growth.slabs import Made, Slabs
from partywall.analyse.growth.slope import at_most, least, per_operation
from partywall.results import bookkeeping
from partywall.results.growth import AFTER, Left, Raised
from partywall.results.memory import PAGE, Kind, Unsettled

_PER_CPU = "per-CPU memory"


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
    """Looks at one operation.

    ``operations``: of all containers in the first step; ``cpus``: of each container, which
    follow each other.
    """

    kernel: Kernel
    makers: Makers
    operations: int
    cpus: int = 1
    _looks: list[Look] = field(default_factory=list)
    _followed: list[_Followed] = field(default_factory=list)
    unsettled: list[Unsettled] = field(default_factory=list)
    """What rises, and not as what grows with the operations does; the most bytes first."""
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
            self.unsettled.sort(key=lambda one: (-one.bytes, one.what, one.made_by))
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
            if cache not in more.slabs.caches:
                continue
            size = self.kernel.cache(cache).size
            rate = per_operation(first, second, self.operations, size)
            most = at_most(first, second, self.operations, size)
            if rate:
                yield from self._slab(cache, made_by, rate, some.ticks, more)
            elif most and not bookkeeping.makes(made_by):
                new = self._new(cache, made_by, before.ticks, more)
                self._rises(
                    ("slab", self.kernel.cache(cache).name),
                    charged=all(self.kernel.owner(one.owner, objects=True) for one in new),
                    size=most * size,
                    more=[first, first + second],
                    made_by=made_by,
                )

    def _rises(
        self,
        of: tuple[Kind, str],
        *,
        charged: bool,
        size: float,
        more: list[int],
        made_by: tuple[str, ...] = (),
    ) -> None:
        """Keep that a kind rises, and that it is not settled whether it grows."""
        self.unsettled.append(
            Unsettled(
                kind=of[0],
                what=of[1],
                made_by=made_by,
                charged=charged,
                bytes=round(size, 2),
                more=more,
            )
        )

    def _new(self, cache: int, made_by: tuple[str, ...], since: int, now: Look) -> list[Made]:
        """The objects of a cache that these made since a tick.

        All of them if nobody knows when they were made.
        """
        known = self.kernel.cache(cache)
        return [
            one
            for one in now.slabs.objects(cache)
            if self.makers(one.handle) == made_by and (known.track is None or one.when > since)
        ]

    def _slab(
        self, cache: int, made_by: tuple[str, ...], rate: float, since: int, more: Look
    ) -> Iterable[_Followed]:
        """Follow the objects of a cache that these made since a tick, by whether it is charged.

        What is too few to be told of goes with the others.
        """
        known = self.kernel.cache(cache)
        parts: dict[bool, list[Made]] = {True: [], False: []}
        for one in (new := self._new(cache, made_by, since, more)):
            parts[self.kernel.owner(one.owner, objects=True) is not None].append(one)
        # Who made them and was charged then may be gone: those are of nobody known.
        shares = {paid: len(objects) / max(1, len(new)) for paid, objects in parts.items()}
        fewest = least(self.operations) / max(1.0, known.size / PAGE)
        few = [paid for paid, share in shares.items() if rate * share < fewest]
        if len(few) == 1:
            parts[not few[0]] += parts.pop(few[0])
        elif len(few) == 2:
            most = max(shares, key=lambda paid: (shares[paid], not paid))
            parts = {most if new else False: new}
        for paid, objects in parts.items():
            each = rate * (len(objects) / len(new) if new else 1.0)
            left = Left(
                kind="slab",
                what=known.name,
                made_by=made_by,
                objects=round(each, 4),
                bytes=round(each * known.size, 2),
                charged=float(paid),
                elsewhere=self._elsewhere(objects) if paid and known.track is not None else None,
                bookkeeping=bookkeeping.makes(made_by),
                after={},
            )
            yield _Followed(
                left,
                frozenset((one.address, one.when) for one in objects),
                lambda now: ((one.address, one.when) for one in now.slabs.objects(cache)),
            )

    def _elsewhere(self, objects: list[Made]) -> float | None:
        """The share that others are charged for than who has the CPU on which it was made.

        None if no container is known of any.
        """
        pairs = [(self.kernel.container(one.owner), one.cpu // self.cpus) for one in objects]
        known = [payer != maker for payer, maker in pairs if payer is not None]
        return round(sum(known) / len(known), 4) if known else None

    def _frames(self, before: Look, some: Look, more: Look) -> Iterable[_Followed]:
        looks = [one.frames for one in (before, some, more)]
        for use in dict.fromkeys(use for one in looks for use in one.uses()):
            for charged in (False, True):
                pages = [one.pages(use, charged=charged) for one in looks]
                steps = pages[1] - pages[0], pages[2] - pages[1]
                rate = per_operation(*steps, self.operations)
                most = at_most(*steps, self.operations)
                if rate:
                    yield self._of_use(use, charged, rate, some.frames, more.frames)
                elif most:
                    self._rises(
                        ("pages", self._what(more.frames, before.frames, use, charged)[0]),
                        charged=charged,
                        size=most * PAGE,
                        more=[steps[0], sum(steps)],
                    )

    def _what(
        self, now: Frames, before: Frames, use: Use, charged: bool
    ) -> tuple[str, NDArray[np.intp]]:
        """What most pages of a use are that were not there before, and these."""
        new = now.since(before, use, charged=charged)
        found: Counter[str] = Counter()
        for frame in new:
            found[frames.describe(self.kernel, int(frame), use)] += int(now.size[frame])
        return found.most_common(1)[0][0] if found else use.words, new

    def _of_use(
        self, use: Use, charged: bool, rate: float, some: Frames, more: Frames
    ) -> _Followed:
        what, new = self._what(more, some, use, charged)
        left = Left(
            kind="pages",
            what=what,
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
            steps = counts[1] - counts[0], counts[2] - counts[1]
            new = {at: one for at, one in there[2].items() if there[1].get(at) != one}
            sizes = [size for size, _ in new.values()]
            size = sum(sizes) / len(sizes) if sizes else 0.0
            rate = per_operation(*steps, self.operations, size)
            most = at_most(*steps, self.operations, size)
            if most:
                self._rises(
                    ("per-cpu", _PER_CPU),
                    charged=paid,
                    size=most * size,
                    more=[steps[0], sum(steps)],
                )
            if not rate:
                continue
            left = Left(
                kind="per-cpu",
                what=_PER_CPU,
                made_by=(),
                objects=round(rate, 4),
                bytes=round(rate * size, 2),
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


def watch(prog: Program) -> tuple[Kernel, Makers]:
    """Return what reads a guest's memory, for all of its operations."""
    return Kernel(prog), Makers(prog)
