# SPDX-License-Identifier: GPL-2.0-or-later
"""What we measured by the clock on a machine of more CPUs, for the model to be held against.

The file beside this has for each operation what the model is given of it, and how much so
many containers did side by side.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from pydantic import Field

from partywall.model.load import Queue, Work, load
from partywall.model.profiles import Level, Profile
from partywall.model.queues import transfer_ns
from partywall.results.document import Model

_LEAST = 1e-6

FILE = Path(__file__).resolve().parent / "measured.json"


class Operation(Model):
    """One operation: the model's input, and what was measured."""

    workload: str
    instructions: float = Field(description="Per operation, of kernel and program.")
    alone: float = Field(description="Transfers per op that nobody queues for.")
    waits: float = Field(description="ns per op asleep that nobody else waits for.")
    queues: list[dict[str, float]] = Field(description="Of lines and locks, as `load.Queue`.")
    rates: dict[int, float] = Field(description="Operations per second of each of so many.")

    @property
    def work(self) -> Work:
        """The operation as the model sees it."""
        queues = tuple(Queue(**one) for one in self.queues)  # type: ignore[arg-type]
        return Work(self.instructions, queues, self.alone, self.waits)


class Measured(Model):
    """A machine, and what was measured on it."""

    machine: str
    levels: list[Level]
    counted_on: str = Field(description="Kernel whose transfers and instructions are known.")
    ran_on: str = Field(description="Kernel that ran by the clock.")
    operations: list[Operation]


class Row(Model):
    """One operation: throughput of each of so many containers, as a share of one alone."""

    workload: str
    alone: float = Field(description="Operations per second of one.")
    instruction_ns: float = Field(description="Of one container alone, for each instruction.")
    measured: dict[int, float]
    predicted: dict[int, float]

    @property
    def error(self) -> float:
        """Of the prediction for most containers, as a share of what was measured."""
        most = max(self.measured)
        return self.predicted[most] / self.measured[most] - 1


def stored() -> Measured:
    """Return what comes with this program."""
    return Measured.model_validate(json.loads(FILE.read_text()))


def rows(found: Measured) -> Iterator[Row]:
    """Yield the operations beside the model, those that lose most first.

    How fast one alone is gives the time of an instruction, so it checks nothing.
    """
    made = []
    for one in found.operations:
        first, *more = sorted(one.rates)
        alone = one.rates[first]
        slept = one.waits + sum(queue.last for queue in one.work.queues)
        instruction = max(1e-3, 1e9 / alone - slept) / one.instructions
        profile = Profile(
            name=found.machine,
            description=found.machine,
            sources=[],
            instruction_ns=(instruction,) * 3,
            levels=found.levels,
        )
        predicted = {}
        for count in more:
            transfer = transfer_ns(profile, count, "spread")
            told = load(one.work, count, profile.cores, instruction, transfer)
            predicted[count] = told.each * told.alone
        made.append(
            Row(
                workload=one.workload,
                alone=alone,
                instruction_ns=instruction,
                measured={count: one.rates[count] / alone for count in more},
                predicted=predicted,
            )
        )
    yield from sorted(made, key=lambda row: row.measured[max(row.measured)])


def described(title: str, work: Work, rates: dict[int, float]) -> Operation:
    """Return an operation of containers of one CPU as the file has it.

    Queues of next to nothing are left out.
    """
    assert work.processes == 1
    queues = []
    for queue in work.queues:
        asked = (queue.writes, queue.reads, queue.held, queue.moved, queue.asleep, queue.whole)
        if max(asked) < _LEAST:
            continue
        usual = {one.name: one.default for one in fields(Queue)}
        given: dict[str, Any] = {
            name: float(f"{value:.4g}")
            for name, value in asdict(queue).items()
            if value != usual.get(name)
        }
        queues.append({"writes": 0.0} | given)
    return Operation(
        workload=title,
        instructions=round(work.instructions, 1),
        alone=round(work.alone, 3),
        waits=round(work.waits, 1),
        queues=queues,
        rates={count: round(rate) for count, rate in rates.items()},
    )
