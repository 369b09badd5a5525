# SPDX-License-Identifier: GPL-2.0-or-later
"""Cache lines that move, the objects that they are of, and what work that is put off adds."""

from __future__ import annotations

import re
from typing import Final, Literal

from pydantic import Field

from partywall.results.counts import Passing, Sums
from partywall.results.document import Model
from partywall.results.fields import FieldUse, Visits
from partywall.results.left import Left
from partywall.results.locks import Address
from partywall.results.sites import Site, Uses

Sharing = Literal["all", "some"]
"""Who shares what is a wall: half of the containers (or CPUs) at least, or fewer, but two."""

SPLITS: Final = 0.2
"""Share of a line's transfers from which on it says so if splitting saves them."""


_ONE_CPU = re.compile(r" of CPU ([0-9]+)$")


def each_cpu(name: str) -> str:
    """Return an object's name; of a variable that each CPU has without which one's it is.

    On which CPUs something ran would make it another object of other runs.
    """
    return _ONE_CPU.sub(" of each CPU", name)


def cpu_of(name: str) -> int | None:
    """Return the number of the CPU that an object is of, by its name; None if it is of none."""
    found = _ONE_CPU.search(name)
    return None if found is None else int(found[1])


class LineObject(Model):
    """What lives in a cache line."""

    kind: Literal[
        "global",
        "module",
        "percpu",
        "slab",
        "stack",
        "page",
        "pagetable",
        "memory",
        "vmalloc",
        "code",
        "unnamed",
    ]
    name: str = Field(description="Symbol, 'cache: struct type', or 'unnamed: why'.")
    type: str | None = Field(default=None, description="C type of the object, if known.")
    address: str = Field(description="Start of the object.")
    size: int = Field(description="Bytes of the object.")
    line: int = Field(description="Offset of the cache line within the object; may be < 0.")
    state: Literal["live", "freed", "static"] = "live"
    detail: str | None = Field(default=None, description="What backs it; how its type was told.")
    array: str | None = Field(
        default=None, description="Of eight lines or more, which all of the line is of: its path."
    )
    others: int = Field(default=0, description="Objects used in the same line and written less.")

    @property
    def title(self) -> str:
        """Name for people, who might take it for all that is in the line."""
        return f"{self.name} and {self.others} more" if self.others else self.name

    @property
    def typed(self) -> bool:
        """Whether it is known what its bytes mean."""
        return self.type is not None or self.kind in ("stack", "pagetable", "code")


class Line(Model):
    """One cache line that moves between CPUs."""

    address: Address
    object: LineObject
    transfers: float = Field(
        description="Per op, in the scope this line is listed for, among those that ran."
    )
    transfers_at: float | None = Field(
        default=None,
        description="The same at the number of containers that the verdict is for; "
        "null if that is those that ran.",
    )
    locked: float = Field(
        default=0.0,
        description="Of the transfers, those made while a lock of locks[] was held; not told "
        "of lines in inside[] and background[].",
    )
    between: float = Field(description="Transfers per op between containers.")
    within: float = Field(description="Transfers per op between CPUs of one container.")
    write_visits: float = Field(description="Per op; those in one hold of a lock are one.")
    read_visits: float = Field(description="The same that only read.")
    false_sharing: bool = Field(
        description="Some CPUs pay for a field they don't use: splitting saves a fifth or more."
    )
    split_saves: float = Field(
        default=0.0,
        description="Transfers per op that go if groups of its fields get lines of their own, "
        "of those that the verdict is about.",
    )
    sharing: Sharing = Field(default="all", description="Who shares the object it is a part of.")
    fields: list[FieldUse]
    visits: list[Visits] = Field(
        default_factory=list, description="What is used together, where fields can be split."
    )
    code: list[Site]
    in_calls: Uses | None = Field(
        default=None, description="Of deferred work: what system calls do there as well."
    )
    writers: list[int] = Field(description="Containers that write the line.")
    readers: list[int] = Field(description="Containers that only read it.")

    @property
    def judged(self) -> float:
        """Transfers per op that the verdict is about."""
        return self.transfers if self.transfers_at is None else self.transfers_at


class Wall(Model):
    """An object that is a wall: a variable, a table, or all objects of one type."""

    kind: str
    name: str
    type: str | None = Field(default=None, description="C type, if known.")
    lines: int = Field(description="Cache lines of it that move; the worst are in walls[].")
    transfers: float = Field(description="Per op, of all of them, among those that ran.")
    locked: float = Field(
        default=0.0,
        description="Of the transfers, those made while a lock of locks[] was held.",
    )
    transfers_at: float | None = Field(
        default=None, description="The same at the number that the verdict is for."
    )
    sharing: Sharing = Field(default="all", description="Who shares it.")
    sharers: list[int] = Field(
        default_factory=list, description="Containers that come back to it, of those that ran."
    )
    split_saves: float = Field(
        default=0.0, description="Of the transfers of its lines in walls[]: what splitting saves."
    )

    @property
    def judged(self) -> float:
        """Transfers per op that the verdict is about."""
        return self.transfers if self.transfers_at is None else self.transfers_at


class Deferred(Model):
    """Work that a container's own system calls put off.

    Softirqs that they ran at their end: what it sends to itself is received there, say. And
    work items and callbacks of RCU that they left, as far as those ran before the last window
    was over. It is judged by itself and as the workload's own work is; its transfers come on
    top of that one's.
    """

    transfers: float = Field(description="All per op, among those that ran.")
    transfers_at: float | None = Field(
        default=None, description="The same at the number that the verdict is for."
    )
    sums: Sums
    objects: list[Wall] = Field(description="Its walls: objects, most transfers first.")
    walls: list[Line] = Field(description="Lines of these, of each object the worst.")
    passing: list[Passing] = Field(
        description="Lines over the threshold that moved only now and then."
    )
    left: list[Left] | None = Field(
        default=None, description="Work items and callbacks that were left; null: not counted."
    )
    later: float = Field(
        default=0.0, description="Of its transfers at that number, those of what was left."
    )
    unfollowed: list[str] = Field(
        default_factory=list,
        description="What of it is in the background instead: the kernel lacks functions by "
        "which it is followed.",
    )


def walls_of(lines: list[Line]) -> list[Wall]:
    """Lines by object, most transfers first."""
    found: dict[tuple[str, str], list[Line]] = {}
    for line in lines:
        found.setdefault((line.object.kind, line.object.name), []).append(line)
    walls = [
        Wall(
            kind=kind,
            name=name,
            type=group[0].object.type,
            lines=len(group),
            transfers=sum(line.transfers for line in group),
            transfers_at=None
            if all(line.transfers_at is None for line in group)
            else sum(line.judged for line in group),
            sharing=group[0].sharing,
            sharers=sorted({n for line in group for n in [*line.writers, *line.readers]}),
            split_saves=sum(line.split_saves for line in group),
        )
        for (kind, name), group in found.items()
    ]
    return sorted(walls, key=lambda wall: (-wall.judged, wall.name))
