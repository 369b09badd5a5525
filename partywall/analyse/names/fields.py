# SPDX-License-Identifier: GPL-2.0-or-later
"""Offset in a C type -> path of the field there."""

from __future__ import annotations

from dataclasses import dataclass

from drgn import Program, Type, TypeKind

from partywall.analyse.names.unreadable import UNREADABLE
from partywall.record.recording import LINE_SIZE

TABLE = 8 * LINE_SIZE
"""Bytes of an array inside a structure from which on it is one that is hashed to, say."""

# What people speak of as one thing, whatever it is made of.
_WHOLE = frozenset(
    "atomic_t atomic64_t atomic_long_t refcount_t rcuref_t kuid_t kgid_t spinlock_t "
    "raw_spinlock_t rwlock_t arch_spinlock_t arch_rwlock_t local_t seqcount_t "
    "seqcount_spinlock_t seqlock_t".split()
)

# Arrays that are indexed by an enumeration, which DWARF doesn't say.
_ENUMERATED = {
    ("ucounts", "rlimit"): "rlimit_type",
    ("ucounts", "ucount"): "ucount_type",
    ("user_namespace", "ucount_max"): "ucount_type",
    ("user_namespace", "rlimit_max"): "rlimit_type",
}


@dataclass(frozen=True)
class FieldPath:
    """A field: ``path`` as in C, byte ``offset`` in the outer type, ``size``."""

    path: str
    offset: int
    size: int


def strip(type_: Type) -> Type:
    """The type behind typedefs and qualifiers."""
    while type_.kind == TypeKind.TYPEDEF:
        type_ = type_.type
    return type_.unqualified()


def size_of(type_: Type) -> int:
    """Bytes of a type; 0 if it is incomplete, void, or a flexible array."""
    type_ = strip(type_)
    if type_.kind == TypeKind.ARRAY:
        return (type_.length or 0) * size_of(type_.type)
    try:
        return type_.size or 0
    except AttributeError:
        return 0


def array_at(type_: Type, start: int, end: int) -> str | None:
    """Path of the member of ``type_`` that is a long array and holds ``[start, end)``.

    Long is one of `TABLE` bytes or more, none of whose entries is longer than a line: a
    table, not a few structures side by side. None if there is none; offsets in bytes.
    """
    path: list[str] = []
    inner = strip(type_)
    while True:
        if inner.kind == TypeKind.ARRAY:
            each = size_of(inner.type)
            if not each:
                return None
            if path and each <= LINE_SIZE and size_of(inner) >= TABLE:
                return ".".join(path).replace(".[", "[")
            number, start = divmod(start, each)
            end -= number * each
            path.append(f"[{number}]")
            inner = strip(inner.type)
            continue
        if inner.kind not in (TypeKind.STRUCT, TypeKind.UNION):
            return None
        for member in inner.members or ():
            first = member.bit_offset // 8
            if first <= start and end <= first + size_of(member.type):
                path += [member.name] if member.name else []
                start, end, inner = start - first, end - first, strip(member.type)
                break
        else:
            return None


def pointed_at(type_: Type, offset: int) -> Type | None:
    """What the pointer at ``offset`` of ``type_`` points to; None if none is there, or of a union.

    Which member of a union is meant, its type does not say.
    """
    inner = strip(type_)
    while inner.kind in (TypeKind.STRUCT, TypeKind.ARRAY):
        if inner.kind == TypeKind.ARRAY:
            each = size_of(inner.type)
            if not each:
                return None
            offset, inner = offset % each, strip(inner.type)
            continue
        for member in inner.members or ():
            start = member.bit_offset // 8
            if start <= offset < start + size_of(member.type):
                offset, inner = offset - start, strip(member.type)
                break
        else:
            return None
    return strip(inner.type) if inner.kind == TypeKind.POINTER and offset == 0 else None


def _enumerator(prog: Program, struct: str | None, member: str, index: int) -> str:
    enum = _ENUMERATED.get((struct or "", member))
    if enum is not None:
        try:
            for constant in prog.type(f"enum {enum}").enumerators or ():
                if constant.value == index:
                    return str(constant.name)
        except UNREADABLE:
            pass
    return str(index)


def field_at(prog: Program, type_: Type, offset: int, size: int) -> FieldPath:
    """The innermost field of ``type_`` that holds ``[offset, offset + size)``.

    An access that spans several fields gets the field that they make up, or
    the first of them followed by an ellipsis. ``path`` is empty if the type has
    no fields.
    """
    return _descend(prog, type_, offset, size, FieldPath("", 0, size_of(type_)), None, "")


def _descend(
    prog: Program,
    type_: Type,
    offset: int,
    size: int,
    here: FieldPath,
    owner: str | None,
    member_name: str,
) -> FieldPath:
    if type_.kind == TypeKind.TYPEDEF and type_.name in _WHOLE:
        return here
    type_ = strip(type_)
    if type_.kind == TypeKind.ARRAY:
        element = size_of(type_.type)
        if not element:
            return here
        index = offset // element
        label = _enumerator(prog, owner, member_name, index)
        inner = FieldPath(f"{here.path}[{label}]", here.offset + index * element, element)
        return _descend(prog, type_.type, offset - index * element, size, inner, None, "")
    if type_.kind not in (TypeKind.STRUCT, TypeKind.UNION):
        return here
    return _member(prog, type_, offset, size, here)


def _endless(type_: Type) -> bool:
    """Whether it is an array of no length, or ends with one and has nothing else in it."""
    type_ = strip(type_)
    if size_of(type_):
        return False
    return bool(type_.kind == TypeKind.ARRAY) or goes_on(type_)


def _goes_on(outer: Type, member: Type) -> bool:
    """Whether the last member of a structure, or any of a union, goes on behind its end."""
    member = strip(member)
    # In a union an array of one may be meant so, as AppArmor's buffers had it until 6.5.
    one = outer.kind == TypeKind.UNION and member.kind == TypeKind.ARRAY and member.length == 1
    return one or _endless(member)


def goes_on(type_: Type) -> bool:
    """Return whether a structure or a union goes on behind its end, with as much as there is."""
    type_ = strip(type_)
    if type_.kind not in (TypeKind.STRUCT, TypeKind.UNION) or not type_.members:
        return False
    last = type_.members if type_.kind == TypeKind.UNION else type_.members[-1:]
    return any(_goes_on(type_, member.type) for member in last)


def _member(prog: Program, type_: Type, offset: int, size: int, here: FieldPath) -> FieldPath:
    best: FieldPath | None = None
    over: FieldPath | None = None
    members, end = type_.members or (), size_of(type_)
    for number, member in enumerate(members):
        start, length = member.bit_offset // 8, size_of(member.type)
        if member.bit_field_size is not None:
            length = (member.bit_offset % 8 + member.bit_field_size + 7) // 8
        # An array of no length goes on behind the structure's end, but only if
        # it comes last: others mark where a group of fields begins. In a union all do.
        last = number == len(members) - 1 or type_.kind == TypeKind.UNION
        endless = last and _goes_on(type_, member.type)
        if offset < start or (offset >= start + length and not endless):
            continue
        path = ".".join(part for part in (here.path, member.name) if part)
        found = FieldPath(path, here.offset + start, length)
        if not endless and offset + size > start + length and type_.kind == TypeKind.STRUCT:
            # It goes on in the next field: nothing smaller holds it all.
            over = over or FieldPath(f"{path}...", found.offset, min(offset + size, end) - start)
            continue
        if member.bit_field_size is None:
            found = _descend(
                prog, member.type, offset - start, size, found, type_.tag, member.name or ""
            )
        # Of a union's members, the one that fits the access best is meant.
        if best is None or abs(found.size - size) < abs(best.size - size):
            best = found
        if type_.kind == TypeKind.STRUCT and member.bit_field_size is None:
            break
    if best is not None:
        return best
    if over is not None:
        return here if here.path and (offset, size) == (0, here.size) else over
    path = ".".join(part for part in (here.path, "(padding)") if part)
    return FieldPath(path, here.offset + offset, size)


def fits(prog: Program, type_: Type, offset: int, size: int) -> bool:
    """Whether an access falls exactly on one field of that size."""
    if offset < 0 or offset + size > size_of(type_):
        return False
    field = field_at(prog, type_, offset, size)
    return (
        field.offset == offset
        and field.size == size
        and not field.path.endswith(("(padding)", "..."))
    )
