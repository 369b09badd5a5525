# SPDX-License-Identifier: GPL-2.0-or-later
"""Locks that containers share, for people at a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from partywall.report.blocks import indent, more
from partywall.report.words import percent, plain, rate
from partywall.results.locks import Lock
from partywall.results.result import WorkloadResult

SHOWN = 8
"""Locks that are shown unless all are asked for."""

LEAST = 0.001
"""Share of an operation below which a lock bounds nothing that matters."""


def bound(workload: WorkloadResult, lock: Lock) -> float:
    """Times the throughput of one container that all together reach at most (Amdahl).

    While the lock is held nobody else is in there, so of an operation's time the
    share under it can't be shared. Infinite if nothing runs under it.
    """
    ran = workload.instructions.ran
    return ran / lock.instructions if lock.instructions else float("inf")


def worst(workload: WorkloadResult, at: int) -> str | None:
    """Return what the lock that bounds a workload most bounds it to, in words.

    Nothing if all of ``at`` containers could do as much as each would alone.
    """
    ran = workload.instructions.ran
    if not ran or not workload.locks or bound(workload, workload.locks[0]) >= at:
        return None
    lock = workload.locks[0]
    return (
        f"{lock.name}, {percent(lock.instructions / ran)} of an operation, bounds all to "
        f"{rate(bound(workload, lock))} times what one does"
    )


def blocks(workload: WorkloadResult, verbose: bool) -> Iterator[RenderableType]:
    """The locks, those that most instructions run under first, and waits for RCU."""
    ran = workload.instructions.ran
    locks = [lock for lock in workload.locks if lock.instructions >= LEAST * ran]
    if locks and ran:
        yield ""
        most = bound(workload, locks[0])
        yield Text(
            plain(
                f"locks: {percent(locks[0].instructions / ran)} of an operation runs under "
                f"{locks[0].name}, so all together do at most {rate(most)} times what one does"
            ),
            style="bold",
        )
        shown = locks if verbose else locks[:SHOWN]
        yield indent(_table(shown, ran), 2)
        if len(locks) > len(shown):
            yield more(len(locks) - len(shown), "lock")
    # Where their time is known it is told with it (held.py).
    if workload.waits and workload.held is None:
        waits = ", ".join(f"{call.function} {rate(call.per_op)}" for call in workload.waits)
        yield ""
        yield Text(plain(f"waits for RCU per op, as long as any reader takes: {waits}"))


def _table(locks: list[Lock], ran: float) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for heading in ("of op", "instr/op", "moved", "held", "shared"):
        table.add_column(heading, justify="right", no_wrap=True, min_width=5)
    table.add_column("lock", overflow="fold")
    for lock in locks:
        words = lock.name
        if lock.slept:
            words += f", holder sleeps {rate(lock.slept)}"
        if lock.waited:
            words += f", waits for RCU {rate(lock.waited)}"
        table.add_row(
            percent(lock.instructions / ran),
            rate(lock.instructions),
            rate(lock.transfers),
            rate(lock.exclusive),
            rate(lock.shared),
            Text(plain(words)),
        )
    return table
