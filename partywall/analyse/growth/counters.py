# SPDX-License-Identifier: GPL-2.0-or-later
"""Counters of the machine: words of the kernel's own data that operations raise.

Every aligned word of 32 bits is compared, whatever it is called; of per-CPU data the sum
over all CPUs. A counter of 64 bits shows in its lower half.
"""

from __future__ import annotations

import bisect
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from drgn import Program
from drgn.helpers.linux.cpumask import for_each_possible_cpu
from drgn.helpers.linux.percpu import percpu_counter_sum
from numpy.typing import NDArray

from partywall.analyse.names.fields import field_at
from partywall.analyse.names.unreadable import UNREADABLE

Numbers = NDArray[np.int32]

# Arrays of 8 bytes each that are indexed by an enumeration, which DWARF doesn't say.
_ENUMERATED = {"vm_node_stat": "node_stat_item", "vm_zone_stat": "zone_stat_item"}

SLACK = 2
"""By which a counter may differ from what the operations make of it: others use it too."""

RETURNED = (0.9, 1.1)
"""Of what operations raised it by, the share that is gone with their processes and files.
What stays is a statistic, or is memory, of which is told elsewhere; what goes further down is
of something else."""


@dataclass(frozen=True)
class Values:
    """All words as they were: those of each region, and counters that CPUs have parts of."""

    regions: tuple[Numbers, ...]
    parted: Numbers

    def all(self) -> Numbers:
        """All of them behind each other."""
        return np.concatenate([*self.regions, self.parted])


class Counters:
    """Reads them while the guest stands."""

    def __init__(self, prog: Program) -> None:
        self._prog = prog

    @cached_property
    def _regions(self) -> list[tuple[int, int]]:
        """Where the kernel's data is: start and size in bytes."""
        prog, found = self._prog, []
        for first, last in (("_sdata", "_edata"), ("__bss_start", "__bss_stop")):
            start, end = prog.symbol(first).address, prog.symbol(last).address
            found.append((start, (end - start) & ~3))
        return found

    @cached_property
    def _per_cpu(self) -> tuple[int, int, list[int]]:
        """Where symbols of per-CPU data begin, its size, and the offsets of each CPU's."""
        prog = self._prog
        start = prog.symbol("__per_cpu_start").address
        size = (prog.symbol("__per_cpu_end").address - start) & ~3
        offsets = [prog["__per_cpu_offset"][cpu].value_() for cpu in for_each_possible_cpu(prog)]
        return start, size, offsets

    @cached_property
    def _parted(self) -> list[str]:
        """Names of variables that are counters with a part for each CPU."""
        size = self._prog.type("struct percpu_counter").size
        found = []
        for symbol in self._prog.symbols():
            if symbol.size == size and self._is_parted(symbol.name):
                found.append(symbol.name)
        return sorted(set(found))

    def _is_parted(self, name: str) -> bool:
        try:
            return bool(self._prog[name].type_.type_name() == "struct percpu_counter")
        except UNREADABLE:
            return False

    @cached_property
    def _per_cpu_symbols(self) -> list[tuple[int, int, str]]:
        """Variables of per-CPU data: address, size, name. They lie where drgn looks for none."""
        start, size, _ = self._per_cpu
        found = [
            (one.address, one.size, one.name)
            for one in self._prog.symbols()
            if start <= one.address < start + size and one.size
        ]
        return sorted(found)

    def read(self) -> Values:
        """Return all values as they are now."""
        prog = self._prog
        regions = [np.frombuffer(prog.read(start, size), np.int32) for start, size in self._regions]
        start, size, offsets = self._per_cpu
        parts = [
            np.frombuffer(prog.read((start + offset) & (2**64 - 1), size), np.uint32)
            for offset in offsets
        ]
        total = np.add.reduce(np.array(parts), dtype=np.uint32)
        regions.append(total.view(np.int32))
        sums = [percpu_counter_sum(prog[name].address_of_()) for name in self._parted]
        return Values(tuple(regions), np.array(sums, np.int64).astype(np.int32))

    def name(self, index: int) -> str | None:
        """Return what a value is, by its place in `Values.all`.

        None if it is a part of another one.
        """
        starts = [*self._regions, self._per_cpu[:2]]
        for start, size in starts:
            if index < size // 4:
                name = self._at(start + 4 * index)
                return None if name.partition(".")[0] in self._parted else name
            index -= size // 4
        return self._parted[index]

    def _at(self, address: int) -> str:
        """The variable at an address, and the field there."""
        prog = self._prog
        variable, start = self._variable(address)
        if variable is None:
            return f"{address:#x}"
        offset = address - start
        if variable in _ENUMERATED:
            constants = prog.type(f"enum {_ENUMERATED[variable]}").enumerators or ()
            words = (one.name for one in constants if one.value == offset // 8)
            return next(words, f"{variable}[{offset // 8}]")
        try:
            path = field_at(prog, prog[variable].type_, offset, 4).path
        except UNREADABLE:
            path = f"+{offset:#x}" if offset else ""
        joint = "" if not path or path.startswith(("[", "+")) else "."
        return f"{variable}{joint}{path}"

    def _variable(self, address: int) -> tuple[str | None, int]:
        """The variable that is there, and where it begins; None if no symbol has it."""
        start, size, _ = self._per_cpu
        if start <= address < start + size:
            place = bisect.bisect(self._per_cpu_symbols, (address, sys.maxsize, "")) - 1
            begun, length, name = self._per_cpu_symbols[place] if place >= 0 else (0, 0, "")
            return (name, begun) if begun <= address < begun + length else (None, 0)
        try:
            symbol = self._prog.symbol(address)
        except LookupError:
            return None, 0
        return symbol.name, symbol.address


def raised(
    before: Values, some: Values, more: Values, operations: int
) -> Iterator[tuple[int, float]]:
    """Yield places of counters that operations raise, and by how much each.

    ``operations``: in the first step; twice as many in the second. By a whole number each,
    or by one in so many.
    """
    one = before.all()
    first = (some.all() - one).astype(np.int64)
    second = (more.all() - some.all()).astype(np.int64)
    # Counters of 4 bytes may wrap; what falls is no cap.
    likely = (first > SLACK) & (np.abs(second - 2 * first) <= 2 * SLACK)
    for place in np.nonzero(likely)[0]:
        each = (first[place] + second[place]) / (3 * operations)
        whole = round(each)
        if whole and abs(first[place] - whole * operations) <= SLACK:
            yield int(place), float(whole)


def returned(before: Values, more: Values, gone: Values, place: int) -> float:
    """Return the share of what a counter was raised by that is gone with the processes."""
    rise = int(more.all()[place]) - int(before.all()[place])
    left = int(gone.all()[place]) - int(before.all()[place])
    return 1 - left / rise if rise > 0 else 0.0
