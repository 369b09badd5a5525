# SPDX-License-Identifier: GPL-2.0-or-later
"""Containers that a service asks for: limits, file systems in memory, a root that is only read."""

from __future__ import annotations

from typing import Any

from partywall.workloads import Service

_PERIOD = 100_000
"""Microseconds, as Docker has it."""
_NONE = 2**64 - 1
_SHM = "/dev/shm"


def config(made: dict[str, Any], service: Service, cpus: int) -> dict[str, Any]:
    """Return a container's config.json, ``made`` on so many ``cpus``, as a service wants it."""
    process = made["process"]
    if service.no_new_privileges:
        process = process | {"noNewPrivileges": True}
    if service.limits:
        limits = [
            {"type": one.kind, "soft": _number(one.soft), "hard": _number(one.hard)}
            for one in service.limits
        ]
        process = process | {"rlimits": limits}
    resources = dict(made["linux"]["resources"])
    if service.cpus is not None and service.cpus < cpus:
        quota = {"quota": round(service.cpus * _PERIOD), "period": _PERIOD}
        resources["cpu"] = resources["cpu"] | quota
    if service.memory is not None:
        resources["memory"] = {"limit": service.memory}
    if service.pids is not None:
        resources["pids"] = {"limit": service.pids}
    linux = made["linux"] | {"resources": resources}
    if service.sysctls:
        linux["sysctl"] = dict(service.sysctls)
    root = made["root"] | {"readonly": service.read_only}
    mounts = _mounts(made["mounts"], service)
    return made | {"process": process, "linux": linux, "root": root, "mounts": mounts}


def _number(value: int) -> int:
    return _NONE if value < 0 else value


def _mounts(made: list[dict[str, Any]], service: Service) -> list[dict[str, Any]]:
    """Return mounts with those in memory before what is bound into a root, or into them."""
    mounts = []
    for one in made:
        if service.shm is not None and one["destination"] == _SHM:
            options = [word for word in one["options"] if not word.startswith("size=")]
            one = one | {"options": [*options, f"size={service.shm}"]}  # noqa: PLW2901
        mounts.append(one)
    # What is within another one comes behind it.
    memory = [
        {
            "destination": one.place,
            "type": "tmpfs",
            "source": "tmpfs",
            "options": list(one.options),
        }
        for one in sorted(service.tmpfs, key=lambda one: one.place)
    ]
    taken = {one["destination"] for one in memory}
    # Of what a container needs, /dev/shm alone may be another one.
    mounts = [one for one in mounts if one["destination"] != _SHM or _SHM not in taken]
    first = next((n for n, one in enumerate(mounts) if one["type"] == "bind"), len(mounts))
    return [*mounts[:first], *memory, *mounts[first:]]
