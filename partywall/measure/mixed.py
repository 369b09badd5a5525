# SPDX-License-Identifier: GPL-2.0-or-later
"""Two servers on one machine: half of the containers run one, half the other.

What of Debian's packages they need is one root for both, as their windows are one
stretch of time; other roots are on one disk beside each other. How many requests each of
them answers is counted for each.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from partywall import guest
from partywall.analyse import names
from partywall.core.errors import PartywallError, UsageProblem
from partywall.core.progress import Progress
from partywall.guest import Guest, image, mixed, roots
from partywall.guest.sitting import Round
from partywall.guest.snapshot import booted
from partywall.measure import run, served
from partywall.measure.plan import Plan, record, say_if_long
from partywall.measure.run import Call
from partywall.measure.sitting import alike, counting_all, touches
from partywall.record import hooks
from partywall.record.plugin import recorder
from partywall.results.touches import Touch
from partywall.workloads import joined

Both = tuple[tuple[Touch, Touch], str]
"""What each side does to the other, and what the guest said of its kernel."""


def prepared(plan: Plan, each: Round) -> tuple[Plan, Round]:
    """Return how two servers are measured, with the one root of both if there can be one.

    UsageProblem if they can't be in one guest.
    """
    mine, *others = each.workloads
    other = others[0]
    root = joined([one.root for one in each.workloads if one.root is not None])
    if alike(mine) != alike(other):
        raise UsageProblem(
            f"{each.title}: the two are confined differently, and all containers alike",
            "leave --cap-add and --charge out",
        )
    # All that is there has room for what needs most of it.
    room = max(one.room for one in each.workloads)
    mine, other = (
        one.model_copy(update={"root": root or one.root, "room": room}) for one in (mine, other)
    )
    plan = replace(plan, workload=mine)
    plan.check()
    return plan, replace(each, workload=mine, beside=other)


def in_guests(
    plan: Plan, rounds: Sequence[Round], jobs: int, progress: Progress
) -> tuple[list[tuple[Touch, Touch] | PartywallError], set[str]]:
    """Return what became of each round, which has a guest of its own; see `sweep.in_guests`."""
    became: dict[int, tuple[Touch, Touch] | PartywallError] = {}
    calls: dict[int, Call[Both]] = {}
    plugin = None
    for number, each in enumerate(rounds):
        try:
            own, both = prepared(plan, each)
            # Once, and not by two at a time.
            _disk(both, progress)
            plugin = plugin or recorder(plan.qemu, progress)
            calls[number] = Call(each.title, plan.topology, measure, (own, both, plugin))
        except PartywallError as error:
            became[number] = error
    versions: set[str] = set()
    if not calls:
        return [became[number] for number in range(len(rounds))], versions
    todo = list(calls.values())
    guests = run.side_by_side(todo, jobs, progress)
    for number, found in zip(calls, guests, strict=True):
        if isinstance(found, PartywallError):
            became[number] = found
        else:
            became[number], version = found
            versions.add(version)
    return [became[number] for number in range(len(rounds))], versions


def _disk(each: Round, progress: Progress) -> tuple[roots.Disk, list[roots.Place]]:
    """Return the disk that has what both are started from, and where."""
    wanted = [one.root for one in each.workloads if one.root is not None]
    return roots.together([roots.disk(root, progress) for root in wanted], progress)


def measure(plan: Plan, each: Round, plugin: Path, memory: int, progress: Progress) -> Both:
    """Boot a guest for two servers, and return what each does to the other.

    ``plugin``, ``memory``, failures: as for `partywall.measure.plan.measure`.
    """
    # As there.
    gc.disable()
    mine, other = each.workloads

    def longer(times: int) -> Both:
        as_long = replace(
            each, workload=served.longer(mine, times), beside=served.longer(other, times)
        )
        return _measure(plan, as_long, plugin, memory, progress)

    return served.evened(each.title, progress, longer)


def _measure(plan: Plan, each: Round, plugin: Path, memory: int, progress: Progress) -> Both:
    made, places = _disk(each, progress)
    disk = roots.fitted(made, plan.kernel, progress)
    parts, _ = guest.initramfs(
        image.base(plan.kernel, plan.workload, progress),
        mixed.job(each, plan.topology, confined=plan.confined, disk=disk, places=places).pack(),
        progress,
    )
    watched = hooks.build(plan.kernel.vmlinux, counting_all([each]), waits=not plan.lines_only)
    settings = booted(plan.settings(parts, watched, plugin, memory, disk=disk), progress)
    with Guest(settings) as machine:
        recorded = record(machine, plan, each.title, progress)
        each = _counted(each, machine.console, plan)
        say_if_long(recorded, each.title, progress)
        with progress.step(f"{each.title}: walls and their names"):
            learned = names.learn(machine, plan.kernel)
            assert each.beside is not None
            both = touches(recorded, watched, lambda: learned, plan, each, each.beside)
        return both, machine.said("version") or "unknown"


def _counted(each: Round, console: str, plan: Plan) -> Round:
    """Return a round whose windows are the requests that each side had."""
    assert each.beside is not None
    sides = range(each.first), range(each.first, plan.topology.containers)
    mine, other = (served.requests(console, plan.topology, side) for side in sides)
    return replace(
        each,
        workload=each.workload.model_copy(update={"window": mine}),
        beside=each.beside.model_copy(update={"window": other}),
    )
