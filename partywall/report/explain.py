# SPDX-License-Identifier: GPL-2.0-or-later
"""What would help most, for people at a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from partywall.advice.explained import (
    Check,
    Checked,
    Expected,
    Explained,
    Explanation,
    Left,
    Remedy,
)
from partywall.advice.mends import HOW
from partywall.report.blocks import Flow, columns, indent, print_blocks, text
from partywall.report.predict import speed
from partywall.report.words import count, percent, plain, rate, topology

WALLS = 5
"""Walls that stay that are named."""

SERIES = (
    "make deb makes packages of Debian's kernel with all of it (docs/kernel-packages.md), which "
    "nobody signs and which are to be made anew for each update; partywall series export TOPIC "
    "has its patches"
)
"""What there is to do for it, and what it costs."""

OBJECTS = 3
"""Objects of a list that are named."""


def render(found: Explanation, console: Console) -> None:
    """Print what would help most."""
    print_blocks(_blocks(found), console)


def _blocks(found: Explanation) -> Iterator[RenderableType]:
    head = Table.grid(padding=(0, 2, 0, 0))
    head.add_column(style="dim", no_wrap=True)
    head.add_column(overflow="fold")
    head.add_row("kernel", Text(plain(f"{found.kernel.release} ({found.kernel.source})")))
    profile = found.profile
    head.add_row("machine", Text(plain(f"{profile.name}: {profile.description}")))
    head.add_row("figures", "by the model, of walls taken away and all else as it was measured")
    head.add_row("walls", "of one name are one here, and those of deferred work are among them")
    yield head
    for one in found.workloads:
        yield ""
        yield from _workload(one)
    yield from _how(found)
    if found.checked is not None:
        yield ""
        yield from _checked(found.checked)


def _how(found: Explanation) -> Iterator[RenderableType]:
    """What there is to do for the remedies that are told, once each."""
    told = [remedy for one in found.workloads for remedy in one.remedies]
    steps = {one.name: HOW[one.option] for one in told if one.option is not None}
    if any(one.kind in ("series", "topic") for one in told):
        steps = {"series": SERIES, **steps}
    if steps:
        yield ""
        yield text("how", "bold")
    for name, words in steps.items():
        yield indent(text(f"{name}: {words}"), 2)


def _workload(one: Explained) -> Iterator[RenderableType]:
    yield text(f"{one.title}, measured as {topology(one.topology)}: {one.operation}", "bold")
    each = count(one.at, one.of.removesuffix("s"))
    now = f"now, {each}: {speed(one.now.throughput.usual)} op/s of each, "
    now += f"{percent(one.now.relative.usual)} of one alone, {count(one.walls, 'wall')}"
    yield text(now)
    if one.unknown:
        yield text(f"all op/s may be less; not known: {'; '.join(one.unknown)}")
    if not one.walls:
        yield text("no wall: nothing here would help")
        return
    if one.remedies:
        table = columns(("times", "op/s of each"), "what would help")
        for remedy in one.remedies:
            table.add_row(*_gain(remedy.gain, remedy.after), _remedy(remedy))
        if one.together is not None and len(one.remedies) > 1:
            gain = one.together.times(one.now)
            pieces = [text("all of these together", "bold")]
            if any(remedy.at_most for remedy in one.remedies):
                pieces.append(text("(at most)"))
            table.add_row(*_gain(gain, one.together), Flow(*pieces))
        yield table
        yield from _combined(one)
    else:
        yield text(_nothing(one))
    yield from _stays(one)


def _nothing(one: Explained) -> str:
    """Why nothing is told: walls may hide each other, and what is done on the way is not known."""
    if not any(left.known for left in one.left):
        return "no mend is known that would help"
    return (
        "by the model no mend that is known brings anything while the other walls stay; what it "
        "saves in instructions is in that where it was measured, and --check runs it"
    )


def _gain(gain: float, after: Expected) -> tuple[str, str]:
    return f"{gain:.2f}", speed(after.throughput.usual)


def _remedy(remedy: Remedy) -> Flow:
    pieces = [text(remedy.name, "bold")]
    if remedy.at_most:
        pieces.append(text("(at most)"))
    if round(remedy.gain, 2) == 1:
        pieces.append(text(f"({remedy.adds:.2f} times with all mends that are known)"))
    return Flow(*pieces, *(text(said, "green") for said in _said(remedy)))


def _said(remedy: Remedy) -> list[str]:
    """The mends, without what the remedy's name says already."""
    short = [said.removeprefix(f"{remedy.name}: ") for said in remedy.says]
    if len(short) <= OBJECTS:
        return short
    return [*short[:OBJECTS], f"and {len(short) - OBJECTS} more"]


def _combined(one: Explained) -> Iterator[RenderableType]:
    several = [names for names in one.enough if len(names) < len(one.remedies)]
    if len(one.remedies) > 1 and several:
        told = "; or ".join(" with ".join(names) for names in several[:OBJECTS])
        yield text(f"as much as all bring: {told}")


def _stays(one: Explained) -> Iterator[RenderableType]:
    least = one.together or one.now
    clean = f"without any wall {speed(one.clean.throughput.usual)} op/s of each"
    if not one.left:
        yield text(clean)
        return
    behind = "with all of these" if one.together else "now"
    yield text(f"{clean}, {one.clean.times(least):.2f} times what there is {behind}")
    heading = "what stays; no mend is known but those told"
    table = columns(("transf/op", "if gone", "if alone"), heading)
    for left in one.left[:WALLS]:
        table.add_row(rate(left.transfers), f"x {left.adds:.2f}", percent(left.only), _wall(left))
    yield table
    if len(one.left) > WALLS:
        yield text(f"{count(len(one.left) - WALLS, 'more wall')}, in --json", "dim")


def _wall(left: Left) -> Flow:
    pieces = [text(left.object, "bold red"), *([text("(what is left)")] if left.part else [])]
    return Flow(*pieces, *(text(said, "green") for said in left.known))


def _checked(found: Checked) -> Iterator[RenderableType]:
    yield text("predicted beside what came of running it", "bold")
    yield text(
        "transfers/op and instructions were measured; op/s of each at N are the model's of these",
        "dim",
    )
    if not found.checks and not found.failed:
        yield text("nothing to run: no remedy is told that a guest can try")
        return
    table = columns(("transf/op", "predicted", "ran", "times", "ran"), "what was run")
    for one in found.checks:
        table.add_row(
            rate(one.now.transfers),
            rate(one.predicted.transfers),
            rate(one.measured.transfers),
            f"{one.predicted.times(one.now):.2f}",
            f"{one.measured.times(one.now):.2f}",
            Flow(text(f"{one.title} {topology(one.topology)}:"), text(one.name, "bold")),
        )
    yield table
    for one in found.checks:
        yield from _differs(one)
    for failure in found.failed:
        yield text(f"not run: {failure.title}: {failure.why}")


def _differs(one: Check) -> Iterator[RenderableType]:
    said = [f"{one.instructions - 1:+.1%} instructions"]
    if one.beside is not None:
        said.append(f"{one.measured.times(one.beside):.2f} times our build without the series")
    if one.still:
        said.append(f"still a wall: {_some(one.still)}")
    if one.new:
        said.append(f"a wall now: {_some(one.new)}")
    yield Flow(text(f"{one.title} {topology(one.topology)}, {one.name}:"), text("; ".join(said)))


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:OBJECTS])
    return shown if len(names) <= OBJECTS else f"{shown} and {len(names) - OBJECTS} more"
