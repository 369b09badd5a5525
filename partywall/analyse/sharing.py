# SPDX-License-Identifier: GPL-2.0-or-later
"""All recorded uses of memory by address, and what fields of a line cost each other."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from partywall.analyse.transfers import transfers
from partywall.record import recording
from partywall.record.recording import LINE_SHIFT, LINE_SIZE, Kind, Recording

Array = npt.NDArray[Any]

# Widest access that the recorder reports, in bytes, with room to spare.
_WIDEST = 128


class Use(NamedTuple):
    """Accesses to one address by one instruction in one context, all parties together."""

    address: int
    size: int
    code: int
    caller: int
    context: int
    atomic: bool
    reads: int
    writes: int

    @property
    def total(self) -> int:
        """Loads and stores."""
        return self.reads + self.writes


class Place(NamedTuple):
    """An address that an instruction uses, and how many bytes of it; its code and caller."""

    address: int
    size: int
    code: int
    caller: int


class Uses:
    """The accesses of a recording in one kind of work.

    Calling it with a range of addresses gives the uses there, in order of
    address.
    """

    def __init__(self, whole: Recording, kind: Kind) -> None:
        parts = [party.accesses for party in whole.parties]
        empty = np.zeros(0, recording.ACCESS)
        accesses = np.concatenate([empty, *parts])
        party = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        chosen = recording.kind_in(accesses["context"]) == kind
        accesses, party = accesses[chosen], party[chosen]
        order = np.argsort(accesses["address"], kind="stable")
        self._accesses, self._party = accesses[order], party[order]
        # By itself it is looked for in half the time.
        self._address = np.ascontiguousarray(self._accesses["address"])
        self._sites = whole.sites
        self._codes: list[list[int]] = whole.sites.tolist()
        self._parties = len(parts)

    def _rows(self, start: int, end: int) -> slice:
        ends = np.array([max(start - _WIDEST, 0), end], dtype=np.uint64)
        first, last = np.searchsorted(self._address, ends)
        return slice(int(first), int(last))

    def __call__(self, start: int, end: int) -> Iterator[Use]:
        """Uses of ``[start, end)``, parties added up."""
        found: dict[tuple[int, int, int, int, int], list[int]] = {}
        for address, site, context, size, flags, reads, writes in self._accesses[
            self._rows(start, end)
        ].tolist():
            if address + size <= start:
                continue
            count = found.setdefault((address, size, site, context, flags), [0, 0])
            count[0] += reads
            count[1] += writes
        for (address, size, site, context, flags), (reads, writes) in sorted(found.items()):
            code, caller = self._sites[site].tolist()
            yield Use(
                address, size, code, caller, context, bool(flags & recording.ATOMIC), reads, writes
            )

    def places(self, start: int, end: int) -> set[Place]:
        """Return the places in the code that use ``[start, end)``, whatever they do there."""
        rows = self._accesses[self._rows(start, end)]
        # One column after the other: there may be a hundred thousand such ranges.
        columns = (rows[name].tolist() for name in ("address", "size", "site"))
        return {
            Place(address, size, *self._codes[site])
            for address, size, site in set(zip(*columns, strict=True))
            if address + size > start
        }

    def busiest(self, copying: Callable[[Array], Array]) -> dict[int, int]:
        """Of each line, by its address: where in it most was written, or read if nothing was.

        ``copying``: which code, of addresses, clears and copies memory; what that does counts
        in lines that nobody else uses.
        """
        every = self._address
        if not len(every):
            return {}
        starts = np.flatnonzero(np.r_[True, every[1:] != every[:-1]])
        address = every[starts]
        line = address & ~np.uint64(LINE_SIZE - 1)
        writes, reads = (self._accesses[kind].astype(np.int64) for kind in ("writes", "reads"))
        telling = ~copying(self._sites[:, 0])[self._accesses["site"]]
        keys = [~address]
        for those in (np.ones_like(telling), telling):
            written, read = (np.add.reduceat(of * those, starts) for of in (writes, reads))
            keys += [read + written, written]
        # The best of each line comes last; of equals, the first in the line.
        rank = np.lexsort((*keys, line))
        last = np.r_[line[rank][1:] != line[rank][:-1], True]
        chosen = rank[last]
        return dict(zip(line[chosen].tolist(), address[chosen].tolist(), strict=True))

    def by_line(self, chosen: Callable[[Array], Array]) -> tuple[Array, Array, Array]:
        """Return the lines that are used, by number, how often in chosen contexts, and in all.

        As names have it, the load and the store of an atomic instruction are one use.
        """
        uses = self._accesses
        line, of = np.unique(uses["address"] >> np.uint64(LINE_SHIFT), return_inverse=True)
        both = uses["reads"].astype(np.float64), uses["writes"].astype(np.float64)
        atomic = uses["flags"] & recording.ATOMIC > 0
        times = np.where(atomic, np.maximum(*both), np.add(*both))
        some = np.bincount(of, times * chosen(uses["context"]), minlength=len(line))
        return line, some, np.bincount(of, times, minlength=len(line))

    def by_party(self, start: int, end: int) -> tuple[Array, Array]:
        """Loads and stores that touch ``[start, end)``; shape (parties,) each."""
        rows = self._rows(start, end)
        accesses, party = self._accesses[rows], self._party[rows]
        chosen = accesses["address"] + accesses["size"].astype(np.uint64) > np.uint64(start)
        reads, writes = np.zeros(self._parties, np.int64), np.zeros(self._parties, np.int64)
        np.add.at(reads, party[chosen], accesses["reads"][chosen].astype(np.int64))
        np.add.at(writes, party[chosen], accesses["writes"][chosen].astype(np.int64))
        return reads, writes


@dataclass(frozen=True)
class Together:
    """The visits of one line, those alike in one row; shape (rows,) each.

    ``party`` made ``visits`` that read the words of mask ``read`` and wrote those of
    ``written``; a bit is a word of 8 bytes, the lowest the first in the line.
    """

    party: Array
    read: Array
    written: Array
    visits: Array

    def of_those(self, part: Array) -> Together:
        """Return so much of them: ``part`` of each party's, shape (parties,), 0..1."""
        return replace(self, visits=self.visits * part[self.party])


class Patterns:
    """Which words of each line are used together in the visits of one kind of work."""

    def __init__(self, whole: Recording, kind: Kind = Kind.FOREGROUND) -> None:
        self._kind = kind
        parts = [party.patterns for party in whole.parties]
        rows = np.concatenate([np.zeros(0, recording.PATTERN), *parts])
        party = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        order = np.argsort(rows["key"], kind="stable")
        self._rows, self._party = rows[order], party[order]
        # By itself: rows are no multiple of a key, and numpy copies all of such a column each time.
        self._keys = np.ascontiguousarray(self._rows["key"])

    def __call__(self, line: int) -> Together:
        """Return the visits of the line at an address."""
        key = np.uint64(recording.key(line // LINE_SIZE, self._kind))
        start, end = (np.searchsorted(self._keys, key, side) for side in ("left", "right"))
        rows = self._rows[start:end]
        return Together(
            self._party[start:end],
            rows["read"].astype(np.int64),
            rows["written"].astype(np.int64),
            rows["visits"].astype(np.int64),
        )


_LOCK = re.compile(r"(spinlock|rwlock|mutex|semaphore|lockref|seqlock|seqcount)")


def part_of(path: str, type_: str | None) -> str:
    """Return what a field is a part of that is moved as a whole: a member of the object.

    ``path``: of the field in an object of type ``type_``; a lock is one part.
    """
    if type_ is not None and _LOCK.search(type_):
        return ""
    parts = path.split(".")
    return ".".join(parts[: 2 if parts[0].startswith("[") else 1])


def groups_of(used: Iterable[tuple[int, int, str]]) -> list[int]:
    """Return the masks of words that can't be told or taken apart, of one line.

    ``used``: of fields, offset in the line, size and what each is a part of. Two
    of one part are one group, such as the words of a lock, and two in one word.
    """
    masks: dict[str, int] = defaultdict(int)
    for offset, size, part in used:
        first, last = max(offset, 0) // 8, (min(offset + size, LINE_SIZE) - 1) // 8
        masks[part] |= sum(1 << word for word in range(first, last + 1))
    groups: list[int] = []
    # Words of no known field are by themselves.
    for mask in [*masks.values(), *(1 << word for word in range(LINE_SIZE // 8))]:
        joined = mask
        for other in [group for group in groups if group & mask]:
            groups.remove(other)
            joined |= other
        groups.append(joined)
    return groups


def split_saves(visits: Together, groups: Iterable[int], others: Array) -> float:
    """Return how many of a line's transfers go if its fields get lines of their own.

    ``groups``: from `groups_of`; ``others``: as in `transfers.transfers`. Groups that
    are used in the same visits stay together where that costs less: a visit that needs
    two lines fetches both.
    """
    known: dict[int, float] = {}

    def cost(group: int) -> float:
        if group not in known:
            reads, writes = np.zeros((2, 1, len(others)))
            wrote = (visits.written & group) != 0
            read = ~wrote & ((visits.read & group) != 0)
            np.add.at(writes[0], visits.party[wrote], visits.visits[wrote])
            np.add.at(reads[0], visits.party[read], visits.visits[read])
            known[group] = float(transfers(reads, writes, others)[0])
        return known[group]

    used = int(np.bitwise_or.reduce(visits.read | visits.written, initial=0))
    apart = [group & used for group in groups if group & used]
    whole = cost(used)
    while len(apart) > 1:
        gain, one, other = max(
            (cost(a) + cost(b) - cost(a | b), a, b) for a, b in combinations(apart, 2)
        )
        # What is as good together stays together: the fewer lines the better.
        if gain < 0:
            break
        apart = [group for group in apart if group not in (one, other)] + [one | other]
    return max(0.0, whole - sum(cost(group) for group in apart))


def split_saves_on_top(
    late: Together, own: Together, groups: Sequence[int], others: Array
) -> float:
    """Return how many more transfers go if ``late`` visits count beside ``own`` ones.

    As the transfers of deferred work are those that a line has more: a field that system
    calls read alone and one that softirqs write are best apart.
    """
    both = Together(
        *(
            np.concatenate([getattr(part, each.name) for part in (own, late)])
            for each in fields(Together)
        )
    )
    return max(0.0, split_saves(both, groups, others) - split_saves(own, groups, others))
