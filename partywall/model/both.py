# SPDX-License-Identifier: GPL-2.0-or-later
"""What an operation moves in both kinds of its work, its system calls' own and the deferred.

Who waits for a line waits for whoever has it, be that in a system call or in a softirq.
"""

from __future__ import annotations

from collections.abc import Iterator

from partywall.results.lines import Line, Wall
from partywall.results.result import WorkloadResult


def lines(result: WorkloadResult) -> list[Line]:
    """Return the lines of walls that a result lists, most transfers first.

    One that is listed of both kinds of work is one, with the transfers, visits and visitors of
    both: those of deferred work are what it has more.
    """
    put_off = {} if result.deferred is None else {one.address: one for one in result.deferred.walls}
    own = [_sum(line, put_off.pop(line.address, None)) for line in result.walls]
    return sorted([*own, *put_off.values()], key=lambda line: -line.transfers)


_VISITORS = ("writers", "readers")


def _sum(own: Line, late: Line | None) -> Line:
    if late is None:
        return own
    rates = ("transfers", "locked", "write_visits", "read_visits")
    added: dict[str, object] = {name: getattr(own, name) + getattr(late, name) for name in rates}
    visitors = {name: sorted({*getattr(own, name), *getattr(late, name)}) for name in _VISITORS}
    # Whom the one kind of work has not come to the other may have.
    sharing = late.sharing if own.sharing == "some" else own.sharing
    who: dict[str, object] = {**visitors, "sharing": sharing}
    return own.model_copy(update={**added, **who, "code": [*own.code, *late.code]})


def walls(result: WorkloadResult) -> Iterator[tuple[list[Wall], list[Line]]]:
    """Yield the walls of each kind of work, and which of their lines are listed."""
    yield result.found, result.walls
    if result.deferred is not None:
        yield result.deferred.objects, result.deferred.walls


def elsewhere(result: WorkloadResult) -> float:
    """Return the transfers per operation of lines that are no walls, of both kinds of work."""
    every = result.between if result.scope == "between" else result.within
    rest = max(0.0, every - result.wall_transfers)
    late = result.deferred
    if late is not None:
        rest += max(0.0, late.transfers - sum(wall.transfers for wall in late.objects))
    return rest
