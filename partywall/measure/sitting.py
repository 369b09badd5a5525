# SPDX-License-Identifier: GPL-2.0-or-later
"""Many workloads in one boot of a guest, one after the other: a sitting.

Each is warmed up, met at the barrier, recorded and named by itself. The guest is held
while the last one is analysed, so that names are read from memory as it was then.
"""

from __future__ import annotations

import gc
import pickle
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Generic, TypeVar

from partywall import guest
from partywall.analyse import names
from partywall.analyse.beside import Side
from partywall.core.errors import EnvironmentProblem, PartywallError
from partywall.core.progress import Progress
from partywall.guest import Guest, sitting
from partywall.guest.sitting import Round
from partywall.guest.snapshot import booted
from partywall.measure.after import Looks, fault
from partywall.measure.plan import Plan, check_windows, say_if_long
from partywall.record import hooks, reading
from partywall.record.recording import Recording
from partywall.results.memory import Memory
from partywall.results.result import WorkloadResult
from partywall.results.touches import Touch
from partywall.workloads import Workload


@dataclass(frozen=True)
class Sitting:
    """What to measure in one guest, in this order.

    ``plan``: how, and on what; its workload is the first. All are confined alike and
    charge the same functions.
    """

    plan: Plan
    rounds: tuple[Round, ...]


T = TypeVar("T")

Measured = WorkloadResult | tuple[Touch, Touch]
"""Of a round: a result; of two workloads, what each does to the other."""

Became = Measured | PartywallError
"""The same, or why there is none."""


@dataclass
class Found(Generic[T]):
    """What became of each round, in their order, and what the guest said of its kernel.

    What is found of one operation is up to a hundred thousand objects, and there are many
    while each is small as bytes: so they are kept.
    """

    version: str = "unknown"
    whole: bool = True
    """No guest failed, and no round."""
    _packed: list[bytes] = field(default_factory=list)

    def add(self, *became: T | PartywallError) -> None:
        """Keep what became of the next rounds."""
        self.whole &= not any(isinstance(one, PartywallError) for one in became)
        # Of the levels the fastest: it makes an eighth of them.
        self._packed += [zlib.compress(pickle.dumps(one), 1) for one in became]

    def __len__(self) -> int:
        return len(self._packed)

    def can_be_read(self) -> bool:
        """Return True if all of it can be read. Raise whatever is wrong if not."""
        return all(self._read(one) is not None for one in self._packed)

    def results(self) -> Iterable[T | PartywallError]:
        """Return them as they were. It can be asked once: they are let go of."""
        while self._packed:
            yield self._read(self._packed.pop(0))

    @staticmethod
    def _read(packed: bytes) -> T | PartywallError:
        # Packed by this program itself.
        became: T | PartywallError = pickle.loads(zlib.decompress(packed))  # noqa: S301
        return became


def alike(workload: Workload) -> tuple[object, ...]:
    """Return what workloads must have in common to be in one sitting."""
    return (
        workload.capabilities,
        workload.apparmor,
        workload.seccomp,
        workload.systempaths,
        workload.charge,
        workload.modules,
        workload.lower_layers,
    )


def measure(wanted: Sitting, plugin: Path, memory: int, progress: Progress) -> Found[Measured]:
    """Measure all rounds, in a process that does nothing else.

    ``plugin``, ``memory``: as for `partywall.measure.plan.measure`; failures: as for `in_turn`.
    """
    # As in plan.measure; what goes round in circles is collected once for each round.
    gc.disable()
    return in_turn(wanted, lambda left, found: _sit(left, plugin, memory, progress, found))


def in_turn(wanted: Sitting, sit: Callable[[Sitting, Found[T]], None]) -> Found[T]:
    """Return what became of all rounds, by as many guests as it takes.

    ``sit``: boots one, and adds what becomes of its rounds. What ends the guest
    is a failure of the round that ran; those after it have another guest. If that does
    not boot they are failures, too: what was measured stays. EnvironmentProblem if no
    guest boots.
    """
    found: Found[T] = Found()
    while len(found) < len(wanted.rounds):
        left = replace(wanted, rounds=wanted.rounds[len(found) :])
        try:
            sit(left, found)
        except EnvironmentProblem as error:
            if not len(found):
                raise
            why = f"the guest after one that ended did not start: {error.message}"
            found.add(*[EnvironmentProblem(why, error.hint)] * len(left.rounds))
    return found


def ready(machine: Guest, wanted: Sitting, progress: Progress) -> None:
    """Wait until a guest starts its containers. EnvironmentProblem if it does not."""
    plan, rounds = wanted.plan, wanted.rounds
    with progress.step(f"guest for {len(rounds)} rounds", guest.expected_seconds(plan.topology)):
        try:
            machine.wait_for("ready")
        except EnvironmentProblem:
            names.check_build(machine.said("build"), plan.kernel)
            raise


def contents(wanted: Sitting, progress: Progress) -> tuple[tuple[bytes, ...], str]:
    """Return the archives that a guest gets, and their hash."""
    plan, rounds = wanted.plan, wanted.rounds
    return guest.initramfs(
        sitting.base(plan.kernel, rounds, progress),
        sitting.job(
            rounds,
            plan.topology,
            confined=plan.confined,
            timeout=plan.timeout,
            steps=[_step(plan, each) for each in rounds],
        ),
        progress,
    )


def _sit(
    wanted: Sitting,
    plugin: Path,
    memory: int,
    progress: Progress,
    found: Found[Measured],
) -> None:
    """Boot one guest, and add what becomes of its rounds."""
    plan, rounds = wanted.plan, wanted.rounds
    # What was learned of a guest that ended goes with it.
    gc.unfreeze()
    parts, digest = contents(wanted, progress)
    counted = counting_all(rounds)
    watched = hooks.build(plan.kernel.vmlinux, counted, waits=not plan.lines_only)
    settings = plan.settings(parts, watched, plugin, memory, rounds=len(rounds))
    with Guest(booted(settings, progress)) as machine:
        ready(machine, wanted, progress)
        memory_of = _Memory(machine, plan)
        looks = Looks(machine, lambda: memory_of().prog)
        for number, each in enumerate(rounds):
            with progress.step(each.title):
                try:
                    recorded = _recorded(machine, number)
                except EnvironmentProblem as error:
                    # The guest is gone, or so far gone that the next round can't begin.
                    found.add(error)
                    break
                if isinstance(recorded, Recording):
                    say_if_long(recorded, each.title, progress)
                    hashes = digest, machine.went_on_from
                    became = _analysed(recorded, watched, memory_of, plan, each, hashes)
                    left = _left(looks, number, plan, each)
                    gc.collect()
                    # What was learned stays: the collector need not go through it again.
                    gc.freeze()
                    if isinstance(left, Memory) and isinstance(became, WorkloadResult):
                        became = became.model_copy(update={"memory": left})
                    found.add(became)
                    if isinstance(left, PartywallError):
                        found.whole = False
                        progress.note(f"{each.title}: {left.message}")
                    if isinstance(left, EnvironmentProblem):
                        # The guest is gone, or stands still.
                        break
                else:
                    found.add(recorded)
        found.version = machine.said("version") or "unknown"


def _step(plan: Plan, each: Round) -> int:
    """Operations around which memory is looked at: of a round of one workload."""
    return 0 if each.beside is not None else plan.step(each.workload)


def _left(looks: Looks, number: int, plan: Plan, each: Round) -> Memory | PartywallError | None:
    """Let the guest go on, and return what a round leaves behind; None if it has no looks."""
    step, machine = _step(plan, each), looks.machine
    if not step:
        machine.recording_of(number).unlink()
        return None
    return looks.around(
        machine.recording_of(number), step * plan.topology.total, over=f"round {number} over"
    )


class _Memory:
    """A guest's memory, opened when it is first asked for."""

    def __init__(self, machine: Guest, plan: Plan) -> None:
        self._machine, self._plan = machine, plan
        self._learned: names.Learned | None = None

    def __call__(self) -> names.Learned:
        if self._learned is None:
            self._learned = names.learn(self._machine, self._plan.kernel)
        return self._learned


def counting_all(rounds: Sequence[Round]) -> Workload:
    """Return the first workload, with what any of them counts."""
    counted = {name for each in rounds for workload in each.workloads for name in workload.count}
    return rounds[0].workload.model_copy(update={"count": tuple(sorted(counted))})


def _recorded(machine: Guest, number: int) -> Recording | EnvironmentProblem:
    """Return a round's recording, or what failed. EnvironmentProblem if the guest ends."""
    path, over = machine.recording_of(number), f"round {number} over"
    machine.wait_until(lambda: path.exists() or machine.reported(over) is not None)
    if path.exists():
        return reading.load(path)
    why = machine.reported(f"round {number} failed:")
    if why is not None:
        return EnvironmentProblem(f"the workload failed: {why}")
    return EnvironmentProblem(
        "all ended well, but not every CPU ran a window from its start to its stop",
        "is the program marked once, on each CPU that it was given?",
    )


def _analysed(
    recorded: Recording,
    watched: hooks.Hooks,
    memory_of: Callable[[], names.Learned],
    plan: Plan,
    each: Round,
    hashes: tuple[str, str | None],
) -> Became:
    """Return what a round's recording shows, or why nothing. ``hashes``: as `conclude` wants."""
    try:
        check_windows(recorded, plan.topology)
        if each.beside is not None:
            return touches(recorded, watched, memory_of, plan, each, each.beside)
        own = replace(plan, workload=each.workload)
        return own.analysis(recorded, watched, memory_of()).conclude(own.confinement, *hashes)
    except Exception as error:
        return fault("it was recorded and could not be analysed", error)


def touches(
    recorded: Recording,
    watched: hooks.Hooks,
    memory_of: Callable[[], names.Learned],
    plan: Plan,
    each: Round,
    other: Workload,
) -> tuple[Touch, Touch]:
    """Return what each side of a round does to the other."""
    own = replace(plan, workload=each.workload)
    sides = _sides(each, other, plan.topology.containers)
    return own.analysis(recorded, watched, memory_of()).touches(sides)


def _sides(each: Round, other: Workload, containers: int) -> tuple[Side, Side]:
    """Return who does what in a round of two workloads."""
    mine = Side(each.workload.title, range(each.first), each.workload.window)
    return mine, Side(other.title, range(each.first, containers), other.window)
