# SPDX-License-Identifier: GPL-2.0-or-later
"""Where a kernel keeps the time that its scheduler goes by, which the recorder reads.

``rq->clock`` is written whenever a CPU is about to switch to another task. It is in
nanoseconds, and all CPUs have it in step. ``hrtimer_bases.expires_next`` is when a CPU's next
timer expires, by a clock of the same pace. Symbols tell where the structs are, and only debug
information where these are in them.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import drgn

from partywall.core.elf import Symbols

_WORDS = {
    "clock": ("runqueues", "struct rq", "clock"),
    "expires": ("hrtimer_bases", "struct hrtimer_cpu_base", "expires_next"),
}
"""By the recorder's word: variable of each CPU, its type, and the member."""


@lru_cache
def _offsets(vmlinux: Path) -> dict[str, int]:
    """Bytes from the start of each struct to its member; without those that are not known."""
    prog = drgn.Program(drgn.Platform(drgn.Architecture.X86_64))
    try:
        prog.extra_module("vmlinux", create=True).try_file(str(vmlinux), force=True)
    except (OSError, ValueError):
        return {}
    found: dict[str, int] = {}
    for word, (_, struct, member) in _WORDS.items():
        try:
            found[word] = int(drgn.offsetof(prog.type(struct), member))
        except (LookupError, ValueError):
            continue
    return found


def places(vmlinux: Path, symbols: Symbols) -> dict[str, int]:
    """Return addresses in a CPU's own memory, by the recorder's word for what is there.

    ``clock`` and ``expires``; without those that are not known.
    """
    where = {word: symbols.by_name(variable) for word, (variable, _, _) in _WORDS.items()}
    if not where["clock"]:
        return {}
    offsets = _offsets(vmlinux)
    return {
        word: found[0].address + offsets[word]
        for word, found in where.items()
        if found and word in offsets
    }
