# SPDX-License-Identifier: GPL-2.0-or-later
"""Shared caps, at a terminal: what one container can use up comes first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from rich.console import Console, Group, RenderableType

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
    "not reached": "Not used up in the time that was given",
    "not tried": "Not tried: the neighbour can't have it anyway",
}


def render(found: Caps, console: Console) -> None:
    """Print what one container can use up, made for 80 columns or more."""
    print_blocks(_blocks(found), console)


def _blocks(found: Caps) -> Iterator[RenderableType]:
    yield text(f"Linux {found.kernel.release} ({found.kernel.source})", "bold")
    yield text(
        "One container takes all that it can get, its neighbour asks for a little; a machine of "
        f"{found.memory:,} MiB, {_USERS[found.users]}.",
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


def limit_of(one: Cap) -> str:
    """What bounds it, in words."""
    if one.knob is not None:
        return f"{one.knob} = {one.value}"
    if one.alike is not None:
        return f"as many as RLIMIT_{one.alike.upper()} of a process; no sysctl raises it"
    return "no sysctl that was tried raises it"


def _caps(found: list[Cap]) -> Iterator[RenderableType]:
    """Rows of limits, with all that run into each."""
    if not found:
        yield indent(text("none"), 2)
        return
    by: dict[str, list[Cap]] = defaultdict(list)
    for one in found:
        # Without a name each may have one of its own.
        by[one.knob or one.title].append(one)
    table = columns(("taken", "neighbour"), "limit, and what runs into it")
    rows = sorted(by.values(), key=lambda row: (row[0].knob is None, -len(row), row[0].title))
    for row in rows:
        row.sort(key=lambda one: one.title)
        worst = min(row, key=_share)
        assert worst.taken is not None
        assert worst.beside is not None
        told = [text(limit_of(row[0]), "magenta")]
        for one in row:
            stays = "; still when the other one's processes have ended" if one.stays else ""
            told.append(text(f"{one.title}: {_errors(one)}{stays}"))
        taken = max(one.taken.done for one in row if one.taken)
        table.add_row(
            f"{taken:,}",
            f"{worst.beside.done} of {worst.tries}",
            Group(told[0], *(indent(line, 2) for line in told[1:])),
        )
    yield table


def _share(one: Cap) -> float:
    return one.beside.done / one.tries if one.beside else 1.0


def _errors(one: Cap) -> str:
    """What the neighbour is told."""
    assert one.beside is not None
    if one.beside.error:
        return one.beside.error
    return "short of memory" if one.beside.killed else "less than it asks for"


def _words(got: Got) -> str:
    said = f"{got.done:,}"
    if got.processes > 1:
        said += f" in {got.processes} processes"
    if got.error:
        said += f", then {got.error}"
    return said + (", short of memory" if got.killed else "")
