# SPDX-License-Identifier: GPL-2.0-or-later
"""Locks that are held asleep and functions that wait, for people at a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from partywall.report.blocks import Flow, columns, indent, more, text
from partywall.report.words import plain, rate
from partywall.results.compare import FOR_ALL
from partywall.results.held import ASLEEP_NS, LONG_NS, HeldLock, Holder, Spell
from partywall.results.result import WorkloadResult

SHOWN = 6
"""Locks and waits that are shown unless all are asked for."""

SHARED = "*"
"""Behind a time for which who has the lock shares it."""

APART = 1.25
"""From so many times on, a time and what it is at most by the clock are both told."""


def ms(ns: float) -> str:
    """Nanoseconds as milliseconds.

    >>> [ms(ns) for ns in (0, 140_000, 13_200_000)]
    ['0 ms', '0.14 ms', '13.2 ms']
    """
    return f"{rate(ns / 1e6)} ms"


def span(ns: float, at_most: float) -> str:
    """Nanoseconds as a number of milliseconds, and what these are at most if that is more.

    >>> [span(4e6, at_most) for at_most in (4.1e6, 20e6)]
    ['4.00', '4.00 to 20.0']
    """
    said = rate(ns / 1e6)
    apart = at_most >= max(APART * ns, ASLEEP_NS)
    return f"{said} to {rate(at_most / 1e6)}" if apart else said


def asleep(workload: WorkloadResult) -> list[HeldLock]:
    """Return the locks that somebody sleeps with, or for: those held asleep longest first."""
    return [] if workload.held is None else workload.held.told()


def over(workload: WorkloadResult, limit: float) -> list[HeldLock]:
    """Return the locks that keep others out for longer than so many milliseconds, once.

    Because a holder sleeps, alone or with others that share it, or because somebody slept for
    it, whoever had it.
    """
    locks = [] if workload.held is None else workload.held.locks
    return [lock for lock in locks if lock.once_ns > limit * 1e6]


def brief(workload: WorkloadResult) -> str:
    """Return for how long a lock is kept from others at most, once, because somebody sleeps.

    With `SHARED` if who has it shares it; "?" if that is not known, "-" if there is none.
    """
    if workload.held is None:
        return "?"
    lock = workload.held.longest
    return "-" if lock is None else once(lock.once_ns, shared=lock.shared)


def once(ns: float, *, shared: bool) -> str:
    """Nanoseconds that a lock is kept from others, and whether who has it shares it.

    >>> once(30.2e6, shared=True)
    '30.2 ms*'
    """
    return f"{ms(ns)}{SHARED if shared else ''}"


def verdict(workload: WorkloadResult) -> str | None:
    """Return who sleeps with a lock, or for it, in words: who has one alone before all others.

    If nobody does, what the whole machine has to get on for is waited for under no lock of all.
    """
    locks = asleep(workload)
    if not locks:
        return _unlocked(workload)
    lock = next((one for one in locks if one.alone_asleep), locks[0])
    if lock.alone_asleep:
        return (
            f"one asleep for all: {lock.name} is held for {ms(lock.longest_ns)} at most, "
            f"asleep {ms(lock.asleep_ns)} an operation, in {_what(lock.sleeps)}"
        )
    if not lock.shared:
        return f"slept for: {lock.name}, {ms(lock.once_ns)} at most until it is had"
    sleeps = [spell for one in lock.sharers for spell in one.sleeps]
    slept = sum(one.asleep_ns for one in lock.sharers)
    return (
        f"shared asleep: {lock.name} is held for {ms(lock.once_ns)} at most by who shares it, "
        f"asleep {ms(slept)} an operation, in {_what(sleeps)}; "
        "who wants it alone waits"
    )


def _unlocked(workload: WorkloadResult) -> str | None:
    waits = [] if workload.held is None else workload.held.waits
    told = [one for one in waits if one.kind in FOR_ALL and one.ns >= ASLEEP_NS]
    if not told:
        return None
    most = max(told, key=lambda one: one.ns)
    # Who waits for a grace period alone delays nobody else; a worker has one thing after another.
    alone = most.kind == "rcu" and not most.charged
    return (
        f"no lock that is shared is held asleep for long; {most.function} takes "
        f"{ms(most.longest_ns)} at most, {ms(most.ns)} an operation"
        f"{', charged' if most.charged else ''}, "
        f"{'which keeps nobody else out' if alone else 'which the whole machine has to get on for'}"
    )


def blocks(workload: WorkloadResult, verbose: bool) -> Iterator[RenderableType]:
    """Locks that are held asleep, by whom and what for; then what waits, under which locks."""
    if workload.held is None:
        return
    locks = workload.held.slept_with() if verbose else workload.held.told()
    said = verdict(workload)
    if said is not None:
        yield ""
        yield text(said, "bold")
    if locks:
        shown = locks if verbose else locks[:SHOWN]
        table = columns(
            ("at most", "held/op", "asleep/op", "waited/op"), "ms: lock, who has it, what for"
        )
        for lock in shown:
            table.add_row(
                _longest(lock),
                rate(lock.told_ns / 1e6),
                rate(lock.told_asleep_ns / 1e6),
                rate(lock.waited_ns / 1e6),
                Flow(text(lock.name, "bold"), *_holders(lock, verbose)),
            )
        yield indent(table, 2)
        if len(locks) > len(shown):
            yield more(len(locks) - len(shown), "lock")
    yield from _waits(workload, verbose)


def _longest(lock: HeldLock) -> str:
    """For how long those who are told of have it at most."""
    once = max((one.longest_asleep_ns for one in lock.told), default=0.0)
    by_clock = max((one.longest_by_clock_ns for one in lock.told), default=0.0)
    return span(once, by_clock) if once else rate(lock.longest_ns / 1e6)


def _holders(lock: HeldLock, verbose: bool) -> Iterator[Text]:
    """Who has a lock asleep, longest first: all of them, or the first two."""
    found = [one for one in lock.told if one.asleep_ns > 0]
    for one in found if verbose else found[:2]:
        yield text(_holder(one), "cyan")
    tried = max((one.longest_tried_ns for one in lock.holders), default=0.0)
    slept = max((one.longest_asleep_ns for one in lock.holders), default=0.0)
    if tried >= LONG_NS and tried > slept:
        yield text(f"slept for until it was had: {ms(tried)} at most")


def _holder(one: Holder) -> str:
    shared = ", shared" if one.shared else ""
    charged = ", charged" if one.charged else ""
    return f"{one.by}{shared}{charged}: {_what(one.sleeps)}"


def _what(sleeps: Sequence[Spell]) -> str:
    """What is slept for, the longest first, down to a tenth of all."""
    total = sum(one.ns for one in sleeps)
    names: dict[str, float] = {}
    for one in sleeps:
        words = f"a wait for {one.words}" if one.kind == "lock" else one.words
        names[words] = names.get(words, 0.0) + one.ns
    told = [name for name, ns in names.items() if ns >= total / 10]
    return " and ".join(told) or "nothing that is known"


def _waits(workload: WorkloadResult, verbose: bool) -> Iterator[RenderableType]:
    assert workload.held is not None
    waits = [one for one in workload.held.waits if verbose or one.ns >= ASLEEP_NS]
    if not waits:
        return
    yield ""
    yield Text(plain("what an operation waits for, its kernel threads' work included:"))
    table = columns(("times/op", "ms/op", "at most"), "function, who calls it, under which locks")
    shown = waits if verbose else waits[:SHOWN]
    for wait in shown:
        charged = ", charged" if wait.charged else ""
        pieces = [text(wait.function, "bold"), text(f"from {wait.by}{charged}", "cyan")]
        if wait.under:
            pieces.append(text(f"under {' and '.join(wait.under)}"))
        longest = span(wait.longest_ns, wait.longest_at_most_ns or 0.0)
        table.add_row(rate(wait.times), rate(wait.ns / 1e6), longest, Flow(*pieces))
    yield indent(table, 2)
    if len(waits) > len(shown):
        yield more(len(waits) - len(shown), "wait")
