# SPDX-License-Identifier: GPL-2.0-or-later
"""What changed, as Markdown: a comment beside a change of a kernel."""

from __future__ import annotations

from collections.abc import Iterator

from partywall.report.diff import NOT_MEASURED, UNITS
from partywall.report.marked import code, heads, row
from partywall.report.words import count, rate, topology
from partywall.results.diff import Difference, Finding

ROWS = 20
"""Findings of a table: whoever reads a comment wants the worst, and the page has all."""


def render(found: Difference) -> str:
    """Return the difference; what it is made of may say nothing but text."""
    return "\n".join(_lines(found)) + "\n"


def _lines(found: Difference) -> Iterator[str]:
    worse = found.regressions
    better = [finding for finding in found.findings if not finding.regression]
    yield f"### Walls: {_verdict(len(worse), len(better), len(found.missing))}"
    yield ""
    yield " → ".join(code(f"{one.release}, {one.source}") for one in (found.before, found.after))
    if worse:
        yield ""
        yield from _table("worse", worse)
    if better:
        yield ""
        yield "<details><summary>better</summary>"
        yield ""
        yield from _table("better", better)
        yield ""
        yield "</details>"
    if found.missing:
        yield ""
        yield f"{NOT_MEASURED.capitalize()}: {', '.join(map(code, found.missing))}."
    if found.others:
        yield ""
        yield f"Only in one of the two: {', '.join(map(code, found.others))}."
    if found.left_out:
        yield ""
        yield f"Left out: {code(found.left_out)}."


def _verdict(worse: int, better: int, missing: int) -> str:
    # What was not measured can't be said to be as it was.
    lacks = [f"{count(missing, 'workload')} {NOT_MEASURED}"] if missing else []
    if worse:
        said = count(worse, "regression")
    elif better:
        said = f"{count(better, 'figure')} better, none worse"
    else:
        said = "nothing changed by more than chance does"
    return ", ".join([*lacks, said])


def _table(words: str, findings: list[Finding]) -> Iterator[str]:
    yield from heads(words, "per operation", "of what", "workload")
    for finding in findings[:ROWS]:
        change = finding.per_op
        yield row(
            finding.how,
            f"{rate(change.before)} → {rate(change.after)}",
            f"{UNITS[finding.what]} {code(finding.name)}",
            f"{code(finding.workload)}, {topology(finding.topology)}",
        )
    if len(findings) > ROWS:
        yield f"| … | | {len(findings) - ROWS} more | |"
