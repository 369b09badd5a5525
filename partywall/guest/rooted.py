# SPDX-License-Identifier: GPL-2.0-or-later
"""Containers whose root file system somebody else made: as Docker starts them.

Its root is root of the machine, as Docker has it unless told: files of the one lower layer
have one owner for all.
"""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import Any

from partywall.core.errors import UsageProblem
from partywall.core.topology import Topology
from partywall.guest import peers
from partywall.guest.oci import Confinement
from partywall.guest.roots.disks import Start
from partywall.workloads import SERVER, Workload

LAUNCHER = "/usr/lib/partywall-launch"
INSIDE = "/run/partywall-launch"
"""Where containers have the program that starts others."""

FILES = "/run/partywall-files"
"""Where they have an archive of a workload's own files."""

PATIENCE = 60
"""Seconds of the guest's clock for which a server or its client may do nothing, for each CPU:
each has its turn while that runs."""

CONFINEMENT = Confinement(users="host")


def patience(topology: Topology) -> int:
    """Return seconds of the guest's clock for which a server or its client may do nothing."""
    return PATIENCE * topology.total


def arguments(workload: Workload, start: Start, number: int) -> list[str]:
    """Return what the launcher of a container of this number is to start."""
    entrypoint, usual = start.args[: start.entry], start.args[start.entry :]
    if workload.entrypoint is not None:
        # What an image has behind its own is not meant for another one.
        entrypoint, usual = workload.entrypoint, ()
    command = [*entrypoint, *(workload.command or usual)]
    if not command:
        raise UsageProblem(
            f"{workload.name} does not say what it runs", "name a program of it behind --"
        )
    if workload.client:
        asks = [] if workload.peer else client(workload, number)
        return [str(len(command)), *command, *asks]
    return command


def client(workload: Workload, number: int) -> list[str]:
    """Return the command that asks the server of this number."""
    return [word.replace(SERVER, peers.address(workload, number)) for word in workload.client]


def files(
    number: int, workload: Workload, side: peers.Side = "server", folder: Path | None = None
) -> dict[str, bytes]:
    """Return files of a container's own, beside its config.json; ``folder`` as an archive."""
    name = peers.name(number, side)
    address = peers.address(workload, number, side) if workload.peer else "127.0.1.1"
    found = {
        "hosts": f"127.0.0.1\tlocalhost\n::1\tlocalhost\n{address}\t{name}\n".encode(),
        "hostname": f"{name}\n".encode(),
    }
    return found if folder is None else found | {"files": archive(folder)}


def archive(folder: Path) -> bytes:
    """Return the files of a folder as an archive, the same bytes every time."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for path in sorted(one for one in folder.rglob("*") if one.is_file()):
            member = tarfile.TarInfo(path.relative_to(folder).as_posix())
            member.size, member.mode = path.stat().st_size, 0o644
            with path.open("rb") as data:
                tar.addfile(member, data)
    return packed.getvalue()


def config(made: dict[str, Any], start: Start, *, files: bool = False) -> dict[str, Any]:
    """Return a container's config.json for a root that says how its programs start.

    ``files``: it has an archive of the workload's own.
    """

    def bind(source: str, destination: str, *options: str) -> dict[str, Any]:
        told = {"type": "bind", "source": source, "options": ["bind", *options]}
        return {"destination": destination, **told}

    env = [*start.env]
    if not any(one.startswith("HOME=") for one in env):
        env.append("HOME=/root" if start.uid == 0 else "HOME=/")
    known = {one.partition("=")[0] for one in env}
    env += [one for one in made["process"]["env"] if one.partition("=")[0] not in known]
    user: dict[str, Any] = {"uid": start.uid, "gid": start.gid}
    if start.groups:
        user["additionalGids"] = list(start.groups)
    process = made["process"] | {"env": env, "cwd": start.cwd, "user": user}
    mounts = [one for one in made["mounts"] if one["destination"] != "/volume"]
    mounts += [
        bind(LAUNCHER, INSIDE, "ro"),
        bind("hosts", "/etc/hosts", "rw"),
        bind("hostname", "/etc/hostname", "rw"),
        *([bind("files", FILES, "ro")] if files else []),
    ]
    return made | {"process": process, "mounts": mounts}
