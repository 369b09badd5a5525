# SPDX-License-Identifier: GPL-2.0-or-later
"""What soaks found: for a table, for a file, and for an exit status."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from loads import OTHERS, TOPICS, topic
from reports import Report

HEAD = (
    "sanitizer",
    "topic",
    "operations, stock",
    "operations, ours",
    "reports, stock",
    "reports, ours",
    "of these ours alone",
)


@dataclass(frozen=True)
class Told:
    """A report, and why it is ours; ``why`` is None if stock's code can make it."""

    kind: str
    title: str
    topic: str
    why: str | None
    text: str

    @classmethod
    def of(cls, report: Report, why: str | None) -> Told:
        """The report as it is kept."""
        return cls(report.kind, report.title, topic(report.comm), why, report.text)


@dataclass(frozen=True)
class Soaked:
    """One guest's run. ``operations`` is by topic; ``wrong``: what loads complained of."""

    sanitizer: str
    kernel: str
    release: str
    build_id: str
    seconds: float
    ended: bool
    operations: dict[str, int] = field(default_factory=dict)
    reports: list[Told] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    @property
    def is_ours(self) -> bool:
        """Whether the kernel has the series."""
        return self.kernel == "partywall"

    @property
    def alone(self) -> list[Told]:
        """Reports that stock's code cannot make."""
        return [told for told in self.reports if told.why is not None] if self.is_ours else []

    @property
    def failed(self) -> bool:
        """Whether this is a fault of the series', or the run has shown nothing."""
        return self.is_ours and bool(self.alone or self.wrong or not self.ended)

    def of_topic(self, name: str) -> list[Told]:
        """Reports that name a task of the topic's load first."""
        return [told for told in self.reports if told.topic == name]


def _number(run: Soaked | None, name: str) -> str:
    if run is None or name == OTHERS:
        return ""
    count = run.operations.get(name)
    return "none" if count is None else f"{count:,}"


def rows(runs: Sequence[Soaked]) -> list[tuple[str, ...]]:
    """The table, a row for each sanitizer and topic; each sanitizer's first row names it."""
    found: list[tuple[str, ...]] = []
    for sanitizer in dict.fromkeys(run.sanitizer for run in runs):
        of_it = {run.kernel: run for run in runs if run.sanitizer == sanitizer}
        stock, ours = of_it.get("stock"), of_it.get("partywall")
        first = sanitizer
        for name in TOPICS:
            told = [None if run is None else run.of_topic(name) for run in (stock, ours)]
            if name == OTHERS and not any(told):
                continue
            counts = ["" if one is None else str(len(one)) for one in told]
            alone = "" if ours is None else str(sum(one.topic == name for one in ours.alone))
            operations = (_number(stock, name), _number(ours, name))
            found.append((first, name, *operations, *counts, alone))
            first = ""
    return found


def markdown(runs: Sequence[Soaked]) -> str:
    """The table as documentation has it."""
    lines = [HEAD, ("---", "---", *["---:"] * (len(HEAD) - 2)), *rows(runs)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def findings(runs: Iterable[Soaked]) -> list[str]:
    """In a line or two each what a person has to look at."""
    found = []
    for run in runs:
        name = f"{run.sanitizer}, {run.kernel}"
        if not run.ended:
            found.append(f"{name}: the guest did not come to its end")
        found += [f"{name}: {one}" for one in run.wrong]
        alone = Counter(f"{name}: {told.title}\n  {told.why} ({told.topic})" for told in run.alone)
        found += [
            f"{text}{f', {times} times' if times > 1 else ''}" for text, times in alone.items()
        ]
    return found


def as_json(runs: Iterable[Soaked], **more: Any) -> dict[str, Any]:
    """All of it, reports with their whole text."""
    return more | {"runs": [asdict(run) for run in runs]}
