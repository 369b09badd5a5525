# SPDX-License-Identifier: GPL-2.0-or-later
"""Which variable is in which register at an instruction, as DWARF's location lists say.

drgn evaluates a location for registers of given contents. So each register gets a
number that nothing else has: a variable whose value is that number, or close to
it, is in that register.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from capstone import CS_ARCH_X86, CS_GRP_CALL, CS_GRP_JUMP, CS_MODE_64, Cs
from capstone.x86 import (
    X86_INS_ADD,
    X86_INS_BT,
    X86_INS_BTC,
    X86_INS_BTR,
    X86_INS_BTS,
    X86_INS_CMPXCHG,
    X86_INS_LEA,
    X86_INS_MOV,
    X86_OP_MEM,
    X86_OP_REG,
    X86_REG_GS,
    X86_REG_INVALID,
)
from drgn import FaultError, Object, Program, Type, TypeKind

from partywall.analyse.names.fields import pointed_at, size_of, strip
from partywall.analyse.names.found import symbol_at
from partywall.analyse.names.straight import Straight
from partywall.analyse.names.unreadable import UNREADABLE

# Members of struct pt_regs by what capstone calls them.
_MEMBERS = {
    **{name: name[1:] for name in ("rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp")},
    **{f"r{number}": f"r{number}" for number in range(8, 16)},
}
_REPEATED = (0xF2, 0xF3)
# Whoever is called gives these back as they were.
_KEPT = frozenset({"rbx", "rbp", "r12", "r13", "r14", "r15"})
_POINTER = 8
_BITS = (X86_INS_BT, X86_INS_BTC, X86_INS_BTR, X86_INS_BTS)
_NO_SEGMENT = (X86_REG_INVALID, X86_REG_GS)
_MARK = 0x4D00_0000_0000_0000
_STEP = 1 << 40
_NEAR = 1 << 20
"""How far a variable may lie from a register and still be told by it."""


@dataclass(frozen=True)
class Pointer:
    """A pointer whose value is that of a register less ``less``, and what it points to."""

    type: Type
    less: int


class Registers:
    """Pointers in registers, by instruction."""

    def __init__(self, prog: Program) -> None:
        self._prog = prog
        self._decoder = Cs(CS_ARCH_X86, CS_MODE_64)
        self._decoder.detail = True
        self._straight = Straight(prog, self._decoder)
        self._given: Any = {"sp": _MARK, "cs": 0x10, "ss": 0x18, "flags": 2}
        self._given |= {
            member: _MARK + number * _STEP for number, member in enumerate(_MEMBERS.values(), 1)
        }
        self.pointers = lru_cache(maxsize=None)(self._pointers)
        self.argument = lru_cache(maxsize=None)(self._argument)
        # One place in the code may use thousands of objects.
        self._based = lru_cache(maxsize=None)(self._find_based)
        self.based = lru_cache(maxsize=None)(self._structures_of)
        self.indexed = lru_cache(maxsize=None)(self._structures_along)
        self.element = lru_cache(maxsize=None)(self._numbers_of)
        self._loaded = lru_cache(maxsize=None)(self._find_loaded)

    def _pointers(self, address: int) -> dict[str, tuple[Pointer, ...]]:
        """Register (capstone's name) -> pointers in it; innermost scope first."""
        found: dict[str, list[Pointer]] = {}
        try:
            registers = Object(self._prog, "struct pt_regs", value=self._given | {"ip": address})
            frames = list(self._prog.stack_trace(registers))
        except UNREADABLE:
            return {}
        for frame in frames:
            # Callers are made up from a stack that is not there; inlined ones are not.
            try:
                if frame.pc != address:
                    break
                names = frame.locals()
            except UNREADABLE:
                break
            for name in names:
                pointer = self._pointer(frame, name)
                if pointer is not None:
                    register, what = pointer
                    found.setdefault(register, []).append(what)
            if not frame.is_inline:
                break
        return {register: tuple(dict.fromkeys(all_)) for register, all_ in found.items()}

    def _pointer(self, frame: Any, name: str) -> tuple[str, Pointer] | None:
        """The register that a variable is in, if it is a pointer to a structure or a number."""
        try:
            variable = frame[name]
            type_ = strip(variable.type_)
            if type_.kind != TypeKind.POINTER:
                return None
            target = strip(type_.type)
            if not _is_structure(target) and not _is_number(target):
                return None
            value = variable.value_()
        except (*UNREADABLE, FaultError):
            return None
        number, less = divmod(value - _MARK + _NEAR, _STEP)
        less -= _NEAR
        names = list(_MEMBERS)
        if not 1 <= number <= len(names) or abs(less) >= _NEAR:
            return None
        return names[number - 1], Pointer(target, -less)

    def _structures_of(self, address: int) -> tuple[tuple[Type, int], ...]:
        """Structures that the instruction's base register points to, and what offset in
        them it accesses. Empty if its address has an index."""
        every = self._based(address, indexed=False)
        return tuple(found for found in every if _is_structure(found[0]))

    def _structures_along(self, address: int) -> tuple[tuple[Type, int], ...]:
        """Structures that it points to, and from what offset in them on it accesses, at some
        index. Empty if its address has none."""
        if self._based(address, indexed=False):
            return ()
        every = self._based(address, indexed=True)
        return tuple(found for found in every if _is_structure(found[0]))

    def _numbers_of(self, address: int) -> Type | None:
        """The numbers, in an array or alone, that the instruction's base register points to."""
        found = [type_ for type_, _ in self._based(address, indexed=True) if _is_number(type_)]
        return found[0] if found else None

    def _find_based(self, address: int, *, indexed: bool) -> list[tuple[Type, int]]:
        """What the base register points to; ``indexed``: even if there is an index."""
        for insn in self._instructions(address, address + 1):
            # A string instruction goes on from where the pointer was, and may have two.
            if insn.prefix[0] in _REPEATED or sum(o.type == X86_OP_MEM for o in insn.operands) > 1:
                return []
            for operand in insn.operands:
                memory = operand.mem if operand.type == X86_OP_MEM else None
                if memory is None or memory.base == X86_REG_INVALID:
                    continue
                # What lies in memory of each CPU is used through GS, and the pointer to it
                # is the same for all: only the address is another.
                if memory.segment not in _NO_SEGMENT:
                    return []
                has_index = memory.index != X86_REG_INVALID
                if (any_word(insn) or has_index) and not indexed:
                    return []
                name = insn.reg_name(memory.base)
                there = self.pointers(address).get(name, ())
                if not any(_is_structure(one.type) for one in there):
                    there += self._elsewhere(address, name)
                if there:
                    found = [(one.type, memory.disp + one.less) for one in there]
                else:
                    # What lies beyond what a member points to is of what that is a part of.
                    found = [
                        (type_, memory.disp)
                        for type_ in self._loaded(address, name)
                        if 0 <= memory.disp < size_of(type_) or _is_number(type_)
                    ]
                # An index in bytes may lead anywhere, to another structure as well.
                anywhere = has_index and memory.scale == 1
                return [one for one in found if not (anywhere and _is_structure(one[0]))]
        return []

    def _elsewhere(self, address: int, name: str) -> tuple[Pointer, ...]:
        """Pointers to structures in registers that have the same in them as one has."""
        there = self.pointers(address)
        found = [one for other in self._same(address, name) for one in there.get(other, ())]
        return tuple(one for one in found if _is_structure(one.type))

    def _same(self, address: int, name: str) -> Iterator[str]:
        """Registers into which one was moved, or that it was moved from, unchanged since."""
        if name not in _MEMBERS:
            return
        changed: set[str] = set()
        for insn in self._straight.before(address):
            if insn.group(CS_GRP_CALL):
                changed |= _MEMBERS.keys() - _KEPT
            written = _written(insn)
            if insn.id == X86_INS_MOV and all(
                one.type == X86_OP_REG and one.size == _POINTER for one in insn.operands
            ):
                into, source = (insn.reg_name(one.reg) for one in insn.operands)
                if name in (into, source) and not changed & {into, source}:
                    yield into if name == source else source
            changed |= written
            if name in changed:
                return

    def _find_loaded(self, address: int, name: str) -> tuple[Type, ...]:
        """What a register points to that no variable has, if it was a member of a structure.

        So `this_cpu_read(*counter->counters)` tells what it reads.
        """
        if name not in _MEMBERS:
            return ()
        for insn in self._straight.before(address):
            if insn.group(CS_GRP_CALL) and name not in _KEPT:
                break
            if name not in _written(insn):
                continue
            # Some have none that are written down, as cdqe.
            source = insn.operands[-1] if insn.operands else None
            if source is None:
                break
            if insn.id == X86_INS_ADD and source.type == X86_OP_MEM and _of_a_cpu(source.mem):
                continue
            if insn.id != X86_INS_MOV or source.size != _POINTER:
                break
            if source.type == X86_OP_REG:
                name = insn.reg_name(source.reg)
                there = self.pointers(insn.address).get(name)
                if there:
                    return _distinct(one.type for one in there if not one.less)
                continue
            if source.type != X86_OP_MEM or source.mem.index != X86_REG_INVALID:
                break
            if source.mem.segment not in _NO_SEGMENT or source.mem.base == X86_REG_INVALID:
                break
            owners = self._structures(insn.address, insn.reg_name(source.mem.base), source.mem.disp)
            found = [pointed_at(type_, offset) for type_, offset in owners]
            return _distinct(
                type_
                for type_ in found
                if type_ is not None and (_is_structure(type_) or _is_number(type_))
            )
        return ()

    def _argument(self, call: int) -> tuple[tuple[Type, int], ...]:
        """Structures into which a call's first argument points, and at what offset."""
        try:
            start = symbol_at(self._prog, call).address
        except UNREADABLE:
            return ()
        name, offset = "rdi", 0
        found: list[tuple[Type, int]] = []
        before = [insn for insn in self._instructions(start, call) if insn.address < call]
        # What can't be decoded is a gap, behind which nothing is known.
        if not before or before[-1].address + before[-1].size != call:
            return ()
        for insn in reversed(before):
            found += self._structures(insn.address + insn.size, name, offset)
            if insn.group(CS_GRP_CALL) or insn.group(CS_GRP_JUMP):
                break
            if name not in _written(insn):
                continue
            # What is in the register comes from another one, or is not followed.
            if not insn.operands:
                break
            source = insn.operands[-1]
            if insn.id == X86_INS_MOV and source.type == X86_OP_REG:
                name = insn.reg_name(source.reg)
            elif insn.id == X86_INS_LEA and source.mem.index == X86_REG_INVALID:
                name, offset = insn.reg_name(source.mem.base), offset + source.mem.disp
            else:
                break
            found += self._structures(insn.address, name, offset)
        return tuple(dict.fromkeys(found))

    def _structures(self, address: int, register: str, offset: int) -> list[tuple[Type, int]]:
        """Structures that a register points to, and where in them ``offset`` behind that is."""
        there = self.pointers(address).get(register, ())
        return [(one.type, offset + one.less) for one in there if _is_structure(one.type)]

    def _instructions(self, start: int, end: int) -> list[Any]:
        try:
            code = self._prog.read(start, end - start + 15)
        except FaultError:
            return []
        return [one for one in self._decoder.disasm(code, start) if one.address < end]


def _written(insn: Any) -> set[str]:
    """The registers that an instruction writes, all or a part of each."""
    _, written = insn.regs_access()
    found = {_WHOLE.get(insn.reg_name(register)) for register in written}
    # Of which capstone says so for some widths alone.
    if insn.id == X86_INS_CMPXCHG:
        found.add("rax")
    return {one for one in found if one is not None}


def any_word(insn: Any) -> bool:
    """Whether an instruction is for a bit whose number is in a register: in any word behind."""
    return insn.id in _BITS and bool(insn.operands[-1].type == X86_OP_REG)


def _of_a_cpu(memory: Any) -> bool:
    """Whether an operand is where some CPU's memory is: a pointer to it stays one of its type."""
    table = memory.base == X86_REG_INVALID and memory.index != X86_REG_INVALID
    return bool(memory.segment == X86_REG_GS or (table and memory.scale == _POINTER))


def _distinct(types: Iterable[Type]) -> tuple[Type, ...]:
    """Each once, by name: drgn's types of inlined functions differ though they are the same."""
    return tuple({type_.type_name(): type_ for type_ in types}.values())


def _is_structure(type_: Type) -> bool:
    whole = type_.kind in (TypeKind.STRUCT, TypeKind.UNION) and bool(type_.tag)
    return whole and type_.is_complete()


def _is_number(type_: Type) -> bool:
    """Of more than a byte: those are what everything is made of, to code that copies."""
    return type_.kind == TypeKind.INT and (type_.size or 0) > 1


def _parts() -> dict[str, str]:
    """Name of a part of a register -> that of the register."""
    found: dict[str, str] = {}
    for name in _MEMBERS:
        low = name[1:]
        if low.isdigit():
            parts = [f"{name}{end}" for end in "dwb"]
        elif low.endswith("x"):
            parts = [f"e{low}", low, f"{low[0]}l", f"{low[0]}h"]
        else:
            parts = [f"e{low}", low, f"{low}l"]
        found |= dict.fromkeys([name, *parts], name)
    return found


_WHOLE = _parts()
