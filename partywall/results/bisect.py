# SPDX-License-Identifier: GPL-2.0-or-later
"""Which commit built a wall, or took it away: what a bisection found."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Final, Literal

from pydantic import Field

from partywall.core.errors import UsageProblem
from partywall.core.topology import Topology
from partywall.results.compare import Change
from partywall.results.diff import Finding
from partywall.results.document import Document, Model
from partywall.results.lines import Line, Wall, each_cpu
from partywall.results.result import Result, WorkloadResult
from partywall.results.setting import Environment

SCHEMA: Final = "partywall.bisect/2"

Answer = Literal["good", "bad", "skipped"]


class Commit(Model):
    """What git says of a commit."""

    id: str
    parents: list[str]
    author: str = Field(description="With address.")
    date: str = Field(description="Of the author, ISO 8601.")
    subject: str

    @property
    def short(self) -> str:
        """As much of its id as people write."""
        return self.id[:12]


class Use(Model):
    """A place in the code that uses a field of the object. Rates are per operation."""

    field: str
    function: str
    source: str | None = Field(description="file:line")
    reads: float
    writes: float
    atomics: float

    @property
    def accesses(self) -> float:
        """All accesses per operation."""
        return self.reads + self.writes + self.atomics


class Step(Model):
    """A commit that was looked at, and what came of it."""

    commit: Commit
    answer: Answer = Field(description="As GOOD, as BAD, or neither built nor measured.")
    transfers: float | None = Field(description="Per op on the object.")
    why: str | None = Field(default=None, description="It was skipped.")
    saved: str | None = Field(default=None, description="File of its result.")


class Bisection(Document):
    """What lies between two commits, GOOD and BAD, as far as one object is concerned.

    All transfers are those that the verdict is about: at `sharers` containers.
    """

    schema_: Literal["partywall.bisect/2"] = Field(default=SCHEMA, alias="schema")
    tree: str = Field(description="The repository.")
    good: Commit
    bad: Commit
    older: Literal["good", "bad"] = Field(description="Which of the two history begins with.")
    object: str = Field(description="As it was asked for.")
    names: list[str] = Field(description="Objects of either end that this is.")
    workload: str = Field(description="Title of what ran.")
    operation: str
    topology: Topology
    sharers: int = Field(description="Containers that figures are for, or CPUs of one.")
    options: list[str] = Field(description="Of partywall check, to measure the same.")
    least: float | None = Field(
        default=None, description="Transfers per op that are chance, if they were said."
    )
    paths: list[str] = Field(description="Only commits that change one of these; all if empty.")
    environment: Environment
    ends: Change = Field(description="Transfers per op at GOOD and at BAD.")
    limit: float = Field(description="Half-way between: on which side is as GOOD, as BAD.")
    steps: list[Step] = Field(description="GOOD and BAD, and all between that was looked at.")
    differ: bool = Field(description="GOOD and BAD do, by more than chance.")
    found: list[Commit] = Field(
        description="The commit; several if it is one of these and the others can't be told apart."
    )
    parent: Commit | None = Field(default=None, description="Of the one that was found.")
    at: Change | None = Field(default=None, description="At that parent, and at the commit.")
    files: list[str] = Field(default_factory=list, description="That the commit changes.")
    before: list[Use] = Field(default_factory=list, description="Of the object, at the parent.")
    after: list[Use] = Field(default_factory=list, description="Of the object, at the commit.")
    findings: list[Finding] = Field(
        default_factory=list, description="All that changed from the parent to the commit."
    )

    @property
    def crossed(self) -> bool:
        """Whether the commit's own figures, if they are known, lie on both sides of the limit."""
        if self.at is None:
            return True
        return (self.at.before > self.limit) != (self.at.after > self.limit)

    @property
    def change(self) -> Change:
        """What changed, in the order of history: at the commit, or else from end to end."""
        if self.at is not None:
            return self.at
        if self.older == "good":
            return self.ends
        return Change(before=self.ends.after, after=self.ends.before)


def matches(pattern: str, what: Wall | Line) -> bool:
    """Tell whether an object is meant: by its name, its type, or the last word of either."""
    named = what.object if isinstance(what, Line) else what
    names = [name for name in (named.name, named.type) if name]
    words = [name.split()[-1] for name in names if name.split()]
    # A variable that each CPU has is one object, whichever one's it is.
    every = [each_cpu(name) for name in names]
    bare = [name.removesuffix(" of each CPU") for name in every]
    # What a name has of brackets is part of it, as in *node_data[0].
    escaped = each_cpu(pattern).replace("[", "[[]")
    return any(
        name in (pattern, each_cpu(pattern)) or fnmatchcase(name, escaped)
        for name in [*names, *words, *every, *bare]
    )


def transfers(result: WorkloadResult, pattern: str) -> float:
    """Return transfers per operation of all walls that are meant, as the verdict has them.

    Those of deferred work are among them.
    """
    return sum(wall.judged for wall in result.every_wall if matches(pattern, wall))


def uses(result: WorkloadResult, pattern: str) -> list[Use]:
    """Return who uses which field of the object, most accesses first."""
    found: dict[tuple[str, str], Use] = {}
    for line in result.every_line:
        if not matches(pattern, line):
            continue
        for site in line.code:
            key = site.field, site.function
            old = found.get(key)
            found[key] = Use(
                field=site.field,
                function=site.function,
                source=old.source if old and old.source else site.source,
                reads=site.reads + (old.reads if old else 0),
                writes=site.writes + (old.writes if old else 0),
                atomics=site.atomics + (old.atomics if old else 0),
            )
    return sorted(found.values(), key=lambda use: (-use.accesses, use.function, use.field))


Where = tuple[str, Topology]
"""Title of a workload, and its topology."""


def of(result: Result, where: Where) -> WorkloadResult | None:
    """Return what a result has of a workload in a topology, if anything."""
    return next((one for one in result.workloads if (one.title, one.topology) == where), None)


def telling(good: Result, bad: Result, pattern: str) -> Where:
    """Return where the two differ most in the object.

    UsageProblem if neither has a wall of the name, or both have no workload in common.
    """
    both = list(_both(good, bad))
    if not both:
        raise UsageProblem("the two commits have no workload in common")
    walls = [wall for pair in both for one in pair for wall in one.every_wall]
    if not any(matches(pattern, wall) for wall in walls):
        names = sorted({wall.name for wall in walls})
        shown = ", ".join(names[:6]) + (", …" if len(names) > 6 else "")
        raise UsageProblem(
            f"neither end has a wall on '{pattern}'",
            f"there are walls on {shown}" if names else "there is no wall at all",
        )
    most, _ = max(both, key=lambda p: abs(transfers(p[0], pattern) - transfers(p[1], pattern)))
    return most.title, most.topology


def names(results: list[WorkloadResult], pattern: str) -> list[str]:
    """Return the objects that are meant, each once."""
    return sorted(
        {wall.name for one in results for wall in one.every_wall if matches(pattern, wall)}
    )


def _both(good: Result, bad: Result) -> Iterator[tuple[WorkloadResult, WorkloadResult]]:
    for one in good.workloads:
        other = of(bad, (one.title, one.topology))
        if other is not None:
            yield one, other
