# SPDX-License-Identifier: GPL-2.0-or-later
"""OCI configurations that confine a container as Docker's defaults would.

Facts from the OCI runtime specification and from Docker's documentation of
its default capabilities and masked paths; its seccomp filter is `seccomp`'s.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from partywall.core.topology import Profiles
from partywall.guest.seccomp import docker
from partywall.workloads.service import ALL

APPARMOR_PROFILE = "partywall-container"
FIRST_UID = 100_000
UIDS = 65_536

Users = Literal["own", "shared", "host"]
"""Who root of a container is on the machine: another user for each, in a user namespace; one
user for all, in user namespaces; or root, without them."""


def apparmor_profile(number: int, profiles: Profiles) -> str:
    """Return the name of the AppArmor profile of a container."""
    return f"{APPARMOR_PROFILE}-{number}" if profiles == "own" else APPARMOR_PROFILE


@dataclass(frozen=True)
class Confinement:
    """What is the same for all workloads, where it is not as in a guest that is recorded.

    ``pids``: how many tasks a container may have, and ``limits``: of its processes, by
    the names that the runtime specification has; a negative number is none.
    """

    users: Users = "own"
    pids: int = 4096
    limits: tuple[tuple[str, int], ...] = ()


USUAL = Confinement()


def first_uid(number: int, users: Users) -> int:
    """Return the user on the machine that root is in container ``number``."""
    if users == "host":
        return 0
    return FIRST_UID + (number * UIDS if users == "own" else 0)


CAPABILITIES = tuple(
    f"CAP_{name}"
    for name in (
        "AUDIT_WRITE CHOWN DAC_OVERRIDE FOWNER FSETID KILL MKNOD NET_BIND_SERVICE "
        "NET_RAW SETFCAP SETGID SETPCAP SETUID SYS_CHROOT"
    ).split()
)


def _mounts() -> list[dict[str, Any]]:
    def mount(destination: str, kind: str, source: str, *options: str) -> dict[str, Any]:
        return {
            "destination": destination,
            "type": kind,
            "source": source,
            "options": list(options),
        }

    secure = ("nosuid", "noexec", "nodev")
    return [
        mount("/proc", "proc", "proc", *secure),
        mount("/dev", "tmpfs", "tmpfs", "nosuid", "strictatime", "mode=755", "size=65536k"),
        mount("/dev/pts", "devpts", "devpts", "nosuid", "noexec", "newinstance", "mode=0620"),
        mount("/dev/shm", "tmpfs", "shm", *secure, "mode=1777", "size=65536k"),
        mount("/dev/mqueue", "mqueue", "mqueue", *secure),
        mount("/sys", "sysfs", "sysfs", *secure, "ro"),
        mount("/sys/fs/cgroup", "cgroup", "cgroup", *secure, "ro"),
        mount("/run/partywall", "bind", "/run/barrier", "bind", "rw"),
        # In the bundle: what a container keeps beside its root.
        mount("/volume", "bind", "volume", "bind", "rw"),
    ]


_MASKED = (
    "/proc/acpi /proc/asound /proc/interrupts /proc/kcore /proc/keys /proc/latency_stats "
    "/proc/scsi /proc/sched_debug /proc/timer_list /proc/timer_stats /sys/firmware "
    "/sys/devices/virtual/powercap"
).split()
_READONLY = "/proc/bus /proc/fs /proc/irq /proc/sys /proc/sysrq-trigger".split()


def config(
    *,
    number: int,
    cpus: range,
    arguments: list[str],
    environment: dict[str, str],
    capabilities: tuple[str, ...],
    confined: bool,
    apparmor: bool,
    seccomp: bool = True,
    systempaths: bool,
    more: Confinement = USUAL,
    profile: str = APPARMOR_PROFILE,
    dropped: tuple[str, ...] = (),
) -> dict[str, Any]:
    """config.json of container ``number`` on ``cpus``.

    ``confined`` False leaves out seccomp and every path restriction, as
    ``--unconfined`` asks; ``apparmor``, ``seccomp`` and ``systempaths`` are what a
    workload may be given less of; ``profile``: AppArmor's; ``dropped``: capabilities of
    Docker's defaults that are not held, ``ALL`` for each.
    """
    usual = set() if ALL in dropped else set(CAPABILITIES) - set(dropped)
    held = sorted(usual | set(capabilities))
    first = first_uid(number, more.users)
    mapping = [{"containerID": 0, "hostID": first, "size": UIDS}]
    process: dict[str, Any] = {
        "terminal": False,
        "user": {"uid": 0, "gid": 0},
        "args": arguments,
        "env": [f"{key}={value}" for key, value in sorted(environment.items())],
        "cwd": "/",
        "capabilities": dict.fromkeys(("bounding", "effective", "permitted"), held),
        "noNewPrivileges": False,
    }
    if more.limits:
        process["rlimits"] = [
            {"type": kind, "soft": value % 2**64, "hard": value % 2**64}
            for kind, value in more.limits
        ]
    if confined and apparmor:
        process["apparmorProfile"] = profile
    kinds = ["pid", "mount", "network", "ipc", "uts", "cgroup"]
    of_users: dict[str, Any] = {}
    if more.users != "host":
        kinds.insert(0, "user")
        of_users = {"uidMappings": mapping, "gidMappings": mapping}
    linux: dict[str, Any] = {
        "namespaces": [{"type": kind} for kind in kinds],
        **of_users,
        "cgroupsPath": f"/partywall/c{number}",
        "resources": {
            "cpu": {"cpus": f"{cpus.start}-{cpus.stop - 1}"},
            "pids": {"limit": more.pids},
        },
    }
    if confined and seccomp:
        linux["seccomp"] = docker(set(held))
    if confined and systempaths:
        linux["maskedPaths"] = _MASKED
        linux["readonlyPaths"] = _READONLY
    return {
        "ociVersion": "1.0.2",
        "process": process,
        "root": {"path": "rootfs", "readonly": False},
        "hostname": f"c{number}",
        "mounts": _mounts(),
        "linux": linux,
    }
