# SPDX-License-Identifier: GPL-2.0-or-later
"""A fault of QEMU's before 8.1 that brings down guests whose vCPUs are threads."""

from __future__ import annotations

import re

ATTEMPTS = 5
"""How often a guest is started that QEMU brings down.

With sixteen threads on as many cores it did so in 56 of 191 guests of QEMU 7.2, of
stock's kernel (28 of 96) as often as of ours (28 of 95)."""


def stale_code(console: str) -> bool:
    """Return whether the kernel died of a breakpoint that is not in its memory.

    Linux changes its code by way of a breakpoint. QEMU before 8.1 may translate
    a page while another thread changes it, and then runs for ever what was
    there before. The byte before the marked one in "Code:" is what the
    processor has just run: cc if that was a breakpoint.
    """
    found = re.search(r"Oops: int3: .*?\bCode: ([0-9a-f <>]*)", console, re.DOTALL)
    if found is None:
        return False
    before, marked, _ = found[1].partition("<")
    return bool(marked) and not before.rstrip().endswith("cc")
