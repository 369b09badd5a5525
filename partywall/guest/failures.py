# SPDX-License-Identifier: GPL-2.0-or-later
"""What a guest died of, by what it and its emulator said."""

from __future__ import annotations

import re

from partywall.core import cache
from partywall.core.errors import EnvironmentProblem

_NO_CAUSE = re.compile(r"PARTYWALL|\[|note|\d+ blocks$")
"""Lines of a console that say nothing of what failed; the last one is cpio's."""


def said_in(text: str, word: str) -> str | None:
    """Return the rest of a console's first line ``PARTYWALL word …``, if all of it is there."""
    # A line that has no end yet is still being written.
    found = re.search(rf"^PARTYWALL {word}(?: (.*))?\n", text, re.MULTILINE)
    return found[1] or "" if found else None


def died(console: str, stderr: str, version: str) -> EnvironmentProblem:
    """Return what an ended guest died of, in one line, and what to do.

    ``stderr``: the emulator's, which has this ``version``.
    """
    stderr = stderr.strip()
    recorder = re.search(r"^partywall recorder: (.*)$", stderr, re.MULTILINE)
    if recorder:
        return EnvironmentProblem(f"the recorder gave up: {recorder[1]}")
    panic = re.search(r"Kernel panic - not syncing: (.*)$", console, re.MULTILINE)
    if panic:
        where = re.search(r"\bRIP: 0010:(\S+)", console)
        at = "" if where is None else f" at {where[1]}"
        anew = ""
        if said_in(console, "received") is not None:
            anew = f" without {cache.root() / 'snapshot'}, where its boot is kept"
        return EnvironmentProblem(
            f"the guest's kernel panicked{at}: {panic[1]}",
            f"try again{anew}: if it panics then, too, it is the kernel, else perhaps "
            f"QEMU {version}",
        )
    workload = re.search(r"^partywall: workload: (.*)$", console, re.MULTILINE)
    if workload:
        hint = re.search(r"^partywall: hint: (.*)$", console, re.MULTILINE)
        return EnvironmentProblem(f"the workload failed: {workload[1]}", hint[1] if hint else None)
    said = said_in(console, "failed")
    if said and said.startswith("asleep: "):
        return EnvironmentProblem(
            f"the guest sleeps: {said[8:]} (QEMU {version})",
            "the workload may hang, or QEMU not show its marks; allow more with --timeout",
        )
    if said:
        before = [line for line in console.splitlines() if line and not _NO_CAUSE.match(line)]
        detail = f" ({before[-1][:160]})" if before else ""
        return EnvironmentProblem(f"the guest failed: {said}{detail}")
    if stderr:
        return EnvironmentProblem(f"QEMU ended: {stderr.splitlines()[-1][:200]}")
    last = next(iter(reversed(console.strip().splitlines())), "nothing")
    return EnvironmentProblem(f"QEMU ended early; the guest's last line: {last[:160]}")
