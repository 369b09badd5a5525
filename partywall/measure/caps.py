# SPDX-License-Identifier: GPL-2.0-or-later
"""What one container can use up of what all need: tried, in a guest.

One container of two takes all that it can get of something; the other one, its neighbour,
asks for a little, before, beside and after. Nothing is recorded.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from partywall import guest
from partywall.core.errors import EnvironmentProblem, PartywallError, UsageProblem
from partywall.core.progress import Progress
from partywall.core.topology import Topology
from partywall.guest import Guest, sitting
from partywall.guest.oci import Confinement, Users
from partywall.guest.sitting import Round, Taking
from partywall.measure import run, sweep
from partywall.measure.run import Wanted
from partywall.measure.sitting import Found, Sitting, in_turn, ready
from partywall.results.caps import Cap, Caps, Got
from partywall.workloads import Workload

TRIES = 8
"""Operations of the neighbour: less than any process needs to do its work."""

SECONDS = 10
"""Of the guest's time, in which one takes what it can get."""

MEMORY = 1024
"""MiB of a guest. The kernel makes most of its limits by it: with little they are soon reached."""

# As Docker's own unit has them, and its containers; of what a process may open, fs.nr_open.
_LIMITS = (("RLIMIT_NOFILE", 1 << 20), ("RLIMIT_NPROC", -1))
_TASKS = -1

_ROUND_TAKES = 30 * 60.0
"""Seconds on top of a guest's own, so that it has two minutes of its own time for a round: see
`partywall.guest.sitting.patience`."""


def caps(
    wanted: Wanted,
    progress: Progress,
    users: Users = "host",
    seconds: int = SECONDS,
    memory: int = MEMORY,
) -> Caps:
    """Return what one container can use up of what each of the workloads makes.

    ``users``: who root of a container is on the machine; ``seconds``: in which as much is
    taken as can be had; ``memory``: MiB of the guest. Raise what the first failed of if all
    did; UsageProblem if a workload keeps nothing.
    """
    fleeting = next((one for one in wanted.workloads if not one.keeps), None)
    if fleeting is not None:
        raise UsageProblem(
            f"{fleeting.title} keeps nothing of what it makes, so it uses up nothing",
            "partywall workloads shows those that do: hold/*",
        )
    plan = sweep.plan_of(replace(wanted, topology=Topology(2, 1)))
    rounds = [Round(one) for one in wanted.workloads]
    how = _How(users, Taking(TRIES, seconds), memory)
    became, versions = sweep.in_guests(plan, rounds, wanted.jobs, progress, how)
    found = [one for one in became if isinstance(one, Cap)]
    if not found:
        first = became[0]
        assert isinstance(first, PartywallError)
        raise type(first)(f"{rounds[0].title}: {first.message}", first.hint)
    said = run.whole(wanted, plan, versions, [])
    return Caps(
        created=said.created,
        kernel=said.kernel,
        environment=said.environment,
        users=users,
        memory=memory,
        operations=found,
        failed=sweep.failures(rounds, became),
    )


class _How:
    """Does all rounds of a sitting in guests, in a process that does nothing else."""

    def __init__(self, users: Users, taking: Taking, memory: int) -> None:
        self._users, self._taking, self._memory = users, taking, memory

    def __call__(
        self, wanted: Sitting, plugin: Path, memory: int, progress: Progress
    ) -> Found[Cap]:
        return in_turn(wanted, lambda left, found: self._sit(left, progress, found))

    def _sit(self, wanted: Sitting, progress: Progress, found: Found[Cap]) -> None:
        plan, rounds = wanted.plan, wanted.rounds
        timeout = plan.timeout + _ROUND_TAKES
        more = Confinement(users=self._users, pids=_TASKS, limits=_LIMITS)
        parts, _ = guest.initramfs(
            sitting.base(plan.kernel, rounds, progress, self._taking),
            sitting.job(
                rounds,
                plan.topology,
                confined=plan.confined,
                timeout=timeout,
                purpose=self._taking,
                confinement=more,
            ),
        )
        settings = guest.Settings(
            qemu=plan.qemu,
            kernel_image=plan.kernel.image,
            initramfs=parts,
            topology=plan.topology,
            plugin=None,
            command_line=guest.command_line(plan.kernel.release, plan.parameters),
            timeout=plan.timeout + _ROUND_TAKES / len(rounds),
            memory=self._memory,
            rounds=len(rounds),
            second_line=True,
        )
        with Guest(settings) as machine:
            ready(machine, wanted, progress)
            for number, each in enumerate(rounds):
                with progress.step(each.title):
                    try:
                        found.add(_round(machine, number, each.workload))
                    except EnvironmentProblem as error:
                        # The guest is gone, or so far gone that the next round can't begin.
                        found.add(error)
                        break
            found.version = machine.said("version") or "unknown"


def _round(machine: Guest, number: int, workload: Workload) -> Cap | EnvironmentProblem:
    over = f"round {number} over"
    machine.wait_until(lambda: machine.reported(over) is not None)
    why = machine.reported(f"round {number} failed:")
    said = machine.reported(f"caps {number}")
    if why is not None or said is None:
        return EnvironmentProblem(f"the workload failed: {why or 'nobody says why'}")
    return parse(said, workload)


def parse(said: str, workload: Workload) -> Cap:
    """Return what the referee said of a workload: words of ``name=values``."""
    words = dict(word.split("=", 1) for word in said.split())
    knob, _, value = words.get("limit", "").partition("=")
    return Cap(
        title=workload.title,
        operation=workload.operation,
        tries=TRIES,
        limits={name: int(value) for name, value in words.items() if re.fullmatch(r"-?\d+", value)},
        before=_got(words["before"]),
        taken=_got(words["taken"]) if "taken" in words else None,
        beside=_got(words["beside"]) if "beside" in words else None,
        after=_got(words["after"]) if "after" in words else None,
        knob=knob or None,
        value=value.replace("/", " ") or None,
    )


def _got(text: str) -> Got:
    done, error, killed, processes = map(int, text.split(","))
    return Got(
        done=done,
        error=errno.errorcode.get(error, str(error)) if error else None,
        killed=bool(killed),
        processes=processes,
    )


def tried(library: Sequence[Workload]) -> list[Workload]:
    """Return those of a library that keep what they make."""
    return [one for one in library if one.keeps]
