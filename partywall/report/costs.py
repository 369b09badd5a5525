# SPDX-License-Identifier: GPL-2.0-or-later
"""What walls cost on a large machine, and what mends them: how a report begins."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from partywall.advice.mends import Advice
from partywall.analyse.verdict import AT
from partywall.model.cost import Cost, cost
from partywall.model.profiles import Profile
from partywall.report import held, helps, memory
from partywall.report.blocks import Fitting, Flow, columns, text
from partywall.report.reserve import reserve
from partywall.report.walls import Wall
from partywall.report.words import SCOPES, count, percent, rate, topology
from partywall.results.result import Result, WorkloadResult

WORST = 3
"""Walls of a workload that are told with what mends them."""

WORST_OF_MANY, MUCH = 2, 0.15
"""That, of more workloads than a few, and the share of time that all but the first then have."""

LEAST = 0.01
"""Share of time below which a wall is not told here."""

KINDS = "lines: transfers/op on walls; memory: bytes/op unpaid; waits: asleep at most"
"""What the figures are of the three kinds of walls."""


MEMORY = {
    "charged": "containers pay, growth tells for how long",
    "?": "not settled, or not looked at",
}
"""Words of the columns of memory and of waits."""

FEW = 5
"""Containers below which a line of two can't be told from one of all."""


def verdict(workload: WorkloadResult) -> Text:
    """Return the verdict in two words."""
    if workload.isolated:
        return Text("isolated", style="green")
    if workload.isolated_itself:
        return Text("isolated in its calls", style="yellow")
    if workload.verdict == "no wall":
        return Text("no wall", style="yellow")
    if not workload.found:
        return Text(f"{len(workload.put_off)} deferred", style="bold red")
    return Text(count(len(workload.found), "wall"), style="bold red")


def limit(workload: WorkloadResult) -> str:
    """Return the transfers per operation above which an object is a wall, in words.

    In a short window not each of them can be told; from `limit` on it can.
    """
    if workload.limit is not None and workload.limit > workload.threshold:
        return f"{workload.threshold:g} ({rate(workload.limit)} for certain)"
    return f"{workload.threshold:g}"


def without_walls(workload: WorkloadResult) -> str | None:
    """Return what moves where nothing is a wall, in words; None if something is."""
    if workload.isolated_itself:
        judged = "not judged" if workload.deferred is None else "included"
        least = f"no more than {workload.threshold:g} transfers/op {among(workload)}"
        return "; ".join([f"{least}, deferred work {judged}", *reserve(workload)])
    if not workload.found and workload.deferred is not None and workload.put_off:
        moved = rate(workload.deferred.sums.walls)
        said = [f"no walls but in deferred work, {moved} transfers/op {among(workload)}"]
        return "; ".join([*said, *reserve(workload)])
    if workload.verdict != "no wall":
        return None
    said = []
    if workload.sums is None:
        said.append(f"{rate(workload.moved)} in all")
    elif workload.sums.handed_over:
        said.append(f"{rate(workload.sums.handed_over)} are handed over")
    if workload.sums is not None and workload.sums.rest:
        said.append(f"{rate(workload.sums.rest)} are shared too seldom to tell")
    if workload.added:
        said.append(f"{rate(workload.added)} are of deferred work")
    said += reserve(workload)
    return (
        f"nothing that is shared has more than {limit(workload)} transfers/op "
        f"{among(workload)}; {', '.join(said)}"
    )


def deferred(workload: WorkloadResult) -> str:
    """Return what deferred work adds, in words; "?" if that was not judged."""
    return "?" if workload.deferred is None else rate(workload.added)


def among(workload: WorkloadResult) -> str:
    """Return between whom transfers are counted for the verdict."""
    if workload.at is None:
        return SCOPES[workload.scope]
    return f"between {workload.at} containers"


def at(workload: WorkloadResult, profile: Profile) -> Cost:
    """Return what a workload costs at the number of containers that its verdict is for."""
    return cost(workload, profile, workload.at or AT)


def worst(walls: list[Wall], found: Cost) -> list[tuple[Wall, float]]:
    """Return the walls that cost most, with the share of its time that each container waits.

    What is waited for an object is of both kinds of work: if it is a wall of either, the one
    of deferred work is left out.
    """
    own = {wall.object.name for wall in walls if not wall.deferred}
    told = [wall for wall in walls if not (wall.deferred and wall.object.name in own)]
    waits = [(wall, found.waits.get(wall.object.name, 0.0)) for wall in told]
    waits.sort(key=lambda one: (-one[1], one[0].number))
    return [(wall, share) for wall, share in waits[:WORST] if share >= LEAST]


def blocks(
    result: Result, shown: list[tuple[WorkloadResult, list[Wall]]], profile: Profile
) -> Iterator[RenderableType]:
    """Yield the summary, then for each workload what costs it most and what mends that.

    ``shown``: the workloads that are, with their walls, those of deferred work as well.
    """
    expected = [at(workload, profile) for workload, _ in shown]
    numbers = {found.at for found in expected}
    number = f" at {min(numbers)}," if len(numbers) == 1 else ""
    machine = f"{profile.name} ({profile.cores} cores; see partywall model)"
    yield text(f"predicted{number} for {machine}", "dim")
    yield _summary([(workload, each) for (workload, _), each in zip(shown, expected, strict=True)])
    yield text(KINDS, "dim")
    yield from (text(said, "dim") for said in _legend([workload for workload, _ in shown]))
    helps_most = helps.table(result, [workload for workload, _ in shown], profile)
    if helps_most.row_count:
        yield ""
        yield helps_most
    advice = Advice(result)
    heading = "what costs most, and what mends it (series: ours for 6.12)"
    table = columns(("lost", "wall"), heading)
    for (workload, found), each in zip(shown, expected, strict=True):
        costly = worst(found, each)
        if len(shown) > helps.FEW:
            costly = [one for one in costly if one[1] >= MUCH or one is costly[0]][:WORST_OF_MANY]
        if not costly:
            continue
        shape = topology(workload.topology)
        table.add_row("", "", text(f"{workload.title}, {shape}", "bold"))
        for wall, share in costly:
            pieces = [text(f"{wall.object.title} {wall.folded}".rstrip(), "bold red")]
            if wall.deferred:
                pieces.append(text("of deferred work"))
            mends = advice.on(wall.lines, workload)
            # What no kernel mends may be mended by how containers are started.
            mends = [mend for mend in mends if mend.by != "none"] or mends
            pieces += [text(mend.words, "green") for mend in mends]
            table.add_row(percent(share), str(wall.number), Flow(*pieces))
    if table.row_count:
        yield ""
        yield table


def _legend(workloads: list[WorkloadResult]) -> Iterator[str]:
    """Say what words of the columns mean, and what so few containers can't tell."""
    words = {memory.brief(workload) for workload in workloads}
    words |= {held.brief(workload) for workload in workloads}
    said = [f"{word}: {MEMORY[word]}" for word in MEMORY if word in words]
    if any(word.endswith(held.SHARED) for word in words):
        said.append(f"{held.SHARED}: by who shares the lock; who wants it alone waits")
    if any(workload.added > workload.threshold for workload in workloads):
        plus = any(one.judged and one.put_off for one in workloads)
        said.append(f"what deferred work adds comes on top{' (+: its walls)' if plus else ''}")
    if said:
        yield "; ".join(said)
    if any(
        workload.scope == "between" and workload.every_wall and workload.topology.containers < FEW
        for workload in workloads
    ):
        yield f"of fewer than {FEW} containers: what two share is taken as shared by all"


def share(found: Cost) -> str:
    """Return what each does of what one alone would, with what that may at least and at most be.

    >>> from partywall.model.queues import Range
    >>> share(Cost(64, "containers", Range(low=0.213, usual=0.25, high=0.32), {}, bound=False))
    '25% (21-32%)'
    """
    low, usual, high = (
        percent(one) for one in (found.relative.low, found.relative.usual, found.relative.high)
    )
    around = "" if low == high else f" ({low.removesuffix('%')}-{high})"
    # What is not in the figures may bring it down from each of them.
    return f"at most {high}" if found.bound else f"{usual}{around}"


def _summary(workloads: list[tuple[WorkloadResult, Cost]]) -> RenderableType:
    """A row for each workload; where that leaves no room for names, some words for each."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("workload", overflow="fold")
    several = len({found.at for _, found in workloads}) > 1
    # Here the name comes first, so the rest stands at the end of a long one.
    for heading in ("measured", "of one alone", "lines", "memory", "waits"):
        table.add_column(heading, justify="right", no_wrap=True, vertical="bottom")
    told = []
    for workload, found in workloads:
        title, shape = text(workload.title, "bold"), topology(workload.topology)
        alone = f"{share(found)}{f' at {found.at}' if several else ''}"
        lines, stays, waits = _lines(workload), memory.brief(workload), held.brief(workload)
        table.add_row(title, shape, alone, lines, stays, waits)
        pieces = [text(f"{alone} of one alone"), text("lines ").append_text(lines)]
        pieces += [text(f"memory {stays}"), text(f"waits {waits}")]
        told.append(Flow(title, text(shape), *pieces))
    return Fitting(table, Group(*told))


def _lines(workload: WorkloadResult) -> Text:
    """The verdict on lines, and what moves on those that are walls, of deferred work apart."""
    moved, late = workload.judged, 0.0
    if workload.deferred is not None and workload.put_off:
        late = workload.deferred.sums.walls
    said = verdict(workload)
    if moved:
        said.append(f" {rate(moved)}")
    return said.append(f" +{rate(late)}" if moved else f" {rate(late)}") if late else said
