# SPDX-License-Identifier: GPL-2.0-or-later
"""What would help most, before all that was found: what a person can act on comes first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from rich.table import Table
from rich.text import Text

from partywall.advice.explained import Remedy
from partywall.advice.most import Most, most
from partywall.model.profiles import Profile
from partywall.report.blocks import columns, text
from partywall.report.words import plain, topology
from partywall.results.result import Result, WorkloadResult

HEADING = "what would help most, by the model (partywall explain tells more)"

ALL = "all that explain tells of"

GAINS = 2
"""Gains of a workload that are told, the largest first."""

FEW = 3
"""Workloads up to which there is room for more than a row of each."""


def table(result: Result, workloads: Iterable[WorkloadResult], profile: Profile) -> Table:
    """Return what would help each workload that has walls; of no rows if none has any."""
    found = columns(("times",), HEADING)
    walled = [workload for workload in workloads if workload.every_wall]
    for workload in walled:
        name = f"{workload.title}, {topology(workload.topology)}"
        helping = most(result, workload, profile)
        if len(walled) > FEW:
            times, words = in_short(helping)
            row = Text(overflow="fold").append(plain(name), "bold").append(plain(f": {words}"))
            found.add_row(times, row)
            continue
        found.add_row("", text(name, "bold"))
        for times, words in rows(helping):
            found.add_row(times, text(words))
    return found


def in_short(found: Most) -> tuple[str, str]:
    """Return how many times as much is done by what, and with all; and what bounds it then."""
    (times, words), *rest = [*rows(found), ("", "next to nothing is known that would help")]
    more = [f"{one} times with {said}" for one, said in rest if said.startswith(ALL)]
    if found.bound and not times.startswith("x"):
        then = "then " if found.remedies else ""
        more.append(f"{then}bound by {' and '.join(found.bound)}")
    return times, "; ".join([words, *more])


def rows(found: Most) -> Iterator[tuple[str, str]]:
    """Yield how many times as much is done, and by what; or what else is to be said."""
    by: dict[str, list[Remedy]] = defaultdict(list)
    for one in found.remedies:
        by[f"{one.gain:.2f}"].append(one)
    told = [(times, some) for times, some in by.items() if times != "1.00"][:GAINS]
    for times, some in told:
        *others, last = map(_name, some)
        yield times, f"{', '.join(others)} or {last}" if others else last
    whole = f"{found.together:.2f}"
    if len(found.remedies) > 1 and all(times != whole for times, _ in told):
        most = " (at most)" if any(one.at_most for one in found.remedies) else ""
        yield whole, f"{ALL}, together{most}"
    if not found.remedies:
        hidden = "no mend that is known brings anything by itself"
        yield "", hidden if found.known else "no mend is known that would help"
    if found.bound:
        *others, last = found.bound
        names = f"{', '.join(others)} and {last}" if others else last
        gone = "were gone as well" if found.remedies else "were gone"
        then = " then" if found.remedies else ""
        what = "the worst of what bounds it" if others else "which bounds it"
        yield f"x {found.beyond:.2f}", f"if {names} {gone}, {what}{then}"


def _name(one: Remedy) -> str:
    return f"{one.name} (at most)" if one.at_most else one.name
