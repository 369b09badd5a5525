# SPDX-License-Identifier: GPL-2.0-or-later
"""Slabs, pages and per-CPU memory, read from bytes that are known."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from drgn import Object, Program

from partywall.analyse.growth import counters, frames
from partywall.analyse.growth.counters import Numbers
from partywall.analyse.growth.frames import FILE, OTHER, Frames, Use
from partywall.analyse.growth.memory import Cache, Kernel, _path, bits
from partywall.analyse.growth.slabs import Slabs

BASE = 0xFFFF_8880_0123_4000
STRIDE = 64


def hidden(pointer: int, place: int, key: int) -> int:
    """A pointer of a list of free objects as the kernel writes it at a place."""
    return pointer ^ key ^ int.from_bytes(place.to_bytes(8, "little"), "big") if key else pointer


@pytest.mark.parametrize("key", [0, 0x1234_5678_9ABC_DEF0])
@pytest.mark.parametrize("order", [[], [3], [0, 5, 2], [5, 4, 3, 2, 1, 0]])
def test_free_objects_are_those_on_the_list(order: list[int], key: int) -> None:
    data = bytearray(6 * STRIDE)
    places = [BASE + STRIDE * number for number in order]
    for place, following in zip(places, [*places[1:], 0], strict=False):
        at = place - BASE + 16
        struct.pack_into("<Q", data, at, hidden(following, place + 16, key))
    cache = Cache("any", 48, STRIDE, None, key, 16)
    free = Slabs._free(cast(Slabs, None), cache, BASE, bytes(data), places[0] if places else 0)
    assert free == {STRIDE * number for number in order}


def test_a_list_that_goes_in_circles_or_elsewhere_ends() -> None:
    cache = Cache("any", 48, STRIDE, None, 0, 0)
    circle = struct.pack("<Q", BASE).ljust(STRIDE, b"\0")
    assert Slabs._free(cast(Slabs, None), cache, BASE, circle, BASE) == {0}
    away = struct.pack("<Q", 0x10).ljust(STRIDE, b"\0")
    assert Slabs._free(cast(Slabs, None), cache, BASE, away, BASE) == {0}


def test_a_member_of_some_bits_is_read_from_each_struct() -> None:
    words = np.array([[0, 0x8002_0001], [0, 0xFFFF_0003]], np.uint64)
    assert bits(words, 64, 16).tolist() == [1, 3]
    assert bits(words, 80, 15).tolist() == [2, 0x7FFF]


def some(
    size: list[int], kind: list[int], charged: list[bool], content: list[int], apart: int = 0
) -> Frames:
    return Frames(
        apart, np.array(size), np.array(kind), np.array(charged), np.array(content, np.uint64)
    )


def test_pages_are_counted_by_what_they_are_for_and_who_pays() -> None:
    now = some(
        [1, 4, 0, 2, 1],
        [OTHER, OTHER, OTHER, FILE, FILE],
        [False, True, False, True, True],
        [0] * 5,
    )
    assert now.pages(Use(OTHER), charged=False) == 1
    assert now.pages(Use(OTHER), charged=True) == 4
    assert now.pages(Use(FILE), charged=True) == 3
    assert now.pages(Use(FILE), charged=False) == 0


def test_the_kernels_own_pages_are_counted_by_how_many_are_one_allocation() -> None:
    before = some([1, 0, 0, 0, 0], [OTHER] * 5, [False] * 5, [0] * 5)
    now = some([1, 4, 0, 2, 4], [OTHER, OTHER, OTHER, FILE, OTHER], [False] * 5, [0] * 5)
    words = [use.words for use in now.uses()]
    assert words[:2] == ["pages of the kernel", "pages of the kernel, 4 together"]
    assert words[2:] == ["anonymous memory", "pages of files", "page tables"]
    assert [now.pages(use, charged=False) for use in now.uses()] == [1, 8, 0, 2, 0]
    assert now.since(before, Use(OTHER, 4), charged=False).tolist() == [1, 4]
    assert now.since(before, Use(OTHER, 1), charged=False).tolist() == []


def test_pages_that_are_told_of_apart_are_none_of_the_kernels_own() -> None:
    now = some([1, 1, 1], [OTHER, OTHER, FILE], [False, True, False], [0] * 3, apart=1)
    assert now.pages(Use(OTHER, 1), charged=False) == 0
    assert now.pages(Use(OTHER, 1), charged=True) == 1
    assert now.pages(Use(FILE), charged=False) == 1


def test_a_page_is_another_one_if_its_content_is() -> None:
    before = some([1, 1, 0, 1], [FILE] * 4, [True] * 4, [1, 2, 3, 4])
    now = some([1, 1, 1, 1], [FILE, FILE, FILE, OTHER], [True] * 4, [1, 9, 3, 4])
    # The first stays; the second has another content, the third was free, the last is no file's.
    new = now.since(before, Use(FILE), charged=True)
    assert new.tolist() == [1, 2]
    later = some([1, 1, 1, 1], [FILE] * 4, [True] * 4, [1, 9, 8, 4])
    assert later.still(new, now).tolist() == [1]
    assert now.since(before, Use(FILE), charged=False).tolist() == []


class Memory:
    """A program whose memory is known by address."""

    def __init__(self, **at: tuple[int, bytes]) -> None:
        self._at = dict(at.values())

    def read(self, address: int, size: int) -> bytes:
        return self._at[address][:size]

    def type(self, name: str) -> Any:
        return SimpleNamespace(has_member=lambda member: member == "obj_cgroups")


class Pointer(int):
    """A pointer of drgn's, as far as it is used here."""

    type_ = SimpleNamespace(type=SimpleNamespace(size=8))

    def value_(self) -> int:
        return int(self)


def packed(*places: int, size: int) -> bytes:
    found = np.zeros(size * 8, np.uint8)
    found[list(places)] = 1
    return np.packbits(found, bitorder="little").tobytes()


@pytest.mark.parametrize("paid", [True, False])
def test_per_cpu_memory_is_told_by_allocation(paid: bool) -> None:
    # A page of 1,024 places: 12 from place 0 on, 20 from place 100 on.
    owners = np.zeros(1024, np.uint64)
    owners[100] = 0xABC0
    memory = Memory(
        used=(1, packed(*range(12), *range(100, 120), size=128)),
        ends=(2, packed(0, 12, 100, 120, 1024, size=136)),
        owners=(3, owners.tobytes()),
    )
    listed = Pointer(3 if paid else 0)
    chunk = SimpleNamespace(
        nr_pages=Pointer(1),
        alloc_map=Pointer(1),
        bound_map=Pointer(2),
        base_addr=Pointer(0x1000),
        member_=lambda name: listed,
    )
    found = frames._of_chunk(cast(Program, memory), cast(Object, chunk), 4)
    assert found == {
        0x1000: (12 * 4 * 4, 0),
        0x1000 + 400: (20 * 4 * 4, 0xABC0 if paid else 0),
    }


@pytest.mark.parametrize("name", ["parent", "__parent"])
def test_a_cgroups_path_is_told_from_its_nodes(name: str) -> None:
    class Node:
        type_ = SimpleNamespace(type=SimpleNamespace(has_member=lambda member: member == name))

        def __init__(self, own: str, above: Node | None) -> None:
            self.name = SimpleNamespace(string_=own.encode)
            self._above = above

        def member_(self, member: str) -> Node | None:
            assert member == name
            return self._above

    root = Node("", None)
    assert _path(cast(Object, root)) == ""
    assert _path(cast(Object, Node("c0", Node("partywall", root)))) == "/partywall/c0"


def values(*words: int) -> Numbers:
    return np.array(words, np.int64).astype(np.int32)


@pytest.mark.parametrize(
    ("before", "some", "more", "each"),
    [
        (10, 110, 310, 1.0),
        (10, 210, 610, 2.0),
        # Others use it, too.
        (10, 112, 312, 1.0),
        (10, 113, 310, None),
        # It wraps.
        (2**31 - 50, 2**31 + 50, 2**31 + 250, 1.0),
        # Not with the operations.
        (10, 110, 210, None),
        (10, 10, 10, None),
        (10, 60, 160, None),
        # What falls is no cap.
        (310, 210, 10, None),
    ],
)
@pytest.mark.parametrize("place", range(4))
def test_a_counter_rises_by_the_same_with_each_operation(
    before: int, some: int, more: int, each: float | None, place: int
) -> None:
    def at(value: int) -> Numbers:
        return values(*(value if number == place else 7 for number in range(4)))

    found = list(counters.raised(at(before), at(some), at(more), 100))
    assert found == ([] if each is None else [(place, each)])


def test_what_went_down_with_the_processes_is_told() -> None:
    before, more = values(0, 10), values(0, 310)
    assert counters.returned(before, more, values(0, 10), 1) == 1.0
    assert counters.returned(before, more, values(0, 310), 1) == 0.0
    assert counters.returned(before, more, values(0, 40), 1) == pytest.approx(0.9)
    # What the process had itself, and had made to warm up, was there before.
    assert counters.returned(before, more, values(0, 0), 1) == pytest.approx(31 / 30)
    assert counters.returned(before, before, before, 1) == 0.0
    wraps = values(0, 2**31 + 250)
    assert counters.returned(values(0, 2**31 - 50), wraps, values(0, 2**31 - 50), 1) == 1.0


class Struct:
    """A type with members at these bits, each of so many."""

    size = 8

    def __init__(self, **members: tuple[int, int]) -> None:
        self._members = members

    def has_member(self, name: str) -> bool:
        return name in self._members

    def member(self, name: str) -> Any:
        offset, size = self._members[name]
        return SimpleNamespace(bit_offset=offset, bit_field_size=size)


@pytest.mark.parametrize("inside", [True, False])
def test_who_is_charged_is_read_where_the_slab_has_it(inside: bool) -> None:
    """In the objects, a free one's next is in its place; in a list of its own, nothing else is."""
    members = {"obj_exts": (0, 64), "freelist": (64, 64), "inuse": (128, 16), "objects": (144, 15)}
    slab = Struct(**members, obj_exts_in_object=(160, 1))
    cache = Cache("any", 48, STRIDE, None, 0, 56)
    payer, elsewhere = 0xFFFF_8880_0000_9000, 0xFFFF_8880_0500_0000
    data = bytearray(4 * STRIDE)
    place = 56 if inside else 0
    step, words = (STRIDE, data) if inside else (8, bytearray(4 * 8))
    for number in (1, 2):
        struct.pack_into("<Q", words, number * step + place, payer)
    # Objects 0 and 3 are free.
    struct.pack_into("<Q", data, 56, BASE + 3 * STRIDE)

    def read(address: int, size: int) -> bytes:
        start, memory = (BASE, data) if address < BASE + len(data) else (elsewhere, words)
        return bytes(memory[address - start :][:size]).ljust(size, b"\0")

    def owner(address: int, *, objects: bool) -> str | None:
        assert address in (0, payer), "it is no owner"
        return "/c0" if address else None

    listed = BASE + 56 if inside else elsewhere
    found = object.__new__(Slabs)
    types = {"struct slab": slab, "struct slabobj_ext": Struct()}
    found._kernel = cast(
        Any,
        SimpleNamespace(
            prog=SimpleNamespace(type=types.__getitem__, read=read),
            owner=owner,
            virtual=lambda frame: BASE,
        ),
    )
    found._pages = np.array([[listed | 1, BASE, 2 | 4 << 16 | inside << 32]], np.uint64)
    found._owners = np.array([7], np.uint64)
    found._frames = np.array([0], np.intp)
    found._inuse = np.array([2], np.uint64)
    found.caches = {7: cache}
    assert found.charged() == {7: 2}
    assert found.counts() == {7: 2}


def test_lists_of_who_is_charged_are_counted_in_the_slabs_they_are_in() -> None:
    def at(frame: int, offset: int = 0) -> int:
        return BASE + (frame << 12) + offset

    names = Cache("names", 192, 192, None, 0, 0)
    lists = Cache("kmalloc-192", 192, 192, None, 0, 0)
    wide = Cache("kmalloc-512", 512, 512, None, 0, 0)
    slabs = object.__new__(Slabs)
    slabs._kernel = cast(Kernel, SimpleNamespace(direct=BASE))
    slabs.caches = {1: names, 2: lists, 3: wide}
    slabs._frames = np.array([10, 20, 30, 40, 50])
    slabs._owners = np.array([1, 1, 1, 2, 3], np.uint64)
    # A list of an ordinary slab, one in the second page of a slab, one in its own slab, as of
    # Linux 7.0 on, none, and one that is in a page of no slab. Low bits are flags.
    where = [at(40, 192) | 1, at(51, 512) | 1, at(30, 4000) | 1, 0, at(60) | 1]
    slabs._pages = np.array([[one] for one in where], np.uint64)
    slabs.__dict__["_charged_at"] = (0, 8, ~7)
    slabs.__dict__["_counts"] = np.array([21, 21, 21, 21, 16], np.uint64)
    assert slabs.lists() == {2: 1, 3: 1}


def test_a_modules_data_is_what_can_be_written_in_it() -> None:
    """Before Linux 6.4 it is one area, of which the first part can only be read."""

    def module(**members: Any) -> Object:
        kind = SimpleNamespace(type=SimpleNamespace(has_member=members.__contains__))
        return cast(Object, SimpleNamespace(type_=kind, **members))

    parts = [SimpleNamespace(base=Pointer(0x1000 * n), size=Pointer(0x102 * n)) for n in range(4)]
    prog = cast(Program, SimpleNamespace(constant={"MOD_DATA": 1}.__getitem__))
    assert counters._data(prog, module(mem=parts)) == (0x1000, 0x100)
    layout = SimpleNamespace(
        base=Pointer(0x8000), size=Pointer(0x3000), ro_after_init_size=Pointer(0x2000)
    )
    assert counters._data(prog, module(core_layout=layout)) == (0xA000, 0x1000)
