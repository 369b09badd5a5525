# SPDX-License-Identifier: GPL-2.0-or-later
"""A workload as it would be without some of its walls, or without parts of them.

Of a kernel that nobody has measured: what stays is taken to be as it was. So are instructions,
but for what a mend is known to save of them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TypeVar

from partywall.advice.mends import Mend, Saved, at_work, touches
from partywall.record.recording import LINE_SIZE
from partywall.results.counts import Instructions
from partywall.results.document import Model
from partywall.results.held import Held, HeldLock
from partywall.results.lines import Line, Wall
from partywall.results.locks import Lock
from partywall.results.result import WorkloadResult

MOSTLY = 0.5
"""Share of a wall's uses, by functions that a mend changes, from which on it takes away all of
the lines that it is for, unless it says a part."""

M = TypeVar("M", bound=Model)


@dataclass(frozen=True)
class Gone:
    """What is gone of one line. ``share``: of its visits and transfers, 0..1."""

    share: float = 1.0
    functions: Mapping[str, float] | None = None
    """Of what each of these does, which share is; None: ``share``, of all code."""
    part: bool = False
    """No more than that: how much of it a mend takes is not known."""
    held: bool = True
    """A lock there is held for less time; else it is alone taken less often."""
    saved: tuple[Saved, ...] = ()
    """What is saved of instructions, whatever is gone of the line."""


Taken = Mapping[int, Gone]
"""By the number of a line."""


@lru_cache(maxsize=1 << 16)
def number(address: str) -> int:
    """Return the number of the line that an address, in hexadecimal, lies in."""
    return int(address, 16) // LINE_SIZE


def key(one: Wall | Line) -> tuple[str, str]:
    """Return what a wall has in common with the lines of it that are listed."""
    return (one.kind, one.name) if isinstance(one, Wall) else (one.object.kind, one.object.name)


def by_mends(workload: WorkloadResult, fitting: Mapping[int, Iterable[Mend]]) -> dict[int, Gone]:
    """Return what these mends take of a workload.

    ``fitting``: by the number of a line, the mends that are for it.
    """
    found: dict[int, Gone] = {}
    walls = by_wall(workload.every_line)
    both: dict[int, list[Line]] = {}
    for line in workload.every_line:
        both.setdefault(number(line.address), []).append(line)
    for at, lines in both.items():
        mends = [mend for mend in fitting.get(at, ()) if any(touches(mend, one) for one in lines)]
        takes = [mend for mend in mends if mend.saved is None]
        saved = tuple(mend.saved for mend in mends if mend.saved)
        if takes:
            # A line in its own and in deferred work is one line, whose share is of both.
            code = [site for one in lines for site in one.code]
            line = lines[0].model_copy(update={"code": code})
            found[at] = replace(_gone(line, walls[key(line)], takes), saved=saved)
        elif saved:
            found[at] = Gone(0.0, saved=saved)
    return found


def all_of(workload: WorkloadResult, walls: Iterable[tuple[str, str]]) -> dict[int, Gone]:
    """Return what is gone with these walls, by `key`."""
    wanted = set(walls)
    return {number(line.address): Gone() for line in workload.every_line if key(line) in wanted}


def also(taken: Taken, more: Taken) -> dict[int, Gone]:
    """Return what is gone with all of ``more``, with what mends of these lines save besides."""
    saved = {line: gone.saved for line, gone in taken.items()}
    return {
        **taken,
        **{line: replace(gone, saved=saved.get(line, gone.saved)) for line, gone in more.items()},
    }


def by_wall(lines: Iterable[Line]) -> dict[tuple[str, str], list[Line]]:
    """Return lines by the `key` of their wall."""
    found: dict[tuple[str, str], list[Line]] = {}
    for line in lines:
        found.setdefault(key(line), []).append(line)
    return found


def _gone(line: Line, wall: list[Line], mends: list[Mend]) -> Gone:
    functions: dict[str, float] = {}
    of_all = 0.0
    for mend in mends:
        if not mend.part and (not mend.functions or _share(wall, mend.functions) >= MOSTLY):
            return Gone()
        of_all = max(of_all, 0.0 if mend.functions else mend.most)
        for name in mend.functions:
            functions[name] = max(functions.get(name, 0.0), mend.most)
    by_code = [
        (uses, max([of_all, *(functions.get(name, 0.0) for name in at_work([one]))]))
        for one in line.code
        for uses in [one.reads + one.writes + one.atomics]
    ]
    every = sum(uses for uses, _ in by_code)
    share = sum(uses * most for uses, most in by_code) / every if every else of_all
    held = any(mend.held for mend in mends)
    return Gone(share, None if of_all else functions, part=True, held=held)


def _share(lines: Iterable[Line], functions: Iterable[str]) -> float:
    """Return which share of the uses of lines is by some functions, or by whom they call."""
    wanted = set(functions)
    code = [one for line in lines for one in line.code]
    uses = [(one.reads + one.writes + one.atomics, set(at_work([one]))) for one in code]
    every = sum(uses_ for uses_, _ in uses)
    if not every:
        return 1.0
    return sum(uses_ for uses_, code in uses if code & wanted) / every


@dataclass
class _Left:
    """What is left of walls of one kind of work. ``less``: transfers that are gone."""

    walls: list[Wall] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    less: float = 0.0


def without(workload: WorkloadResult, taken: Taken) -> WorkloadResult:
    """Return a workload without what is taken away.

    Of walls with more lines than are listed, as much of the others goes as of those.
    """
    own = _left(workload.found, workload.walls, taken)
    late = workload.deferred
    put_off = _Left() if late is None else _left(late.objects, late.walls, taken)
    left = [*own.lines, *put_off.lines]
    locks = _locks(workload, taken, left)
    under = _Under(workload.locks, locks, left)
    every = "between" if workload.scope == "between" else "within"
    update: dict[str, object] = {
        "objects": under.walls(own),
        "walls": under.lines(own.lines),
        every: getattr(workload, every) - own.less,
        "locks": locks,
        "instructions": _saved(workload.instructions, taken),
        "held": None if workload.held is None else _held(workload.held, taken),
    }
    if late is not None:
        update["deferred"] = late.model_copy(
            update={
                "transfers": late.transfers - put_off.less,
                "objects": under.walls(put_off),
                "walls": under.lines(put_off.lines),
            }
        )
    return workload.model_copy(update=update)


def _saved(instructions: Instructions, taken: Taken) -> Instructions:
    """Return what runs of an operation. Of several that were measured the most is saved."""
    share = max((saved.kernel for gone in taken.values() for saved in gone.saved), default=0.0)
    return _scaled(instructions, 1 - share, "kernel")


def _left(walls: list[Wall], lines: list[Line], taken: Taken) -> _Left:
    found = _Left()
    of_name = by_wall(lines)
    rates = ("transfers", "transfers_at", "locked", "write_visits", "read_visits")
    # Which of several walls of one name a line is of is not known: each keeps its share.
    kept: dict[tuple[str, str], tuple[float, float]] = {}
    lines_in: Counter[tuple[str, str]] = Counter()
    for wall in walls:
        lines_in[key(wall)] += wall.lines
    for name, number_of in lines_in.items():
        listed = of_name.get(name, [])
        shares = [_kept(line.address, taken) for line in listed]
        known = sum(line.transfers for line in listed)
        stays = sum(line.transfers * share for line, share in zip(listed, shares, strict=True))
        share = stays / known if known else 1.0
        stay = sum(map(bool, shares))
        unlisted = max(0, number_of - len(listed))
        left = (stay + unlisted * stay / len(listed)) / max(1, number_of) if listed else 1.0
        kept[name] = share, left
    for wall in walls:
        share, of_lines = kept[key(wall)]
        found.less += wall.transfers * (1 - share)
        if share:
            more = {"lines": math.ceil(round(wall.lines * of_lines, 9))}
            found.walls.append(
                _scaled(wall, share, "transfers", "transfers_at", "locked").model_copy(update=more)
            )
    for line in lines:
        share = _kept(line.address, taken)
        if share and kept.get(key(line), (1.0, 1.0))[0]:
            found.lines.append(_scaled(line, share, *rates, "between", "within"))
    return found


def _scaled(one: M, share: float, *names: str) -> M:
    """Return a model with these figures, those that it has, times a share."""
    if share == 1:
        return one
    had = {name: getattr(one, name) for name in names}
    return one.model_copy(
        update={name: value * share for name, value in had.items() if value is not None}
    )


def _kept(address: str, taken: Taken) -> float:
    gone = taken.get(number(address))
    return 1.0 if gone is None else max(0.0, 1 - gone.share)


def _locks(workload: WorkloadResult, taken: Taken, left: list[Line]) -> list[Lock]:
    """Return the locks that are left, with what is still fetched under them."""
    words = {number(lock.address) for lock in workload.locks}
    before = _fetched(workload.every_line, words)
    stays = _fetched(left, words) / before if before else 1.0
    found = []
    for lock in workload.locks:
        kept = _lock_kept(lock, workload.held, taken)
        if not kept:
            continue
        word = min(lock.word_transfers, lock.transfers)
        fetched = word + (lock.transfers - word) * stays
        under = fetched / lock.transfers if lock.transfers else 1.0
        gone = taken.get(number(lock.address), Gone(0.0))
        rates = ("exclusive", "shared", "slept", "waited", "word_transfers")
        scaled = _scaled(lock, kept, *rates)
        if gone.held:
            scaled = _shorter(_scaled(scaled, kept, "own"), lock.instructions, kept, gone)
            found.append(_scaled(scaled, kept * under, "transfers", "last_transfers"))
            continue
        scaled = _shorter(scaled, lock.instructions, 1.0, gone)
        # What is fetched under it is, but for its own line, each time that it is taken.
        less = (fetched - word * (1 - kept)) / lock.transfers if lock.transfers else 1.0
        found.append(_scaled(scaled, less, "transfers", "last_transfers"))
    return found


def _shorter(lock: Lock, ran: float, kept: float, gone: Gone) -> Lock:
    """Return a lock with what it is held for, of what ``ran`` under it; its own is no more.

    What patches are known to save may be the very thing that another mend takes (``kept``),
    as two ways to one end do. So the larger of the two is taken, and not both.
    """
    under = [one.under for one in gone.saved if fnmatchcase(lock.field, one.lock)]
    ran *= min(kept, 1 - max(under, default=0.0))
    return lock.model_copy(update={"instructions": ran, "own": min(lock.own, ran)})


def _fetched(lines: Iterable[Line], words: set[int]) -> float:
    """Return transfers that are made under locks, of lines that are no lock's own."""
    return sum(line.locked for line in lines if number(line.address) not in words)


def _lock_kept(lock: Lock, held: Held | None, taken: Taken) -> float:
    gone = taken.get(number(lock.address))
    if gone is None:
        return 1.0
    if gone.functions is None or not gone.held:
        return max(0.0, 1 - gone.share)
    known = [one for one in held.locks if one.address == lock.address] if held else []
    holders = [holder for one in known for holder in one.alone]
    every = sum(holder.ns for holder in holders)
    if not every:
        return max(0.0, 1 - gone.share)
    # Who has it for how long says more of it than how often its word is touched.
    gone_ns = sum(holder.ns * gone.functions.get(holder.by, 0.0) for holder in holders)
    return 1 - gone_ns / every


def _held(held: Held, taken: Taken) -> Held:
    return held.model_copy(
        update={"locks": [left for lock in held.locks for left in _held_left(lock, taken)]}
    )


def _held_left(lock: HeldLock, taken: Taken) -> list[HeldLock]:
    gone = taken.get(number(lock.address))
    if gone is None:
        return [lock]
    functions = gone.functions
    if not gone.held:
        return [lock]
    if functions is None:
        return [] if gone.share >= 1 else [lock]
    left = [one for one in lock.holders if functions.get(one.by, 0.0) < 1]
    return [lock.model_copy(update={"holders": left})] if left else []


class _Under:
    """How much of what is fetched is still fetched under a lock.

    What was under a lock that is gone is fetched as before, and waited for at its line alone.
    Which line was under which lock is not known, so all are taken alike but the locks' own.
    """

    def __init__(self, before: Iterable[Lock], after: list[Lock], left: list[Line]) -> None:
        """``left``: lines, with what was fetched of them under locks before."""
        had = {lock.address: lock for lock in before}
        self._words = {number(lock.address) for lock in after}
        still = sum(lock.last_transfers for lock in after)
        own = sum(line.locked for line in left if number(line.address) in self._words)
        others = sum(line.locked for line in left) - own
        gone = len(after) < len(had) or any(
            lock.last_transfers != had[lock.address].last_transfers for lock in after
        )
        self._share = min(1.0, max(0.0, still - own) / others) if gone and others > 0 else 1.0

    def lines(self, lines: list[Line]) -> list[Line]:
        """Return lines with what is fetched of them under the locks that are left."""
        shares = [1.0 if number(one.address) in self._words else self._share for one in lines]
        return [_scaled(one, share, "locked") for one, share in zip(lines, shares, strict=True)]

    def walls(self, left: _Left) -> list[Wall]:
        """Return the walls of these lines likewise."""
        shares = {}
        for name, listed in by_wall(left.lines).items():
            before = sum(line.locked for line in listed)
            after = sum(line.locked for line in self.lines(listed))
            shares[name] = after / before if before else self._share
        return [_scaled(wall, shares.get(key(wall), self._share), "locked") for wall in left.walls]
