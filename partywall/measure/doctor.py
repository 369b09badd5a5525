# SPDX-License-Identifier: GPL-2.0-or-later
"""What this machine lacks for a check, and the one command that mends it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from partywall import workloads
from partywall.core import cache, packages
from partywall.core.errors import PartywallError
from partywall.core.progress import Quiet
from partywall.guest import qemu
from partywall.kernels import apt
from partywall.kernels.sources import debian
from partywall.measure import memory, ready, run
from partywall.record.plugin import recorder

_SPACE = 4 << 30


@dataclass(frozen=True)
class Finding:
    """One thing looked at. ``mend``: the command that helps, None if all is well.

    ``needed``: whether a check fails without it.
    """

    what: str
    state: str
    mend: str | None = None
    needed: bool = True


def _programs() -> Iterator[Finding]:
    needed = ready.lists()
    for kind in (*needed, *packages.OPTIONAL):
        for need in packages.needs(kind):
            where = need.found()
            state = f"missing; it {need.use}" if where is None else str(where)
            yield Finding(
                need.name, state, None if where else packages.install([need]), kind in needed
            )


def _emulator() -> Iterator[Finding]:
    found = qemu.find()
    yield Finding("QEMU", f"{found.version}, TCG plugins of version {found.plugin_abi}")
    plugin = recorder(found, Quiet())
    yield Finding("recorder", f"built for it: {plugin}")
    if qemu.kvm_works(found.program):
        yield Finding("KVM", "works; a recording does not use it")
    else:
        yield Finding("KVM", "does not work here; a recording does not need it")


def _kernel() -> Iterator[Finding]:
    name = debian.newest_name(debian.DEFAULT_VERSION)
    image, debug = debian.pair(name)
    cached = all(apt.is_cached(package) for package in (image, debug))
    size = (image.size + debug.size) / 1e6
    state = "downloaded" if cached else f"not downloaded yet ({size:.0f} MB)"
    yield Finding("kernel", f"{name} {image.version}, {state}")


def _room() -> Iterator[Finding]:
    for what, place in (("cache", cache.root()), ("temporary files", Path(tempfile.gettempdir()))):
        there = place
        while not there.exists():
            there = there.parent
        if not os.access(there, os.W_OK):
            yield Finding(what, f"{place} is not writable", f"chmod u+w {there}")
            continue
        free = shutil.disk_usage(there).free
        need = _SPACE if what == "cache" else _SPACE // 8
        text = f"{place}, {free / 1e9:.0f} GB free"
        mend = f"free {need / 1e9:.0f} GB under {there}" if free < need else None
        yield Finding(what, text, mend)


def _memory() -> Iterator[Finding]:
    """How many guests of a check without options run side by side; as `run.check` decides."""
    shapes = [shape for one in workloads.select(()) for shape in run.topologies(one)]
    free, jobs = memory.available(), run.default_jobs()
    fit = memory.side_by_side(shapes, jobs, free)
    each = memory.limit(shapes[0], fit, free)
    yield Finding(
        "memory",
        f"{free:,} MiB available: {fit} of {jobs} guests side by side, "
        f"each with {each:,} MiB for its recorder",
        "end other programs" if memory.short(shapes, free) else None,
    )


def look() -> list[Finding]:
    """Everything a check needs, in the order in which it would fail."""
    found: list[Finding] = []
    parts: tuple[tuple[str, Callable[[], Iterator[Finding]]], ...] = (
        ("programs", _programs),
        ("QEMU", _emulator),
        ("kernel", _kernel),
        ("room", _room),
        ("memory", _memory),
    )
    for what, part in parts:
        try:
            found += part()
        except PartywallError as error:
            found.append(Finding(what, error.message, error.hint or packages.mend(*ready.lists())))
    return found
