# SPDX-License-Identifier: GPL-2.0-or-later
"""This machine as the model takes it: its lines' travels, and the time of its instructions."""

from __future__ import annotations

import datetime
import json
import platform
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

from pydantic import Field

from partywall.clock import cpus, transfer
from partywall.clock.constant import Constant
from partywall.clock.cpus import Cpu
from partywall.clock.transfer import Group, Pair
from partywall.core.errors import UsageProblem
from partywall.core.progress import Progress
from partywall.model import profiles
from partywall.model.profiles import Level, Profile
from partywall.results.document import Document, Model

SCHEMA: Final = "partywall.machine/1"

NEARER = 0.5
"""Share of the median below which a pair must have something in common that is not told."""


class Measured(Model):
    """The pairs of CPUs at one level of the machine. Times in ns, by the pair."""

    name: str
    cores: int
    pairs: int = Field(description="That were measured.")
    least: float
    median: float
    most: float


class Machine(Document):
    """A machine's own figures, and what they are as a profile."""

    schema_: Literal["partywall.machine/1"] = Field(default=SCHEMA, alias="schema")
    created: str = Field(description="UTC, ISO 8601.")
    processor: str
    kernel: str = Field(description="uname -r.")
    own_ns: float = Field(description="What the same costs on a line that the CPU has itself.")
    levels: list[Measured] = Field(description="Nearest first.")
    threads: Measured | None = Field(description="Threads of one core, if any were to be had.")
    constant: Constant | None = Field(description="If a result that counts was given.")
    profile: Profile
    warnings: list[str]


def _summed(name: str, cores: int, pairs: Sequence[Pair]) -> Measured:
    times = [pair.nanoseconds for pair in pairs]
    return Measured(
        name=name,
        cores=cores,
        pairs=len(times),
        least=min(times),
        median=statistics.median(times),
        most=max(times),
    )


def strangers(level: Measured, pairs: Sequence[Pair]) -> list[str]:
    """Return what is said of pairs that meet much nearer than their level does, if any do.

    As threads of one core do where a virtual machine does not tell of them.
    """
    near = [pair for pair in pairs if pair.nanoseconds < NEARER * level.median]
    if not near or level.pairs < 3:
        return []
    named = ", ".join(f"{pair.one}-{pair.other}" for pair in near[:8])
    more = f" and {len(near) - 8} more" if len(near) > 8 else ""
    return [
        f"CPUs {named}{more} reach each other in less than half of the median: they may be "
        "threads of one core, which this machine does not say"
    ]


def levels_of(there: Sequence[Cpu], sysfs: Path = cpus.SYSFS) -> list[Group]:
    """Return the levels that are measured. UsageProblem if the CPUs are threads of one core."""
    levels = transfer.groups(there, sysfs)
    if not levels:
        raise UsageProblem(
            "lines travel between cores, and this machine lends one", "take a larger machine"
        )
    return levels


def machine(
    there: Sequence[Cpu],
    constant: Constant | None,
    warnings: Sequence[str],
    progress: Progress,
    sysfs: Path = cpus.SYSFS,
) -> Machine:
    """Measure a machine of these CPUs. UsageProblem if they are threads of one core.

    Without a ``constant`` the profile has that of the usual one, and says so.
    """
    levels = levels_of(there, sysfs)
    said = list(dict.fromkeys([*warnings, *cpus.disturbances(list(there), sysfs)]))
    (own,) = transfer.measure([(there[0].number, there[0].number)], progress)
    measured = []
    for level in levels:
        pairs = transfer.measure(transfer.drawn(level.pairs), progress)
        measured.append(_summed(level.name, level.cores, pairs))
        said += strangers(measured[-1], pairs)
    beside = transfer.threads(there)
    siblings = None
    if beside:
        siblings = _summed("core", len(beside), transfer.measure(transfer.drawn(beside), progress))
    created = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return Machine(
        created=created,
        processor=cpus.model(),
        kernel=platform.release(),
        own_ns=own.nanoseconds,
        levels=measured,
        threads=siblings,
        constant=constant,
        profile=_profile(levels, measured, constant, created[:10]),
        warnings=said,
    )


def _profile(
    levels: Sequence[Group], measured: Sequence[Measured], constant: Constant | None, day: str
) -> Profile:
    counted = "the usual profile's: not measured here"
    times = profiles.load(profiles.DEFAULT).instruction_ns
    if constant is not None:
        counted = (
            f"partywall machine, {day}: one container alone, over {constant.instructions:,.0f} "
            f"instructions per operation of {constant.counted_on}"
        )
        times = (constant.least, constant.usual, constant.most)
    return Profile(
        name="this machine",
        description=f"{cpus.model()}, {levels[-1].cores} cores",
        sources=[
            f"transfers: partywall machine, {day}: medians of pairs of cores",
            f"instructions: {counted}",
        ],
        instruction_ns=times,
        levels=[
            Level(name=one.name, cores=one.cores, transfer_ns=round(one.median, 1))
            for one in measured
        ],
    )


def written(found: Machine) -> str:
    """Return a machine's file, as `profiles.load` reads it, with what was seen as comments."""
    profile = found.profile
    lines = [f"# {text}" for text in _remarks(found)]
    lines.append(f"description = {json.dumps(profile.description)}")
    lines += ["sources = [", *(f"    {json.dumps(one)}," for one in profile.sources), "]"]
    lines.append(f"instruction_ns = [{', '.join(f'{ns:.3f}' for ns in profile.instruction_ns)}]")
    for level, one in zip(profile.levels, found.levels, strict=True):
        lines += [
            "",
            f"# {one.pairs} pairs, {one.least:.0f} to {one.most:.0f} ns.",
            "[[levels]]",
            f"name = {json.dumps(level.name)}",
            f"cores = {level.cores}",
            f"transfer_ns = {level.transfer_ns:g}",
        ]
    return "\n".join(lines) + "\n"


def _remarks(found: Machine) -> list[str]:
    told = [f"{found.processor}, Linux {found.kernel}, {found.created}."]
    told.append(f"On a line that the CPU has itself the same takes {found.own_ns:.0f} ns.")
    if found.threads is not None:
        told.append(f"Between threads of one core: {found.threads.median:.0f} ns.")
    return told + [f"Mind: {one}." for one in found.warnings]
