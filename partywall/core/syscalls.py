# SPDX-License-Identifier: GPL-2.0-or-later
"""System calls of x86-64, from the C library's copy of the kernel's headers."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

from partywall.core import packages
from partywall.core.errors import EnvironmentProblem

HEADER = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")


@lru_cache
def numbers(header: Path = HEADER) -> dict[str, int]:
    """Number of every system call by name."""
    try:
        text = header.read_text()
    except OSError as error:
        raise EnvironmentProblem(f"{header}: {error.strerror}", packages.mend("check")) from error
    found = re.findall(r"^#define __NR_(\w+) (\d+)$", text, re.MULTILINE)
    return {name: int(number) for name, number in found}


def name(number: int) -> str:
    """Name of a system call, or its number if the headers are older than it."""
    return _names().get(number, f"#{number}")


@lru_cache
def _names() -> dict[int, str]:
    """The first name of every number."""
    return {number: name for name, number in reversed(numbers().items())}
