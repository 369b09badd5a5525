# SPDX-License-Identifier: GPL-2.0-or-later
"""One wall at a terminal: line, offset in the line, code, containers, as ``perf c2c`` orders it."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from partywall.report.blocks import Flow, columns, indent, more, text
from partywall.report.walls import Wall, alike
from partywall.report.words import (
    SCOPES,
    Walled,
    accesses,
    busiest,
    count,
    function,
    percent,
    rate,
    sharers,
    signed_hex,
)
from partywall.results.fields import FieldUse
from partywall.results.lines import Line
from partywall.results.result import WorkloadResult
from partywall.results.sites import Site, Uses

LINES = 8
"""Lines of one object that are shown unless all are asked for."""

FIELDS = 2
"""Of the worst line, in a wall told in brief, if they fit."""

ROW = 58
"""Characters that these have, and the code, in the row of a terminal of 80."""

ADDRESSES = 6
"""Objects like the one shown that are listed by address."""


def wall(found: Wall, top_sites: int | None, *, verbose: bool = False) -> Iterator[RenderableType]:
    """Yield all of a wall: the objects that differ in their use, and where the others are.

    ``top_sites``: places in the code for each line, all if None; ``verbose``: every
    object in full.
    """
    heading = Text(f"wall {found.number}: ", style="bold", overflow="fold")
    if found.deferred:
        heading.append("of deferred work, ")
    heading.append(f"{rate(found.transfers)} transfers/op on ")
    heading.append_text(text(found.object.title, "bold red"))
    if found.folded:
        heading.append(f" {found.folded}")
    yield heading
    if found.sharers:
        yield indent(Text(f"shared by {found.sharers}"), 2)
    if found.count > len(found.lines):
        listed = len(found.lines)
        words = (
            f"{found.count:,} lines, of which {listed:,} {'is' if listed == 1 else 'are'} listed"
        )
        yield indent(Text(words), 2)
    groups = [(one, []) for one in found.objects] if verbose else alike(found)
    for position, (walled, others) in enumerate(groups):
        if position:
            yield ""
        yield from _object(walled, found.workload, top_sites)
        if others:
            moved = sum(other.transfers for other in others)
            shown = others if top_sites is None else others[:ADDRESSES]
            places = ", ".join(other.object.address for other in shown)
            more = ", ..." if len(shown) < len(others) else ""
            yield indent(
                text(
                    f"x {len(others):,} more with the same fields, {rate(moved)} transfers/op: "
                    f"{places}{more}",
                    "dim",
                ),
                2,
            )


def _object(
    walled: Walled, workload: WorkloadResult, top_sites: int | None
) -> Iterator[RenderableType]:
    what = walled.object
    facts: list[str] = [what.kind]
    if what.type is not None and what.type not in what.name:
        facts.append(what.type)
    facts.append(f"{count(what.size, 'byte')} at {what.address}")
    facts.append(count(len(walled.lines), "line"))
    if what.state == "freed":
        facts.append("freed")
    if what.detail:
        facts.append(what.detail)
    yield indent(text(", ".join(facts)), 2)
    shown = walled.lines if top_sites is None else walled.lines[:LINES]
    for position, line in enumerate(shown):
        if position:
            yield ""
        yield from _line(line, workload, top_sites)
    hidden = walled.lines[len(shown) :]
    if hidden:
        moved = sum(line.judged for line in hidden)
        yield more(len(hidden), "line", f"{rate(moved)} transfers/op")


def label(found: Wall, name: Text) -> list[Text]:
    """Return a wall's name in a row, and what is to be known of it at once."""
    if found.folded:
        name.append(f" {found.folded}")
    pieces = [name]
    if found.false_sharing:
        pieces.append(Text("FALSE SHARING", style="bold yellow"))
    if found.sharers:
        pieces.append(Text(f"of {found.sharers}"))
    return pieces


def brief(found: Wall) -> RenderableType:
    """Return a wall in two rows, or a few: who uses what of its worst line, and where."""
    line = found.lines[0]
    name = Text(overflow="fold")
    name.append_text(text(found.object.title, "bold red"))
    rows = [Flow(*label(found, name))]
    used = sorted(line.fields, key=lambda use: (-use.share, use.offset))
    # Lock and unlock, get and put: the first says it.
    code = list(dict.fromkeys(_place(site) for site in busiest(line)))[:1]
    told = [f"{use.path} {_rates(use)}" for use in used[:FIELDS]]
    if sum(map(len, [*told, *code])) > ROW:
        told = told[:1]
    words = [text(use, "magenta") for use in told]
    rows.append(Flow(*words, *(text(place, "cyan") for place in code)))
    return Group(*rows)


def _rates(use: FieldUse) -> str:
    """What is done to a field most."""
    done = ((use.atomics, "atomic"), (use.writes, "write"), (use.reads, "read"))
    most, how = max(done, key=lambda one: one[0])
    return f"{rate(most)} {how}"


def _place(site: Site) -> str:
    """Where in the code: the caller of a lock, list or copy, which says more than that."""
    if site.caller:
        return f"{site.function} from {site.caller}"
    return function(site)


def _line(line: Line, workload: WorkloadResult, top_sites: int | None) -> Iterator[RenderableType]:
    said = Text(overflow="fold")
    said.append(f"line {signed_hex(line.object.line)}", style="bold")
    said.append(f": {rate(line.judged)} transfers/op, ")
    said.append(sharers(line, workload.topology.containers))
    other = line.within if workload.scope == "between" else line.between
    if other > workload.threshold:
        elsewhere = SCOPES["within" if workload.scope == "between" else "between"]
        said.append(f"; {rate(other)} more {elsewhere}")
    yield indent(said, 2)
    if line.false_sharing:
        words = "FALSE SHARING: some CPUs pay for a field that they do not use"
        if line.split_saves:
            words = f"FALSE SHARING: splitting its fields saves {rate(line.split_saves)}"
            words += f" of {rate(line.judged)}"
        yield indent(Text(words, style="bold yellow"), 2)
    if line.in_calls is None:
        yield from _uses(line, top_sites)
    else:
        for kind, uses in (("deferred work", line), ("system calls", line.in_calls)):
            yield indent(Text(f"in {kind}:"), 2)
            yield from _uses(uses, top_sites)


def _uses(line: Line | Uses, top_sites: int | None) -> Iterator[RenderableType]:
    if line.fields:
        yield indent(_fields(line.fields), 4)
    sites = busiest(line)
    shown = sites[:top_sites]
    if shown:
        yield indent(_code(shown), 4)
    if len(sites) > len(shown):
        rest = sum(accesses(site) for site in sites[len(shown) :])
        yield more(len(sites) - len(shown), "place", f"{rate(rest)} accesses/op", columns=4)


def _fields(fields: list[FieldUse]) -> Table:
    table = columns(("read", "write", "atomic", "share", "offset", "size"), "field")
    for use in sorted(fields, key=lambda use: (use.offset, use.path)):
        table.add_row(
            rate(use.reads),
            rate(use.writes),
            rate(use.atomics),
            percent(use.share),
            f"{use.offset:#x}",
            f"{use.size}",
            text(use.path, "magenta"),
        )
    return table


def _code(sites: list[Site]) -> Table:
    table = columns(("read", "write", "atomic"), "function, field, source, context")
    for site in sites:
        pieces = [text(function(site), "cyan")]
        if site.field:
            pieces.append(text(site.field, "magenta"))
        if site.source:
            pieces.append(text(site.source, "dim"))
        if site.caller:
            pieces.append(text(f"from {site.caller}", "cyan"))
            if site.caller_source:
                pieces.append(text(site.caller_source, "dim"))
        pieces.append(text(site.context))
        for position, name in enumerate(site.inlined):
            pieces.append(text(f"{'in' if position else 'inline'} {name}", "dim"))
        table.add_row(rate(site.reads), rate(site.writes), rate(site.atomics), Flow(*pieces))
    return table
