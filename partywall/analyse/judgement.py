# SPDX-License-Identifier: GPL-2.0-or-later
"""The lines of a recording, judged in one scope: `verdict`'s rules and the names of objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from partywall.analyse import verdict
from partywall.analyse.transfers import Lines, Parties
from partywall.core.topology import Scope, Topology
from partywall.record.recording import Recording, Slices
from partywall.results.lines import LineObject
from partywall.results.result import IN_TURN

Array = npt.NDArray[Any]
Key = tuple[str, ...]

# Of the returns that are expected to lines often visited, the share that is to those of a table.
_SELDOM = 0.25
# Of those that are expected where somebody visits, the share with less of which it is his for a
# while; how many have to be expected, and of how many lines of a table: of few that may be chance.
_ROUND = 0.25
_TELLING = 8.0
_ENTRIES = 8
# Of those who do one thing while others do another, how many have to use a line alike.
_ALIKE = 3
# Of a table in which each has lines that no other container visits: those lines, and the visits.
_APART = 0.75


def key_of(what: LineObject) -> Key | None:
    """Return what lines have in common that are judged together; None if by itself.

    Lines of one variable or table, and those of all objects of one type. What is freed
    was many things, and of what has no type nobody knows whether it is the same.
    """
    if what.state == "static":
        return what.kind, what.name
    if what.state == "freed" or what.kind == "unnamed":
        return None
    # Of per-CPU memory, each CPU's copy of what was allocated together is a line.
    if what.type is None and what.kind != "percpu":
        return what.kind, what.name, what.address
    return what.kind, what.name


def _lasts(what: LineObject) -> bool:
    """Whether it is what it is all through a window: a variable, or a table of its own.

    Chunks of per-CPU memory are given out in pieces.
    """
    vmalloc = what.kind == "vmalloc" and what.state == "live" and "pcpu" not in what.name
    return what.state == "static" or vmalloc


def _is_array(what: LineObject) -> bool:
    """Whether its lines are alike, each an entry or several.

    Those of a structure are not, but for lines of an array in it.
    """
    return what.array is not None or "[" in (what.type or "") or what.name.endswith("[]")


def _rounds(returns: Array, expected: Array) -> Array:
    """Where what somebody visits is his for a while, and then another's; bool.

    ``returns`` and ``expected``: how often somebody came back, and how often as chance has
    it (`verdict.chance_returns`); any shape, as the result.
    """
    return np.asarray((expected >= _TELLING) & (returns < _ROUND * expected))


def _after(slices: Slices, scope: Scope) -> int:
    """Return in how many slices a CPU worked again after others, or after other containers'."""
    return slices.after_containers if scope == "between" else slices.after_others


def in_turn(recorded: Recording, scope: Scope) -> float | None:
    """Return how much CPUs worked in turn with those of other containers, or with all others.

    Of the emulator's slices in which one worked again, the share before which another did, of
    those with enough to tell; None if fewer than two have so many, or nobody counted.
    """
    slices = [party.slices for party in recorded.parties if not party.thread]
    told = [one for one in slices if one is not None and one.count >= verdict.FEW_SLICES]
    if len(told) < 2:
        return None
    after = sum(_after(one, scope) for one in told)
    return after / sum(one.count - 1 for one in told)


def after_others(recorded: Recording, scope: Scope) -> Array:
    """Return in how many of the emulator's slices each party worked again after others had.

    Shape (parties,); infinite of kernel threads, and where nobody counted. ``scope``: after
    other CPUs, or those of other containers.
    """
    found = np.full(len(recorded.parties), np.inf)
    for number, party in enumerate(recorded.parties):
        if not party.thread and party.slices is not None:
            found[number] = _after(party.slices, scope)
    return found


class Judgement:
    """Which lines are shared by whom, what they move, and which are walls.

    Arrays have shape (lines,): ``sharing`` as `verdict.sharing` has it; ``moved``,
    transfers per operation; ``moved_at``, the same at the number of containers
    that the verdict is for; ``objects``, a number for each object; ``walls``, bool.
    ``back``, shape (lines, sharers): who shares the line. ``grows``, bool: it moves more with
    more containers; ``part``: of what was reckoned, how much it moves by what was seen.

    ``sides``: the sharers who do one thing, and those who do another, each with the operations
    of a window; none if all do the same.
    ``in_turn``: as `in_turn` returns it. ``after``: as `after_others` does; None if not known.
    ``objects``: of each line (by its row) that has been looked up, the object. ``look``: of a
    row, the same with whether it is freed, which takes long to tell.
    """

    def __init__(
        self,
        lines: Lines,
        parties: Parties,
        topology: Topology,
        scope: Scope,
        *,
        window: int,
        threshold: float,
        sides: Sequence[tuple[range, int]] = (),
        in_turn: float | None = None,
        after: Array | None = None,
        objects: Mapping[int, LineObject],
        look: Callable[[int], LineObject],
    ) -> None:
        between = scope == "between"
        self.sharers = topology.containers if between else topology.cpus
        groups = parties.container if between else parties.cpu % topology.cpus
        # On another container's CPU nobody is one of the CPUs of one's own.
        there = parties.container >= 0 if between else parties.thread == 0
        groups = np.where(there, groups, -1)
        # Of threads that do charged work there may be more than CPUs, each with few lines: what
        # they do says nothing of containers, and of one slice nothing is told.
        own, slices = groups >= 0, np.ones(len(groups))
        self._between, self._by_threads = between, (lines.turns[:, ~own] > 0).any(axis=1)
        slices[own] = verdict.slices(lines.slices[:, own])
        after = np.full(len(groups), np.inf) if after is None else after
        # Between containers, who comes back after its own container's CPUs has met nobody.
        returns, chance = lines.returns, lines.chance
        if between:
            returns, chance = lines.crossings, lines.chance_crossed
        expected = verdict.expected_returns(
            lines.turns,
            slices,
            parties.container if between else None,
            # In how many of them threads ran is not known.
            np.where(own, slices, np.inf),
        )
        # Nobody comes back in a slice before which nobody else worked.
        chance, expected = np.minimum(chance, after), np.minimum(expected, after)
        told = (slices >= verdict.FEW_SLICES) & (after >= verdict.FEW_SLICES - 1)
        # Of each sharer, and of each party.
        self._windows = np.full(self.sharers, window)
        for those, operations in sides:
            self._windows[those.start : those.stop] = operations
        windows = np.where(own, self._windows[groups], window)
        back = verdict.comes_back(lines.turns, returns, expected, windows) & told
        # What comes round is visited in few of the slices.
        untold = ~told & verdict.all_through(lines.turns, lines.slices, slices)
        returned = (lines.turns > 0) & ((returns > 0) | untold)
        self._turns, self._returns, self._expected, came, once = (
            verdict.by_sharer(counts, groups, self.sharers)
            for counts in (lines.turns, returns, expected, back, returned)
        )
        # Whoever visits a line in so many slices that returns there tell something.
        enough = told & (lines.slices >= verdict.FEW_SLICES)
        self._told = tuple((part * enough).sum(axis=1) for part in (returns, chance))
        # Turns in a slice.
        self._in_slice = np.where(enough, lines.turns / np.maximum(lines.slices, 1), 0.0)
        self._each = returns, chance
        even = self._evenly(once > 0, sides) & ~_rounds(*self._told)[:, None]
        self._back = (came > 0) | even
        self._threshold, self._operations = threshold, lines.operations
        self._raw = lines.between if between else lines.within
        self._raw_at = lines.between_at if between else lines.within
        self._seen = lines.seen_crossed if between else lines.seen
        # Else what was seen to move says nothing.
        self._in_turn = in_turn is None or in_turn >= IN_TURN
        self._judge(objects)
        # Of memory that comes and goes, what is freed by now is no object any more.
        seen = {
            row: look(row)
            for row in np.flatnonzero(self.walls).tolist()
            if row in objects and objects[row].state != "static"
        }
        if any(what.state == "freed" for what in seen.values()):
            self._judge({**objects, **seen})

    def _judge(self, objects: Mapping[int, LineObject]) -> None:
        self.objects = self._numbered(objects, verdict.sharing(self._back))
        static, array = (self._those(objects, of) for of in (_lasts, _is_array))
        touched = self._turns > 0
        # Who looked at it once in all the time does not share what two fight over.
        alike = touched & (4 * self._turns >= self._turns.max(axis=1, keepdims=True, initial=0))
        most = verdict.sharing(alike) == verdict.ALL
        # The entry of a table that is hashed to is one's as long as what hashed to it, and then
        # another's: it comes round as the slab's memory does.
        rounds, passed = self._comes_round(static & array, self._tables(objects))
        static &= ~rounds
        # No other variable comes round again as another: turns are enough.
        often = self._turns >= verdict.least_turns(self._windows)
        back = np.where(static[:, None], often, self._back)
        # Who comes back to any line of a table shares all the others. Where no line is
        # visited often, others seldom do so in between as well; but of what is handed
        # over for good none is ever come back to.
        turns, returns, expected, came = (
            self._together(counts) for counts in (self._turns, self._returns, self._expected, back)
        )
        some = np.maximum(expected * _SELDOM, 1.0)
        seldom = verdict.comes_back(turns, returns, some, self._windows)
        whole = verdict.sharing((came > 0) | seldom)[self.objects]
        theirs = np.where(most & (whole != verdict.HANDED_OVER), verdict.ALL, whole)
        own = verdict.sharing(back)
        few = ~static | (~most & (own == verdict.SOME))
        self.sharing = np.where(few, own, theirs)
        self.back = np.where(few[:, None], back, touched)
        handed = self.sharing == verdict.HANDED_OVER
        # Who has an entry for a while visits it often, though it moves once.
        least = (handed & self._in_turn) | passed
        self.moved = np.where(least, np.minimum(self._raw, self._seen), self._raw)
        more = ((self.sharing == verdict.ALL) | (handed & (not self._in_turn))) & ~passed
        self.moved_at = np.where(more, self._raw_at, self.moved)
        self.grows = more
        self.part = np.divide(
            self.moved, self._raw, out=np.ones(len(self.moved)), where=self._raw > 0
        )
        self.walls = verdict.walls(
            self.objects,
            ~handed,
            self.moved,
            self.moved_at,
            operations=self._operations,
            sharers=self.sharers,
            threshold=self._threshold,
        )

    def _evenly(self, returned: Array, sides: Sequence[tuple[range, int]]) -> Array:
        """`verdict.evenly` among those who do the same.

        Memory that is handed on comes to two of a few now and then, on either side; so of
        sides of one or two it tells nothing, and all are taken together.
        """
        alone = bool(sides) and all(len(those) >= _ALIKE for those, _ in sides)
        every = sides if alone else [(range(self.sharers), int(self._windows.min()))]
        found = np.zeros(returned.shape, bool)
        for those, window in every:
            part = slice(those.start, those.stop)
            found[:, part] = verdict.evenly(
                self._turns[:, part], returned[:, part], window, _ALIKE if alone else 2
            )
        return found

    def _those(self, objects: Mapping[int, LineObject], of: Callable[[LineObject], bool]) -> Array:
        """Which lines are of such objects; bool, shape (lines,)."""
        found = np.zeros(len(self.objects), bool)
        found[[row for row, what in objects.items() if of(what)]] = True
        return found

    def _tables(self, objects: Mapping[int, LineObject]) -> Array:
        """A number for the array that each line is of; its object's if that has none inside."""
        numbers: dict[tuple[int, str], int] = {}
        found = self.objects.copy()
        for row, what in objects.items():
            if what.array is not None:
                found[row] = numbers.setdefault((int(found[row]), what.array), row)
        return found

    def _comes_round(self, tables: Array, of_table: Array) -> tuple[Array, Array]:
        """Which lines of ``tables`` are one's for a while, then another's; bool, shape (lines,).

        ``of_table``: from `_tables`.

        Those that no two come back to by themselves, of tables where that can't be chance:
        who visits them in several slices does so in slices that no other's lie between.
        Turns say nothing of it, as an operation may have one entry for several of them.

        And which lines are that where somebody visits often, and visited in passing as well:
        those with half as many turns in a slice as anybody has of the table, or fewer, do
        come back. So are those of a table of which nothing is told by who came back, as the window
        is short, but which `_apart` tells.
        """
        entry = tables & (verdict.sharing(self._back) == verdict.HANDED_OVER)
        number = len(of_table)
        most = np.zeros(number)
        np.maximum.at(most, of_table, self._in_slice.max(axis=1, initial=0.0) * entry)
        told = self._in_slice > 0
        often = self._in_slice > most[of_table, None] / 2
        told_of = (
            self._told,
            *(
                tuple((part * chosen).sum(axis=1) for part in self._each)
                for chosen in (told & often, told & ~often)
            ),
        )
        every, had, passing = (
            tuple(np.bincount(of_table, counts * entry, number) for counts in both)
            for both in told_of
        )
        many = np.bincount(of_table, tables, number) >= _ENTRIES
        rounds = _rounds(*every) & many
        met, expected = passing
        back = (expected >= _TELLING) & (met >= _ROUND * expected)
        mixed = _rounds(*had) & many & back
        passed = mixed | (self._apart(tables, of_table) & many & (every[1] < _TELLING))
        return entry & (rounds & ~mixed)[of_table], entry & passed[of_table]

    def _apart(self, tables: Array, of_table: Array) -> Array:
        """Of which tables most lines are one container's and a kernel thread's; bool, shape
        (lines,): of a table at its number.

        So are those that each operation takes an entry of anew, while there are more of these
        than operations, and which a kernel thread gives up. Two may meet there in a longer
        window or among more, so that it is shared; but who has an entry visits it often, though
        it moves once.
        """
        number = len(of_table)
        if not self._between:
            return np.zeros(number, bool)
        visits, most = self._turns.sum(axis=1), self._turns.max(axis=1, initial=0)
        alone = ((self._turns > 0).sum(axis=1) == 1) & self._by_threads
        lines, theirs, turns, own = (
            np.bincount(of_table, np.where(tables, counts, 0), number)
            for counts in (visits > 0, alone, visits, most)
        )
        return np.asarray((theirs >= _APART * lines) & (own >= _APART * turns) & (lines > 0))

    def _together(self, counts: Array) -> Array:
        """The sums over lines of one object; shape (objects, sharers)."""
        found = np.zeros((len(self.objects), self.sharers))
        np.add.at(found, self.objects, counts)
        return found

    def _numbered(self, objects: Mapping[int, LineObject], sharing: Array) -> Array:
        """A number for each line's object; a line that nothing is known of is one by itself.

        ``sharing``: who shares each line, taken by itself.
        """
        numbers: dict[Key, int] = {}
        found = np.arange(len(self._turns))
        for row, what in objects.items():
            key = key_of(what)
            if key is None or not (_lasts(what) or sharing[row]):
                continue
            found[row] = numbers.setdefault(key, row)
        return found
