# SPDX-License-Identifier: GPL-2.0-or-later
"""All recorded uses of memory by address, and false sharing within a line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from partywall.analyse.transfers import transfers
from partywall.record import recording
from partywall.record.recording import LINE_SIZE, Recording

Array = npt.NDArray[Any]

# Widest access that the recorder reports, in bytes, with room to spare.
_WIDEST = 128


@dataclass(frozen=True)
class Use:
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


class Uses:
    """The accesses of a recording, of its foreground or its background.

    Calling it with a range of addresses gives the uses there, in order of
    address.
    """

    def __init__(self, whole: Recording, *, foreground: bool) -> None:
        parts = [party.accesses for party in whole.parties]
        empty = np.zeros(0, recording.ACCESS)
        accesses = np.concatenate([empty, *parts])
        party = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        context = accesses["context"]
        own = (context < recording.TASK) & ~np.isin(context, recording.BACKGROUND)
        chosen = own if foreground else ~own
        accesses, party = accesses[chosen], party[chosen]
        order = np.argsort(accesses["address"], kind="stable")
        self._accesses, self._party = accesses[order], party[order]
        self._sites = whole.sites
        self._parties = len(parts)

    def _rows(self, start: int, end: int) -> slice:
        address = self._accesses["address"]
        first, last = np.searchsorted(
            address, np.array([max(start - _WIDEST, 0), end], dtype=np.uint64)
        )
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

    def busiest(self) -> dict[int, int]:
        """Of each line, by its address: where in it most was written, or read if nothing was."""
        every = self._accesses["address"]
        if not len(every):
            return {}
        starts = np.flatnonzero(np.r_[True, every[1:] != every[:-1]])
        address = every[starts]
        line = address & ~np.uint64(LINE_SIZE - 1)
        writes = np.add.reduceat(self._accesses["writes"].astype(np.int64), starts)
        reads = np.add.reduceat(self._accesses["reads"].astype(np.int64), starts)
        # The best of each line comes last; of equals, the first in the line.
        rank = np.lexsort((~address, reads + writes, writes, line))
        last = np.r_[line[rank][1:] != line[rank][:-1], True]
        chosen = rank[last]
        return dict(zip(line[chosen].tolist(), address[chosen].tolist(), strict=True))

    def by_party(self, start: int, end: int) -> tuple[Array, Array]:
        """Loads and stores that touch ``[start, end)``; shape (parties,) each."""
        rows = self._rows(start, end)
        accesses, party = self._accesses[rows], self._party[rows]
        chosen = accesses["address"] + accesses["size"].astype(np.uint64) > np.uint64(start)
        reads, writes = np.zeros(self._parties, np.int64), np.zeros(self._parties, np.int64)
        np.add.at(reads, party[chosen], accesses["reads"][chosen].astype(np.int64))
        np.add.at(writes, party[chosen], accesses["writes"][chosen].astype(np.int64))
        return reads, writes


def false_sharing(
    uses: Uses,
    line: int,
    fields: Iterable[tuple[int, int]],
    others: Array,
    moved: float,
    reading: float,
    threshold: float,
) -> bool:
    """Whether fields of a line pay for each other.

    ``line``: address; ``fields``: (offset, size) of each field touched;
    ``others``: as in `transfers.transfers`; ``moved``: transfers in the window;
    ``reading``: those of visits that only read; ``threshold``: transfers in the
    window that count as some.

    Two signs, either is enough. Fields that nobody writes are read in visits
    of their own, and the line is gone then because of another field. Or the
    line moves more often than its fields would, each in a line of its own:
    a field moves at most as often as it is accessed.
    """
    read_only = 0
    alone = 0.0
    places = sorted({(max(offset, 0), size) for offset, size in fields})
    for offset, size in places:
        end = min(line + offset + size, line + LINE_SIZE)
        reads, writes = uses.by_party(line + offset, end)
        if writes.sum():
            alone += float(transfers(reads[None, :], writes[None, :], others)[0])
        else:
            read_only += int(reads.sum())
    if len(places) < 2:
        return False
    return (read_only > threshold and reading > threshold) or moved > alone + threshold
