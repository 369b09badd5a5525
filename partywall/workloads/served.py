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
    None: the server is none, and an operation is one run of it."""
    peer: Peer | None = None
    """It has a container of its own."""


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
        if one.peer is not None and SERVER not in (one.client or ""):
            raise UsageProblem(f"{path}: variants.{name}.client: it has no {SERVER}")
        if one.client is None and raw.window != 1:
            raise UsageProblem(f"{path}: window: without a client it is one run of the server")
    if raw.files is not None and not (path.parent / raw.files).is_dir():
        raise UsageProblem(f"{path}: files names no folder: {raw.files}")
    return [
        (
            Workload(
                variant=name,
                operation=one.operation,
                command=tuple(shlex.split(one.server or raw.server)),
                client=tuple(shlex.split(one.client or "")),
                peer=one.peer,
                options=PEER_OPTIONS if one.peer else (),
                modules=PEER_MODULES if one.peer else (),
                marked=False,
                **common,
            ),
            name == raw.default,
        )
        for name, one in raw.variants.items()
    ]


def load(directory: Path = DIRECTORY) -> list[tuple[Workload, bool]]:
    """Every server with every client, each with whether it is what the server's name means."""
    return [one for path in sorted(directory.glob("*/server.toml")) for one in _read(path)]
