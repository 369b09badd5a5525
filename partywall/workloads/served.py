# SPDX-License-Identifier: GPL-2.0-or-later
"""Ready-made servers and their clients, and what ends by itself: ``servers/*/server.toml``."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from partywall.core.errors import UsageProblem
from partywall.workloads.root import (
    COUNT,
    PEER_MODULES,
    PEER_OPTIONS,
    PEERS,
    SERVER,
    Peer,
    Root,
)
from partywall.workloads.workload import Workload, read_toml

DIRECTORY = Path(__file__).resolve().parent / "servers"


class _Client(BaseModel):
    """A variant: who asks, and for what."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    operation: str
    """What one request is."""
    server: str | None = None
    """What it asks, if not the file's."""
    client: str | None = None
    """Command; ``{requests}`` stands for how many it makes, ``{server}`` for whom it asks.
    None: the server is none, and an operation is one run of it. Each has two more variants,
    of a client in a container of its own: ``-peer`` and ``-apart``."""


class _File(BaseModel):
    """A server.toml."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    summary: str
    debian: tuple[str, ...] = Field(min_length=1)
    """Packages that server and clients are in."""
    server: str
    room: int = Field(default=0, ge=0)
    """MiB that a container writes, beside what all have together."""
    files: str | None = None
    """A folder beside this file, which the server finds as an archive in `rooted.FILES`."""
    warmup: int = Field(ge=1)
    window: int = Field(ge=1)
    default: str
    variants: dict[str, _Client]


def _read(path: Path) -> list[tuple[Workload, bool]]:
    raw = read_toml(path, _File)
    if raw.default not in raw.variants:
        raise UsageProblem(f"{path}: default names no variant: {raw.default}")
    common: dict[str, Any] = {
        "name": path.parent.name,
        "summary": raw.summary,
        "root": Root(kind="debian", what=",".join(raw.debian)),
        "room": raw.room,
        "files": None if raw.files is None else path.parent / raw.files,
        "warmup": raw.warmup,
        "window": raw.window,
    }
    for name, one in raw.variants.items():
        if one.client is not None and COUNT not in one.client:
            raise UsageProblem(f"{path}: variants.{name}.client: it has no {COUNT}")
        if one.client is not None and SERVER not in one.client:
            raise UsageProblem(f"{path}: variants.{name}.client: it has no {SERVER}")
        if one.client is None and raw.window != 1:
            raise UsageProblem(f"{path}: window: without a client it is one run of the server")
    if raw.files is not None and not (path.parent / raw.files).is_dir():
        raise UsageProblem(f"{path}: files names no folder: {raw.files}")
    found: list[tuple[Workload, bool]] = []
    for name, one in raw.variants.items():
        workload = Workload(
            variant=name,
            operation=one.operation,
            command=tuple(shlex.split(one.server or raw.server)),
            client=tuple(shlex.split(one.client or "")),
            marked=False,
            **common,
        )
        found.append((workload, name == raw.default))
        if one.client is not None:
            found += [(_from_beside(workload, peer), False) for peer in PEERS]
    return found


_SUFFIXES: dict[Peer, str] = {"same-cpus": "peer", "own-cpus": "apart"}


def _from_beside(workload: Workload, peer: Peer) -> Workload:
    """Return the variant of a server whose client has a container of its own."""
    told = {
        "variant": f"{workload.variant}-{_SUFFIXES[peer]}",
        "operation": f"{workload.operation}, {PEERS[peer]}",
        "peer": peer,
        "options": PEER_OPTIONS,
        "modules": PEER_MODULES,
    }
    return workload.model_copy(update=told)


def load(directory: Path = DIRECTORY) -> list[tuple[Workload, bool]]:
    """Every server with every client, each with whether it is what the server's name means."""
    return [one for path in sorted(directory.glob("*/server.toml")) for one in _read(path)]
