# SPDX-License-Identifier: GPL-2.0-or-later
"""For how long locks that containers share are held, by whom, and what for holders sleep."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from partywall.record.functions import plain_name, waits_for_lock
from partywall.record.hooks import Sleep
from partywall.record.recording import (
    IN_CHARGED_WORK,
    LINE_SHIFT,
    NOWHERE,
    SEVERAL_CONTAINERS,
    SEVERAL_CPUS,
    SHARED,
    UNSEEN,
    WANTED,
    Kind,
    Recording,
    kind_in,
    kinds_of,
    numbers_of,
)
from partywall.results.held import (
    Held,
    HeldLock,
    Holder,
    SleepKind,
    Span,
    Spell,
    Wait,
    lock_name,
)

Array = npt.NDArray[Any]

MOST = 32
"""Locks that are kept: those held asleep longest, then those held longest."""

LONGEST = 8
"""Besides, so many that somebody slept with, or for, longest once."""

DRAWN, SPANS = 8, 32
"""Of the first so many locks, the longest so many times that they were had are kept by themselves,
and as many that they were slept for."""

# Bits of a row's kind that tell holders apart.
_KIND = SHARED | IN_CHARGED_WORK

_UNTOLD = frozenset(("lock", "event", "timer", "preempted"))
"""Kinds of waits that are none by themselves: what is waited for says nothing of the kernel."""

_PREEMPTED = Sleep("preempted", "preempted")


@dataclass
class _Sum:
    times: int = 0
    slept: int = 0
    ns: int = 0
    asleep: int = 0
    own_asleep: int = 0
    at_most: int = 0
    longest: int = 0
    longest_slept: int = 0
    longest_at_most: int = 0
    unlocked: int = 0
    tried: int = 0
    tried_ns: int = 0
    longest_tried: int = 0
    sleeps: dict[tuple[str, str, str], list[int]] = field(
        default_factory=lambda: defaultdict(lambda: [0, 0])
    )


def taken_by_several(holds: Array, cpus: int, *, containers: bool) -> set[int]:
    """Return the locks that several containers take, or one and a thread in charged work.

    ``holds`` as `Recording` has it; ``cpus``: of each container. If not ``containers``,
    those that several CPUs take.
    """
    several = SEVERAL_CONTAINERS if containers else SEVERAL_CPUS
    takers: dict[int, set[int]] = defaultdict(set)
    found: set[int] = set()
    for row in holds:
        address, kind = int(row["address"]), int(row["kind"])
        if kind & several:
            found.add(address)
        thread = kind & IN_CHARGED_WORK
        takers[address].add(-1 if thread else int(row["cpu"]) // (cpus if containers else 1))
    return found | {address for address, who in takers.items() if len(who) > 1}


def used_by_several(recorded: Recording, whose: Array) -> set[int]:
    """Return the locks that others use than take them: those who wait, and who is not seen.

    ``whose``: the container or CPU of each party, below 0 for a kernel thread in charged work.
    A lock's word is used by who spins for it. Of a lock whose readers write no word of it, who
    uses its line.
    """
    holds = recorded.holds
    every = np.unique(holds["address"])
    unseen = np.unique(holds["address"][(holds["kind"] & UNSEEN) != 0])
    users: dict[int, set[int]] = defaultdict(set)
    for party, who in zip(recorded.parties, whose, strict=True):
        accesses = party.accesses["address"][_own(party.accesses["context"])]
        words = _found(every, accesses).tolist()
        keys = party.lines["key"]
        lines = numbers_of(keys[kinds_of(keys) != int(Kind.BACKGROUND)])
        words += unseen[np.isin(unseen >> LINE_SHIFT, lines)].tolist()
        for word in words:
            users[word].add(max(-1, int(who)))
    return {word for word, found in users.items() if len(found) > 1}


def _found(few: Array, many: Array) -> Array:
    """Return which of ``few`` are among ``many``; these need not be sorted, as those are."""
    if not len(few):
        return few
    at = np.minimum(np.searchsorted(few, many), len(few) - 1)
    return np.asarray(few[np.unique(at[few[at] == many])])


def _own(contexts: Array) -> Array:
    return np.asarray(kind_in(contexts) != Kind.BACKGROUND)


class HeldLocks:
    """Names and adds up what the recorder has of times.

    ``name``: object and field at an address; ``code``: the function that an address is in;
    ``flag``: whether code there sets a bit that is no lock.
    """

    def __init__(
        self,
        recorded: Recording,
        sleeps: tuple[Sleep, ...],
        *,
        operations: int,
        name: Callable[[int], tuple[str, str]],
        code: Callable[[int], str],
        flag: Callable[[int], bool] = lambda _: False,
    ) -> None:
        self._recorded = recorded
        self._sleeps = sleeps
        self._operations = operations
        self._name = name
        self._code = code
        self._flag = flag

    def _function(self, number: int) -> Sleep:
        if number == NOWHERE or number >= len(self._sleeps):
            return _PREEMPTED
        return self._sleeps[number]

    def _at(self, sleep: Sleep, at: int) -> str:
        """The lock that is waited for, if it is known; else who called the function that waits."""
        if not at:
            return ""
        if waits_for_lock(sleep.function):
            return lock_name(*self._name(at))
        return self._code(at)

    def conclude(self, shown: Callable[[int], bool]) -> Held | None:
        """Return what is known of times, None if the guest's clock was not read.

        ``shown``: whether containers share the lock at an address.
        """
        recorded = self._recorded
        if not recorded.instruction_ns:
            return None
        sums = self._sums(shown)
        locks = [self._lock(address, holders) for address, holders in sums.items()]
        # Of a lock that others share awake it may be known alone how long they waited for it.
        telling = [lock.ns or any(one.slept or one.tried for one in lock.holders) for lock in locks]
        locks = [lock for lock, tells in zip(locks, telling, strict=True) if tells]
        locks.sort(key=_order)
        kept = _kept(locks)
        first = Held(locks=kept, waits=[]).first()
        spans = self._spans([lock.address for lock in first[:DRAWN]])
        kept = [lock.model_copy(update={"spans": spans.get(lock.address, [])}) for lock in kept]
        return Held(locks=kept, waits=self._waits(locks))

    def _spans(self, addresses: list[str]) -> dict[str, list[Span]]:
        """The longest times of some locks, in their order, by the address."""
        rows = self._recorded.spans
        wanted = np.array([int(address, 16) for address in addresses], np.uint64)
        rows = rows[np.isin(rows["address"], wanted)]
        rows = rows[[not self._flag(int(taker)) for taker in rows["taker"]]]
        if not len(rows):
            return {}
        start = int(rows["from_ns"].min())
        found: dict[str, list[Span]] = {}
        for address in addresses:
            own = rows[rows["address"] == np.uint64(int(address, 16))]
            wanting = (own["kind"] & WANTED) != 0
            chosen = np.concatenate([_longest_of(own, wanting), _longest_of(own, ~wanting)])
            found[address] = [self._span(row, start) for row in own[np.sort(chosen)]]
        return found

    def _span(self, row: Any, start: int) -> Span:
        kind = int(row["kind"])
        sleep = self._function(int(row["function"]))
        at = self._at(sleep, int(row["at"])) if sleep.kind == "lock" else ""
        return Span(
            by=self._code(int(row["taker"])),
            cpu=None if kind & IN_CHARGED_WORK else int(row["cpu"]),
            wanted=bool(kind & WANTED),
            shared=bool(kind & SHARED),
            from_ns=float(int(row["from_ns"]) - start),
            to_ns=float(int(row["to_ns"]) - start),
            sleep="" if kind & WANTED else at or plain_name(sleep.function),
        )

    def _sums(self, shown: Callable[[int], bool]) -> dict[int, dict[tuple[str, int], _Sum]]:
        recorded = self._recorded
        sums: dict[int, dict[tuple[str, int], _Sum]] = defaultdict(lambda: defaultdict(_Sum))
        wanted = {address for address in _candidates(recorded.holds) if shown(address)}
        for row in recorded.holds:
            if int(row["address"]) not in wanted or self._flag(int(row["taker"])):
                continue
            who = self._code(int(row["taker"])), int(row["kind"]) & _KIND
            found = sums[int(row["address"])][who]
            found.times += int(row["times"])
            found.slept += int(row["slept"])
            found.asleep += int(row["asleep_ns"])
            found.ns += int(row["instructions"]) * recorded.instruction_ns + int(row["asleep_ns"])
            found.own_asleep += int(row["own_asleep_ns"])
            found.at_most += int(row["asleep_at_most_ns"])
            found.longest = max(found.longest, int(row["longest_ns"]))
            found.longest_slept = max(found.longest_slept, int(row["longest_slept_ns"]))
            found.longest_at_most = max(found.longest_at_most, int(row["longest_at_most_ns"]))
            found.tried += int(row["tried"])
            found.tried_ns += int(row["tried_ns"])
            found.longest_tried = max(found.longest_tried, int(row["longest_tried_ns"]))
        for row in recorded.sleeps:
            if int(row["address"]) not in wanted or not row["ns"]:
                continue
            if self._flag(int(row["taker"])):
                continue
            who = self._code(int(row["taker"])), int(row["kind"])
            sleep = self._function(int(row["function"]))
            key = sleep.kind, plain_name(sleep.function), self._at(sleep, int(row["at"]))
            spell = sums[int(row["address"])][who].sleeps[key]
            spell[0] += int(row["times"])
            spell[1] += int(row["ns"])
        return sums

    def _lock(self, address: int, holders: dict[tuple[str, int], _Sum]) -> HeldLock:
        each = self._operations
        what, path = self._name(address)
        found = [
            Holder(
                by=by,
                shared=bool(kind & SHARED),
                charged=bool(kind & IN_CHARGED_WORK),
                times=one.times / each,
                slept=one.slept / each,
                ns=one.ns / each,
                asleep_ns=one.asleep / each,
                own_asleep_ns=one.own_asleep / each,
                asleep_at_most_ns=one.at_most / each,
                longest_ns=float(one.longest),
                longest_slept_ns=float(one.longest_slept),
                longest_at_most_ns=float(one.longest_at_most),
                sleeps=self._spells(one),
                tried=one.tried / each,
                tried_ns=one.tried_ns / each,
                longest_tried_ns=float(one.longest_tried),
            )
            for (by, kind), one in holders.items()
        ]
        found.sort(key=lambda one: (-one.asleep_ns, -one.ns, one.by))
        return HeldLock(address=f"{address:#x}", object=what, field=path, holders=found)

    def _spells(self, one: _Sum) -> list[Spell]:
        spells = [
            Spell(
                kind=_kind(kind),
                function=function,
                at=at,
                times=times / self._operations,
                ns=ns / self._operations,
            )
            for (kind, function, at), (times, ns) in one.sleeps.items()
        ]
        return sorted(spells, key=lambda spell: (-spell.ns, spell.function, spell.at))

    def _waits(self, locks: list[HeldLock]) -> list[Wait]:
        """Functions that wait but for locks and events, with the locks that are held meanwhile."""
        under: dict[tuple[str, str, bool], dict[str, float]]
        under = defaultdict(lambda: defaultdict(float))
        for lock in locks:
            for holder in lock.holders:
                name = f"{lock.name}, shared" if holder.shared else lock.name
                for spell in holder.sleeps:
                    under[spell.function, spell.at, holder.charged][name] += spell.ns
        calls: dict[tuple[str, str, int], dict[str, int]] = defaultdict(lambda: defaultdict(int))
        sums: dict[tuple[str, str, str, int], _Sum] = defaultdict(_Sum)
        for row in self._recorded.waits:
            sleep = self._function(int(row["function"]))
            if sleep.kind in _UNTOLD:
                continue
            function, by = plain_name(sleep.function), self._code(int(row["at"]))
            charged = int(row["kind"]) & IN_CHARGED_WORK
            one = sums[sleep.kind, function, by, charged]
            # One that ends by calling another one of that name is called once.
            called = calls[function, by, charged]
            called[sleep.function] += int(row["times"])
            one.times = max(called.values())
            one.slept += int(row["slept"])
            one.ns += int(row["ns"])
            one.longest = max(one.longest, int(row["longest_ns"]))
            one.longest_at_most = max(one.longest_at_most, int(row["longest_at_most_ns"]))
            one.asleep += int(row["asleep_ns"])
            one.unlocked += int(row["unlocked_ns"])
        found = [
            Wait(
                kind=_kind(kind),
                function=function,
                by=by,
                charged=bool(charged),
                times=one.times / self._operations,
                slept=one.slept / self._operations,
                ns=one.ns / self._operations,
                asleep_ns=one.asleep / self._operations,
                unlocked_ns=one.unlocked / self._operations,
                longest_ns=float(one.longest),
                longest_at_most_ns=float(one.longest_at_most),
                under=_longest(under[function, by, bool(charged)]),
            )
            for (kind, function, by, charged), one in sums.items()
        ]
        return sorted(found, key=lambda wait: (-wait.ns, wait.function, wait.by, wait.charged))


def _candidates(holds: Array) -> list[int]:
    """Locks that anybody slept with or for, and of the others those that most ran under.

    To look up what a lock is takes long, and there are thousands.
    """
    addresses, place = np.unique(holds["address"], return_inverse=True)
    asleep = np.bincount(place, holds["asleep_ns"] + holds["tried_ns"], len(addresses))
    ran = np.bincount(
        place, np.where(holds["kind"] & SHARED, 0, holds["instructions"]), len(addresses)
    )
    chosen = asleep > 0
    chosen[np.argsort(-ran, kind="stable")[: 2 * MOST]] = True
    return [int(address) for address in addresses[chosen]]


def _longest_of(spans: Array, which: Array) -> Array:
    """Places of the longest ones of those that `which` has."""
    places = np.flatnonzero(which)
    length = spans["to_ns"][places].astype(np.int64) - spans["from_ns"][places].astype(np.int64)
    return places[np.argsort(-length, kind="stable")[:SPANS]]


def _order(lock: HeldLock) -> tuple[float, float, float, float, str]:
    shared = sum(one.asleep_ns for one in lock.holders)
    return (-lock.asleep_ns, -lock.waited_ns, -shared, -lock.ns, lock.address)


def _kept(locks: list[HeldLock]) -> list[HeldLock]:
    """The first of these, and those with the longest single times, in the order that they have."""
    kept = {lock.address for lock in locks[:MOST]}
    for once in (_held_once, _waited_once):
        longest = sorted(locks, key=once, reverse=True)[:LONGEST]
        kept |= {lock.address for lock in longest if once(lock)}
    return [lock for lock in locks if lock.address in kept]


def _held_once(lock: HeldLock) -> float:
    return max((one.longest_asleep_ns for one in lock.holders), default=0.0)


def _waited_once(lock: HeldLock) -> float:
    return max((one.longest_tried_ns for one in lock.holders), default=0.0)


def _longest(times: dict[str, float]) -> list[str]:
    return sorted(times, key=lambda name: (-times[name], name))


def _kind(kind: str) -> SleepKind:
    # What `partywall.record.functions.SLEEPS` has for keys; the model refuses all others.
    return kind  # type: ignore[return-value]
