# SPDX-License-Identifier: GPL-2.0-or-later
"""What if the fields of a type were laid out otherwise: who uses what, and what costs least.

Costs are those of containers that are alike: each CPU makes its share of all visits of a
line. Of n such containers of c CPUs all writing visits cost a transfer, and so do reading
ones as long as the others write often enough, which each of a container's CPUs pays for:
W + min(R, (n - 1) c W). What it leaves out: a field that one container alone writes, or
that some only read. Fields of two lines are never put
together, as nothing says which visits of theirs are the same.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal

from pydantic import Field

from partywall.analyse.sharing import Together, groups_of, part_of
from partywall.core.errors import UsageProblem
from partywall.results.document import Document, Model
from partywall.results.fields import Visits
from partywall.results.lines import Line
from partywall.results.result import Result, WorkloadResult
from partywall.results.setting import KernelId

SCHEMA: Final = "partywall.layout/1"

_PATTERNS = 8


def patterns(together: Together, operations: int) -> list[Visits]:
    """Return the visits of a line by the words they use, most visits first.

    Those of few visits are one that writes and one that only reads, both of all words
    that any of them uses: no grouping looks better for it than it is.
    """
    found: dict[tuple[int, int], float] = defaultdict(float)
    columns = (together.read, together.written, together.visits)
    for read, written, visits in zip(*(column.tolist() for column in columns), strict=True):
        # Once written, a word costs the same whether it is read, too.
        found[read & ~written, written] += visits
    found.pop((0, 0), None)
    order = sorted(found.items(), key=lambda one: (-one[1], one[0]))
    rows = order[:_PATTERNS]
    for writes in (True, False):
        rest = [one for one in order[_PATTERNS:] if bool(one[0][1]) == writes]
        if rest:
            read = written = 0
            for (words, changed), _ in rest:
                read, written = read | words, written | changed
            rows.append(((read & ~written, written), sum(visits for _, visits in rest)))
    return [
        Visits(read=read, written=written, visits=visits / operations)
        for (read, written), visits in rows
    ]


class FieldOfType(Model):
    """A field, with its uses per operation, those of all workloads added up."""

    path: str
    offset: int = Field(description="In the object.")
    size: int
    reads: float
    writes: float
    atomics: float
    workloads: list[str] = Field(description="That use it, most uses first.")


class LineOfType(Model):
    """One line of the objects of a type, and the grouping of its fields that costs least."""

    line: int = Field(description="Offset of the line in the object; may be < 0.")
    objects: int = Field(description="That have it in a result, in the workload of most.")
    transfers: float = Field(description="Per op as the results have it, of all workloads.")
    fields: list[FieldOfType]
    now: float | None = Field(
        description="Transfers per op of containers that are alike; null: not known."
    )
    then: float | None = Field(description="The same with a line for each group.")
    groups: list[list[str]] = Field(description="Fields that are best in one line, for each line.")
    unknown: list[str] = Field(description="Workloads whose visits are not known; left out.")


class KernelLayout(Model):
    """A type on one kernel."""

    kernel: KernelId
    size: int = Field(description="Bytes of the largest object.")
    workloads: list[str] = Field(description="That move it.")
    lines: list[LineOfType]


class Layout(Document):
    """A type's lines on each kernel that was measured."""

    schema_: Literal["partywall.layout/1"] = Field(default=SCHEMA, alias="schema")
    type: str
    kernels: list[KernelLayout]


@dataclass(frozen=True)
class _Use:
    """A line as one workload uses it; ``others``: CPUs that take it from one of them."""

    title: str
    line: Line
    others: int

    @property
    def moved(self) -> float:
        return self.line.judged

    def cost(self, group: int) -> float:
        """Transfers per op of these words of the line in a line of their own."""
        wrote = sum(one.visits for one in self.line.visits if one.written & group)
        read = sum(
            one.visits for one in self.line.visits if one.read & group and not one.written & group
        )
        return wrote + min(read, self.others * wrote)


def bare(name: str) -> str:
    """Return a type without what C has it begin with: ``struct cred`` is ``cred``."""
    return re.sub(r"^(struct|union|enum)\s+", "", " ".join(name.split()))


def layout(results: Iterable[Result], name: str) -> Layout:
    """Return who uses what of a type, and the grouping that costs least.

    ``results``: the newest last; of what was measured several times it counts alone.
    UsageProblem if none lists a line of such a type.
    """
    kernels: dict[str, KernelId] = {}
    # By kernel, then by what is measured alike.
    measured: dict[str, dict[tuple[object, ...], WorkloadResult]] = defaultdict(dict)
    for result in results:
        build = result.kernel.build_id
        kernels[build] = result.kernel
        for one in result.workloads:
            measured[build][one.title, one.topology, one.confinement] = one
    uses = {build: _uses(list(ones.values())) for build, ones in measured.items()}
    known: dict[str, float] = defaultdict(float)
    for use in (use for of in uses.values() for use in of):
        known[str(use.line.object.type)] += use.moved
    chosen = {type_ for type_ in known if bare(type_) == bare(name)}
    if not chosen:
        raise UsageProblem(f"the results list no line of a type '{name}'", _near(name, known))
    found = []
    for build, of in uses.items():
        own = [use for use in of if use.line.object.type in chosen]
        if own:
            found.append(_of_kernel(kernels[build], own))
    return Layout(type=min(chosen), kernels=found)


def _near(name: str, known: Mapping[str, float]) -> str:
    """What to ask for instead. ``known``: types, with how much they move."""
    types = {bare(type_): type_ for type_ in sorted(known, key=lambda one: (-known[one], one))}
    if not types:
        return "no object of known type is a wall in them"
    near = [types[one] for one in types if bare(name) and bare(name) in one][:3]
    near += [types[one] for one in difflib.get_close_matches(bare(name), types, 3)]
    if near:
        return f"did you mean {', '.join(dict.fromkeys(near))}?"
    return f"such as {', '.join(list(types.values())[:3])}"


def _uses(workloads: Sequence[WorkloadResult]) -> list[_Use]:
    """All lines of objects of known type, with who shares them."""
    titles = [one.title for one in workloads]
    shaped = [(one.title, one.topology) for one in workloads]
    found = []
    for one in workloads:
        shape = one.topology
        title = one.title
        if titles.count(title) > 1:
            title = f"{title} {shape.containers} x {shape.cpus}"
        if shaped.count((one.title, shape)) > 1:
            title = f"{title}, {one.confinement}"
        for line in one.every_line:
            some = len({*line.writers, *line.readers})
            few = one.scope == "between" and line.sharing == "some"
            others = max((some if few else one.sharers) - 1, 0)
            found.append(_Use(title, line, others * (shape.cpus if one.scope == "between" else 1)))
        found += [_Use(title, line, shape.cpus - 1) for line in one.inside]
    return [use for use in found if use.line.object.type is not None]


def _of_kernel(kernel: KernelId, uses: Sequence[_Use]) -> KernelLayout:
    lines: dict[int, list[_Use]] = defaultdict(list)
    for use in uses:
        lines[use.line.object.line].append(use)
    return KernelLayout(
        kernel=kernel,
        size=max(use.line.object.size for use in uses),
        workloads=list(dict.fromkeys(use.title for use in uses)),
        lines=[_of_line(start, own) for start, own in sorted(lines.items())],
    )


def _of_line(start: int, uses: Sequence[_Use]) -> LineOfType:
    fields = _fields(start, uses)
    told = [use for use in uses if use.line.visits]
    places = {(use.title, use.line.address) for use in uses}
    now = then = None
    groups: list[list[str]] = []
    if told:
        type_ = told[0].line.object.type
        masks = groups_of((f.offset - start, f.size, part_of(f.path, type_)) for f in fields)
        now, then, best = _cheapest(masks, told)
        for mask in best:
            paths = [f.path for f in fields if _words(f.offset - start, f.size) & mask]
            groups.append(paths or [f"words at {_offsets(start, mask)}"])
    return LineOfType(
        line=start,
        objects=max(Counter(title for title, _ in places).values()),
        transfers=sum(use.moved for use in uses),
        fields=fields,
        now=now,
        then=then,
        groups=groups,
        unknown=sorted({use.title for use in uses if not use.line.visits}),
    )


def _words(offset: int, size: int) -> int:
    """Mask of the words of a line that a field is in."""
    first, last = max(offset, 0) // 8, (min(offset + size, 64) - 1) // 8
    return sum(1 << word for word in range(first, last + 1))


def _offsets(start: int, mask: int) -> str:
    return ", ".join(f"{start + 8 * word:#x}" for word in range(8) if mask >> word & 1)


def _fields(start: int, uses: Sequence[_Use]) -> list[FieldOfType]:
    """The fields of one line, in order; a field that two names are known for has a row each."""
    found: dict[tuple[int, int, str], list[float]] = {}
    by: dict[tuple[int, int, str], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for use in uses:
        for one in use.line.fields:
            key = (start + one.offset, one.size, one.path)
            rates = found.setdefault(key, [0.0, 0.0, 0.0])
            for at, more in enumerate((one.reads, one.writes, one.atomics)):
                rates[at] += more
            by[key][use.title] += one.reads + one.writes + one.atomics
    return [
        FieldOfType(
            path=path,
            offset=offset,
            size=size,
            reads=reads,
            writes=writes,
            atomics=atomics,
            workloads=[title for _, title in sorted((-n, title) for title, n in by[key].items())],
        )
        for key, (reads, writes, atomics) in sorted(found.items())
        for offset, size, path in [key]
    ]


def _cheapest(masks: Sequence[int], uses: Sequence[_Use]) -> tuple[float, float, list[int]]:
    """Return transfers per op now, with the best grouping, and its masks, first words first.

    Of groupings that cost the same it is one of the fewest lines. ``masks``: of words
    that can't be taken apart, eight at most, so that all groupings can be looked at.
    """
    used = 0
    for use in uses:
        for one in use.line.visits:
            used |= one.read | one.written
    parts = [mask & used for mask in masks if mask & used]

    @cache
    def cost(mask: int) -> float:
        return sum(use.cost(mask) for use in uses)

    @cache
    def best(left: int) -> tuple[float, int, tuple[int, ...]]:
        """The least cost of these parts (a bit each), how many lines, and their words."""
        if not left:
            return 0.0, 0, ()
        low = left & -left
        found = []
        rest = others = left ^ low
        while True:
            # All sets of other parts that go with the first.
            words = sum(parts[at] for at in range(len(parts)) if (low | others) >> at & 1)
            after, lines, chosen = best(rest ^ others)
            # Sums in another order differ in the last digits alone.
            found.append((round(cost(words) + after, 9), lines + 1, (words, *chosen)))
            if not others:
                return min(found)
            others = (others - 1) & rest

    then, _, chosen = best((1 << len(parts)) - 1)
    return cost(used), min(then, cost(used)), sorted(chosen, key=lambda mask: mask & -mask)
