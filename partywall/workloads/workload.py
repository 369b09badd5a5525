# SPDX-License-Identifier: GPL-2.0-or-later
"""Workloads: what runs in the containers, read from ``library/*/workload.toml``."""

from __future__ import annotations

import difflib
import fnmatch
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from partywall.core.errors import UsageProblem
from partywall.core.topology import Scope
from partywall.workloads.opening import Opening
from partywall.workloads.root import Peer, Root
from partywall.workloads.service import Service

DIRECTORY = Path(__file__).resolve().parent / "library"

Written = TypeVar("Written", bound=BaseModel)
"""What a file says."""


ENOUGH = 256
"""Operations of all processes, in which one object in fifty operations can be told."""


class _Facts(BaseModel):
    """What a workload.toml says of all variants."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    summary: str
    operation: str
    """What one operation is."""
    warmup: int = Field(ge=0)
    window: int = Field(ge=1)
    count: tuple[str, ...] = ()
    """Kernel functions whose calls are counted; ``a|b``: the first that there is."""
    charge: tuple[str, ...] = ()
    """Kernel functions that do the workload's work in kernel threads."""
    options: tuple[str, ...] = ()
    """Options that the kernel must be built with."""
    modules: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()
    """Capabilities that containers hold beside Docker's defaults."""
    apparmor: Literal["docker", "unconfined"] = "docker"
    seccomp: Literal["docker", "unconfined"] = "docker"
    systempaths: Literal["docker", "unconfined"] = "docker"
    topologies: tuple[Scope, ...] = Field(default=("between",), min_length=1)
    """Where it is worth looking: between containers, between CPUs of one, or both."""
    counted: bool = False
    """How many operations there will be has to be known, so it can't run by the clock."""
    fresh_cpus: bool = False
    """Processes are made on the container's first CPU, so that the others do little on
    its mounts before the warm-up: what the container's own start does, anywhere."""
    lower_files: int = Field(default=0, ge=0)
    """Files of 4 KiB, numbered from 0, in ``lower/`` beside the image's shared file."""
    lower_layers: int = Field(default=1, ge=1, le=100)
    """Of the containers' overlays: the image, and below it others that have its folders alone."""
    guests_only: bool = False
    """It changes more of a machine than its own namespaces, so it never runs on the user's."""
    keeps: bool = False
    """It keeps what it makes, so that it can't be done without end."""
    bundle: bool = False
    """The image has crun and a bundle for it, so that a container can start containers."""


class Workload(_Facts):
    """One workload in one variant.

    ``warmup`` and ``window`` count operations per process.
    """

    name: str
    variant: str = "default"
    source: Path | None = None
    command: tuple[str, ...] = ()
    """A user's own program and its arguments, instead of ours; of an image that has an entrypoint,
    the arguments of that."""
    entrypoint: tuple[str, ...] | None = None
    """In place of an image's own."""
    marked: bool = True
    """The program executes the window markers itself."""
    opening: Opening | None = None
    """Where its window is, if it is neither marked nor the whole run."""
    root: Root | None = None
    """What the root of its containers is made from, if not ours: ``command`` is in there."""
    room: int = 0
    """MiB that a container writes, beside what all have together."""
    files: Path | None = None
    """A folder that ``command`` finds as an archive beside its root."""
    client: tuple[str, ...] = ()
    """What asks ``command``, a server; an operation is a request."""
    peer: Peer | None = None
    """Where, if not in the server's container: in one of its own, over a bridge. The pair counts
    as one container."""
    service: Service | None = None
    """What its containers are to be beside what their image says."""

    def step(self, processes: int) -> int:
        """Return operations of each process around which memory is looked at after its windows.

        0 if it can't be: a program without the harness, or with what was made for so many.
        """
        if self.source is None or not self.source.is_dir() or self.counted or self.keeps:
            return 0
        return min(self.window, -(-ENOUGH // processes))

    @property
    def title(self) -> str:
        """``name`` or ``name/variant``: what ``--workload`` takes."""
        return self.name if self.variant == "default" else f"{self.name}/{self.variant}"


class _File(_Facts):
    """A workload.toml as it is written.

    A variant is its operation, or a table of all in which it differs.
    """

    default: tuple[str, ...] = ()
    variants: dict[str, str | dict[str, Any]] = Field(default_factory=dict)


def _read(path: Path) -> list[tuple[Workload, bool]]:
    """All variants of one file, each with whether it runs unless told otherwise."""
    raw = read_toml(path, _File)
    common: dict[str, Any] = raw.model_dump(exclude={"default", "variants", "operation"})
    name = path.parent.name
    if raw.default and not raw.variants:
        raise UsageProblem(f"{path}: default: there are no variants, so no {raw.default[0]}")
    if not raw.variants:
        return [(Workload(name=name, source=path.parent, operation=raw.operation, **common), True)]
    unknown = set(raw.default) - set(raw.variants)
    if unknown:
        raise UsageProblem(f"{path}: default names no variant: {', '.join(sorted(unknown))}")
    return [
        (_variant(path, variant, told, common), variant in raw.default)
        for variant, told in raw.variants.items()
    ]


def read_toml(path: Path, model: type[Written]) -> Written:
    """Return a file as ``model`` has it; UsageProblem says where it is wrong first."""
    try:
        return model.model_validate(tomllib.loads(path.read_text()))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageProblem(f"{path}: {error}") from error
    except ValidationError as error:
        raise _wrong(path, error) from error


def _wrong(path: Path, error: ValidationError, *table: str) -> UsageProblem:
    """What is wrong first in a file, or in a table of it."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in (*table, *first["loc"]))
    return UsageProblem(f"{path}: {where}: {first['msg']}")


def _variant(path: Path, name: str, told: str | dict[str, Any], common: dict[str, Any]) -> Workload:
    own = {"operation": told} if isinstance(told, str) else told
    try:
        facts = _Facts.model_validate(common | own)
    except ValidationError as error:
        raise _wrong(path, error, "variants", name) from error
    return Workload(name=path.parent.name, variant=name, source=path.parent, **facts.model_dump())


def load(directory: Path = DIRECTORY) -> list[tuple[Workload, bool]]:
    """Every workload and variant, each with whether it is one of the defaults."""
    found: list[tuple[Workload, bool]] = []
    for path in sorted(directory.glob("*/workload.toml")):
        found += _read(path)
    return found


def one(name: str) -> Workload:
    """Return the only workload of a name. UsageProblem if it stands for several, or none."""
    (found, *others) = select([name])
    if others:
        raise UsageProblem(f"'{name}' is several workloads", "name one: partywall workloads")
    return found


def select(
    patterns: Iterable[str],
    directory: Path = DIRECTORY,
    more: Iterable[tuple[Workload, bool]] = (),
) -> list[Workload]:
    """The workloads that ``--workload`` asks for; the defaults if it asks for none.

    ``signal`` names a workload (its default variants, or all if it has none),
    ``overlay/stat`` one variant, ``overlay/*`` all of them. ``more``: what can be asked
    for as well, and never runs unless it is.
    """
    everything = load(directory)
    usual = {workload.name for workload, default in everything if default}
    more = list(more)
    wanted = list(patterns)
    if not wanted:
        return [workload for workload, default in everything if default]
    everything += more
    usual |= {workload.name for workload, default in more if default}
    chosen: list[Workload] = []
    for pattern in wanted:
        hits = [
            workload
            for workload, default in everything
            if fnmatch.fnmatchcase(workload.title, pattern)
            or (workload.name == pattern and (default or pattern not in usual))
        ]
        if not hits:
            titles = [workload.title for workload, _ in everything]
            near = difflib.get_close_matches(pattern, titles, 3)
            known = near or sorted({workload.name for workload, _ in everything})
            if pattern.endswith(".toml"):
                raise UsageProblem(
                    f"{pattern}: this takes workloads of the library",
                    "a server in a file is what partywall check and compare take",
                )
            raise UsageProblem(
                f"no workload '{pattern}'",
                f"{'near' if near else 'known'}: {', '.join(known)}; partywall workloads shows all",
            )
        chosen += [hit for hit in hits if hit not in chosen]
    return chosen
