# SPDX-License-Identifier: GPL-2.0-or-later
"""Offsets in C types become the paths that a C programmer would write."""

from __future__ import annotations

import drgn
import pytest
from drgn import Program, Type, TypeEnumerator, TypeMember
from hypothesis import given, settings
from hypothesis import strategies as st

from partywall.analyse.names.fields import array_at, field_at, fits, size_of

PROG = Program(drgn.Platform(drgn.Architecture.X86_64))
CHAR = PROG.int_type("char", 1, True)
SHORT = PROG.int_type("short", 2, True)
INT = PROG.int_type("int", 4, True)
UNSIGNED = PROG.int_type("unsigned int", 4, False)
LONG = PROG.int_type("long", 8, True)
POINTER = PROG.pointer_type(PROG.void_type())


def member(type_: Type, name: str | None, offset: int, bits: int | None = None) -> TypeMember:
    """A member at a byte offset, or for a bit field at an offset in bits."""
    if bits is None:
        return TypeMember(type_, name, offset * 8)
    return TypeMember(drgn.Object(PROG, type_, value=0, bit_field_size=bits), name, offset)


def struct(tag: str | None, size: int, *members: TypeMember) -> Type:
    return PROG.struct_type(tag, size, members)


def path(type_: Type, offset: int, size: int) -> str:
    return field_at(PROG, type_, offset, size).path


LIST = struct("list_head", 16, member(POINTER, "next", 0), member(POINTER, "prev", 8))
ATOMIC = PROG.typedef_type("atomic_t", struct(None, 4, member(INT, "counter", 0)))
REFCOUNT = PROG.typedef_type("refcount_t", struct("refcount_struct", 4, member(ATOMIC, "refs", 0)))
KREF = struct("kref", 4, member(REFCOUNT, "refcount", 0))
SPINLOCK = PROG.typedef_type("spinlock_t", struct("spinlock", 4, member(INT, "locked", 0)))
# 0 count, 4 padding, 8 list, 24 lock, 28 kref, 32 long slots[4]
OBJECT = struct(
    "object",
    64,
    member(INT, "count", 0),
    member(LIST, "list", 8),
    member(SPINLOCK, "lock", 24),
    member(KREF, "kref", 28),
    member(PROG.array_type(LONG, 4), "slots", 32),
)


@pytest.mark.parametrize(
    ("offset", "size", "expected", "start", "length"),
    [
        (0, 4, "count", 0, 4),
        (0, 1, "count", 0, 4),
        (3, 1, "count", 0, 4),
        (8, 8, "list.next", 8, 8),
        (16, 8, "list.prev", 16, 8),
        (20, 4, "list.prev", 16, 8),
        (24, 4, "lock", 24, 4),
        (25, 1, "lock", 24, 4),
        (28, 4, "kref.refcount", 28, 4),
        (32, 8, "slots[0]", 32, 8),
        (56, 8, "slots[3]", 56, 8),
        (60, 4, "slots[3]", 56, 8),
    ],
)
def test_an_offset_has_a_path(
    offset: int, size: int, expected: str, start: int, length: int
) -> None:
    found = field_at(PROG, OBJECT, offset, size)
    assert (found.path, found.offset, found.size) == (expected, start, length)


def test_what_people_speak_of_as_one_thing_has_no_parts() -> None:
    assert path(OBJECT, 24, 1) == "lock"
    assert path(struct("s", 4, member(ATOMIC, "users", 0)), 0, 4) == "users"
    # An anonymous structure like it is taken apart.
    plain = struct("s", 4, member(struct(None, 4, member(INT, "counter", 0)), "users", 0))
    assert path(plain, 0, 4) == "users.counter"


def test_other_typedefs_are_seen_through() -> None:
    twice = PROG.typedef_type("outer_t", PROG.typedef_type("inner_t", LIST))
    constant = PROG.typedef_type(
        "const_t", PROG.typedef_type("x", LIST, qualifiers=drgn.Qualifiers.CONST)
    )
    for type_ in (twice, constant):
        assert path(type_, 8, 8) == "prev"
        assert path(struct("s", 24, member(type_, "head", 8)), 16, 8) == "head.prev"


def test_padding_is_called_so() -> None:
    found = field_at(PROG, OBJECT, 4, 4)
    assert (found.path, found.offset, found.size) == ("(padding)", 4, 4)
    inner = struct("s", 80, member(OBJECT, "object", 16))
    assert path(inner, 20, 4) == "object.(padding)"
    assert field_at(PROG, inner, 20, 4).offset == 20


def test_an_array_of_structures_has_index_and_member() -> None:
    outer = struct("s", 16 + 3 * 16, member(PROG.array_type(LIST, 3), "heads", 16))
    found = field_at(PROG, outer, 16 + 2 * 16 + 8, 8)
    assert (found.path, found.offset, found.size) == ("heads[2].prev", 56, 8)


def test_an_array_of_arrays_has_both_indices() -> None:
    grid = PROG.array_type(PROG.array_type(INT, 4), 3)
    found = field_at(PROG, struct("s", 48, member(grid, "grid", 0)), 16 * 2 + 4 * 3, 4)
    assert (found.path, found.offset) == ("grid[2][3]", 44)


def test_an_array_itself_has_an_index() -> None:
    assert path(PROG.array_type(LIST, 3), 24, 8) == "[1].prev"


def test_a_flexible_array_goes_on_behind_the_end() -> None:
    flexible = struct("s", 8, member(INT, "count", 0), member(PROG.array_type(LIST), "entries", 8))
    assert path(flexible, 0, 4) == "count"
    found = field_at(PROG, flexible, 8 + 5 * 16 + 8, 8)
    assert (found.path, found.offset, found.size) == ("entries[5].prev", 96, 8)


def test_an_array_of_no_length_in_a_union_goes_on_behind_the_end() -> None:
    # As DECLARE_FLEX_ARRAY() has it.
    inside = struct(
        None, 0, member(struct(None, 0), "none", 0), member(PROG.array_type(INT), "words", 0)
    )
    for members in (
        [member(LIST, "list", 0), member(inside, None, 0)],
        [member(inside, None, 0), member(LIST, "list", 0)],
    ):
        union = PROG.union_type("buffer", 16, members)
        assert path(union, 8, 8) == "list.prev"
        assert path(union, 400, 4) == "words[100]"
        assert path(struct("s", 24, member(union, "buffer", 8)), 400, 4) == "(padding)"
    one = [member(LIST, "list", 0), member(PROG.array_type(INT, 1), "words", 0)]
    assert path(PROG.union_type("buffer", 16, one), 400, 4) == "words[100]"
    # As struct bpf_array.
    either = PROG.union_type(None, 0, [member(PROG.array_type(LONG), "values", 0)])
    assert path(struct("s", 8, member(INT, "n", 0), member(either, None, 8)), 48, 8) == "values[5]"


@pytest.mark.parametrize("length", [0, None])
def test_a_marker_of_no_size_hides_no_field(length: int | None) -> None:
    # As __cacheline_group_begin__tx in struct net_device and netns_ipv4.
    nothing = PROG.array_type(CHAR, 0) if length == 0 else PROG.array_type(CHAR)
    marked = struct(
        "net_device",
        16,
        member(nothing, "begin", 0),
        member(LONG, "flags", 0),
        member(nothing, "end", 8),
        member(LONG, "stats", 8),
    )
    assert path(marked, 0, 8) == "flags"
    assert path(marked, 8, 8) == "stats"


def test_a_member_of_a_member_without_a_name_has_no_dot_before_it() -> None:
    inner = struct(None, 16, member(LONG, "first", 0), member(LIST, "list", 0))
    for kind in (inner, PROG.union_type(None, 16, inner.members)):
        outer = struct("s", 24, member(LONG, "front", 0), member(kind, None, 8))
        assert path(outer, 8, 8) in ("first", "list.next")
        assert path(outer, 0, 8) == "front"


UNION = PROG.union_type(
    "u",
    8,
    (
        member(CHAR, "byte", 0),
        member(LONG, "whole", 0),
        member(struct(None, 8, member(INT, "low", 0), member(INT, "high", 4)), "half", 0),
        member(SHORT, "word", 0),
    ),
)


@pytest.mark.parametrize(
    ("offset", "size", "expected"),
    [
        (0, 1, "byte"),
        (0, 2, "word"),
        (0, 4, "half.low"),
        (4, 4, "half.high"),
        (0, 8, "whole"),
    ],
)
def test_of_a_union_the_member_that_fits_is_meant(offset: int, size: int, expected: str) -> None:
    assert path(UNION, offset, size) == expected
    outer = struct("s", 24, member(UNION, "u", 16))
    assert path(outer, 16 + offset, size) == f"u.{expected}"


def test_bit_fields_share_their_bytes() -> None:
    bits = struct(
        "flags",
        8,
        member(UNSIGNED, "first", 0, bits=1),
        member(UNSIGNED, "second", 1, bits=3),
        member(UNSIGNED, "wide", 8, bits=24),
        member(INT, "plain", 4),
    )
    assert path(bits, 0, 1) in ("first", "second")
    found = field_at(PROG, bits, 2, 1)
    assert (found.path, found.offset, found.size) == ("wide", 1, 3)
    assert path(bits, 4, 4) == "plain"
    assert path(bits, 0, 4) == "first..."


def test_a_bit_field_over_a_byte_border_has_both_bytes() -> None:
    bits = struct("s", 4, member(UNSIGNED, "low", 0, bits=6), member(UNSIGNED, "over", 6, bits=4))
    assert path(bits, 1, 1) == "over"
    found = field_at(PROG, bits, 0, 2)
    assert (found.path, found.offset, found.size) == ("over", 0, 2)


def test_an_access_over_several_fields_is_not_the_first_alone() -> None:
    pair = struct("s", 24, member(LONG, "front", 0), member(LIST, "list", 8))
    assert path(pair, 8, 16) == "list"
    assert path(pair, 0, 16) in ("", "front…", "front...")


def test_an_access_over_several_fields_starts_where_the_first_does() -> None:
    found = field_at(PROG, OBJECT, 8, 16)
    assert found.offset == 8
    assert found.path.startswith("list")


@pytest.mark.parametrize(
    "type_",
    [INT, POINTER, ATOMIC, struct("empty", 0), PROG.struct_type("incomplete"), PROG.void_type()],
)
def test_a_type_without_fields_has_no_path(type_: Type) -> None:
    assert path(type_, 0, 1) in ("", "(padding)")
    assert not fits(PROG, type_, 0, 64)


def test_an_array_of_what_has_no_size_has_no_path() -> None:
    assert path(PROG.array_type(struct("empty", 0), 4), 3, 1) == ""


RLIMITS = PROG.enum_type(
    "rlimit_type",
    INT,
    (TypeEnumerator("UCOUNT_RLIMIT_NPROC", 0), TypeEnumerator("UCOUNT_RLIMIT_SIGPENDING", 2)),
)


@pytest.fixture
def with_enum() -> Program:
    """A program that knows ``enum rlimit_type``."""
    prog = Program(drgn.Platform(drgn.Architecture.X86_64))
    long = prog.int_type("long", 8, True)
    enum = prog.enum_type("rlimit_type", prog.int_type("int", 4, True), RLIMITS.enumerators)

    def find(
        _: Program, kinds: drgn.TypeKindSet, name: str, filename: str | None
    ) -> drgn.Type | None:
        if drgn.TypeKind.ENUM in kinds and name == "rlimit_type":
            return enum
        if drgn.TypeKind.STRUCT in kinds and name in ("ucounts", "other"):
            slots = prog.array_type(long, 4)
            return prog.struct_type(name, 40, (TypeMember(slots, "rlimit", 64),))
        return None

    prog.register_type_finder("test", find, enable_index=0)
    return prog


def test_an_array_that_an_enumeration_indexes_names_it(with_enum: Program) -> None:
    ucounts = with_enum.type("struct ucounts")
    assert field_at(with_enum, ucounts, 8 + 16, 8).path == "rlimit[UCOUNT_RLIMIT_SIGPENDING]"
    assert field_at(with_enum, ucounts, 8, 8).path == "rlimit[UCOUNT_RLIMIT_NPROC]"
    # Of no name: the number.
    assert field_at(with_enum, ucounts, 8 + 8, 8).path == "rlimit[1]"


def test_an_array_of_that_name_elsewhere_is_numbered(with_enum: Program) -> None:
    assert field_at(with_enum, with_enum.type("struct other"), 8 + 16, 8).path == "rlimit[2]"


def test_an_enumeration_that_is_not_there_gives_numbers() -> None:
    ucounts = struct("ucounts", 32, member(PROG.array_type(LONG, 4), "rlimit", 0))
    assert path(ucounts, 16, 8) == "rlimit[2]"


@pytest.mark.parametrize(
    ("offset", "size", "expected"),
    [
        (0, 4, True),
        (0, 8, False),
        (0, 2, False),
        (2, 2, False),
        (4, 4, False),
        (8, 8, True),
        (8, 16, True),
        (12, 8, False),
        (24, 4, True),
        (56, 8, True),
        (60, 8, False),
        (64, 8, False),
        (-8, 8, False),
        (-4, 4, False),
        (1 << 40, 8, False),
    ],
)
def test_an_access_fits_one_field_or_none(offset: int, size: int, expected: bool) -> None:
    assert fits(PROG, OBJECT, offset, size) is expected


def test_an_access_before_an_array_fits_nothing() -> None:
    longs = PROG.array_type(LONG, 4)
    assert fits(PROG, longs, 24, 8)
    assert not fits(PROG, longs, -8, 8)
    assert not fits(PROG, longs, 32, 8)


@pytest.mark.parametrize(
    ("type_", "size"),
    [
        (OBJECT, 64),
        (ATOMIC, 4),
        (PROG.array_type(PROG.array_type(LONG, 3), 5), 120),
        (PROG.array_type(LONG), 0),
        (PROG.array_type(ATOMIC, 7), 28),
        (PROG.void_type(), 0),
        (PROG.struct_type("incomplete"), 0),
        (PROG.typedef_type("t", PROG.typedef_type("u", LONG)), 8),
    ],
)
def test_a_size_is_that_of_the_type_behind_its_names(type_: Type, size: int) -> None:
    assert size_of(type_) == size


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from([OBJECT, UNION, LIST, KREF, INT, PROG.array_type(OBJECT, 3)]),
    st.integers(0, 300),
    st.sampled_from([1, 2, 4, 8, 16, 32, 64]),
)
def test_any_access_starts_in_the_field_it_is_given(type_: Type, offset: int, size: int) -> None:
    if offset >= size_of(type_):
        return
    found = field_at(PROG, type_, offset, size)
    assert found.offset <= offset < found.offset + found.size
    if "(padding)" not in found.path:
        assert found.offset + found.size <= size_of(type_)


# raw_hashinfo of the series: a lock for each line, and buckets of 8 bytes.
LOCK = struct(None, 64, member(SPINLOCK, "lock", 0))
RAW = struct(
    "raw_hashinfo",
    64 + 64 * 64 + 256 * 8,
    member(INT, "count", 0),
    member(PROG.array_type(LOCK, 64), "locks", 64),
    member(PROG.array_type(POINTER, 256), "ht", 64 + 64 * 64),
)
NET = struct(
    "net",
    64 + 2 * RAW.size,
    member(PROG.array_type(CHAR, 64), "name", 0),
    member(PROG.array_type(RAW, 2), "raw", 64),
)
WAYS = PROG.union_type(
    None, 512, [member(OBJECT, "one", 0), member(PROG.array_type(LONG, 64), "all", 0)]
)
EITHER = struct("either", 576, member(LONG, "n", 0), member(WAYS, None, 64))


@pytest.mark.parametrize(
    ("type_", "line", "expected"),
    [
        (RAW, 0, None),
        (RAW, 64, "locks"),
        (RAW, 64 * 64, "locks"),
        (RAW, 65 * 64, "ht"),
        (RAW, 96 * 64, "ht"),
        # Not all of the line.
        (RAW, 32, None),
        (RAW, 64 * 64 + 32, None),
        (RAW, RAW.size - 32, None),
        (RAW, -64, None),
        # Of structures side by side each has its own.
        (NET, 0, None),
        (NET, 64, None),
        (NET, 2 * 64, "raw[0].locks"),
        (NET, 64 + RAW.size + 65 * 64, "raw[1].ht"),
        # Seven lines, and what is an array as a whole.
        (struct("few", 512, member(PROG.array_type(LONG, 56), "ht", 64)), 64, None),
        (struct("more", 576, member(PROG.array_type(LONG, 64), "ht", 64)), 64, "ht"),
        (PROG.array_type(LONG, 256), 64, None),
        (PROG.typedef_type("raw_t", RAW), 64, "locks"),
        # Of a union it is the first that goes so far.
        (EITHER, 64, None),
        (EITHER, 128, "all"),
        (INT, 0, None),
    ],
)
def test_a_line_of_a_long_array_inside_a_structure_is_known(
    type_: Type, line: int, expected: str | None
) -> None:
    assert array_at(type_, line, line + 64) == expected
