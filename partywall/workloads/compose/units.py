# SPDX-License-Identifier: GPL-2.0-or-later
"""Sizes, numbers and names as Compose files and manifests write them. ValueError: it is none."""

from __future__ import annotations

import math
import posixpath
import re
from collections.abc import Iterable, Sequence

from partywall.core.capabilities import capability
from partywall.core.errors import UsageProblem
from partywall.workloads.service import ALL, Tmpfs

_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?([bkmgtp]?)(?:i?b)?", re.IGNORECASE)
_QUANTITY = re.compile(r"([+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d{1,2})?)(m|[kMGTPE]i?|Ki)?")
_POWERS = {letter: power for power, letter in enumerate("bkmgtp")}
_PREFIXES = {letter: power for power, letter in enumerate("KMGTPE", start=1)}


def size(value: object) -> int:
    """Return bytes, as Docker takes them: a kilobyte has 1,024.

    >>> size("1.5g")
    1610612736
    """
    found = _SIZE.fullmatch(str(value).strip())
    if not isinstance(value, str | int) or isinstance(value, bool) or found is None:
        raise ValueError(f"'{value}' is no size, such as 64m")
    return int(float(found[1]) * 1024 ** _POWERS[found[2].lower() or "b"])


def quantity(value: object) -> float:
    """Return a number as Kubernetes writes it.

    >>> quantity("250m"), quantity("64Mi")
    (0.25, 67108864.0)
    """
    found = _QUANTITY.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise ValueError(f"'{value}' is no quantity, such as 250m or 64Mi")
    number, unit = float(found[1]), found[2] or ""
    if unit == "m":
        number /= 1000
    elif unit:
        base = 1024 if unit.endswith("i") else 1000
        number *= base ** _PREFIXES[unit[0].upper()]
    return number


def cpus(number: float) -> float | None:
    """Return CPUs that a container may have; None for all of them."""
    if not math.isfinite(number) or number < 0:
        raise ValueError(f"{number:g} is no number of CPUs")
    if 0 < number < 0.01:
        raise ValueError(f"{number:g} CPUs are less than a hundredth")
    return number or None


def capabilities(names: Iterable[str]) -> tuple[str, ...]:
    """Return full names of capabilities; `ALL` stays."""
    try:
        found = [ALL if name.upper() in {ALL, "CAP_ALL"} else capability(name) for name in names]
    except UsageProblem as error:
        raise ValueError(error.message) from error
    return tuple(dict.fromkeys(found))


def mounted(place: str, options: Sequence[str]) -> Tmpfs:
    """Return a file system in memory for a place of a container's."""
    whole = posixpath.normpath(place).strip("/")
    if not place.startswith("/") or not whole or ".." in place.split("/"):
        raise ValueError(f"'{place}' is no place for a tmpfs")
    return Tmpfs(place=f"/{whole}", options=tuple(options))


def sysctl(name: str) -> bool:
    """Whether a container's namespaces have this sysctl."""
    kernel = {"kernel.msgmax", "kernel.msgmnb", "kernel.msgmni", "kernel.sem"}
    mine = name in kernel or name.startswith(("net.", "kernel.shm", "fs.mqueue."))
    return mine and re.fullmatch(r"[a-zA-Z0-9_./-]+", name) is not None
