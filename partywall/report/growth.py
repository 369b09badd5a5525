# SPDX-License-Identifier: GPL-2.0-or-later
"""Memory that stays, at a terminal: what no container is charged for comes first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from partywall.report.blocks import columns, indent, more, print_blocks, text
from partywall.report.memory import BOOKS
from partywall.report.words import count, rate
from partywall.results.growth import Bound, Growth, Left, Operation, Raised, Verdict

SHOWN = 20
"""Kinds of objects of each verdict that are shown unless all are asked for."""

ELSEWHERE = 0.05
"""Share that others pay for than who made it, from which on that is said."""

_TITLES: dict[Verdict, str] = {
    "growth": "Growth: memory that no container is charged for",
    "cap": "Cap: a container pays, and what bounds the operation is a limit of all",
    "unlimited": "Unlimited: a container pays, and it stays until memory is short, or longer",
    "charged": "Charged: memory that a container pays for",
}
_NONE: dict[Verdict, str] = {
    "growth": "none: all that operations leave behind is charged to a container",
    "cap": "none",
    "unlimited": "none",
    "charged": "none",
}


def render(found: Growth, console: Console, *, everything: bool) -> None:
    """Print what operations leave behind, made for 80 columns or more."""
    print_blocks(_blocks(found, everything), console)


def _blocks(found: Growth, everything: bool) -> Iterator[RenderableType]:
    yield text(f"Linux {found.kernel.release} ({found.kernel.source})", "bold")
    yield text(
        f"What each operation of {count(found.containers, 'container')} leaves behind in "
        "memory. So many bytes of one kind an operation, or fewer, may not be seen: "
        f"{_limits(found)}.",
        "dim",
    )
    left = [one for one in found.operations if not one.kept]
    kept = [one for one in found.operations if one.kept]
    stays = any(one.unlimited or one.uncharged for one in kept)
    tried = any(one.bound is not None for one in found.operations)
    for verdict, title in _TITLES.items() if left or stays else ():
        if verdict == "cap" and not tried:
            continue
        yield ""
        yield text(title, "bold")
        yield from _rows(found.operations, verdict, everything)
    if kept:
        yield ""
        yield text("What is kept takes, while it is there", "bold")
        yield _kept(kept)
    yield ""
    yield text("Counters of the machine that operations raise, until their processes end", "bold")
    yield from _raised(found, everything)
    yield from _unsettled(found, everything)
    if left:
        nothing = [one.title for one in left if not one.left and not one.unsettled]
        yield ""
        yield text(f"Nothing is left behind by {len(nothing)} of {count(len(left), 'operation')}")
    once = [one.title for one in left if one.left and not one.confirmed]
    if once:
        yield ""
        yield text("Not tried with more operations, so that it may have an end")
        yield indent(text(", ".join(once)), 2)
    if found.failed:
        yield ""
        yield text(f"Not measured: {count(len(found.failed), 'operation')}", "bold")
        for one in found.failed:
            yield indent(text(f"{one.title}: {one.why}"), 2)


def _unsettled(found: Growth, everything: bool) -> Iterator[RenderableType]:
    """Rows of what rises unevenly, what nobody pays for first."""
    rises = [
        (one, operation.title) for operation in found.operations for one in operation.unsettled
    ]
    if not rises:
        return
    yield ""
    yield text("Not settled: it rises, and not as what grows with the operations does", "bold")
    rises.sort(key=lambda row: (row[0].charged, -row[0].bytes, row[1], row[0].what))
    table = columns(("at most", "charged"), "what, who may leave it, who made it")
    for one, title in rises if everything else rises[:SHOWN]:
        told = [text(title)]
        if one.made_by:
            told.append(text(" < ".join(one.made_by), "dim"))
        name = Group(text(one.what, "magenta"), *(indent(line, 2) for line in told))
        table.add_row(rate(one.bytes), f"{float(one.charged):.0%}", name)
    yield table
    if rises[SHOWN:] and not everything:
        yield more(len(rises) - SHOWN, "kind")


def _raised(found: Growth, everything: bool) -> Iterator[RenderableType]:
    """Rows of counters, those that most operations raise first."""
    who: dict[str, list[tuple[float, str]]] = defaultdict(list)
    limits: dict[str, str] = {}
    for one in found.operations:
        for counter in one.raised:
            who[counter.name].append((counter.each, one.title))
            if counter.limit is not None:
                limits[counter.name] = _limit(counter)
    if not who:
        yield indent(text("none"), 2)
        return
    rows = sorted(who.items(), key=lambda row: (-len(row[1]), row[0]))
    shown = rows if everything else rows[:SHOWN]
    table = columns(("each", "operations"), "counter, and who raises it")
    for name, raisers in shown:
        raisers.sort(key=lambda one: (-one[0], one[1]))
        most = raisers[0][0]
        titles = [title for _, title in raisers]
        named = titles if everything else titles[:3]
        rest = f" and {len(titles) - len(named)} more" if titles[len(named) :] else ""
        words = [text(", ".join(named) + rest)]
        words += [text(limits[name])] if name in limits else []
        told = Group(text(name, "magenta"), *(indent(one, 2) for one in words))
        table.add_row(rate(most), f"{len(titles)}", told)
    yield table
    if rows[len(shown) :]:
        yield more(len(rows) - len(shown), "counter")


def _limit(counter: Raised) -> str:
    """Which limit a counter may be the count of, in words."""
    others = count(counter.alike, "other") if counter.alike else "no other that was seen"
    share = f"{min(counter.filled or 0, 1):.0%}"
    words = f"may be what {counter.limit} counts, and {others} may"
    return f"{words}: one container can have {share} of it"


def _together(every: list[Left]) -> Left:
    """All of one kind that an operation leaves, made by whoever made most of it."""
    objects, size = sum(one.objects for one in every), sum(one.bytes for one in every)
    paid = sum(one.bytes * one.charged for one in every)
    known = [one for one in every if one.elsewhere is not None]
    whole = sum(one.bytes * one.charged for one in known)
    others = sum(one.bytes * one.charged * (one.elsewhere or 0.0) for one in known)
    most = max(every, key=lambda one: one.bytes)
    return most.model_copy(
        update={
            "objects": objects,
            "bytes": size,
            "charged": paid / size,
            "elsewhere": others / whole if whole else None,
        }
    )


def _limits(found: Growth) -> str:
    """Below how many bytes nothing is said, in words."""
    limits = sorted({one.least_bytes for one in found.operations})
    if not limits:
        return "nothing was measured"
    return " to ".join(dict.fromkeys([rate(limits[0]), rate(limits[-1])]))


def _kept(operations: list[Operation]) -> Table:
    """A row for each thing that is kept, what is charged to nobody first."""
    rows = []
    for one in operations:
        size = sum(left.bytes for left in one.left)
        nobody = sum(left.uncharged for left in one.left)
        most = sorted(one.left, key=lambda left: -left.uncharged)[:3]
        rows.append((nobody, size - nobody, one.title, most, one.bound))
    table = columns(
        ("nobody's", "charged"), "bytes of what, and most of those that nobody pays for"
    )
    for nobody, charged, title, most, bound in sorted(rows, key=lambda row: (-row[0], row[2])):
        told = ", ".join(f"{left.what} {rate(left.uncharged)}" for left in most if left.uncharged)
        words = [*([text(told)] if told else []), *_bounded(bound)]
        name = Group(text(title, "magenta"), *(indent(one, 2) for one in words))
        table.add_row(rate(nobody), rate(charged), name)
    return table


def _rows(
    operations: list[Operation], verdict: Verdict, everything: bool
) -> Iterator[RenderableType]:
    """Rows of objects: of one that several operations leave, the operation with the most."""
    kinds: dict[tuple[str, tuple[str, ...], tuple[str | bool, ...]], list[tuple[str, Left]]] = (
        defaultdict(list)
    )
    for one in operations:
        alike: dict[tuple[str, tuple[str, ...], tuple[str | bool, ...]], list[Left]] = defaultdict(
            list
        )
        # What is kept, and goes with who keeps it, is told by itself.
        for left in one.left if not one.kept else one.staying:
            if one.verdict_of(left) == verdict:
                fate = (*left.ways, left.unreclaimed is None)
                alike[left.what, left.made_by[:2], fate].append(left)
        for kind, every in alike.items():
            kinds[kind].append((one.title, _together(every)))
    bounds = {one.title: one.bound for one in operations}
    rows = [sorted(rows, key=lambda row: (-row[1].bytes, row[0])) for rows in kinds.values()]
    rows.sort(key=lambda row: (-row[0][1].bytes, row[0][0]))
    if not rows:
        yield indent(text(_NONE[verdict]), 2)
        return
    shown = rows if everything else rows[:SHOWN]
    table = columns(
        ("bytes/op", "each", "charged"), "what, who leaves it, what takes it back, who made it"
    )
    for (title, left), *others in shown:
        who = title
        titles = {other for other, _ in others} - {title}
        if titles:
            who += f" and {count(len(titles), 'more operation')}"
        told = [text(left.what, "magenta"), text(who), text(_taken_back(left))]
        if (left.elsewhere or 0) > ELSEWHERE:
            share = f"{left.elsewhere:.0%}"
            told.append(text(f"another container than who made it pays for {share} of it"))
        told += _bounded(bounds[title])
        if left.made_by:
            told.append(text(" < ".join(left.made_by), "dim"))
        name = Group(told[0], *(indent(one, 2) for one in told[1:]))
        paid = BOOKS if left.bookkeeping else f"{left.charged:.0%}"
        table.add_row(rate(left.bytes), rate(left.objects), paid, name)
    yield table
    if rows[len(shown) :]:
        yield more(len(rows) - len(shown), "kind")


def _bounded(bound: Bound | None) -> list[Text]:
    """What bounds how much of it there can be, in words; none if it was not tried."""
    if bound is None:
        return []
    words = {
        "own": "bounded for each container or process by itself",
        "memory": "bounded by its container's memory limit alone",
        "not reached": "bounded by its container's memory limit alone, by reclaim"
        if bound.reclaimed
        else "bounded by nothing that one container came to",
    }
    if bound.verdict == "cap":
        words["cap"] = "bounded for all, by no limit that was tried"
        if bound.killed:
            words["cap"] = "bounded by the machine's memory, within its container's limit"
        if bound.knob:
            words["cap"] = f"bounded for all by {bound.knob} = {bound.value}"
    then = f", then {bound.error}" if bound.error else ""
    if bound.error == "ETIMEDOUT":
        then = ", then it waits without end"
    return [text(f"{words.get(bound.verdict, bound.verdict)}: {bound.taken:,} of them{then}")]


def _taken_back(left: Left) -> str:
    """In words, what takes it back."""
    ways = left.ways
    if not ways:
        return "not known what takes it back: the guest ended before"
    tried = "reclaimed" in left.after
    if ways == ["nothing"]:
        share = (left.unreclaimed or left.after)["ended"]
        return f"taken back by nothing that was tried: {share:.0%} outlives its container"
    words = {
        "exit": "the end of its processes and of their files",
        "reclaim": "reclaim",
        "container's end": "its container's end",
        "umount": "the unmounting of its container's root",
        "both": "reclaim and its container's end together, by neither alone",
    }
    told = " or by ".join(words[one] for one in ways)
    if ways == ["both"] and not tried:
        told = "reclaim once its container has ended; before that it was not tried"
    elif ways == ["reclaim"]:
        # Without a look in which nothing was reclaimed nobody knows of the others.
        less = "not by the end of its processes and files"
        told += f", and {less}" if left.unreclaimed is None else " alone: it outlives its container"
    elif tried and not {"reclaim", "exit", "both"} & set(ways):
        told += ", and not by reclaim"
    return f"taken back by {told}"
