# SPDX-License-Identifier: GPL-2.0-or-later
"""Measures the known walls and prints recall and precision: ``make known``.

Each workload runs once on each kernel, with `partywall check`'s machinery. What was
measured is kept in ``results/known``; ``--saved`` scores that again.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import cases
import scoring
from rich.console import Console
from rich.table import Table

from partywall import workloads
from partywall.core import cache
from partywall.core.errors import PartywallError
from partywall.core.progress import Progress, Quiet, Terminal
from partywall.core.topology import Topology
from partywall.kernels import Kernel, Request, build, resolve, series
from partywall.measure import run
from partywall.results import store
from partywall.results.document import dump
from partywall.results.result import WorkloadResult
from partywall.workloads import Workload

RESULTS = Path("results") / "known"
SHAPES = {"between": Topology(4, 1), "within": Topology(1, 4)}
TIMEOUT = 1800.0
"""Seconds for a guest, on a machine that has other work to do as well."""
OWN = cases.FOLDER / "workloads"


BACK = "stock-back"
"""The kernel of Linux 6.12 with the patches of `back`, each of which undoes what mended a wall."""


def back(folder: Path = cases.FOLDER / "back") -> list[series.Patch]:
    """Return the patches of a folder that build walls back, by name."""
    return [
        series.Patch(folder.name, path, path.read_text()) for path in sorted(folder.glob("*.patch"))
    ]


def kernel_of(name: str, progress: Progress) -> Kernel:
    """Return a kernel of the table; what ``--kernel`` takes, or `BACK`."""
    if name == BACK:
        return build.from_series(BACK, back(), build.Variant(), progress)
    return resolve(Request(name), progress)


def workload(title: str) -> Workload:
    """Return a workload of these tests, or one of the program's, by its title."""
    own = [one for one, _ in workloads.load(OWN) if one.title == title]
    return own[0] if own else workloads.select_any([title])[0]


@dataclass
class Bench:
    """Measures each workload once on each kernel, or takes what is saved."""

    progress: Progress
    saved: bool = False
    folder: Path = RESULTS
    kernels: dict[str, Kernel] = field(default_factory=dict)

    def path(self, entry: cases.Case | cases.Control, kernel: str) -> Path:
        """Return where the result lies."""
        parts = (kernel, entry.workload, entry.scope, entry.append)
        name = "-".join(re.sub(r"[^\w.+]+", "_", part) for part in parts if part)
        return self.folder / f"{name}.json"

    def result(self, entry: cases.Case | cases.Control, kernel: str) -> tuple[str, WorkloadResult]:
        """Return the kernel's release and what was measured on it; PartywallError if nothing."""
        path = self.path(entry, kernel)
        if not (self.saved and path.exists()) and path not in self._done:
            if kernel not in self.kernels:
                self.kernels[kernel] = kernel_of(kernel, self.progress)
            outcome = run.check(
                run.Wanted(
                    kernel=self.kernels[kernel],
                    workloads=[workload(entry.workload)],
                    topology=SHAPES[entry.scope],
                    parameters=entry.append,
                    timeout=TIMEOUT,
                    jobs=1,
                ),
                self.progress,
            )
            for error in outcome.failures.values():
                raise error
            assert outcome.result is not None
            cache.write_whole(path, dump(outcome.result))
        self._done.add(path)
        found = store.load(path)
        return found.kernel.release, found.workloads[0]

    _done: set[Path] = field(default_factory=set)


def _number(value: float) -> str:
    return "0" if value == 0 else f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def _version(release: str) -> str:
    return release.removesuffix("-cloud-amd64")


def show(
    console: Console,
    scores: Sequence[scoring.Score],
    checked: Sequence[scoring.Checked],
    skipped: Sequence[cases.Case],
    failures: dict[str, PartywallError],
) -> None:
    """Print the table, what was not run, and the two figures."""
    table = Table(box=None, pad_edge=False, header_style="")
    for name in ("known wall", "workload", "scope", "per op"):
        table.add_column(name)
    for name in ("before", "after"):
        table.add_column(name, justify="right")
        table.add_column("on")
    table.add_column("verdict")
    for one in scores:
        case = one.case
        releases = [_version(release) for release in one.releases]
        figures = (_number(one.before), releases[0], _number(one.after), releases[1])
        table.add_row(case.name, case.workload, case.scope, case.measure, *figures, one.verdict)
    console.print(table)
    console.print()
    for control in checked:
        said = ", ".join(control.walls) or "isolated"
        console.print(f"control {control.control.name}, {control.kernel}: {said}", soft_wrap=True)
    for case in skipped:
        console.print(f"not run: {case.name}: {case.skip}", soft_wrap=True)
    for name, error in failures.items():
        console.print(f"failed: {name}: {error.message}", soft_wrap=True)
    sums = scoring.total(scores, checked)
    console.print(
        f"\nrecall {sums.recall:.0%}: "
        f"{sums.found} of {sums.run} known walls are named where they are"
        f"\nprecision {sums.precision:.0%} of the table's objects: "
        f"{sums.wrong} named where they should not be"
    )


def mended(case: cases.Case) -> str:
    """Return by what it was mended, for the tables."""
    if case.after_it == "there":
        return f"nobody: {case.subject}"
    return f"{case.commit} ({case.release}) {case.subject}"


def markdown(
    scores: Sequence[scoring.Score],
    checked: Sequence[scoring.Checked],
    skipped: Sequence[cases.Case],
) -> str:
    """Return the tables of docs/known-walls.md."""
    rows = [
        "| known wall | mended by | structure | published | workload, scope | per op"
        " | before | after | verdict |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for one in scores:
        case = one.case
        cells = (
            case.name,
            mended(case),
            f"`{case.structure}`",
            case.gain,
            f"`{case.workload}`, {case.scope}",
            case.measure,
            f"{_number(one.before)} on {_version(one.releases[0])}",
            f"{_number(one.after)} on {_version(one.releases[1])}, to be {case.after_it}",
            one.verdict,
        )
        rows.append(f"| {' | '.join(cells)} |")
    rows += ["", "| not run | mended by | structure | published | why |", "|---|---|---|---|---|"]
    for case in skipped:
        reasons = (case.name, mended(case), f"`{case.structure}`", case.gain, case.skip)
        rows.append(f"| {' | '.join(reasons)} |")
    if checked:
        rows += ["", "| control, to be isolated | kernel | found |", "|---|---|---|"]
    for control in checked:
        found = ", ".join(control.walls) or "isolated"
        where = f"`{control.control.workload}`, {control.control.scope}"
        rows.append(f"| {where} | {_version(control.kernel)} | {found} |")
    return "\n".join(rows)


def main(arguments: Sequence[str]) -> int:
    """Measure what is asked for; return 3 if something could not be measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="cases and controls; all if none is named")
    parser.add_argument("--saved", action="store_true", help="score what results/known holds")
    parser.add_argument("--markdown", action="store_true", help="print the tables as Markdown")
    parser.add_argument("--list", action="store_true", help="print the names and leave")
    told = parser.parse_args(arguments)
    table = cases.read()
    entries: dict[str, cases.Case | cases.Control] = {one.name: one for one in table.case}
    entries |= {one.name: one for one in table.control}
    unknown = [name for name in told.names if name not in entries]
    if unknown or told.list:
        print(f"{unknown[0]}: no such case" if unknown else "\n".join(entries))
        return 2 if unknown else 0
    chosen = [entries[name] for name in told.names] or list(entries.values())

    scores: list[scoring.Score] = []
    checked: list[scoring.Checked] = []
    failures: dict[str, PartywallError] = {}
    live = Console(stderr=True)
    terminal = Terminal(live) if live.is_terminal else None
    progress: Progress = terminal or Quiet()
    bench = Bench(progress, saved=told.saved)

    def measure(entry: cases.Case | cases.Control) -> None:
        if isinstance(entry, cases.Control):
            for kernel in entry.kernels:
                release, result = bench.result(entry, kernel)
                checked.append(scoring.check(entry, release, result))
        elif not entry.skip:
            old, before = bench.result(entry, entry.before)
            new, after = bench.result(entry, entry.after)
            scores.append(scoring.score(entry, before, after, (old, new)))

    def measure_all() -> None:
        for entry in chosen:
            try:
                measure(entry)
            except PartywallError as error:
                failures[entry.name] = error

    if terminal is not None:
        with terminal:
            measure_all()
    else:
        measure_all()
    skipped = [one for one in chosen if isinstance(one, cases.Case) and one.skip]
    if told.markdown:
        print(markdown(scores, checked, skipped))
        return 3 if failures else 0
    show(Console(width=None if sys.stdout.isatty() else 140), scores, checked, skipped, failures)
    return 3 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
