# SPDX-License-Identifier: GPL-2.0-or-later
"""The code that made an object, from the stack that the kernel has kept of it."""

from __future__ import annotations

import re

from drgn import Object, Program
from drgn.helpers.linux.stackdepot import stack_depot_fetch

from partywall.analyse.names.unreadable import UNREADABLE

# The allocator itself: it makes everything, and says nothing of what.
_ALLOCATOR = re.compile(
    r"_*(do_)?(k[mzc]?v?alloc|kvm?[mzc]alloc|kv?realloc|kmem_cache|kmalloc|slab_|alloc_slab_page|new_slab"
    r"|allocate_slab|kmemdup|kstrdup|kstrndup|memdup)"
)
# Where system calls and interrupts come in: everything is below it.
_ENTRY = re.compile(
    r"(do_syscall|entry_|x64_sys_call|__(do|se|x64|ia32)_(compat_)?sys_|ret_from_fork|asm_)"
)

DEPTH = 6
"""Functions that are told of a stack."""


class Makers:
    """Names stacks by their handles."""

    def __init__(self, prog: Program) -> None:
        self._prog = prog
        self._known: dict[int, tuple[str, ...]] = {}

    def __call__(self, handle: int) -> tuple[str, ...]:
        """Return the functions that made an object, innermost first; none if it is not known."""
        if handle not in self._known:
            self._known[handle] = telling(self._functions(handle))
        return self._known[handle]

    def _functions(self, handle: int) -> list[str]:
        if not handle:
            return []
        try:
            trace = stack_depot_fetch(Object(self._prog, "depot_stack_handle_t", handle))
        except UNREADABLE:
            return []
        return [frame.name or "?" for frame in trace] if trace is not None else []


def telling(functions: list[str]) -> tuple[str, ...]:
    """Return the functions of a stack that tell what an object is for."""
    found = [name for name in functions if not _ALLOCATOR.match(name) and not _ENTRY.match(name)]
    return tuple(found[:DEPTH])
