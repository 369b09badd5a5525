# SPDX-License-Identifier: GPL-2.0-or-later
"""Sizes, numbers and names as Compose files and manifests write them. ValueError: it is none."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Sequence

from partywall.core.capabilities import capability
from partywall.core.errors import UsageProblem
from partywall.workloads.service import ALL, Tmpfs

_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?([bkmgtp]?)(?:i?b)?", re.IGNORECASE)
_QUANTITY = re.compile(
    r"([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,2})?)([numkMGTPE]|[KMGTPE]i)?"
)
_PARTS = {"n": 1e9, "u": 1e6, "m": 1e3}
_OURS = re.compile(r"(?:(?:proc|sys|run/partywall[^/]*)(?:/.*)?|dev|etc/hosts|etc/hostname)", re.S)
_POWERS = {letter: power for power, letter in enumerate("bkmgtp")}
_PREFIXES = {letter: power for power, letter in enumerate("KMGTPE", start=1)}


def size(value: object) -> int:
    """Return bytes, as Docker takes them: a kilobyte has 1,024.

    >>> size("1.5g")
    1610612736
    """
    found = _SIZE.fullmatch(str(value).strip())
    if not isinstance(value, str | int) or isinstance(value, bool) or found is None:
        raise ValueError(f"'{str(value)[:60]}' is no size, such as 64m")
    bytes_ = float(found[1]) * 1024 ** _POWERS[found[2].lower() or "b"]
    if bytes_ >= 2**63:
        raise ValueError(f"'{str(value)[:60]}' is more than any machine has")
    return int(bytes_)


def quantity(value: object) -> float:
    """Return a number as Kubernetes writes it.

    >>> quantity("250m"), quantity("64Mi")
    (0.25, 67108864.0)
    """
    found = _QUANTITY.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise ValueError(f"'{str(value)[:60]}' is no quantity, such as 250m or 64Mi")
    number, unit = float(found[1]), found[2] or ""
    if unit in _PARTS:
        number /= _PARTS[unit]
    elif unit:
        base = 1024 if unit.endswith("i") else 1000
        number *= base ** _PREFIXES[unit[0].upper()]
    return number


def cpus(number: float) -> float | None:
    """Return CPUs that a container may have; None for all of them."""
    if not 0 <= number < 2**16:
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
        raise ValueError(f"'{place[:60]}' is no place for a tmpfs")
    if _OURS.fullmatch(whole):
        raise ValueError(f"a tmpfs at /{whole[:60]} hides what a container needs")
    return Tmpfs(place=f"/{whole}", options=tuple(options))


def mode(told: object) -> int:
    """Return a mode of files as Compose reads a number: by eights if it begins with a zero.

    >>> f"{mode('0700'):o} {mode('448'):o}"
    '700 700'
    """
    text = str(told)
    base = 8 if text.startswith("0") else 10
    number = int(text.removeprefix("0o"), base) if re.fullmatch("0o[0-9]+|[0-9]+", text) else -1
    if not 0 <= number <= 0o7777:
        raise ValueError(f"'{text[:60]}' is no mode, such as 0700")
    return number


def sysctl(name: str) -> bool:
    """Whether a container's namespaces have this sysctl."""
    kernel = {"kernel.msgmax", "kernel.msgmnb", "kernel.msgmni", "kernel.sem"}
    mine = name in kernel or name.startswith(("net.", "kernel.shm", "fs.mqueue."))
    return mine and re.fullmatch(r"[a-zA-Z0-9_./-]+", name) is not None
