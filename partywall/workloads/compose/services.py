# SPDX-License-Identifier: GPL-2.0-or-later
"""Services of a Compose file, by the Compose specification."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from partywall.core.errors import UsageProblem
from partywall.workloads.compose import env_files, units
from partywall.workloads.compose.variables import Variables
from partywall.workloads.service import Limit, Profile, Service, Tmpfs

_LIMITS = (
    "as core cpu data fsize locks memlock msgqueue nice nofile nproc rss rtprio rttime "
    "sigpending stack"
).split()
_TMPFS = ("noexec", "nosuid", "nodev")
"""As Docker mounts one, unless it is told otherwise."""

_SILENT = set(
    "annotations attach container_name expose label_file labels profiles pull_policy".split()
)
"""What makes no difference to what a container does."""
_OWN_NAMESPACES = "a container has namespaces of its own, and no others"
_ONE = "one service runs, and nothing else"
_PINNED = "a container has CPUs of its own (--cpus), for the length of a check"
_LEFT_OUT = {
    "blkio_config": "all containers write to one RAM disk",
    "build": "nothing is built: its image is one that is there",
    "cgroup": _OWN_NAMESPACES,
    "cgroup_parent": "containers are beside each other in one group",
    "configs": "a container has the files of its image alone",
    "cpu_count": _PINNED,
    "cpu_percent": _PINNED,
    "cpu_period": "say it with cpus",
    "cpu_quota": "say it with cpus",
    "cpu_rt_period": "no real-time share is given",
    "cpu_rt_runtime": "no real-time share is given",
    "cpu_shares": _PINNED,
    "cpuset": _PINNED,
    "credential_spec": "Windows has that",
    "depends_on": _ONE,
    "develop": _ONE,
    "device_cgroup_rules": "a guest has no devices to give",
    "devices": "a guest has no devices to give",
    "dns": "a container's network is its own loopback",
    "dns_opt": "a container's network is its own loopback",
    "dns_search": "a container's network is its own loopback",
    "domainname": "containers are called c0, c1, ...",
    "external_links": _ONE,
    "extra_hosts": "a container's network is its own loopback",
    "gpus": "a guest has no devices to give",
    "healthcheck": "nobody asks but --client",
    "hostname": "containers are called c0, c1, ...",
    "init": "its program is started by one of ours",
    "ipc": _OWN_NAMESPACES,
    "isolation": "Windows has that",
    "links": _ONE,
    "logging": "what it prints goes to the guest's console",
    "mac_address": "a container's network is its own loopback",
    "mem_reservation": "a guest has its memory for nobody else",
    "mem_swappiness": "a guest has no swap",
    "memswap_limit": "a guest has no swap",
    "models": _ONE,
    "network_mode": "a container's network is its own loopback",
    "networks": "a container's network is its own loopback",
    "oom_kill_disable": "who has no memory left is ended",
    "oom_score_adj": "a guest has its memory for nobody else",
    "pid": _OWN_NAMESPACES,
    "platform": "a guest is linux/amd64",
    "ports": "a container's network is its own loopback; --client asks it there",
    "post_start": "its command runs, and nothing else",
    "pre_stop": "its command runs, and nothing else",
    "provider": _ONE,
    "restart": "a container that ends early ends the check",
    "runtime": "the runtime is crun",
    "secrets": "a container has the files of its image alone",
    "stdin_open": "a container has no input",
    "stop_grace_period": "containers end with their guest",
    "stop_signal": "containers end with their guest",
    "storage_opt": "all containers write to one RAM disk",
    "tty": "a container has no terminal",
    "use_api_socket": "there is no Docker in a guest",
    "userns_mode": "its users are those of the machine",
    "uts": _OWN_NAMESPACES,
    "volumes": "a container has its own root alone, which is empty where a volume would be",
    "volumes_from": "a container has its own root alone, which is empty where a volume would be",
}
"""What a guest can't, and why."""


def _words(value: Any) -> Any:
    return shlex.split(value) if isinstance(value, str) else value


def _pairs(value: Any) -> Any:
    """Return a table, of one or of a list of ``NAME=VALUE``."""
    if not isinstance(value, list):
        return value
    found = {}
    for one in value:
        if not isinstance(one, str):
            raise ValueError("it is to have texts such as NAME=VALUE")
        name, sign, text = one.partition("=")
        found[name] = text if sign else None
    return found


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str | dict) else value


def _cpus(value: Any) -> float | None:
    if not isinstance(value, str):
        raise ValueError("it is no number")
    return units.cpus(float(value))


Words = Annotated[list[str], BeforeValidator(_words)]
Pairs = Annotated[dict[str, str | None], BeforeValidator(_pairs)]
Texts = Annotated[list[str], BeforeValidator(_listed)]
Size = Annotated[int, BeforeValidator(units.size)]
Pids = Annotated[int, Field(ge=-1, lt=2**63)]
Replicas = Annotated[int, Field(ge=0, lt=10**6)]
Cpus = Annotated[float | None, BeforeValidator(_cpus)]


class _Part(BaseModel):
    """A part of a file: what it has more is told."""

    model_config = ConfigDict(extra="allow", coerce_numbers_to_str=True)

    @property
    def more(self) -> list[str]:
        """Names of what it has beside what is read."""
        return list(self.model_extra or {})


class _Limits(_Part):
    cpus: Cpus = None
    memory: Size | None = None
    pids: Pids | None = None


class _Resources(_Part):
    limits: _Limits = _Limits()


class _Deploy(_Part):
    replicas: Replicas | None = None
    resources: _Resources = _Resources()


class _Ulimit(_Part):
    soft: int
    hard: int


class _EnvFile(_Part):
    path: str
    required: bool = True


class _Service(_Part):
    """A service as it is written; the order is that of what is told."""

    image: str | None = Field(default=None, min_length=1)
    entrypoint: Words | None = None
    command: Words | None = None
    env_file: Annotated[list[str | _EnvFile], BeforeValidator(_listed)] = Field(
        default=[], max_length=32
    )
    environment: Pairs = {}
    user: str | None = None
    group_add: list[str] = []
    working_dir: str | None = Field(default=None, pattern="^/")
    scale: Replicas | None = None
    deploy: _Deploy = _Deploy()
    cpus: Cpus = None
    mem_limit: Size | None = None
    pids_limit: Pids | None = None
    cap_add: list[str] = []
    cap_drop: list[str] = []
    security_opt: list[str] = []
    privileged: bool = False
    read_only: bool = False
    tmpfs: Texts = []
    volumes: list[Any] = []
    ulimits: dict[str, int | _Ulimit] = {}
    sysctls: Pairs = {}
    shm_size: Size | None = None
    network_mode: str = "none"
    platform: str = "linux/amd64"


class Reader:
    """Reads services of one file. ``told``: what of them is not as it is written, a line each."""

    def __init__(self, path: Path, document: dict[str, Any], environment: Mapping[str, str]):
        self._path = path
        services = document.get("services")
        if not isinstance(services, dict):
            raise UsageProblem(f"{path}: services: it is no table of services", "give it some")
        self._services = services
        if "include" in document:
            raise _needs_config(path, "include")
        self.told: list[str] = []
        beside = self._values(path.parent / ".env", environment, required=False)
        self._known = {name: one for name, one in beside.items() if one is not None}
        self._known |= environment
        self.names = list(services)

    def read(self, name: str) -> Service:
        """Return a service; UsageProblem says where it is wrong first."""
        where = f"services.{name}"
        raw = self._services[name]
        if not isinstance(raw, dict):
            raise UsageProblem(f"{self._path}: {where}: it is no table", "give it an image")
        if "extends" in raw:
            raise _needs_config(self._path, f"{where}.extends")
        variables = Variables(self._known)
        try:
            found = _Service.model_validate(_filled(variables.within(raw)))
            service = self._service(name, found)
        except ValidationError as error:
            raise self._wrong(where, error) from error
        except ValueError as error:
            raise UsageProblem(f"{self._path}: {where}: {error}") from error
        for unset in variables.unset:
            self._say(f"{unset} is not set, and so is empty")
        return service

    def _say(self, line: str) -> None:
        self.told.append(f"{self._path.name}: {line}")

    def _left_out(self, where: str, names: list[str], why: Mapping[str, str]) -> None:
        for name in names:
            if name not in _SILENT and not name.startswith("x-"):
                self._say(f"{where}{name} is left out: {why.get(name, 'it is not known here')}")

    def _service(self, name: str, found: _Service) -> Service:
        more = [one for one in found.more if one != "build" or found.image is None]
        if found.volumes:
            more.append("volumes")
        if found.network_mode != "none":
            more.append("network_mode")
        if found.platform != "linux/amd64":
            more.append("platform")
        mounts = self._mounts(name, found, more)
        self._left_out(f"{name}.", sorted(set(more)), _LEFT_OUT)
        deploy, limits = found.deploy, found.deploy.resources.limits
        of_many = dict.fromkeys(deploy.more, "one machine runs, which is the guest")
        self._left_out(f"{name}.deploy.", deploy.more, of_many)
        kept = dict.fromkeys(deploy.resources.more, "nobody else takes what a guest has")
        self._left_out(f"{name}.deploy.resources.", deploy.resources.more, kept)
        self._left_out(f"{name}.deploy.resources.limits.", limits.more, {})
        if not found.image and "build" not in found.more:
            raise ValueError("it has no image")
        replicas = found.scale if deploy.replicas is None else deploy.replicas
        pids = limits.pids if found.pids_limit is None else found.pids_limit
        memory = limits.memory if found.mem_limit is None else found.mem_limit
        security = self._security(name, found)
        return Service(
            name=name,
            image=found.image or "",
            replicas=replicas,
            entrypoint=None if found.entrypoint is None else tuple(found.entrypoint),
            command=None if found.command is None else tuple(found.command),
            environment=tuple(self._environment(name, found).items()),
            user=found.user or None,
            groups=tuple(found.group_add),
            cwd=found.working_dir,
            cpus=limits.cpus if found.cpus is None else found.cpus,
            memory=memory or None,
            pids=pids if pids and pids > 0 else None,
            read_only=found.read_only,
            tmpfs=tuple(mounts),
            limits=tuple(_limits(found.ulimits)),
            sysctls=tuple(self._sysctls(name, found.sysctls)),
            shm=found.shm_size or None,
            **security,
        )

    def _values(
        self, path: Path, known: Mapping[str, str], *, required: bool
    ) -> dict[str, str | None]:
        """Return what a file of variables has; UsageProblem if it has to be there and is not."""
        # Whatever keeps it from being found, and a pipe, which would be waited for, is none.
        if os.path.isfile(path):  # noqa: PTH113
            return env_files.read(path, self._path, known, self._say)
        if required:
            raise UsageProblem(f"{path}: there is no such file", f"{self._path} names it")
        return {}

    def _environment(self, service: str, found: _Service) -> dict[str, str | None]:
        """Return variables; those without a value have that of the environment here, if any."""
        together: dict[str, str | None] = {}
        for one in found.env_file:
            file = one if isinstance(one, _EnvFile) else _EnvFile(path=one)
            self._left_out(
                f"{service}.env_file.", file.more, {"format": "it is read as Compose usually does"}
            )
            place = self._path.parent / file.path
            together |= self._values(place, self._known, required=file.required)
        for name, value in {**together, **found.environment}.items():
            if not name or "=" in name:
                raise ValueError(f"environment: '{name}' is no name of a variable")
            together[name] = self._known.get(name) if value is None else value
        return together

    def _security(self, name: str, found: _Service) -> dict[str, Any]:
        """Return how a container is confined."""
        confined: dict[str, Profile] = dict.fromkeys(
            ("apparmor", "seccomp", "systempaths"), "docker"
        )
        dropped, added = units.capabilities(found.cap_drop), units.capabilities(found.cap_add)
        no_new = False
        for option in found.security_opt:
            kind, value = _option(option)
            if kind == "no-new-privileges" and value in {"", "true", "false"}:
                no_new = value != "false"
            elif kind in confined and value == "unconfined":
                confined[kind] = "unconfined"
            elif (kind, value) not in {("apparmor", "docker-default"), ("seccomp", "builtin")}:
                self._say(f"{name}.security_opt {option} is left out: {_KINDS.get(kind, _NO_KIND)}")
        if found.privileged:
            confined = dict.fromkeys(confined, "unconfined")
            added, dropped = ("ALL",), ()
            self._say(f"{name}.privileged: it has all capabilities, and no devices")
        return {**confined, "dropped": dropped, "added": added, "no_new_privileges": no_new}

    def _sysctls(self, name: str, found: Mapping[str, str | None]) -> list[tuple[str, str]]:
        for one in found:
            if not units.sysctl(one):
                self._say(f"{name}.sysctls {one} is left out: it is of the whole machine")
        return [(one, value or "") for one, value in found.items() if units.sysctl(one)]

    def _mounts(self, name: str, found: _Service, more: list[str]) -> list[Tmpfs]:
        """Return file systems in memory, and take ``volumes`` off what is left out if all are."""
        mounts = [_tmpfs(one) for one in found.tmpfs]
        for one in found.volumes:
            if isinstance(one, dict) and one.get("type") == "tmpfs":
                mounts.append(_volume(one))
                facts = one.get("tmpfs") or {}
                self._left_out(
                    f"{name}.volumes.", [*(one.keys() - {"type", "target", "tmpfs"})], {}
                )
                self._left_out(f"{name}.volumes.tmpfs.", [*(facts.keys() - {"size", "mode"})], {})
            elif not isinstance(one, str | dict):
                raise ValueError("volumes: it is to have texts or tables")
        if found.volumes and len(mounts) == len(found.tmpfs) + len(found.volumes):
            more.remove("volumes")
        return mounts

    def _wrong(self, where: str, error: ValidationError) -> UsageProblem:
        first = error.errors()[0]
        place = ".".join(str(part) for part in (where, *first["loc"]))
        return UsageProblem(f"{self._path}: {place}: {first['msg']}")


_NO_KIND = "it is not known here"
_KINDS = {
    "apparmor": "the profile is Docker's own, or none",
    "label": "a guest has no SELinux",
    "seccomp": "the profile is Docker's own, or none",
}


def _needs_config(path: Path, what: str) -> UsageProblem:
    return UsageProblem(
        f"{path}: {what} takes from another place, which is not read",
        "docker compose config writes a file in which all is in one place: give that",
    )


def _filled(value: Any) -> Any:
    """Return a table without what has nothing in it, all the way down."""
    if not isinstance(value, dict):
        return value
    # A variable of the environment, or a value of a list, may be nothing.
    return {
        name: one if name in {"environment", "sysctls"} else _filled(one)
        for name, one in value.items()
        if one is not None
    }


def _option(option: str) -> tuple[str, str]:
    """Return a security option's name and value, which have a colon or a sign between them."""
    at = min((option.find(mark) for mark in ":=" if mark in option), default=len(option))
    return option[:at], option[at + 1 :]


def _limits(found: Mapping[str, int | _Ulimit]) -> list[Limit]:
    limits = []
    for name, value in found.items():
        if name not in _LIMITS:
            raise ValueError(f"ulimits: there is no limit '{name}'")
        soft, hard = (value, value) if isinstance(value, int) else (value.soft, value.hard)
        if (
            max(soft, hard) >= 2**63
            or min(soft, hard) < -1
            or 0 <= hard < soft
            or (soft < 0 <= hard)
        ):
            raise ValueError(f"ulimits: {name} can't be {soft} of at most {hard}")
        limits.append(Limit(kind=f"RLIMIT_{name.upper()}", soft=soft, hard=hard))
    return limits


def _tmpfs(told: str) -> Tmpfs:
    place, _, options = told.partition(":")
    own = [one for one in options.split(",") if one]
    found = [*_TMPFS, *own]
    for word in ("exec", "suid", "dev"):
        if word in own:
            found.remove(f"no{word}")
    return units.mounted(place, found)


def _volume(told: Mapping[str, Any]) -> Tmpfs:
    facts = told.get("tmpfs") or {}
    target = told.get("target")
    if not isinstance(facts, dict) or not isinstance(target, str):
        raise ValueError("volumes: one of type tmpfs has no target")
    options = [*_TMPFS]
    if facts.get("size") is not None:
        options.append(f"size={units.size(facts['size'])}")
    if facts.get("mode") is not None:
        options.append(f"mode={units.mode(facts['mode']):o}")
    return units.mounted(target, options)
