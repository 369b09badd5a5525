# SPDX-License-Identifier: GPL-2.0-or-later
"""Compose files and manifests of Kubernetes: read for what a guest can, and told what it can't."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from partywall.core.errors import UsageProblem
from partywall.workloads.compose import documents, images, pods, services
from partywall.workloads.service import Service


@dataclass(frozen=True)
class Composed:
    """A service of a file, where its image is, and what to tell of both, a line each."""

    service: Service
    image: str
    told: tuple[str, ...]

    @property
    def left_out(self) -> tuple[str, ...]:
        """Of that what the guest has otherwise than the file says, or not."""
        return self.told[1:]


def _reader(path: Path, environment: Mapping[str, str]) -> services.Reader | pods.Reader:
    found = documents.read(path)
    if not found:
        raise UsageProblem(f"{path}: there is nothing in it", documents.WANTED)
    first = found[0]
    if isinstance(first, dict) and "kind" in first and "apiVersion" in first:
        return pods.Reader(path, found)
    if len(found) > 1 or not isinstance(first, dict) or "services" not in first:
        raise UsageProblem(f"{path}: it has no services", documents.WANTED)
    return services.Reader(path, first, environment)


def read(
    path: Path,
    name: str | None = None,
    archives: Sequence[str] = (),
    environment: Mapping[str, str] = os.environ,
) -> Composed:
    """Return a service of a file, the only one if none is named.

    ``archives``: where images are, as `images.place` takes it; ``environment``: what
    variables are. UsageProblem says what is wrong with the file.
    """
    reader = _reader(path, environment)
    if name is None and len(reader.names) == 1:
        (name,) = reader.names
    if name is None or name not in reader.names:
        wrong = f"has {len(reader.names)} services" if name is None else f"has no service '{name}'"
        raise UsageProblem(
            f"{path} {wrong}",
            f"choose one with --service: {', '.join(reader.names)[:200]}",
        )
    service = reader.read(name)
    archive = images.place(service.image, name, archives, path.parent)
    used = f"{path.name}: {name} is {service.image or 'built'}, taken from {archive}"
    return Composed(service, archive, (used, *reader.told))


__all__ = ["Composed", "read"]
