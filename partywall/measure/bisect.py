# SPDX-License-Identifier: GPL-2.0-or-later
"""Finds the commit from which on an object moves as it does at the end of a history.

git chooses the commits (`partywall.kernels.bisect`), whoever calls says how one is
measured, and here is decided what that means.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from partywall.core.errors import EnvironmentProblem, PartywallError, UsageProblem
from partywall.kernels import bisect as history
from partywall.kernels.bisect import Search, Side
from partywall.kernels.git import GitProblem
from partywall.results.bisect import (
    Answer,
    Bisection,
    Commit,
    Step,
    Where,
    names,
    of,
    telling,
    transfers,
    uses,
)
from partywall.results.compare import Change
from partywall.results.diff import Tolerance, diff, how
from partywall.results.result import Result, WorkloadResult

Measure = Callable[[Commit, Where | None], Result]
"""Measures a commit that is checked out: everything, or one workload in one topology."""


@dataclass(frozen=True)
class Asked:
    """What is asked.

    ``tree``: the repository; ``place``: a working tree to check out in; ``paths``: as
    for `Search`.
    """

    tree: Path
    place: Path
    good: Commit
    bad: Commit
    object: str
    options: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    tolerance: Tolerance = field(default_factory=Tolerance)
    least: float | None = None
    """As it was said, for who does it again."""


def order(tree: Path, good: Commit, bad: Commit) -> tuple[Commit, Commit]:
    """Return the two, the older first; UsageProblem if they are one.

    A wall may have been built or taken down: either may be the ancestor.
    """
    if good.id == bad.id:
        raise UsageProblem(f"GOOD and BAD are one commit, {good.short}", "name two")
    return (bad, good) if history.ancestor(tree, bad, good) else (good, bad)


def run(
    asked: Asked,
    measure: Measure,
    keep: Callable[[Result], Path],
    told: Callable[[str], None],
) -> Bisection:
    """Return what was found between the two commits.

    ``keep`` saves what was measured; ``told`` hears of each step. A commit between the
    ends that can't be built or measured is skipped; an end that can't is an error.
    """
    return _Bisecting(asked, measure, keep, told).run()


class _Bisecting:
    """One bisection, with what it has measured so far."""

    def __init__(
        self,
        asked: Asked,
        measure: Measure,
        keep: Callable[[Result], Path],
        told: Callable[[str], None],
    ) -> None:
        self._asked, self._measure, self._keep, self._told = asked, measure, keep, told
        self._old, self._new = order(asked.tree, asked.good, asked.bad)
        self._results: dict[str, Result] = {}
        self._saved: dict[str, str] = {}
        self._where: Where | None = None

    def run(self) -> Bisection:
        asked = self._asked
        old, new = self._old, self._new
        for end in (old, new):
            self._told(f"{self._which(end)}, {_words(end)}")
            self._end(end)
        good, bad = (self._results[end.id] for end in (asked.good, asked.bad))
        self._where = telling(good, bad, asked.object)
        for end in (asked.good, asked.bad):
            self._told(f"{self._which(end)}: {self._figure(end):.2f} transfers/op")
        ends = Change(before=self._figure(asked.good), after=self._figure(asked.bad))
        differ = how(ends, asked.tolerance.least, asked.tolerance.share) is not None
        steps = [self._step(asked.good, "good"), self._step(asked.bad, "bad")]
        found = self._search((ends.before + ends.after) / 2, steps) if differ else []
        whole = self._whole(ends, differ, steps, found)
        return self._explained(whole) if len(found) == 1 else whole

    def _whole(
        self, ends: Change, differ: bool, steps: list[Step], found: list[Commit]
    ) -> Bisection:
        asked = self._asked
        sides = [self._one(end) for end in (asked.good, asked.bad)]
        last = sides[1]
        return Bisection(
            tree=str(asked.tree),
            good=asked.good,
            bad=asked.bad,
            older="good" if self._old is asked.good else "bad",
            object=asked.object,
            names=names(sides, asked.object),
            workload=last.title,
            operation=last.operation,
            topology=last.topology,
            sharers=last.sharers,
            options=list(asked.options),
            least=asked.least,
            paths=list(asked.paths),
            environment=self._results[asked.bad.id].environment,
            ends=ends,
            limit=(ends.before + ends.after) / 2,
            steps=steps,
            differ=differ,
            found=found,
        )

    def _search(self, limit: float, steps: list[Step]) -> list[Commit]:
        old, new = self._old, self._new
        rising = self._figure(new) > self._figure(old)
        answers: dict[Side, Answer] = {"old": "good", "new": "bad"}
        if old is self._asked.bad:
            answers = {"old": "bad", "new": "good"}
        search = Search(self._asked.place, old, new, self._asked.paths)
        number = 0
        while search.at is not None:
            at, number = search.at, number + 1
            of_about = f"step {number} of about {number + search.left}"
            self._told(f"{of_about}: {_words(at)}")
            try:
                self._try(at)
            except PartywallError as error:
                _fatal(error)
                self._told(f"{of_about}: skipped: {error.message}")
                steps.append(Step(commit=at, answer="skipped", transfers=None, why=error.message))
                search.judge(None)
                continue
            figure = self._figure(at)
            side: Side = "new" if (figure > limit) is rising else "old"
            self._told(f"{of_about}: {figure:.2f} transfers/op, {answers[side]}")
            steps.append(self._step(at, answers[side]))
            search.judge(side)
        return search.found

    def _explained(self, whole: Bisection) -> Bisection:
        """Add what the commit that was found changed, against its parent."""
        (first,) = whole.found
        asked, tree = self._asked, self._asked.tree
        parent = history.commit(tree, first.parents[0])
        steps = list(whole.steps)
        more = {"parent": parent, "files": history.files(tree, first)}
        if parent.id not in self._results:
            # Its answer followed from others', but not its figures.
            self._told(f"its parent: {_words(parent)}")
            try:
                self._try(parent)
            except PartywallError as error:
                _fatal(error)
                self._told(f"its parent: {error.message}")
                return whole.model_copy(update=more)
            nearer = abs(self._figure(parent) - whole.ends.before) <= abs(
                self._figure(parent) - whole.ends.after
            )
            steps.append(self._step(parent, "good" if nearer else "bad"))
        before, after = self._one(parent), self._one(first)
        return whole.model_copy(
            update=more
            | {
                "steps": steps,
                "at": Change(before=self._figure(parent), after=self._figure(first)),
                "before": uses(before, asked.object),
                "after": uses(after, asked.object),
                "findings": diff(
                    self._results[parent.id].model_copy(update={"workloads": [before]}),
                    self._results[first.id].model_copy(update={"workloads": [after]}),
                    asked.tolerance,
                ).findings,
            }
        )

    def _which(self, end: Commit) -> str:
        return "GOOD" if end is self._asked.good else "BAD"

    def _end(self, end: Commit) -> None:
        try:
            self._try(end)
        except PartywallError as error:
            name = f"{self._which(end)}, {end.short}"
            raise type(error)(f"{name}: {error.message}", error.hint) from error

    def _try(self, at: Commit) -> None:
        """Measure a commit and save what that gave. Whatever is wrong is raised."""
        history.checkout(self._asked.place, at)
        result = self._measure(at, self._where)
        self._saved[at.id] = str(self._keep(result))
        if self._where is not None and of(result, self._where) is None:
            raise EnvironmentProblem("it has no result of this workload")
        self._results[at.id] = result

    def _one(self, at: Commit) -> WorkloadResult:
        assert self._where is not None
        found = of(self._results[at.id], self._where)
        assert found is not None
        return found

    def _figure(self, at: Commit) -> float:
        return transfers(self._one(at), self._asked.object)

    def _step(self, at: Commit, answer: Answer) -> Step:
        saved = self._saved[at.id]
        return Step(commit=at, answer=answer, transfers=self._figure(at), saved=saved)


def _words(at: Commit) -> str:
    return f"{at.short} {at.subject}"


def _fatal(error: PartywallError) -> None:
    """Raise what is no commit's fault, and would be of all that follow."""
    if isinstance(error, GitProblem) or "No space left" in error.message:
        raise error
