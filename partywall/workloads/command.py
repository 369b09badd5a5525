# SPDX-License-Identifier: GPL-2.0-or-later
"""A workload out of a program, or a source file, that the user brings."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from partywall.core import elf
from partywall.core.errors import UsageProblem
from partywall.workloads.opening import Opening
from partywall.workloads.root import (
    COUNT,
    PEERS,
    SERVER,
    Peer,
    Root,
)
from partywall.workloads.service import Service
from partywall.workloads.workload import Workload

_MARKERS = (b"\x66\x87\xdb", b"\x66\x87\xc9")


def from_command(
    command: list[str],
    *,
    marked: bool | None,
    window: int,
    options: Iterable[str] = (),
    opening: Opening | None = None,
) -> Workload:
    """Return a workload out of a user's own static program and its arguments.

    ``marked`` None: find out whether the program carries both markers.
    ``window``: how many operations the program does between them (or in all); ``opening``:
    where its window is, instead.
    UsageProblem if it is none that the containers can run.
    """
    _one_window(marked, opening)
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
    if opening is not None and marked:
        raise UsageProblem(
            f"{program} marks its window itself", "leave --window out, or the markers"
        )
    return Workload(
        name=program.name,
        summary="a program of yours",
        operation=_operation("the program", window, opening),
        opening=opening,
        warmup=0,
        window=window,
        options=tuple(options),
        command=tuple(command),
        marked=marked,
    )


def _one_window(marked: bool | None, opening: Opening | None) -> None:
    """UsageProblem if a program is said to mark its window, or not to, and where that is."""
    if marked is not None and opening is not None:
        raise UsageProblem(
            "--window says where the window is, --markers that the program does", "leave one out"
        )


def _operation(what: str, window: int, opening: Opening | None) -> str:
    """Return what one operation is, of so many in a window."""
    if opening is None:
        return f"one {'run' if window == 1 else 'operation'} of {what}"
    return f"{'all' if window == 1 else 'one operation'} that {what} does {opening.told}"


REQUESTS_WARMUP, REQUESTS_WINDOW = 200, 400


def from_root(
    root: Root,
    command: list[str],
    *,
    marked: bool | None,
    window: int | None,
    client: str | None = None,
    peer: Peer | None = None,
    service: Service | None = None,
    opening: Opening | None = None,
    entrypoint: str | None = None,
) -> Workload:
    """Return a workload out of a program in a root file system that somebody else made.

    ``command`` empty: what an image says that it runs; ``entrypoint``: in place of an image's
    own, to which ``command`` is handed; empty: none. ``marked``, ``window``: as for
    `from_command`, but that nobody looks into the program. ``client``: a command that asks
    it, as a server, in the same container, or as ``peer`` says; ``service``: what the
    containers are to be;
    ``opening``: where the window is of what nobody asks.
    """
    if not command and root.kind != "image":
        raise UsageProblem("there is no command", "name a program of that root behind --")
    first = starts(entrypoint, root, "--entrypoint")
    program = first or [one for one in command[:1] if not one.startswith("-")]
    name = Path(program[0] if program else root.what).name
    more: dict[str, Any] = {}
    if service is not None:
        # Ready-made servers have such names, too.
        name, variant = service.name, "compose"
        confined = service.model_dump(include={"apparmor", "seccomp", "systempaths"})
        more = {"variant": variant, "service": service, **confined}
    common: dict[str, Any] = {
        "name": name,
        **more,
        "summary": f"{name} of {root.told}",
        "command": tuple(command),
        "entrypoint": first,
        "root": root,
    }
    if client is None:
        _one_window(marked, opening)
        return Workload(
            operation=_operation(f"{name} of {root.told}", window or 1, opening),
            warmup=0,
            window=window or 1,
            marked=bool(marked),
            opening=opening,
            **common,
        )
    words = _words(client)
    if peer is not None and not any(SERVER in word for word in words):
        raise UsageProblem(
            f"--client has to be told whom it asks from another container: {SERVER} is to be in it",
            f"such as --client 'redis-benchmark -h {SERVER} -n {COUNT}'",
        )
    if marked is not None or opening is not None:
        raise UsageProblem(
            "--client has its window opened and closed for it",
            f"leave --{'window' if opening else 'markers'} out",
        )
    told = ""
    if peer is not None:
        asking = PEERS[peer]
        told, usual = f", {asking.told}", common.get("variant")
        common["variant"] = f"{usual}-{asking.suffix}" if usual else asking.suffix
        common |= asking.needs
    return Workload(
        operation=f"one request of {Path(words[0]).name} to {name} of {root.told}{told}",
        warmup=REQUESTS_WARMUP,
        window=window or REQUESTS_WINDOW,
        marked=False,
        client=words,
        peer=peer,
        **common,
    )


def starts(entrypoint: str | None, root: Root, where: str) -> tuple[str, ...] | None:
    """Return the words of what is in place of an image's entrypoint; None if nothing is."""
    if entrypoint is not None and root.kind != "image":
        raise UsageProblem(
            f"{where} is in place of an image's own, and {root.told} is none",
            "leave it out: the command says what starts",
        )
    return None if entrypoint is None else words_of(entrypoint, where)


def words_of(command: str, where: str) -> tuple[str, ...]:
    """Return the words of a command line; UsageProblem, with ``where`` it is, if it has none."""
    try:
        return tuple(shlex.split(command))
    except ValueError as error:
        raise UsageProblem(f"{where}: {error}", "quote it as for a shell") from error


def _words(client: str) -> tuple[str, ...]:
    words = words_of(client, "--client")
    if not any(COUNT in word for word in words):
        raise UsageProblem(
            f"--client has to be told how many requests it makes: {COUNT} is to be in it",
            f"such as --client 'redis-benchmark -n {COUNT}'",
        )
    return words


# Of what a file of will-it-scale does, an operation is short.
ITERATIONS_WARMUP, ITERATIONS_WINDOW = 100, 500


def from_iterations(path: Path, *, threads: bool, window: int | None) -> Workload:
    """Return a workload out of a C file with will-it-scale's interface.

    ``threads``: tasks of a container share one process; ``window``: operations of each.
    UsageProblem if the file can't be read or has no testcase().
    """
    try:
        text = path.read_text(errors="replace")
    except OSError as error:
        raise UsageProblem(f"{path}: {error.strerror}", "give a path to a C file") from error
    if not re.search(r"\btestcase\s*\(", text):
        raise UsageProblem(
            f"{path} has no testcase()",
            "it is to have void testcase(unsigned long long *iterations, unsigned long nr)",
        )
    said = re.search(r'testcase_description\s*(?:\[\s*\])?\s*=\s*"([^"]*)"', text)
    return Workload(
        name=path.stem,
        variant="threads" if threads else "default",
        source=path.resolve(),
        summary="a file of yours",
        operation=f"one iteration of {said[1] if said else path.name}",
        warmup=ITERATIONS_WARMUP,
        window=window or ITERATIONS_WINDOW,
    )
