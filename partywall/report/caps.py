# SPDX-License-Identifier: GPL-2.0-or-later
"""Shared caps, at a terminal: what one container can use up comes first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from rich.console import Console, RenderableType

from partywall.report.blocks import columns, indent, print_blocks, text
from partywall.report.words import count
from partywall.results.caps import Cap, Caps, Got, Verdict

_USERS = {
    "host": "no user namespaces, as Docker's defaults have it",
    "shared": "user namespaces in which root of all containers is one user of the machine",
    "own": "user namespaces in which root of each container is another user of the machine",
}
_REST: dict[Verdict, str] = {
    "own": "Bounded for each container or process by itself, so its neighbour has its share",
    "memory": "Bounded by the container's memory limit",
    "not reached": "Not used up in the time that was given, or by 256 processes",
    "not tried": "Not tried: the neighbour can't have it anyway",
}


def render(found: Caps, console: Console) -> None:
    """Print what one container can use up, made for 80 columns or more."""
    print_blocks(_blocks(found), console)


def _blocks(found: Caps) -> Iterator[RenderableType]:
    yield text(f"Linux {found.kernel.release} ({found.kernel.source})", "bold")
    yield text(
        "One container takes all that it can get, its neighbour asks for a little; a machine of "
        f"{found.memory:,} MiB, of which a container may have two fifths; {_USERS[found.users]}.",
        "dim",
    )
    by: dict[Verdict, list[Cap]] = defaultdict(list)
    for one in found.operations:
        by[one.verdict].append(one)
    yield ""
    yield text("Shared caps: what one container can use up of what all need", "bold")
    yield from _caps(by["cap"])
    for verdict, title in _REST.items():
        if by[verdict]:
            yield ""
            yield text(title, "bold")
            for one in sorted(by[verdict], key=lambda one: one.title):
                got = one.taken or one.before
                yield indent(text(f"{one.title}: {_words(got)}"), 2)
    if found.failed:
        yield ""
        yield text(f"Not measured: {count(len(found.failed), 'operation')}", "bold")
        for failure in found.failed:
            yield indent(text(f"{failure.title}: {failure.why}"), 2)


def _caps(found: list[Cap]) -> Iterator[RenderableType]:
    """Rows of operations below the limit that they run into."""
    if not found:
        yield indent(text("none"), 2)
        return
    by: dict[str, list[Cap]] = defaultdict(list)
    for one in found:
        # Without a name each may have one of its own.
        by[one.knob or one.title].append(one)
    rows = sorted(by.values(), key=lambda row: (row[0].knob is None, -len(row), row[0].title))
    for row in rows:
        yield text(_limit(row[0]), "magenta")
        table = columns(("taken", "neighbour"), "what runs into it")
        table.show_header = row is rows[0]
        for one in sorted(row, key=lambda one: one.title):
            assert one.taken is not None
            assert one.beside is not None
            stays = "; still when the other one's processes have ended" if one.stays else ""
            table.add_row(
                f"{one.taken.done:,}",
                f"{one.beside.done} of {one.tries}",
                text(f"{one.title}: {_error(one)}{stays}"),
            )
        yield indent(table, 2)


def _limit(one: Cap) -> str:
    """What bounds it, in words."""
    if one.knob is not None:
        return f"{one.knob} = {one.value}"
    assert one.beside is not None
    if one.beside.done == one.tries:
        return "the machine's memory: the one that took was killed within its own limit"
    return "no limit that was tried raises it"


def _error(one: Cap) -> str:
    """What the neighbour is told."""
    assert one.beside is not None
    if one.beside.error:
        return one.beside.error
    if one.beside.killed:
        return "killed"
    return "as much as it asks for" if one.beside.done == one.tries else "less, and no error"


def _words(got: Got) -> str:
    said = f"{got.done:,}"
    if got.processes > 1:
        said += f" in {got.processes} processes"
    if got.error == "ETIMEDOUT":
        return f"{said}, then it waits without end"
    return f"{said}, then {got.error}" if got.error else said
