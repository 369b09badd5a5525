# SPDX-License-Identifier: GPL-2.0-or-later
"""Ready-made servers and their clients, and what ends by itself: ``servers/*/server.toml``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from partywall.core.errors import UsageProblem
from partywall.workloads import workload as workload_
from partywall.workloads.command import starts, words_of
from partywall.workloads.root import (
    COUNT,
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
    None: the server is none, and an operation is one run of it. Each has a variant more
    for each way in which a client may ask from elsewhere (`PEERS`)."""


class _File(BaseModel):
    """A server.toml, or a file of the user's own."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    summary: str
    debian: tuple[str, ...] = ()
    """Packages that server and clients are in."""
    image: str | None = None
    """Or an archive of an image, as ``--image`` takes it; from where this file is, as all paths."""
    rootfs: str | None = None
    """Or a directory."""
    server: str = ""
    """Its command; an image may have one of its own, and hands this one to its entrypoint."""
    entrypoint: str | None = None
    """In place of an image's own; empty: none."""
    room: int = Field(default=0, ge=0)
    """MiB that a container writes, beside what all have together."""
    files: str | None = None
    """A folder beside this file, which the server finds as an archive in `rooted.FILES`."""
    warmup: int = Field(ge=1)
    window: int = Field(ge=1)
    default: str
    variants: dict[str, _Client]

    def root(self, beside: Path) -> Root | None:
        """Return the one root that the file names, from folder ``beside``; None if not one."""
        found = []
        if self.debian:
            found.append(Root(kind="debian", what=",".join(self.debian)))
        if self.image is not None:
            found.append(Root(kind="image", what=str(beside / self.image)))
        if self.rootfs is not None:
            found.append(Root(kind="directory", what=str(beside / self.rootfs)))
        return found[0] if len(found) == 1 else None


def _read(path: Path, name: str) -> list[tuple[Workload, bool]]:
    raw = read_toml(path, _File)
    root = raw.root(path.parent)
    if root is None:
        raise UsageProblem(
            f"{path}: it has to have one of debian, image and rootfs",
            "say what the root of its containers is made from",
        )
    if root.kind != "image" and not raw.server:
        raise UsageProblem(f"{path}: server: there is none", "an image alone says what it runs")
    if raw.default not in raw.variants:
        raise UsageProblem(f"{path}: default names no variant: {raw.default}")
    common: dict[str, Any] = {
        "name": name,
        "summary": raw.summary,
        "root": root,
        "room": raw.room,
        "files": None if raw.files is None else path.parent / raw.files,
        "warmup": raw.warmup,
        "window": raw.window,
    }
    for variant, one in raw.variants.items():
        if not re.fullmatch(r"[a-z0-9][a-z0-9-]*", variant) or variant == "default":
            raise UsageProblem(f"{path}: variants: {variant!r} is no name for one")
        if one.client is not None and COUNT not in one.client:
            raise UsageProblem(f"{path}: variants.{variant}.client: it has no {COUNT}")
        if one.client is not None and SERVER not in one.client:
            raise UsageProblem(f"{path}: variants.{variant}.client: it has no {SERVER}")
        if one.client is None and raw.window != 1:
            raise UsageProblem(f"{path}: window: without a client it is one run of the server")
    if raw.files is not None and not (path.parent / raw.files).is_dir():
        raise UsageProblem(f"{path}: files names no folder: {raw.files}")
    found: list[tuple[Workload, bool]] = []
    for variant, one in raw.variants.items():
        workload = Workload(
            variant=variant,
            operation=one.operation,
            command=words_of(one.server or raw.server, f"{path}: {variant}"),
            entrypoint=starts(raw.entrypoint, root, f"{path}: entrypoint"),
            client=words_of(one.client or "", f"{path}: {variant}"),
            marked=False,
            **common,
        )
        found.append((workload, variant == raw.default))
        if one.client is not None:
            found += [(_from_beside(workload, peer), False) for peer in PEERS]
    titles = [one.title for one, _ in found]
    twice = next((title for title in titles if titles.count(title) > 1), None)
    if twice is not None:
        raise UsageProblem(f"{path}: {twice} is two variants", "give one another name")
    return found


def _from_beside(workload: Workload, peer: Peer) -> Workload:
    """Return the variant of a server whose client has a container of its own."""
    asking = PEERS[peer]
    told = {
        "variant": f"{workload.variant}-{asking.suffix}",
        "operation": f"{workload.operation}, {asking.told}",
        "peer": peer,
    }
    return workload.model_copy(update=told | asking.needs)


def load(directory: Path = DIRECTORY) -> list[tuple[Workload, bool]]:
    """Every server with every client, each with whether it is what the server's name means."""
    paths = sorted(directory.glob("*/server.toml"))
    return [one for path in paths for one in _read(path, path.parent.name)]


_OF_A_FILE = re.compile(r"(.+\.toml)(?:/([^/]+))?")


def select(patterns: Sequence[str]) -> list[Workload]:
    """Return what ``--workload`` asks for: as `partywall.workloads.workload.select`, and servers.

    ``FILE.toml`` is a server of the user's own, described as ours are, with ``/VARIANT`` if it
    is not to be the default.
    """
    more, wanted, files = load(), list[str](), dict[str, Path]()
    known = {workload.name for workload, _ in (*more, *workload_.load())}
    for pattern in patterns:
        found = _OF_A_FILE.fullmatch(pattern)
        if found is None:
            wanted.append(pattern)
            continue
        path, variant = Path(found[1]).resolve(), found[2]
        if path.stem in known:
            raise UsageProblem(f"{path}: {path.stem} is one of ours", "give it another name")
        if path.stem not in files:
            more += _read(path, path.stem)
        if files.setdefault(path.stem, path) != path:
            raise UsageProblem(f"two files are named {path.name}", "give one another name")
        wanted.append(path.stem if variant is None else f"{path.stem}/{variant}")
    return workload_.select(wanted, more=more)
