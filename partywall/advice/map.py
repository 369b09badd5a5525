# SPDX-License-Identifier: GPL-2.0-or-later
"""The map: what containers share, by operation and by object, on one kernel or several."""

from __future__ import annotations

import difflib
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal

from pydantic import Field

from partywall.advice.mends import Advice, version
from partywall.core.errors import UsageProblem
from partywall.core.topology import Topology
from partywall.results import parts
from partywall.results.document import Document, Model
from partywall.results.lines import Line, each_cpu
from partywall.results.memory import Verdict
from partywall.results.result import Result, WorkloadResult
from partywall.results.setting import KernelId

SCHEMA: Final = "partywall.map/2"

LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
"""What kernels are called where they have a column, if there are several."""

MOST = len(LETTERS)
"""Kernels of a map."""

_MADE = re.compile(r"[:;] made for Linux [0-9.]+$")
"""What `Advice` adds to patches that are made for another release."""


class Share(Model):
    """An object that is a wall of an operation."""

    object: str
    transfers: float = Field(description="Per operation, as the verdict has it.")
    field: str = Field(description="That its busiest code uses; empty if not known.")
    code: str = Field(description="Its busiest code: function, and file:line if known.")
    caller: str = Field(description="Who called that, of a lock, list or copy; or empty.")
    mends: list[str] = Field(description="What mends it, in words.")


class Stays(Model):
    """Memory that an operation leaves behind, in bytes."""

    verdict: Verdict
    bytes: float
    uncharged: float = Field(description="Of these, what no container is charged for.")
    kinds: dict[str, float] = Field(description="By slab cache or use, the most first.")
    unpaid: dict[str, float] = Field(
        default_factory=dict, description="Of these, what no container is charged for."
    )
    unsettled: dict[str, float] = Field(
        default_factory=dict, description="What may grow, and how much it is at most."
    )

    @property
    def paid(self) -> dict[str, float]:
        """By slab cache or use, what containers are charged for, with the books of that."""
        rest = {what: size - self.unpaid.get(what, 0.0) for what, size in self.kinds.items()}
        return {what: size for what, size in rest.items() if size > 0}


class Asleep(Model):
    """The lock that is kept from others longest, because somebody sleeps with it, or for it."""

    ms: float = Field(description="At most, once.")
    lock: str = Field(description="Empty if none is.")
    shared: bool = Field(
        default=False, description="Who has it so long shares it: who wants it alone waits."
    )


class Cell(Model):
    """An operation on a kernel. ``failed``: why there is no figure, if there is none."""

    verdict: str = Field(default="", description="walls, no wall, isolated, isolated in its calls.")
    transfers: float = Field(
        default=0.0, description="Per operation, on all lines, deferred work too."
    )
    instructions: float = Field(default=0.0, description="Of the kernel, per operation.")
    walls: list[Share] = Field(default_factory=list, description="The worst first.")
    memory: Stays | None = Field(default=None, description="Null: not looked at.")
    waits: Asleep | None = Field(default=None, description="Null: not measured.")
    failed: str | None = None


class Operation(Model):
    """An operation, with a cell for each kernel; null where it was not asked for."""

    title: str
    operation: str
    cells: list[Cell | None]


class Reach(Model):
    """What an object costs on one kernel: over all operations that it is a wall of."""

    operations: int
    least: float = Field(description="Transfers per operation, of the one that has fewest.")
    most: float
    sum: float = Field(description="Of all of them, an operation of each.")
    mix: float | None = Field(
        default=None,
        description="Per operation of the mix that was stated, less what the map `lacks`; "
        "null if none was stated.",
    )


class Object(Model):
    """An object that is a wall, with its reach on each kernel; null where it was seen as none.

    Where each CPU has one they are one object.
    """

    name: str
    reach: list[Reach | None]
    unknown: list[int] = Field(
        description="For each kernel, of how many operations it is a wall elsewhere that have no "
        "figure there: so far it is not known what it costs."
    )
    mends: list[str] = Field(
        description="What mends it, in words; of some of its operations, or on some kernels, if "
        "that is said."
    )


class Mapped(Model):
    """A kernel that the map has."""

    kernel: KernelId
    created: str
    sharers: int = Field(description="Containers that figures are for.")
    topology: Topology = Field(description="Those that ran.")
    confined: bool = Field(description="As Docker does, or with --unconfined.")
    measured_with: str | None = Field(
        default=None, description="Version that its results were saved in, if an older one."
    )
    lacks: list[str] = Field(
        default_factory=list, description="What that version does not have, in words."
    )


class Map(Document):
    """Operations and objects on all kernels, what costs most first among objects."""

    schema_: Literal["partywall.map/2"] = Field(default=SCHEMA, alias="schema")
    kernels: list[Mapped]
    operations: list[Operation]
    objects: list[Object]
    mix: dict[str, float] = Field(description="Weight of each operation, if any were stated.")
    lacks: dict[str, list[int]] = Field(
        default_factory=dict,
        description="Operations of the mix that some kernels have no figure of, by their numbers "
        "in kernels[]. What the mix pays is without these on all kernels, so that it compares.",
    )
    threshold: float = Field(description="Transfers per operation that walls have more than.")

    @property
    def labels(self) -> list[str]:
        """What kernels are called: releases, with letters where one has several columns."""
        return labels([one.kernel.release for one in self.kernels])

    @property
    def again(self) -> list[str]:
        """Letters of kernels that have several columns: what was not put together."""
        times = Counter(one.kernel.release for one in self.kernels)
        named = zip(LETTERS, self.kernels, strict=False)
        return [letter for letter, one in named if times[one.kernel.release] > 1]


def labels(releases: Sequence[str]) -> list[str]:
    """Return what kernels of these releases are called, with letters where there are several."""
    times = Counter(releases)
    return [
        f"{release} ({letter})" if times[release] > 1 else release
        for release, letter in zip(releases, LETTERS, strict=False)
    ]


def draw(results: Sequence[Result], mix: Mapping[str, float] | None = None) -> Map:
    """Return the map of results, a column for each kernel.

    Results of one kernel that have no operation in common, made alike, are parts of one
    column; any others stand side by side. ``mix``: how often each operation is done, by title,
    in any unit; what one of the kernels has no figure of is left out of it on all, and said.
    UsageProblem if that leaves nothing, one was not asked for, or results can't be compared.
    """
    results = parts.joined(results)
    check_number(len(results))
    sharers = [parts.sharers(result) for result in results]
    if len(set(sharers)) > 1:
        raise UsageProblem(
            f"these maps are for {' and '.join(map(str, sorted(set(sharers))))} containers",
            "measure them with the same --at",
        )
    threshold = parts.threshold(results)
    titles = _titles(results)
    weights = dict(mix or {})
    check_mix(weights, titles)
    columns = [_column(result) for result in results]
    lacks = _lacks(weights, columns)
    whole = {title: weight for title, weight in weights.items() if title not in lacks}
    if weights and not whole:
        raise UsageProblem(
            "no operation of the mix has a figure on all kernels",
            f"such as {next(iter(lacks))}: show the kernels one by one, or take another mix",
        )
    operations = [
        Operation(title=title, operation=said, cells=[column.get(title) for column in columns])
        for title, said in titles.items()
    ]
    return Map(
        kernels=[
            Mapped(
                kernel=result.kernel,
                created=result.created,
                sharers=number,
                topology=parts.between(result)[0].topology,
                confined=not parts.between(result)[0].confinement.startswith("unconfined"),
                measured_with=result.measured_with,
                lacks=result.lacks,
            )
            for result, number in zip(results, sharers, strict=True)
        ],
        operations=operations,
        objects=_objects(operations, labels([one.kernel.release for one in results]), whole),
        mix=weights,
        lacks=lacks,
        threshold=threshold,
    )


def check_number(kernels: int) -> None:
    """UsageProblem if these are more kernels than a map has columns for."""
    if kernels > MOST:
        raise UsageProblem(f"{kernels} kernels are more than a map has room for", f"at most {MOST}")


def check_mix(mix: Mapping[str, float], titles: Iterable[str]) -> None:
    """UsageProblem if the mix has an operation that is none of these."""
    known = list(titles)
    unknown = next((title for title in mix if title not in known), None)
    if unknown is not None:
        near = ", ".join(difflib.get_close_matches(unknown, known, 3))
        raise UsageProblem(
            f"the mix has {unknown}, which is none of the operations of this map",
            f"near: {near}" if near else "partywall workloads shows all",
        )


def _lacks(mix: Iterable[str], columns: Sequence[Mapping[str, Cell]]) -> dict[str, list[int]]:
    """Operations of the mix without a figure, by the numbers of the columns that lack it."""
    found = {
        title: [
            number for number, column in enumerate(columns) if not has_figure(column.get(title))
        ]
        for title in mix
    }
    return {title: numbers for title, numbers in found.items() if numbers}


def _titles(results: Iterable[Result]) -> dict[str, str]:
    """What each operation is, by title, in the order of the results."""
    found: dict[str, str] = {}
    for result in results:
        for one in parts.between(result):
            found.setdefault(one.title, one.operation)
        for failure in parts.failed(result):
            found.setdefault(failure.workload, failure.operation)
    return found


def _column(result: Result) -> dict[str, Cell]:
    advice = Advice(result)
    cells = {one.workload: Cell(failed=one.why) for one in parts.failed(result)}
    for one in parts.between(result):
        cells[one.title] = Cell(
            verdict=one.verdict,
            transfers=one.moved + one.added,
            instructions=one.instructions.kernel,
            walls=_shares(one, advice),
            memory=_stays(one),
            waits=_asleep(one),
        )
    return cells


def _stays(workload: WorkloadResult) -> Stays | None:
    memory = workload.memory
    if memory is None:
        return None
    kinds: dict[str, float] = defaultdict(float)
    unpaid: dict[str, float] = defaultdict(float)
    unsettled: dict[str, float] = defaultdict(float)
    for one in memory.grown:
        kinds[one.what] += one.bytes
        if one.uncharged:
            unpaid[one.what] += one.uncharged
    for rises in memory.unsettled:
        unsettled[rises.what] += rises.bytes
    return Stays(
        verdict=memory.verdict,
        bytes=memory.bytes,
        uncharged=memory.uncharged,
        kinds=dict(kinds),
        unpaid=dict(unpaid),
        unsettled=dict(unsettled),
    )


def _asleep(workload: WorkloadResult) -> Asleep | None:
    if workload.held is None:
        return None
    lock = workload.held.longest
    if lock is None:
        return Asleep(ms=0.0, lock="")
    return Asleep(ms=lock.once_ns / 1e6, lock=lock.name, shared=lock.shared)


def _shares(workload: WorkloadResult, advice: Advice) -> list[Share]:
    lines: dict[str, list[Line]] = defaultdict(list)
    for line in workload.every_line:
        lines[each_cpu(line.object.name)].append(line)
    total: dict[str, float] = defaultdict(float)
    for wall in workload.every_wall:
        total[each_cpu(wall.name)] += wall.judged
    found = []
    for name, transfers in total.items():
        sites = [site for line in lines[name][:1] for site in line.code]
        site = max(sites, key=lambda s: (s.reads + s.writes + s.atomics, s.function), default=None)
        code = site.inlined[0] if site and site.inlined else site.function if site else ""
        where = f" {site.source}" if site and site.source else ""
        found.append(
            Share(
                object=name,
                transfers=transfers,
                field=site.field if site else "",
                code=f"{code}{where}",
                caller=(site.caller or "").partition("+")[0] if site else "",
                mends=[mend.words for mend in advice.on(lines[name], workload)],
            )
        )
    return sorted(found, key=lambda share: (-share.transfers, share.object))


def _objects(
    operations: list[Operation], names: list[str], weights: dict[str, float]
) -> list[Object]:
    """All objects, what costs most first: of each operation what its kernels have on average.

    A kernel that has no figure of one counts neither as one where it costs nothing nor at all.
    """
    uses: dict[str, list[dict[str, float]]] = {}
    mends: dict[str, dict[str, list[tuple[int, str]]]] = defaultdict(lambda: defaultdict(list))
    known = [
        {one.title for one in operations if has_figure(one.cells[n])} for n in range(len(names))
    ]
    for operation in operations:
        for number, cell in enumerate(operation.cells):
            for share in cell.walls if cell else ():
                there = uses.setdefault(share.object, [{} for _ in names])
                there[number][operation.title] = share.transfers
                for mend in share.mends:
                    mends[share.object][mend].append((number, operation.title))
    ranked = []
    for name, columns in uses.items():
        titles = dict.fromkeys(title for there in columns for title in there)
        # What the mix has none of is known to be nothing of it.
        asked = [title for title in titles if not weights or title in weights]
        found = Object(
            name=name,
            reach=[_reach(there, weights) for there in columns],
            unknown=[sum(title not in has for title in asked) for has in known],
            mends=[_mended(*one, columns, names) for one in _merged(mends[name]).items()],
        )
        rank = 0.0
        for title in titles:
            of = [
                there.get(title, 0.0)
                for there, has in zip(columns, known, strict=True)
                if title in has
            ]
            rank += weights.get(title, 0.0 if weights else 1.0) * sum(of) / len(of)
        ranked.append((-rank, name, found))
    return [found for *_, found in sorted(ranked, key=lambda one: one[:2])]


def has_figure(cell: Cell | None) -> bool:
    """Return whether an operation was measured there."""
    return cell is not None and cell.failed is None


def _merged(mends: dict[str, list[tuple[int, str]]]) -> dict[str, list[tuple[int, str]]]:
    """Mends in words, those once that some kernel has patches for and others not."""
    found: dict[str, list[tuple[int, str]]] = {}
    for words, where in mends.items():
        plain = _MADE.sub("", words)
        found.setdefault(plain if plain in mends else words, []).extend(where)
    return found


def _mended(
    words: str,
    mended: list[tuple[int, str]],
    columns: list[dict[str, float]],
    names: list[str],
) -> str:
    """A mend in words: of how many of the object's operations, and on which kernels, if not all."""
    there = [number for number, titles in enumerate(columns) if titles]
    on = sorted({number for number, _ in mended})
    shares = {(sum(n == number for n, _ in mended), len(columns[number])) for number in on}
    parts_of = sorted(share for share in shares if share[0] < share[1])
    said = [f"{some} of {of} operations" for some, of in parts_of[:1]]
    said = ["some of the operations"] if len(shares) > 1 and parts_of else said
    if on != there:
        versions = [".".join(map(str, version(one))) or one for one in names]
        short = versions if len(set(versions)) == len(versions) else names
        said.append(f"on {' and '.join(short[number] for number in on)}")
    return f"{words} ({', '.join(said)})" if said else words


def _reach(there: dict[str, float], weights: dict[str, float]) -> Reach | None:
    if not there:
        return None
    every = sum(weights.values())
    return Reach(
        operations=len(there),
        least=min(there.values()),
        most=max(there.values()),
        sum=sum(there.values()),
        mix=sum(weights.get(title, 0.0) * moved for title, moved in there.items()) / every
        if every
        else None,
    )
