# SPDX-License-Identifier: GPL-2.0-or-later
"""Machines that throughput is predicted for: a file of ``machines/`` each."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError, model_validator

from partywall.core.errors import UsageProblem
from partywall.results.document import Model

FOLDER = Path(__file__).resolve().parent / "machines"
DEFAULT = "ice-lake-2x32"

Positive = Annotated[float, Field(gt=0, lt=1e6)]


class Level(Model):
    """Cores that reach each other in the same time, but for those of the level below."""

    name: str
    cores: Annotated[int, Field(gt=0, le=65536)]
    transfer_ns: Positive = Field(description="To fetch a line that another core has written.")


class Profile(Model):
    """A machine. Times in ns."""

    name: str
    description: str
    sources: list[str] = Field(description="Where each figure comes from.")
    instruction_ns: tuple[Positive, Positive, Positive] = Field(
        description="Of a kernel's instruction, misses and entry included: least, usual, most."
    )
    levels: Annotated[list[Level], Field(min_length=1)] = Field(description="Nearest first.")

    @model_validator(mode="after")
    def _grows(self) -> Profile:
        for near, far in zip(self.levels, self.levels[1:], strict=False):
            if far.cores <= near.cores or far.cores % near.cores:
                raise ValueError(f"{far.name} is not made of whole parts '{near.name}'")
        if list(self.instruction_ns) != sorted(self.instruction_ns):
            raise ValueError("instruction_ns is not in order")
        return self

    @property
    def cores(self) -> int:
        """Cores of the whole machine."""
        return self.levels[-1].cores


def names() -> list[str]:
    """The profiles that there are."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def load(name: str) -> Profile:
    """The profile of a name, or of a file (``*.toml``). UsageProblem if it is none."""
    path = Path(name) if name.endswith(".toml") else FOLDER / f"{name}.toml"
    try:
        data = tomllib.loads(path.read_text())
        return Profile(name=path.stem, **data)
    except FileNotFoundError as error:
        raise UsageProblem(
            f"no hardware profile '{name}'", f"known: {', '.join(names())}, or a file *.toml"
        ) from error
    except OSError as error:
        raise UsageProblem(f"reading {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, TypeError) as error:
        raise UsageProblem(f"{path} is no hardware profile: {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "it"
        raise UsageProblem(f"{path} is no hardware profile: {where}: {first['msg']}") from error
