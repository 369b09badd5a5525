# SPDX-License-Identifier: GPL-2.0-or-later
"""A workload out of a program that the user brings."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from partywall.core import elf
from partywall.core.errors import UsageProblem
from partywall.workloads.workload import Workload

_MARKERS = (b"\x66\x87\xdb", b"\x66\x87\xc9")


def from_command(
    command: list[str], *, marked: bool | None, window: int, options: Iterable[str] = ()
) -> Workload:
    """Return a workload out of a user's own static program and its arguments.

    ``marked`` None: find out whether the program carries both markers.
    ``window``: how many operations the program does between them (or in all).
    UsageProblem if it is none that the containers can run.
    """
    program = Path(command[0])
    try:
        data = program.read_bytes()
    except OSError as error:
        raise UsageProblem(f"{program}: {error.strerror}", "give a path to a program") from error
    if data[:4] != b"\x7fELF":
        raise UsageProblem(f"{program} is not an ELF program", "scripts have no interpreter there")
    kind = elf.program_kind(program)
    if kind is elf.Program.FOREIGN:
        raise UsageProblem(
            f"{program} is no program for x86-64", "compile and link it for this machine"
        )
    if kind is elf.Program.DYNAMIC:
        raise UsageProblem(
            f"{program} is dynamically linked; the containers hold no libraries",
            "link it with -static",
        )
    if marked is None:
        marked = all(marker in data for marker in _MARKERS)
    return Workload(
        name=program.name,
        summary="a program of yours",
        operation="one run of the program" if window == 1 else "one operation of the program",
        warmup=0,
        window=window,
        options=tuple(options),
        command=tuple(command),
        marked=marked,
    )
