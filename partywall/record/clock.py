# SPDX-License-Identifier: GPL-2.0-or-later
"""Where a kernel keeps the time that its scheduler goes by, which the recorder reads.

``rq->clock`` is written whenever a CPU is about to switch to another task. It is in
nanoseconds, and all CPUs have it in step. A symbol tells where the struct is, and only debug
information where the clock is in it.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import drgn

from partywall.core.elf import Symbols


@lru_cache
def _offset(vmlinux: Path) -> int | None:
    """Bytes from the start of ``struct rq`` to its clock, None if debug information is lacking."""
    prog = drgn.Program(drgn.Platform(drgn.Architecture.X86_64))
    try:
        prog.extra_module("vmlinux", create=True).try_file(str(vmlinux), force=True)
        return int(drgn.offsetof(prog.type("struct rq"), "clock"))
    except (LookupError, OSError, ValueError):
        return None


def place(vmlinux: Path, symbols: Symbols) -> int | None:
    """Return the address of the clock in a CPU's own memory; None if that is not known."""
    queues = symbols.by_name("runqueues")
    offset = _offset(vmlinux) if queues else None
    return None if offset is None else queues[0].address + offset
