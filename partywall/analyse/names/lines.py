# SPDX-License-Identifier: GPL-2.0-or-later
"""Puts together what is known of a cache line: object, fields, code."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace

from drgn import Program, Type

from partywall.analyse.names.code import CodeNamer
from partywall.analyse.names.contexts import ContextNamer
from partywall.analyse.names.copying import Copying
from partywall.analyse.names.fields import FieldPath, field_at, size_of
from partywall.analyse.names.objects import ObjectNamer, Thing
from partywall.analyse.names.types import Evidence, Guess, TypeGuesser, by_cache, kmalloc_size
from partywall.analyse.sharing import Use, Uses
from partywall.core.elf import Symbols
from partywall.record.recording import LINE_SIZE
from partywall.results.fields import FieldUse
from partywall.results.lines import LineObject
from partywall.results.sites import Site

_AROUND = 4096
"""Bytes of memory whose uses are looked at together; a page, which is freed as a whole."""


@dataclass
class _Count:
    """Of an atomic instruction its load and its store are one access."""

    reads: int = 0
    writes: int = 0
    atomics: int = 0

    def add(self, use: Use) -> None:
        if use.atomic:
            self.atomics += max(use.reads, use.writes)
        else:
            self.reads += use.reads
            self.writes += use.writes

    @property
    def total(self) -> int:
        return self.reads + self.writes + self.atomics


@dataclass
class Named:
    """A line's names; rates are per operation."""

    object: LineObject
    fields: list[FieldUse] = field(default_factory=list)
    code: list[Site] = field(default_factory=list)


@dataclass(frozen=True)
class _Place:
    thing: Thing
    path: str
    offset: int
    size: int


class Learned:
    """What is known of the code of a guest's kernel, whatever the guest does.

    The code stays as it is, but for jumps that static keys switch. It remembers all that was
    looked up, so all rounds of one guest share it.
    """

    def __init__(self, prog: Program, symbols: Symbols) -> None:
        self.prog, self.symbols = prog, symbols
        self.code = CodeNamer(prog)
        self.guesser = TypeGuesser(prog, self.code)
        self.copying = Copying(symbols)


class Knowledge:
    """What is known of a guest that stands still: its code, and its objects as they are.

    It remembers all that was looked up, so namers of one recording share it.
    """

    def __init__(self, learned: Learned, contexts: ContextNamer) -> None:
        self.prog = learned.prog
        self.contexts = contexts
        self.code = learned.code
        self.guesser = learned.guesser
        self.copying = learned.copying
        self.objects = ObjectNamer(learned.prog, learned.symbols)


class LineNamer:
    """Names lines, by all ``uses`` of memory that were recorded."""

    def __init__(self, known: Knowledge, uses: Uses) -> None:
        self._prog = known.prog
        self._contexts = known.contexts
        self._code = known.code
        self._guesser = known.guesser
        self._copying = known.copying
        self._objects = known.objects
        self._uses = uses
        self._typed: dict[tuple[int, str], Thing] = {}
        self._around: dict[tuple[int, str], tuple[Guess, ...]] = {}
        self._fields: dict[tuple[int, int, int], tuple[Type, FieldPath]] = {}

    def _thing(self, address: int) -> Thing:
        return self._told(self._objects.at(address), address)

    def _told(self, thing: Thing, address: int) -> Thing:
        """``thing`` with its type, if that can be told; or what there is at ``address`` in it."""
        if thing.cache is None:
            return thing if thing.type is not None else self._by_use(thing, address)
        key = (thing.address, thing.state)
        if key not in self._typed:
            self._typed[key] = self._with_type(thing)
        told = self._typed[key]
        # Of an object that is not known as a whole, what is used there may be.
        return told if told.type is not None else self._by_use(told, address)

    def _with_type(self, thing: Thing) -> Thing:
        assert thing.cache is not None
        type_ = by_cache(self._prog, thing.cache, thing.size)
        if type_ is not None:
            return self._objects.typed(thing, type_, 0)
        evidence = self._evidence(thing.address, thing.size)
        kmalloc = kmalloc_size(thing.cache) is not None
        guess = self._guesser.guess(thing.size, evidence, kmalloc=kmalloc)
        if guess is None:
            return replace(thing, detail="type unknown: the code does not give it away")
        told = self._objects.typed(thing, guess.type, guess.shift, array=guess.array)
        return replace(told, detail=guess.why)

    def _evidence(self, start: int, size: int) -> frozenset[Evidence]:
        """What uses ``size`` bytes from ``start`` on, by its offset from there."""
        return frozenset(
            Evidence(address - start, bytes_, code, caller)
            for address, bytes_, code, caller in self._uses.places(start, start + size)
        )

    def _by_use(self, thing: Thing, address: int) -> Thing:
        """What code takes it for that uses memory of which nothing else tells what it is.

        So objects that are freed, and their page with them, keep their names.
        """
        if thing.kind not in ("memory", "vmalloc", "percpu", "slab", "global", "module"):
            return thing
        whole = thing.kind in ("global", "module")
        # Some way around it: an object's other lines tell its type as well.
        bounded = whole or thing.cache is not None
        start = thing.address if bounded else address & -_AROUND
        size = thing.size if bounded else _AROUND
        key = (start, thing.name)
        if key not in self._around:
            self._around[key] = self._guesser.around(self._evidence(start, size), size)
        for guess in self._around[key]:
            first = start + guess.shift
            if bounded and not 0 <= guess.shift <= size - size_of(guess.type):
                continue
            if whole:
                if size_of(guess.type) != size:
                    continue
                return replace(thing, type=guess.type, detail=guess.why)
            if first <= address < first + size_of(guess.type):
                return replace(
                    thing,
                    name=f"{thing.name}: {guess.type.type_name()}",
                    address=first,
                    size=size_of(guess.type),
                    type=guess.type,
                    detail=guess.why
                    if thing.detail is None or bounded
                    else f"{thing.detail}; {guess.why}",
                )
        return thing

    def _field(self, type_: Type, offset: int, size: int) -> FieldPath:
        """As `field_at`, which is asked again for each place in the code."""
        key = (id(type_), offset, size)
        if key not in self._fields:
            # With the type, so that no other one gets its identity.
            self._fields[key] = type_, field_at(self._prog, type_, offset, size)
        return self._fields[key][1]

    def _place(self, line: int, use: Use) -> _Place:
        address = max(use.address, line)
        thing = self._thing(address)
        offset, size = address - line, min(use.size, LINE_SIZE)
        if thing.type is None:
            path = "" if thing.kind == "global" else f"+{address - thing.address:#x}"
            return _Place(thing, path, offset, size)
        inside = use.address - thing.address - thing.shift
        if inside < 0:
            return _Place(thing, f"+{address - thing.address:#x}", offset, size)
        base, prefix = thing.address + thing.shift, ""
        if thing.array:
            index, inside = divmod(inside, size_of(thing.type))
            base, prefix = base + index * size_of(thing.type), f"[{index}]."
        found = self._field(thing.type, inside, use.size)
        start, text = base + found.offset, prefix + found.path
        if start < line or found.size > LINE_SIZE:
            return _Place(thing, text, offset, size)
        return _Place(thing, text, start - line, found.size)

    def object_of(self, address: int) -> LineObject:
        """The object at an address alone: no fields, and not whether it is freed."""
        thing = self._told(self._objects.roughly(address), address)
        return thing.line_object(address & -LINE_SIZE)

    def at(self, address: int) -> tuple[str, str]:
        """Name of the object at an address, and of the field there, if that can be told."""
        line = address & -LINE_SIZE
        use = Use(
            address=address, size=1, code=0, caller=0, context=0, atomic=True, reads=0, writes=0
        )
        place = self._place(line, use)
        return place.thing.line_object(line).name, place.path

    def line(self, line: int, operations: int) -> Named:
        """Names of the line at address ``line``; rates per ``operations``."""
        uses = [use for use in self._uses(line, line + LINE_SIZE) if use.total]
        if not uses:
            return Named(self._objects.at(line).line_object(line))
        places = {use: self._place(line, use) for use in uses}
        # Who clears or copies memory names it only where nobody else comes.
        telling = {use for use in uses if not self._copying.at(use.code)} or places.keys()
        weight: dict[Thing, tuple[int, int]] = defaultdict(lambda: (0, 0))
        for use, place in places.items():
            writes, total = weight[place.thing]
            if use in telling:
                writes, total = writes + use.writes, total + use.total
            weight[place.thing] = writes, total
        main = max(weight, key=lambda thing: (weight[thing], -thing.address))

        def path(place: _Place) -> str:
            if place.thing == main:
                return place.path or place.thing.name
            inner = f".{place.path}" if place.path and place.path[0] not in "[+" else place.path
            return f"{place.thing.name}{inner}"

        fields: dict[tuple[int, str, int], _Count] = defaultdict(_Count)
        sites: dict[tuple[int, int, int, str], _Count] = defaultdict(_Count)
        for use, place in places.items():
            fields[place.offset, path(place), place.size].add(use)
            sites[use.code, use.caller, use.context, path(place)].add(use)
        total = sum(count.total for count in fields.values()) or 1
        what = main.line_object(line).model_copy(update={"others": len(weight) - 1})
        named = Named(what)
        for (offset, text, size), count in sorted(fields.items()):
            named.fields.append(
                FieldUse(
                    path=text,
                    offset=offset,
                    size=size,
                    reads=count.reads / operations,
                    writes=count.writes / operations,
                    atomics=count.atomics / operations,
                    share=count.total / total,
                )
            )
        ordered = sorted(sites.items(), key=lambda item: (-item[1].total, item[0]))
        named.code = [self._site(*key, count, operations) for key, count in ordered]
        return named

    def _site(
        self, code: int, caller: int, context: int, path: str, count: _Count, operations: int
    ) -> Site:
        where = self._code.name(code)
        called = self._code.name(caller) if caller else None
        return Site(
            function=where.function,
            offset=where.offset,
            module=where.module,
            source=where.source,
            inlined=list(where.inlined),
            caller=None if called is None else f"{called.function}+{called.offset:#x}",
            caller_source=None if called is None else called.source,
            context=self._contexts.name(context),
            field=path,
            reads=count.reads / operations,
            writes=count.writes / operations,
            atomics=count.atomics / operations,
        )
