# SPDX-License-Identifier: GPL-2.0-or-later
"""What containers are to be beside what their image says: of a Compose file or a manifest."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

ALL = "ALL"
"""In place of a capability: each."""

Profile = Literal["docker", "unconfined"]


class Tmpfs(BaseModel):
    """A file system in memory, of a container's own."""

    model_config = ConfigDict(frozen=True)

    place: str
    options: tuple[str, ...] = ()


class Limit(BaseModel):
    """A limit of processes, by the runtime specification's name. A negative number is none."""

    model_config = ConfigDict(frozen=True)

    kind: str
    soft: int
    hard: int


class Service(BaseModel):
    """One service, or one container of a pod. None: as its image has it.

    ``environment``: of each variable its value, None if it is to be none.
    ``user``: a name or a number, and a group behind a colon.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    image: str
    replicas: int | None = None
    entrypoint: tuple[str, ...] | None = None
    command: tuple[str, ...] | None = None
    environment: tuple[tuple[str, str | None], ...] = ()
    user: str | None = None
    groups: tuple[str, ...] = ()
    cwd: str | None = None
    cpus: float | None = None
    memory: int | None = None
    pids: int | None = None
    added: tuple[str, ...] = ()
    """Capabilities beside Docker's defaults, and..."""
    dropped: tuple[str, ...] = ()
    """...those of them that are not held; `ALL` is each."""
    apparmor: Profile = "docker"
    seccomp: Profile = "docker"
    systempaths: Profile = "docker"
    no_new_privileges: bool = False
    read_only: bool = False
    tmpfs: tuple[Tmpfs, ...] = ()
    limits: tuple[Limit, ...] = ()
    sysctls: tuple[tuple[str, str], ...] = ()
    shm: int | None = None
    """Bytes of /dev/shm."""
    left_out: tuple[str, ...] = ()
    """What its file says and a guest has otherwise, or not, a line each."""

    @property
    def less(self) -> list[str]:
        """What a container lacks of Docker's defaults, in words."""
        found = ["no capabilities"] if ALL in self.dropped else [f"-{one}" for one in self.dropped]
        found += ["no new privileges"] if self.no_new_privileges else []
        found += ["read-only root"] if self.read_only else []
        found += [f"{self.cpus:g} CPUs"] if self.cpus is not None else []
        found += [f"{self.memory / 2**20:.4g} MiB"] if self.memory is not None else []
        found += [f"{self.pids} tasks"] if self.pids is not None else []
        return found
