# SPDX-License-Identifier: GPL-2.0-or-later
"""Code address -> function, inlined functions, source line, variables in scope."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from functools import lru_cache

from capstone import CS_ARCH_X86, CS_MODE_64, Cs
from capstone.x86 import X86_OP_MEM, X86_REG_INVALID, X86_REG_RIP
from drgn import FaultError, Program, StackFrame, Type, TypeKind

from partywall.analyse.names.fields import strip
from partywall.analyse.names.found import symbol_at
from partywall.analyse.names.registers import any_word
from partywall.analyse.names.unreadable import UNREADABLE

# Wrappers that tell a reader nothing: atomics and barriers go through several.
_NOISE = re.compile(
    r"(arch|raw|instrument|kasan|kcsan|__kcsan)_|__?(read|write)_once|"
    r"(atomic|atomic64|atomic_long)_|_{0,2}(refcount|kref|rcuref)_|(ticket|virt)_|__(get|put)_user_nocheck"
)


@dataclass(frozen=True)
class Code:
    """Where an instruction is. ``offset``: bytes into ``function``."""

    function: str
    offset: int
    module: str | None
    source: str | None
    inlined: tuple[str, ...]


class CodeNamer:
    """Names code of the guest's kernel and its modules."""

    def __init__(self, prog: Program) -> None:
        self._prog = prog
        self._decoder = Cs(CS_ARCH_X86, CS_MODE_64)
        self._decoder.detail = True
        self._frames = lru_cache(maxsize=1 << 14)(self._find_frames)
        self.name = lru_cache(maxsize=None)(self._name)
        self.pointees = lru_cache(maxsize=None)(self._pointees)
        self.displacement = lru_cache(maxsize=None)(self._displacement)

    def _find_frames(self, address: int) -> list[StackFrame]:
        try:
            return list(self._prog.stack_trace_from_pcs([address]))
        except UNREADABLE:
            return []

    def _name(self, address: int) -> Code:
        try:
            symbol = symbol_at(self._prog, address)
        except UNREADABLE:
            return Code("(generated code)", 0, None, None, ())
        frames = self._frames(address)
        telling = [
            frame.name
            for frame in frames
            if frame.name and frame.is_inline and not _NOISE.match(frame.name)
        ]
        # One of the same name in another file wraps it, as aa_get_label's does.
        inlined = tuple(name for name, _ in itertools.groupby(telling))
        return Code(
            function=symbol.name,
            offset=address - symbol.address,
            module=self._module(address),
            source=_source(frames),
            inlined=inlined,
        )

    def _module(self, address: int) -> str | None:
        try:
            name = self._prog.module(address).name
        except UNREADABLE:
            return None
        return None if name == "kernel" else name

    def _pointees(self, address: int) -> tuple[Type, ...]:
        """Structures that variables in scope at ``address`` point to."""
        found: dict[str, Type] = {}
        for frame in self._frames(address):
            try:
                names = frame.locals()
            except UNREADABLE:
                continue
            for name in names:
                try:
                    type_ = strip(frame[name].type_)
                except UNREADABLE:
                    continue
                if type_.kind != TypeKind.POINTER:
                    continue
                target = strip(type_.type)
                if target.kind == TypeKind.STRUCT and target.tag and target.is_complete():
                    found.setdefault(target.tag, target)
        return tuple(found.values())

    def _displacement(self, address: int) -> int | None:
        """Constant that the instruction adds to a pointer to get at memory.

        None if it has no such operand, or adds an index as well, or a bit's number.
        """
        try:
            code = self._prog.read(address, 15)
        except FaultError:
            return None
        for insn in self._decoder.disasm(code, address, 1):
            for operand in insn.operands:
                if operand.type != X86_OP_MEM or operand.mem.segment != X86_REG_INVALID:
                    continue
                memory = operand.mem
                nowhere = memory.base in (X86_REG_INVALID, X86_REG_RIP)
                if nowhere or memory.index != X86_REG_INVALID or any_word(insn):
                    return None
                return int(memory.disp)
        return None


def _source(frames: list[StackFrame]) -> str | None:
    """file:line of the innermost frame that is not in a header."""
    chosen: str | None = None
    for frame in frames:
        try:
            path, line, _ = frame.source()
        except UNREADABLE:
            continue
        text = f"{_relative(path)}:{line}"
        if not path.endswith(".h"):
            return text
        chosen = chosen or text
    return chosen


def _relative(path: str) -> str:
    """A path in the kernel tree, without where that stood when it was built."""
    found = re.search(
        r"(?:^|/)((?:arch|block|crypto|drivers|fs|include|init|io_uring|ipc|kernel|lib|mm|net|"
        r"security|sound|tools|virt)/.*)$",
        path,
    )
    return found[1] if found else path
