# SPDX-License-Identifier: GPL-2.0-or-later
"""Address -> the object that lives there, from the guest's memory.

No nearest symbols: an address that no kernel data structure accounts for stays
unnamed, with the reason.
"""

from __future__ import annotations

import bisect
import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from drgn import Program, Type
from drgn.helpers.common.memory import IdentifiedAddress, identify_address_all
from drgn.helpers.linux.common import IdentifiedTaskStack, IdentifiedVmap
from drgn.helpers.linux.cpumask import for_each_possible_cpu
from drgn.helpers.linux.list import list_for_each_entry
from drgn.helpers.linux.mm import PageSlab, compound_head, in_direct_map, virt_to_page

from partywall.analyse.names import pages
from partywall.analyse.names.fields import TABLE, array_at, size_of
from partywall.analyse.names.found import symbol_at
from partywall.analyse.names.slabs import SlabObjects
from partywall.analyse.names.unreadable import UNREADABLE
from partywall.core.elf import Symbol, Symbols
from partywall.record.recording import LINE_SIZE
from partywall.results.lines import LineObject

# The kernel's image and modules, which symbols name, lie above on x86-64.
_IMAGE = 0xFFFF_FFFF_8000_0000


@dataclass(frozen=True)
class Thing:
    """An object: where it is, what it is, and its type if memory alone tells.

    ``shift``: where in the object ``type`` starts. ``array``: it is an array of
    that type. ``cache``: slab cache.
    """

    kind: str
    name: str
    address: int
    size: int
    type: Type | None = None
    shift: int = 0
    array: bool = False
    cache: str | None = None
    state: str = "live"
    detail: str | None = None

    def line_object(self, line: int) -> LineObject:
        """As it stands in a result, for the cache line at address ``line``."""
        return LineObject.model_validate(
            {
                "kind": self.kind,
                "name": self.name,
                "type": None if self.type is None else self.type.type_name(),
                "address": f"{self.address:#x}",
                "size": self.size,
                "line": line - self.address,
                "array": self._array(line),
                "state": self.state,
                "detail": self.detail,
            }
        )

    def _array(self, line: int) -> str | None:
        """The long array inside it that all of a line is of; not of what comes and goes."""
        lasts = self.state == "static" or self.kind == "vmalloc"
        if not lasts or self.type is None or self.array or self.size < TABLE:
            return None
        inside = line - self.address - self.shift
        return array_at(self.type, inside, inside + LINE_SIZE)


@dataclass(frozen=True)
class _Unit:
    """One CPU's copy of a chunk of per-CPU memory."""

    start: int
    size: int
    cpu: int
    first: int
    """Address of the same unit in the numbering that symbols use."""
    static: bool


class ObjectNamer:
    """Names data of the guest's kernel."""

    def __init__(self, prog: Program, symbols: Symbols) -> None:
        self._prog = prog
        self._cache: dict[Any, Any] = {}
        self._slab_infos = SlabObjects(prog)
        self._slabs: dict[int, tuple[Thing, int]] = {}
        self._slab_objects: dict[int, Thing] = {}
        self._same: dict[tuple[str, int, int], Thing] = {}
        self._files = {symbol.address: symbol.file for symbol in symbols if symbol.file}
        self._static_percpu = _static_percpu(symbols)
        self._percpu_addresses = [symbol.address for symbol in self._static_percpu]
        self._units = self._percpu_units()
        self._starts = [unit.start for unit in self._units]
        self._boot = [*_hash_tables(prog), *_memory_nodes(prog)]
        self.at = lru_cache(maxsize=None)(self._at)

    def _percpu_units(self) -> list[_Unit]:
        prog = self._prog
        units: list[_Unit] = []
        try:
            cpus = list(for_each_possible_cpu(prog))
            offsets = prog["__per_cpu_offset"]
            static_start = prog.symbol("__per_cpu_start").address
            size = prog["pcpu_unit_size"].value_()
            base = prog["pcpu_base_addr"].value_()
            # What is behind the first chunk in its units is given to everybody at boot.
            first = prog["pcpu_first_chunk"]
            end = first.base_addr.value_() + first.nr_pages.value_() * 4096
            used = end - first.end_offset.value_() - base
            for cpu in cpus:
                start = offsets[cpu].value_() + static_start
                units.append(_Unit(start & ~(2**64), used, cpu, static_start, True))
            offsets = [prog["pcpu_unit_offsets"][cpu].value_() for cpu in cpus]
            for start in _chunks(prog):
                # Those of the first chunk are in the units above.
                if start and not base <= start < base + size:
                    units += [
                        _Unit(start + offset, size, cpu, 0, False)
                        for cpu, offset in zip(cpus, offsets, strict=True)
                    ]
        except UNREADABLE:
            pass
        return sorted(units, key=lambda unit: unit.start)

    def _at(self, address: int) -> Thing:
        neighbour = self._neighbour(address)
        if neighbour is not None and neighbour.address in self._slab_objects:
            return neighbour
        for look in (self._symbol, self._percpu, self._page_struct, self._slab, self._mapped):
            try:
                found = look(address)
            except UNREADABLE:
                continue
            if found is not None:
                # One object is one value, however it was found.
                return self._same.setdefault((found.name, found.address, found.size), found)
        return Thing(
            "unnamed", f"unnamed: no kernel structure accounts for {address:#x}", address & ~63, 64
        )

    def _variable(self, name: str, address: int) -> Type | None:
        """Type of the variable at an address: that of its file, if several have the name."""
        for file in (None, self._files.get(address)):
            try:
                variable = self._prog.variable(name, file)
            except UNREADABLE:
                continue
            if variable.address_ == address:
                return variable.type_
        return None

    def _symbol(self, address: int) -> Thing | None:
        if address < _IMAGE:
            return None
        symbol = symbol_at(self._prog, address)
        if not symbol.size or address >= symbol.address + symbol.size:
            return None
        if symbol.kind.name == "FUNC":
            return Thing("code", symbol.name, symbol.address, symbol.size, state="static")
        try:
            module = self._prog.module(address).name
        except UNREADABLE:
            module = "kernel"
        return Thing(
            "global" if module == "kernel" else "module",
            symbol.name,
            symbol.address,
            symbol.size,
            type=self._variable(symbol.name, symbol.address),
            state="static",
            detail=None if module == "kernel" else f"of module {module}",
        )

    def _percpu(self, address: int) -> Thing | None:
        at = bisect.bisect_right(self._starts, address) - 1
        if at < 0 or address >= self._units[at].start + self._units[at].size:
            return None
        unit = self._units[at]
        if unit.static:
            inside = address - unit.start + unit.first
            at = bisect.bisect_right(self._percpu_addresses, inside) - 1
            symbol = self._static_percpu[at] if at >= 0 else None
            if symbol is not None and inside < symbol.address + symbol.size:
                return Thing(
                    "percpu",
                    f"{symbol.name} of CPU {unit.cpu}",
                    address - (inside - symbol.address),
                    symbol.size,
                    type=self._variable(symbol.name, symbol.address),
                    state="static",
                )
        return Thing(
            "percpu",
            "allocated per-CPU memory",
            address & ~63,
            64,
            detail=f"CPU {unit.cpu}'s copy; the kernel does not keep who allocated it",
        )

    def roughly(self, address: int) -> Thing:
        """As `at`, but a slab object is not asked whether it is freed, which takes long."""
        thing = self._neighbour(address)
        return self.at(address) if thing is None else thing

    def _neighbour(self, address: int) -> Thing | None:
        """The slab object at ``address``, if another of its slab is known already."""
        known = self._slabs.get(address >> 12)
        if known is None:
            return None
        # Objects of a slab lie one behind the other.
        anchor, stride = known
        start = anchor.address + (address - anchor.address) // stride * stride
        return self._slab_objects.get(start) or replace(anchor, address=start, state="live")

    def _slab(self, address: int) -> Thing | None:
        info = self._slab_infos.info(address)
        if info is None:
            return None
        cache = info.slab_cache.name.string_().decode(errors="replace")
        found = Thing(
            "slab",
            cache,
            info.address,
            info.slab_cache.object_size.value_(),
            cache=cache,
            state="live" if info.allocated else "freed",
        )
        self._slabs[address >> 12] = found, info.slab_cache.size.value_()
        self._slab_objects[info.address] = found
        return found

    def _page_struct(self, address: int) -> Thing | None:
        found = pages.page_of(self._prog, address)
        if found is None:
            return None
        page, start, size = found
        frame, use = pages.describe(self._prog, page)
        return Thing(
            "page",
            f"struct page of {use}",
            start,
            size,
            type=self._prog.type("struct page"),
            detail=frame,
        )

    def _mapped(self, address: int) -> Thing | None:
        if in_direct_map(self._prog, address):
            page = virt_to_page(self._prog, address)
            head = compound_head(page)
            kind, detail = pages.kind(self._prog, head)
            if kind == "slab" or PageSlab(head):
                return Thing("slab", "slab (object not found)", address & ~63, 64, state="freed")
            table = self._boot_table(address)
            if table is not None:
                return table
            state = "freed" if detail == pages.FREE else "live"
            return Thing(kind, detail, address & ~4095, 4096, state=state)
        for known in identify_address_all(self._prog, address, cache=self._cache):
            thing = self._identified(known, address)
            if thing is not None:
                return thing
        return None

    def _identified(self, known: IdentifiedAddress, address: int) -> Thing | None:
        if isinstance(known, IdentifiedTaskStack):
            task = known.task
            comm = task.comm.string_().decode(errors="replace")
            size = self._stack_size()
            return Thing("stack", f"stack of {comm}", address & ~(size - 1), size)
        if isinstance(known, IdentifiedVmap):
            table = self._boot_table(address)
            if table is not None:
                return table
            start = known.vmap_area.va_start.value_()
            end = known.vmap_area.va_end.value_()
            return Thing("vmalloc", self._allocated_by(known), start, end - start)
        return None

    def _allocated_by(self, known: IdentifiedVmap) -> str:
        try:
            caller = symbol_at(self._prog, known.vm_struct.caller.value_()).name
        except UNREADABLE:
            return "vmalloc memory"
        return f"vmalloc memory of {caller}()"

    def _stack_size(self) -> int:
        try:
            return int(size_of(self._prog.type("union thread_union")))
        except UNREADABLE:
            return 1 << 14

    def _boot_table(self, address: int) -> Thing | None:
        """What boot allocates and only a pointer leads to: tables, memory nodes."""
        for table in self._boot:
            if table.start <= address < table.start + table.count * table.element:
                index = (address - table.start) // table.element
                return Thing(
                    "memory",
                    table.name,
                    table.start + index * table.element,
                    table.element,
                    type=table.type,
                    state="static",
                    detail=f"entry {index} of {table.count}" if table.count > 1 else None,
                )
        return None

    def typed(self, thing: Thing, type_: Type, shift: int, *, array: bool = False) -> Thing:
        """``thing`` with its type known, and named after it."""
        many = "[]" if array else ""
        name = f"{thing.cache}: {type_.type_name()}{many}" if thing.cache else thing.name
        return replace(thing, type=type_, shift=shift, array=array, name=name)


def _chunks(prog: Program) -> Iterator[int]:
    """Start of every chunk of per-CPU memory."""
    lists = prog["pcpu_chunk_lists"]
    for slot in range(prog["pcpu_nr_slots"].value_()):
        head = lists[slot].address_of_()
        for chunk in list_for_each_entry("struct pcpu_chunk", head, "list"):
            yield chunk.base_addr.value_()


def _static_percpu(symbols: Symbols) -> list[Symbol]:
    """Per-CPU variables by address, which are not addresses of memory: drgn has none of them."""
    bounds = [symbols.by_name(name) for name in ("__per_cpu_start", "__per_cpu_end")]
    if not all(bounds):
        return []
    start, end = bounds[0][0].address, bounds[1][0].address
    inside = [symbol for symbol in symbols if symbol.size and start <= symbol.address < end]
    return sorted(inside, key=lambda symbol: (symbol.address, symbol.name))


@dataclass(frozen=True)
class _Table:
    """``count`` elements of ``element`` bytes from ``start`` on."""

    name: str
    start: int
    count: int
    element: int
    type: Type


# Pointer to the table, the variable that tells its length, and how it does.
_TABLES = (
    ("dentry_hashtable", "d_hash_shift", "top"),
    ("inode_hashtable", "i_hash_shift", "shift"),
    ("mount_hashtable", "m_hash_mask", "mask"),
    ("mountpoint_hashtable", "mp_hash_mask", "mask"),
    ("pid_hash", "pidhash_shift", "shift"),
)


def _hash_tables(prog: Program) -> list[_Table]:
    found = []
    for pointer, variable, how in _TABLES:
        try:
            table = prog[pointer]
            value = int(prog[variable].value_())
            # d_hash takes the top bits of a 32-bit hash.
            count = {"mask": value + 1, "top": 1 << 32 - value, "shift": 1 << value}[how]
            element = table.type_.type
            found.append(_Table(f"{pointer}[]", table.value_(), count, size_of(element), element))
        except UNREADABLE:
            continue
    return [table for table in found if table.start and table.element]


def _memory_nodes(prog: Program) -> list[_Table]:
    """Each node's zones and counters, which boot allocates on that node."""
    try:
        type_ = prog.type("struct pglist_data")
        nodes = prog["node_data"]
        addresses = struct.unpack(
            f"<{nodes.type_.length}Q", prog.read(nodes.address_, 8 * (nodes.type_.length or 0))
        )
    except UNREADABLE:
        return []
    return [
        _Table(f"*node_data[{number}]", address, 1, size_of(type_), type_)
        for number, address in enumerate(addresses)
        if address
    ]
