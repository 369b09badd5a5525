# SPDX-License-Identifier: GPL-2.0-or-later
"""Containers of Kubernetes' manifests: of pods, and of what makes pods."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from partywall.core.errors import UsageProblem
from partywall.workloads.compose import units
from partywall.workloads.service import Profile, Service, Tmpfs

_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_.-][A-Za-z0-9_.-]*)\)")
_NETWORK = "a container's network is its own loopback"
_FILES = "a container has its own root alone"
_CALLED = "containers are called c0, c1, ..."
_ONE = "one container runs, and nothing else"
_LEFT_OUT = {
    "envFrom": "what it names is not in the pod",
    "ephemeral-storage": "all containers write to one RAM disk",
    "fsGroup": "it is of volumes, and there are none",
    "hostIPC": "a container has namespaces of its own, and no others",
    "hostNetwork": _NETWORK,
    "hostname": _CALLED,
    "os": "a guest is linux/amd64",
    "runAsNonRoot": "who runs it is not held against it",
    "setHostnameAsFQDN": _CALLED,
    "subdomain": _CALLED,
    "hostPID": "a container has namespaces of its own, and no others",
    "initContainers": _ONE,
    "lifecycle": "its command runs, and nothing else",
    "livenessProbe": "nobody asks but --client",
    "ports": f"{_NETWORK}; --client asks it there",
    "readinessProbe": "nobody asks but --client",
    "requests": "nobody else takes what a guest has",
    "runAsUserName": "Windows has that",
    "seLinuxOptions": "a guest has no SELinux",
    "startupProbe": "nobody asks but --client",
    "stdin": "a container has no input",
    "tty": "a container has no terminal",
    "volumeDevices": "a guest has no devices to give",
    "volumeMounts": f"{_FILES}, which is empty where a volume would be",
    "windowsOptions": "Windows has that",
}
_SILENT = set(
    """
    affinity automountServiceAccountToken dnsPolicy enableServiceLinks imagePullPolicy
    imagePullSecrets nodeName nodeSelector preemptionPolicy priority priorityClassName
    restartPolicy schedulerName serviceAccount serviceAccountName terminationGracePeriodSeconds
    terminationMessagePath terminationMessagePolicy tolerations topologySpreadConstraints volumes
    readinessGates schedulingGates activeDeadlineSeconds fsGroupChangePolicy
    """.split()
)
"""What makes no difference to what a container does, or is told where it is used."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="allow", alias_generator=to_camel)

    @property
    def more(self) -> list[str]:
        """Names of what it has beside what is read."""
        return list(self.model_extra or {})


class _Variable(_Part):
    name: str = Field(min_length=1, pattern="^[^=]+$")
    value: str | None = None


class _Resources(_Part):
    limits: dict[str, str] = {}


class _Capabilities(_Part):
    add: list[str] = []
    drop: list[str] = []


class _Profile(_Part):
    type: str


class _Sysctl(_Part):
    name: str
    value: str


class _Security(_Part):
    run_as_user: int | None = Field(default=None, ge=0, lt=2**32 - 1)
    run_as_group: int | None = Field(default=None, ge=0, lt=2**32 - 1)
    privileged: bool = False
    allow_privilege_escalation: bool = True
    read_only_root_filesystem: bool = False
    capabilities: _Capabilities = _Capabilities()
    seccomp_profile: _Profile | None = None
    app_armor_profile: _Profile | None = None
    proc_mount: str = "Default"
    supplemental_groups: list[Annotated[int, Field(ge=0, lt=2**32 - 1)]] = []
    sysctls: list[_Sysctl] = []


class _Mount(_Part):
    name: str
    mount_path: str = Field(pattern="^/.")


class _Container(_Part):
    name: str = Field(min_length=1)
    image: str = Field(min_length=1)
    command: list[str] | None = None
    args: list[str] | None = None
    env: list[_Variable] = []
    working_dir: str | None = Field(default=None, pattern="^/")
    resources: _Resources = _Resources()
    security_context: _Security = _Security()
    volume_mounts: list[_Mount] = []


class _Empty(_Part):
    medium: str = ""
    size_limit: str | None = None


class _Volume(_Part):
    name: str
    empty_dir: _Empty | None = None


class _Pod(_Part):
    containers: list[_Container] = Field(min_length=1)
    volumes: list[_Volume] = []
    security_context: _Security = _Security()


@dataclass(frozen=True)
class _Made:
    """A pod, and how many there are of it."""

    owner: str
    pod: _Pod
    replicas: int


class Reader:
    """Reads containers of manifests. ``told``: what is not as they say, a line each."""

    def __init__(self, path: Path, documents: list[Any]):
        self._path = path
        self.told: list[str] = []
        self._found: dict[str, tuple[_Made, _Container]] = {}
        for made in self._pods(documents):
            for container in made.pod.containers:
                name = f"{made.owner}/{container.name}"
                if name in self._found:
                    raise UsageProblem(f"{path}: {name} is there twice", "leave one out")
                self._found[name] = made, container
        if not self._found:
            raise UsageProblem(f"{path}: there is no pod", "a Pod, or a Deployment, has containers")
        # Without its owner's name where that says no more.
        short = [name.rpartition("/")[2] for name in self._found]
        if len(set(short)) == len(short):
            self._found = dict(zip(short, self._found.values(), strict=True))
        self.names = list(self._found)

    def read(self, name: str) -> Service:
        """Return a container; UsageProblem says what is wrong with it."""
        made, container = self._found[name]
        try:
            return self._service(name, made, container)
        except ValueError as error:
            why = str(error).partition("\n")[0]
            raise UsageProblem(f"{self._path}: {name}: {why}") from error

    def _say(self, line: str) -> None:
        self.told.append(f"{self._path.name}: {line}")

    def _left_out(self, where: str, names: list[str]) -> None:
        for name in names:
            if name not in _SILENT:
                self._say(
                    f"{where}.{name} is left out: {_LEFT_OUT.get(name, 'it is not known here')}"
                )

    def _pods(self, documents: list[Any]) -> Iterator[_Made]:
        for document in documents:
            if not isinstance(document, dict):
                raise UsageProblem(f"{self._path}: a manifest is no table", "give it a kind")
            kind, meta = document.get("kind"), document.get("metadata")
            name = meta.get("name") if isinstance(meta, dict) else None
            spec = document.get("spec")
            if kind == "List":
                items = document.get("items")
                yield from self._pods(items if isinstance(items, list) else [])
                continue
            if not isinstance(kind, str):
                raise UsageProblem(f"{self._path}: a manifest's kind is no text", "such as Pod")
            replicas = _replicas(self._path, kind, spec)
            for step in _PLACES.get(kind, ("",)):
                spec = spec.get(step) if isinstance(spec, dict) else None
            if kind not in _PLACES:
                self._say(f"{kind} {name or ''}".rstrip() + " is left out: it makes no containers")
                continue
            try:
                pod = _Pod.model_validate(_filled(spec))
            except ValidationError as error:
                first = error.errors()[0]
                place = ".".join(map(str, (kind, name or "", *first["loc"])))
                raise UsageProblem(f"{self._path}: {place}: {first['msg']}") from error
            yield _Made(str(name or kind), pod, replicas)

    def _service(self, name: str, made: _Made, found: _Container) -> Service:
        pod, own = made.pod, found.security_context
        env = self._environment(name, found)
        mounts = self._mounts(name, found, pod)
        self._left_out(made.owner, pod.more)
        if len(pod.containers) > 1:
            self._say(f"{made.owner}: other containers are left out: {_ONE}")
        more = [*found.more]
        if len(mounts) < len(found.volume_mounts):
            more.append("volumeMounts")
        self._left_out(name, more)
        self._left_out(name, [*found.resources.more])
        for part in (pod.security_context, own):
            self._left_out(f"{name}.securityContext", part.more)
        limits = {kind: units.quantity(value) for kind, value in found.resources.limits.items()}
        self._left_out(f"{name}.resources.limits", [*limits.keys() - {"cpu", "memory"}])
        return Service(
            name=name.replace("/", "."),
            image=found.image,
            replicas=made.replicas,
            entrypoint=_expanded(found.command, env),
            # A command without arguments has none, whatever the image says.
            command=_expanded(found.args, env),
            environment=tuple(env.items()),
            cwd=found.working_dir,
            cpus=units.cpus(limits.get("cpu", 0)),
            memory=_bytes(limits.get("memory", 0)),
            tmpfs=tuple(mounts),
            read_only=own.read_only_root_filesystem,
            **self._user(pod.security_context, own),
            **self._security(name, pod.security_context, own),
        )

    def _environment(self, name: str, found: _Container) -> dict[str, str | None]:
        env: dict[str, str] = {}
        for one in found.env:
            if "valueFrom" in one.more:
                self._say(f"{name}.env {one.name} is left out: its value is not in the pod")
            else:
                env[one.name] = _reference(one.value or "", env)
        return dict(env)

    def _mounts(self, name: str, found: _Container, pod: _Pod) -> list[Tmpfs]:
        """Return volumes that are in memory."""
        memory = {
            one.name: one.empty_dir
            for one in pod.volumes
            if one.empty_dir and one.empty_dir.medium == "Memory"
        }
        mounts = []
        for one in found.volume_mounts:
            if one.name in memory:
                size = _bytes(units.quantity(memory[one.name].size_limit or "0"))
                options = ["mode=1777"]
                if size is not None:
                    options.append(f"size={size}")
                self._left_out(f"{name}.volumeMounts", one.more)
                mounts.append(units.mounted(one.mount_path, options))
        return mounts

    def _user(self, pod: _Security, own: _Security) -> dict[str, Any]:
        user = pod.run_as_user if own.run_as_user is None else own.run_as_user
        group = pod.run_as_group if own.run_as_group is None else own.run_as_group
        told = None if user is None else str(user)
        if group is not None:
            told = f"{told or 0}:{group}"
        return {"user": told, "groups": tuple(map(str, pod.supplemental_groups))}

    def _security(self, name: str, pod: _Security, own: _Security) -> dict[str, Any]:
        seccomp, apparmor = (
            getattr(own, kind) or getattr(pod, kind)
            for kind in ("seccomp_profile", "app_armor_profile")
        )
        for kind, profile in (("seccompProfile", seccomp), ("appArmorProfile", apparmor)):
            if profile and profile.type not in {"RuntimeDefault", "Unconfined"}:
                self._say(f"{name}.{kind} is left out: the profile is Docker's own, or none")
        # Kubernetes has none unless it is asked for one, by the manifest or by the node.
        confined: dict[str, Profile] = {
            "seccomp": "docker" if seccomp and seccomp.type != "Unconfined" else "unconfined",
            "apparmor": "unconfined" if apparmor and apparmor.type == "Unconfined" else "docker",
            "systempaths": "unconfined" if own.proc_mount == "Unmasked" else "docker",
        }
        dropped = units.capabilities(own.capabilities.drop)
        added = units.capabilities(own.capabilities.add)
        if own.privileged:
            confined = dict.fromkeys(confined, "unconfined")
            added, dropped = ("ALL",), ()
            self._say(f"{name}.privileged: it has all capabilities, and no devices")
        for one in pod.sysctls:
            if not units.sysctl(one.name):
                self._say(f"{name}.sysctls {one.name} is left out: it is of the whole machine")
        return {
            **confined,
            "dropped": dropped,
            "added": added,
            "no_new_privileges": not own.allow_privilege_escalation,
            "sysctls": tuple(
                (one.name, one.value) for one in pod.sysctls if units.sysctl(one.name)
            ),
        }


_POD = ("template", "spec")
_PLACES: dict[str, tuple[str, ...]] = {
    "Pod": (),
    "Deployment": _POD,
    "ReplicaSet": _POD,
    "ReplicationController": _POD,
    "StatefulSet": _POD,
    "DaemonSet": _POD,
    "Job": _POD,
    "CronJob": ("jobTemplate", "spec", *_POD),
}
"""Where in ``spec`` a pod's own is."""


def _replicas(path: Path, kind: Any, spec: Any) -> int:
    name = "parallelism" if kind in {"Job", "CronJob"} else "replicas"
    for step in ("jobTemplate", "spec") if kind == "CronJob" else ():
        spec = spec.get(step) if isinstance(spec, dict) else None
    told = spec.get(name) if isinstance(spec, dict) else None
    if told is None:
        return 1
    if not isinstance(told, str) or not told.isdecimal() or len(told) > 6:
        raise UsageProblem(f"{path}: {kind}: {name} is no number: {str(told)[:40]}")
    return int(told)


def _filled(value: Any) -> Any:
    """Return a value without what has nothing in it, all the way down."""
    if isinstance(value, dict):
        return {name: _filled(one) for name, one in value.items() if one is not None}
    return [_filled(one) for one in value] if isinstance(value, list) else value


def _reference(text: str, env: Mapping[str, str | None]) -> str:
    """Return a text with $(NAME) replaced where there is such a variable."""

    def value(found: re.Match[str]) -> str:
        if found[0] == "$$":
            return "$"
        return env.get(found[1]) or "" if found[1] in env else found[0]

    return _REFERENCE.sub(value, text)


def _expanded(words: list[str] | None, env: Mapping[str, str | None]) -> tuple[str, ...] | None:
    return None if words is None else tuple(_reference(word, env) for word in words)


def _bytes(number: float) -> int | None:
    if not math.isfinite(number) or number < 0 or number >= 2**63:
        raise ValueError(f"{number:g} bytes are no size")
    return math.ceil(number) or None
