# SPDX-License-Identifier: GPL-2.0-or-later
"""Counters of the machine: words of the kernel's own data that operations raise, its modules' too.

Every aligned word of 32 bits is compared, whatever it is called; of per-CPU data the sum
over all CPUs. A counter of 64 bits shows in its lower half.
"""

from __future__ import annotations

import bisect
import sys
from collections.abc import Iterator
from functools import cached_property

import numpy as np
from drgn import Object, Program
from drgn.helpers.linux.cpumask import for_each_possible_cpu
from drgn.helpers.linux.list import list_for_each_entry
from drgn.helpers.linux.percpu import percpu_counter_sum
from numpy.typing import NDArray

from partywall.analyse.names.fields import field_at, pointed_at
from partywall.analyse.names.found import symbol_at
from partywall.analyse.names.unreadable import UNREADABLE

Numbers = NDArray[np.int32]

# Arrays of 8 bytes each that are indexed by an enumeration, which DWARF doesn't say.
_ENUMERATED = {"vm_node_stat": "node_stat_item", "vm_zone_stat": "zone_stat_item"}

SLACK = 2
"""By which a counter may differ from what the operations make of it: others use it too."""

RETURNED = (0.9, 2.0)
"""What goes down with processes and files, of what operations have raised it by. What stays is a
statistic, or memory, of which is told elsewhere. More goes than they raised: the process' own, and
what it did to warm up. What goes much further down is of something else."""


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
        return [*found, *((start, size) for start, size, _ in self._modules)]

    @cached_property
    def _modules(self) -> list[tuple[int, int, str]]:
        """Where modules' data is that can be written: start, size, name. None is loaded later."""
        heads = list_for_each_entry("struct module", self._prog["modules"].address_of_(), "list")
        found = []
        for module in heads:
            start, size = _data(self._prog, module)
            if size:
                found.append((start, size, module.name.string_().decode(errors="replace")))
        return sorted(found)

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

    def read(self) -> Numbers:
        """Return all values as they are now: the kernel's data, sums over CPUs, counters' sums."""
        prog = self._prog
        regions = [np.frombuffer(prog.read(start, size), np.int32) for start, size in self._regions]
        start, size, offsets = self._per_cpu
        parts = [
            np.frombuffer(prog.read((start + offset) & (2**64 - 1), size), np.uint32)
            for offset in offsets
        ]
        total = np.add.reduce(np.array(parts), dtype=np.uint32)
        regions.append(total.view(np.int32))
        sums = np.array([self._sum(name) for name in self._parted], np.int64).astype(np.int32)
        return np.concatenate([*regions, sums])

    def _sum(self, name: str) -> int:
        """What a counter with parts is, 0 before it has any."""
        counter = self._prog[name]
        try:
            return int(percpu_counter_sum(counter.address_of_())) if counter.counters else 0
        except UNREADABLE:
            return 0

    def name(self, index: int) -> str | None:
        """Return what a value is, by its place among those that are read.

        None if it is a part of another one, or of a pointer.
        """
        starts = [*self._regions, self._per_cpu[:2]]
        for start, size in starts:
            if index < size // 4:
                name = self._at(start + 4 * index)
                if name is None or name.partition(".")[0] in self._parted:
                    return None
                return name
            index -= size // 4
        return self._parted[index]

    def _at(self, address: int) -> str | None:
        """The variable at an address, and the field there; None if that is a pointer."""
        prog = self._prog
        variable, start = self._variable(address)
        if variable is None:
            return self._unnamed(address)
        offset = address - start
        try:
            if variable in _ENUMERATED:
                constants = prog.type(f"enum {_ENUMERATED[variable]}").enumerators or ()
                # Where items begin has a name of its own, before the first item's.
                return str([one.name for one in constants if one.value == offset // 8][-1])
            known = prog[variable]
            # There may be others of its name.
            if known.address_ != start:
                path = None
            elif pointed_at(known.type_, offset) is not None:
                # A timer goes from list to list, by as much as it likes.
                return None
            else:
                path = field_at(prog, known.type_, offset, 4).path
        except UNREADABLE:
            path = None
        if path is None:
            path = f"+{offset:#x}" if offset else ""
        joint = "" if not path or path.startswith(("[", "+")) else "."
        return f"{variable}{joint}{path}"

    def _unnamed(self, address: int) -> str:
        """What no symbol has: the module and the place in its data, or the address."""
        for start, size, name in self._modules:
            if start <= address < start + size:
                return f"module {name}+{address - start:#x}"
        return f"{address:#x}"

    def _variable(self, address: int) -> tuple[str | None, int]:
        """The variable that is there, and where it begins; None if no symbol has it."""
        start, size, _ = self._per_cpu
        if start <= address < start + size:
            place = bisect.bisect(self._per_cpu_symbols, (address, sys.maxsize, "")) - 1
            begun, length, name = self._per_cpu_symbols[place] if place >= 0 else (0, 0, "")
            return (name, begun) if begun <= address < begun + length else (None, 0)
        try:
            symbol = symbol_at(self._prog, address)
        except LookupError:
            return None, 0
        return symbol.name, symbol.address


def _data(prog: Program, module: Object) -> tuple[int, int]:
    """Where a module's data is that can be written, and its size in bytes."""
    if module.type_.type.has_member("mem"):
        part = module.mem[prog.constant("MOD_DATA")]
        return part.base.value_(), part.size.value_() & ~3
    # Until Linux 6.3, behind what can only be read.
    layout = module.core_layout
    begins = layout.ro_after_init_size.value_()
    return layout.base.value_() + begins, (layout.size.value_() - begins) & ~3


def raised(
    before: Numbers, some: Numbers, more: Numbers, operations: int
) -> Iterator[tuple[int, int]]:
    """Yield places of counters that operations raise, and by how much each: a whole number.

    ``operations``: in the first step; twice as many in the second.
    """
    # In 32 bits, as they wrap.
    first, second = (some - before).astype(np.int64), (more - some).astype(np.int64)
    # What falls is no cap.
    likely = (first > SLACK) & (np.abs(second - 2 * first) <= 2 * SLACK)
    for place in np.nonzero(likely)[0]:
        each = round((first[place] + second[place]) / (3 * operations))
        if each and abs(first[place] - each * operations) <= SLACK:
            yield int(place), int(each)


def returned(before: Numbers, more: Numbers, gone: Numbers, place: int) -> float:
    """Return what went down with the processes, of what a counter was raised by."""
    rise, fall = int((more - before)[place]), int((more - gone)[place])
    return fall / rise if rise > 0 else 0.0
