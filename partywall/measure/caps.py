# SPDX-License-Identifier: GPL-2.0-or-later
"""What one container can use up of what all need: tried, in a guest.

One container of two takes all that it can get of something; the other one, its neighbour,
asks for a little, before, beside and after. Nothing is recorded.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from partywall import guest
from partywall.core.errors import EnvironmentProblem, PartywallError, UsageProblem
from partywall.core.progress import Progress
from partywall.core.topology import Topology
from partywall.guest import Guest, sitting
from partywall.guest.oci import Confinement, Users
from partywall.guest.sitting import SHARE, Round, Taking
from partywall.guest.snapshot import booted
from partywall.kernels import require
from partywall.measure import memory as free_memory
from partywall.measure import run, sweep
from partywall.measure.after import fault
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

# Docker limits no tasks. What a process may open is more than a machine of this size has, so
# that it is not its own limit that is found; twice as much is the most that can be.
_LIMITS = (("RLIMIT_NOFILE", 1 << 19), ("RLIMIT_NPROC", -1))
_TASKS = -1

_OPTIONS = ("CONFIG_MEMCG", "CONFIG_SYSCTL")

_REST = 240
"""Seconds of a guest's time for all of a round but the taking: a few dozen tries, each of which
may wait for five. All sleep meanwhile, so that it costs little."""


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
    did; UsageProblem if a workload can't be done without end.
    """
    require_endless(wanted.workloads)
    require(wanted.kernel, _OPTIONS, "partywall caps")
    plan = sweep.plan_of(replace(wanted, topology=Topology(2, 1)))
    rounds = [Round(one) for one in wanted.workloads]
    how = _How(users, Taking(TRIES, seconds), memory)
    jobs = max(1, min(wanted.jobs, free_memory.available() // memory))
    became, versions = sweep.in_guests(plan, rounds, jobs, progress, how)
    found = sweep.measured(rounds, became, Cap)
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


def require_endless(wanted: Sequence[Workload]) -> None:
    """Raise UsageProblem if one can't go on until there is no more."""
    # What keeps what it makes is refused at some time; else it has no need of a number.
    counted = next((one for one in wanted if one.counted and not one.keeps), None)
    if counted is not None:
        raise UsageProblem(
            f"{counted.title} has to know how many there will be, so it can't use up all",
            "leave it out",
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
        timeout = plan.timeout + SHARE * (self._taking.seconds + _REST)
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
            progress,
        )
        settings = guest.Settings(
            qemu=plan.qemu,
            kernel_image=plan.kernel.image,
            initramfs=parts,
            topology=plan.topology,
            plugin=None,
            command_line=guest.command_line(plan.kernel.release, plan.parameters),
            timeout=timeout,
            memory=self._memory,
            rounds=len(rounds),
            second_line=True,
        )
        with Guest(booted(settings, progress)) as machine:
            ready(machine, wanted, progress)
            for number, each in enumerate(rounds):
                with progress.step(each.title):
                    try:
                        became = _round(machine, number, each.workload)
                    except EnvironmentProblem as error:
                        # The guest is gone, or so far gone that the next round can't begin.
                        found.add(error)
                        break
                if isinstance(became, Cap) and became.verdict == "not tried" and number:
                    # It may be for what another one left: in a guest of its own it is not.
                    break
                found.add(became)
                if isinstance(became, Cap) and became.stays:
                    break
            found.version = machine.said("version") or "unknown"


def _round(machine: Guest, number: int, workload: Workload) -> Cap | PartywallError:
    over = f"round {number} over"
    machine.wait_until(lambda: machine.reported(over) is not None)
    why = machine.reported(f"round {number} failed:")
    said = machine.reported(f"caps {number}")
    if why is not None or said is None:
        return EnvironmentProblem(f"the workload failed: {why or 'nobody says why'}")
    try:
        return parse(said, workload)
    except Exception as error:
        return fault("what the referee says could not be read", error)


def parse(said: str, workload: Workload) -> Cap:
    """Return what the referee said of a workload: words of ``name=values``."""
    words = dict(word.split("=", 1) for word in said.split())
    knob, _, value = words.get("limit", "").partition("=")
    got = {name: _got(words[name]) for name in _SAID if name in words}
    return Cap(
        title=workload.title,
        operation=workload.operation,
        tries=TRIES,
        before=got["before"],
        taken=got.get("taken"),
        beside=got.get("beside"),
        after=got.get("after"),
        knob=knob or None,
        value=value.replace("/", " ") or None,
    )


_SAID = ("before", "taken", "beside", "after")


def _got(text: str) -> Got:
    done, error, killed, processes, full, reclaimed = map(int, text.split(","))
    return Got(
        done=done,
        error=errno.errorcode.get(error, str(error)) if error else None,
        killed=bool(killed),
        full=bool(full),
        reclaimed=bool(reclaimed),
        processes=processes,
    )


def tried(library: Sequence[Workload]) -> list[Workload]:
    """Return those of a library that keep what they make."""
    return [one for one in library if one.keeps]
