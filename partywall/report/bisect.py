# SPDX-License-Identifier: GPL-2.0-or-later
"""What a bisection found, as plain text for a mail, in the form that kernel bots use."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterable, Iterator

from partywall.report.words import count, plain, rate, topology
from partywall.results.bisect import Bisection, Commit, Step, Use
from partywall.results.compare import Change

WIDTH = 72
"""Columns, as mails have them; what people copy from is never broken."""

USES, FILES, FINDINGS = 8, 12, 12
"""Rows shown of each; all are in the document."""


def render(found: Bisection) -> str:
    """Return the whole text, lines of at most `WIDTH` columns but for names and commands."""
    return "\n".join(_lines(found)) + "\n"


def _lines(found: Bisection) -> Iterator[str]:
    yield f"Subject: [partywall] {_subject(found)}"
    yield ""
    yield from _noticed(found)
    yield ""
    yield from _measured(found)
    if found.at is not None:
        yield ""
        yield from _changed(found)
    yield ""
    yield from _looked_at(found)
    yield ""
    yield from _reproduce(found)
    yield ""
    yield "What this does not show:"
    for one in _limits(found):
        yield from _paragraph(one, "- ", "  ")


def _arrow(change: Change) -> str:
    return f"{rate(change.before)} -> {rate(change.after)}"


def _object(found: Bisection) -> str:
    return plain(", ".join(found.names) or found.object)


def _subject(found: Bisection) -> str:
    change = f"{_object(found)}: {_arrow(found.change)} transfers/op of {plain(found.workload)}"
    if not found.differ:
        return f"{_object(found)}: GOOD and BAD do not differ"
    if len(found.found) == 1:
        return f"{change} by {found.found[0].short}"
    return f"{change} by one of {count(len(found.found), 'commit')}"


def _says(change: Change) -> str:
    """What became of the wall, in words."""
    share = change.relative
    if not change.after:
        return "that a wall is gone"
    if share is None:
        return "a new wall"
    return f"a {share:+.0%} change of a wall"


def _noticed(found: Bisection) -> Iterator[str]:
    change = found.change
    what = f"on {_object(found)} ({_arrow(change)} transfers/op)"
    if not found.differ:
        yield from _paragraph(
            f"GOOD and BAD do not differ on {_object(found)} by more than chance: "
            f"{_arrow(found.ends)} transfers/op. Nothing was bisected."
        )
        yield ""
        yield from _commit("GOOD", found.good)
        yield from _commit("BAD", found.bad)
        return
    if len(found.found) == 1:
        yield from _paragraph(f"Partywall noticed {_says(change)} {what} on this commit:")
        yield ""
        yield from _commit("commit", found.found[0])
        if found.parent is not None and found.at is None:
            yield from _paragraph(
                f"Its parent {found.parent.short} could not be measured; the figures are those "
                "of GOOD and BAD."
            )
        return
    yield from _paragraph(
        f"Partywall noticed {_says(change)} {what}. It comes with one of these commits; those "
        "that were skipped can't be told apart:"
    )
    for one in found.found:
        yield ""
        yield from _commit("commit", one)


def _commit(label: str, one: Commit) -> Iterator[str]:
    yield f"{label}: {one.id}"
    yield f'  ("{plain(one.subject)}")'
    yield f"  {plain(one.author)}, {plain(one.date)}"


def _measured(found: Bisection) -> Iterator[str]:
    who = "CPUs of one container" if found.topology.containers == 1 else "containers"
    rows = [
        ("in", plain(found.tree)),
        ("workload", f"{plain(found.workload)}: {plain(found.operation)}"),
        ("topology", f"{topology(found.topology)}, figures for {found.sharers} {who}"),
        ("with", f"Partywall {found.environment.partywall}, QEMU {found.environment.qemu}"),
        ("object", _object(found)),
    ]
    for label, said in rows:
        yield from _paragraph(said, f"{label:<10}", " " * 10)
    yield ""
    yield "transfers/op  commit"
    ends = [("GOOD", found.good, found.ends.before), ("BAD", found.bad, found.ends.after)]
    if found.at is not None and found.parent is not None:
        ends[1:1] = [
            ("parent", found.parent, found.at.before),
            ("first", found.found[0], found.at.after),
        ]
    for label, one, figure in ends:
        yield f"{rate(figure):>12}  {one.short} {label}"


def _changed(found: Bisection) -> Iterator[str]:
    yield "What changed:"
    if found.files:
        yield "  files:"
        yield from _some([f"    {plain(name)}" for name in found.files], FILES)
    for label, uses in (("before", found.before), ("after", found.after)):
        yield f"  who uses the object, {label} (accesses/op, field, code):"
        yield from _some([_use(use) for use in uses] or ["    no wall"], USES)
    others = [one for one in found.findings if one.name not in found.names]
    if others:
        yield "  what else changed by more than chance (per op):"
        rows = [
            f"    {one.how} {_arrow(one.per_op)}  {one.what} {plain(one.name)}" for one in others
        ]
        yield from _some(rows, FINDINGS)


def _use(use: Use) -> str:
    where = f" {use.source}" if use.source else ""
    return plain(f"    {rate(use.accesses):>6}  {use.field or '-'}  {use.function}{where}")


def _some(rows: list[str], most: int) -> Iterator[str]:
    yield from rows[:most]
    if len(rows) > most:
        yield f"    and {len(rows) - most} more"


def _looked_at(found: Bisection) -> Iterator[str]:
    yield f"Looked at, {rate(found.limit)} transfers/op is half-way:"
    for step in found.steps:
        yield from _step(step)


def _step(step: Step) -> Iterator[str]:
    figure = "" if step.transfers is None else rate(step.transfers)
    yield f"  {step.answer:<7} {figure:>7}  {step.commit.short} {plain(step.commit.subject)[:40]}"
    if step.why:
        yield from _paragraph(step.why, " " * 20, " " * 20)


def _reproduce(found: Bisection) -> Iterator[str]:
    tree = shlex.quote(found.tree)
    options = " ".join(found.options)
    yield "How to reproduce:"
    if found.at is not None and found.parent is not None:
        yield f"  git -C {tree} worktree add --detach ../partywall-bisect {found.parent.short}"
        yield f"  cd {tree}/../partywall-bisect"
        yield f"  partywall check --kernel-tree . {options}"
        yield f"  git checkout {found.found[0].short}"
        yield f"  partywall check --kernel-tree . {options}"
        yield "or all of it:"
    pattern = shlex.quote(found.object)
    ends = f"{found.good.short} {found.bad.short}"
    paths = f" -- {shlex.join(found.paths)}" if found.paths else ""
    least = "" if found.least is None else f" --least {found.least:g}"
    yield f"  partywall bisect {ends} --tree {tree} {options} --object {pattern}{least}{paths}"


def _limits(found: Bisection) -> Iterator[str]:
    yield (
        "Transfers of cache lines are counted in an emulated machine, not seconds: what they "
        "cost depends on a machine (partywall predict)."
    )
    if found.differ:
        yield (
            "A bisection finds one commit at which the limit is crossed. Others between GOOD "
            "and BAD may change the wall by less, or there and back."
        )
    if found.paths:
        yield f"Commits that change none of {plain(', '.join(found.paths))} were not looked at."
    if not found.crossed:
        yield (
            "This commit and its parent are on the same side: another one made the change, "
            "which was not looked at or not measured."
        )
    elif found.at is not None:
        made, all_of_it = (
            abs(found.at.after - found.at.before),
            abs(found.ends.after - found.ends.before),
        )
        if abs(made - all_of_it) > 0.1 * all_of_it:
            yield (
                f"This commit makes {rate(made)} of the {rate(all_of_it)} transfers/op between "
                "GOOD and BAD; the rest is others'."
            )
    yield (
        "One workload in one topology, on one configuration (Debian's cloud kernel, its "
        "modules built where a guest needs them)."
    )
    yield "Whether the change is worth its price: a commit may have had good reasons."


def _paragraph(words: str, first: str = "", then: str = "") -> Iterable[str]:
    return textwrap.wrap(
        plain(words),
        WIDTH,
        initial_indent=first,
        subsequent_indent=then,
        break_long_words=False,
        break_on_hyphens=False,
    )
