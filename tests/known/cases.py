# SPDX-License-Identifier: GPL-2.0-or-later
"""The table of known walls, ``walls.toml``, as values."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

FOLDER = Path(__file__).resolve().parent
TABLE = FOLDER / "walls.toml"

Measure = Literal["transfers", "instructions", "acquisitions"]
"""Of the object's walls, or of a lock: instructions under it, times it is taken."""


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    workload: str = ""
    scope: Literal["between", "within"] = "between"
    """Containers of one CPU each, or CPUs of one container."""
    append: str = ""
    """Parameters for the kernel, of both."""
    note: str = ""
    """What a reader of the table has to know."""


class Case(_Entry):
    """A wall that others found, and what mended it."""

    commit: str
    subject: str
    release: str
    """Where it was merged."""
    structure: str
    """Object and field, for people."""
    gain: str
    """As published."""
    objects: tuple[str, ...] = ()
    """Patterns (``*``, ``?``) of the object's name or type."""
    fields: tuple[str, ...] = ("*",)
    """Patterns of fields, one of which the wall's line holds."""
    measure: Measure = "transfers"
    before: str = ""
    """Kernels, as ``--kernel`` takes them, or ``stock-back``: 6.12 with the patches of back/."""
    after: str = ""
    after_it: Literal["gone", "less", "there"] = "gone"
    """What the other kernel must show: no such wall, or nine tenths of it at most, as it was
    mended; or the wall all the same, as nobody has mended it."""
    skip: str = ""
    """Why it is not run."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        needed = (self.workload, self.before, self.after, self.objects)
        if not self.skip and not all(needed):
            raise ValueError(f"{self.name}: workload, before, after and objects, or skip")
        return self


class Control(_Entry):
    """A workload that must be isolated, on every kernel of the list."""

    kernels: tuple[str, ...] = Field(min_length=1)
    workload: str


LESS = 0.9
"""Share that may be left where less is promised: the same for all, so that none is fitted."""


class Table(BaseModel):
    """All of it, in the order of the file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    case: tuple[Case, ...]
    control: tuple[Control, ...]

    @model_validator(mode="after")
    def _once(self) -> Self:
        names = [entry.name for entry in (*self.case, *self.control)]
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise ValueError(f"given twice: {', '.join(sorted(twice))}")
        return self


def read(path: Path = TABLE) -> Table:
    """Return the table in a file; ValidationError if it is none."""
    return Table.model_validate(tomllib.loads(path.read_text()))
