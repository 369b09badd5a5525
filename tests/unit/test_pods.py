# SPDX-License-Identifier: GPL-2.0-or-later
"""Manifests of Kubernetes are read for what a guest can, and what it can't is told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from partywall.core.errors import PartywallError, UsageProblem
from partywall.workloads import Service, compose
from partywall.workloads.compose import units
from partywall.workloads.service import Tmpfs

Read = Callable[..., compose.Composed]

USUAL = Service(name="one", image="one", replicas=1, seccomp="unconfined")
"""Kubernetes has no filter unless it is asked for one."""


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Read manifests, whose images are all there."""

    def of(*manifests: Any, name: str | None = None) -> compose.Composed:
        file = tmp_path / "pod.yaml"
        text = "---\n".join(
            one if isinstance(one, str) else yaml.safe_dump(one, allow_unicode=True)
            for one in manifests
        )
        file.write_text(text)
        (tmp_path / "one.tar").touch()
        return compose.read(file, name, (), {})

    return of


def pod(container: dict[str, Any], **spec: Any) -> dict[str, Any]:
    containers = [{"name": "one", "image": "one", **container}]
    whole = {"containers": containers, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": whole}


def security(**facts: Any) -> dict[str, Any]:
    return {"securityContext": facts}


def told(read: Read, manifest: dict[str, Any]) -> list[str]:
    return [line.removeprefix("pod.yaml: ") for line in read(manifest).told[1:]]


FIELDS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"command": ["a", "b"]}, {"entrypoint": ("a", "b")}),
    ({"args": ["a", "b"]}, {"command": ("a", "b")}),
    (
        {"env": [{"name": "A", "value": "b"}], "args": ["$(A)", "$(NO)", "$$(A)", "$A"]},
        {"environment": (("A", "b"),), "command": ("b", "$(NO)", "$(A)", "$A")},
    ),
    (
        {"env": [{"name": "A", "value": "b"}, {"name": "B", "value": "$(A)c"}, {"name": "E"}]},
        {"environment": (("A", "b"), ("B", "bc"), ("E", ""))},
    ),
    ({"workingDir": "/srv"}, {"cwd": "/srv"}),
    ({"resources": {"limits": {"cpu": "250m"}}}, {"cpus": 0.25}),
    ({"resources": {"limits": {"cpu": 2}}}, {"cpus": 2.0}),
    ({"resources": {"limits": {"memory": "64Mi"}}}, {"memory": 64 << 20}),
    ({"resources": {"limits": {"memory": "1G"}}}, {"memory": 10**9}),
    (security(runAsUser=7), {"user": "7"}),
    (security(runAsUser=7, runAsGroup=8), {"user": "7:8"}),
    (security(runAsGroup=8), {"user": "0:8"}),
    (security(readOnlyRootFilesystem=True), {"read_only": True}),
    (security(allowPrivilegeEscalation=False), {"no_new_privileges": True}),
    (
        security(capabilities={"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}),
        {"dropped": ("ALL",), "added": ("CAP_NET_BIND_SERVICE",)},
    ),
    (security(seccompProfile={"type": "RuntimeDefault"}), {"seccomp": "docker"}),
    (security(appArmorProfile={"type": "Unconfined"}), {"apparmor": "unconfined"}),
    (security(procMount="Unmasked"), {"systempaths": "unconfined"}),
    (
        security(privileged=True),
        {"added": ("ALL",), "apparmor": "unconfined", "systempaths": "unconfined"},
    ),
]


@pytest.mark.parametrize(("container", "fields"), FIELDS, ids=[str(one) for one, _ in FIELDS])
def test_a_field_of_a_container_is_read(
    read: Read, container: dict[str, Any], fields: dict[str, Any]
) -> None:
    assert read(pod(container)).service == USUAL.model_copy(update=fields)


def test_what_a_pod_says_holds_where_its_container_says_nothing(read: Read) -> None:
    of_pod = {
        "runAsUser": 7,
        "runAsGroup": 8,
        "supplementalGroups": [9],
        "seccompProfile": {"type": "RuntimeDefault"},
        "sysctls": [{"name": "net.core.somaxconn", "value": "64"}],
    }
    both = {
        "user": "7:8",
        "groups": ("9",),
        "seccomp": "docker",
        "sysctls": (("net.core.somaxconn", "64"),),
    }
    assert read(pod({}, securityContext=of_pod)).service == USUAL.model_copy(update=both)
    own = pod(security(runAsUser=1), securityContext=of_pod)
    assert read(own).service.user == "1:8"


def test_a_volume_in_memory_is_a_tmpfs_and_another_is_left_out(read: Read) -> None:
    mounts = [{"name": "fast", "mountPath": "/a/"}, {"name": "data", "mountPath": "/b"}]
    volumes = [
        {"name": "fast", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
        {"name": "data", "emptyDir": {}},
    ]
    found = read(pod({"volumeMounts": mounts}, volumes=volumes))
    tmpfs = Tmpfs(place="/a", options=("mode=1777", f"size={1 << 20}"))
    assert found.service.tmpfs == (tmpfs,)
    assert "one.volumeMounts is left out" in found.told[-1]
    volumes[0]["emptyDir"] = {"medium": "Memory", "sizeLimit": 0}
    found = read(pod({"volumeMounts": mounts[:1]}, volumes=volumes))
    assert found.service.tmpfs == (Tmpfs(place="/a", options=("mode=1777",)),)
    assert told(read, pod({"volumeMounts": mounts[:1]}, volumes=volumes)) == []


@pytest.mark.parametrize(
    ("kind", "spec", "replicas"),
    [
        ("Deployment", {"replicas": 3}, 3),
        ("StatefulSet", {"replicas": 12}, 12),
        ("ReplicaSet", {}, 1),
        ("DaemonSet", {}, 1),
        ("Job", {"parallelism": 4}, 4),
        ("CronJob", {}, 1),
        ("CronJob", {"parallelism": 4}, 4),
    ],
)
def test_pods_are_found_in_what_makes_them(
    read: Read, kind: str, spec: dict[str, Any], replicas: int
) -> None:
    inner: dict[str, Any] = {**spec, "template": {"spec": pod({})["spec"]}}
    if kind == "CronJob":
        inner = {"jobTemplate": {"spec": inner}}
    manifest = {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "d"}, "spec": inner}
    assert read(manifest).service == USUAL.model_copy(update={"replicas": replicas})


def test_one_of_several_containers_is_chosen_and_other_manifests_are_told(read: Read) -> None:
    first, second = pod({}), pod({})
    second["metadata"] = {"name": "q"}
    second["spec"]["containers"].append({"name": "two", "image": "one", "args": ["x"]})
    maps = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}}
    everything = {"apiVersion": "v1", "kind": "List", "items": [second, maps]}
    with pytest.raises(UsageProblem, match="has 3 services") as refused:
        read(first, everything)
    assert refused.value.hint == "choose one with --service: p/one, q/one, q/two"
    found = read(first, everything, name="q/two")
    assert found.service.name == "q.two"
    assert found.service.command == ("x",)
    assert found.told[1:] == (
        "pod.yaml: ConfigMap m is left out: it makes no containers",
        "pod.yaml: q: other containers are left out: one container runs, and nothing else",
    )


@pytest.mark.parametrize(
    ("container", "spec", "said"),
    [
        ({"ports": [{"containerPort": 80}]}, {}, "one.ports is left out"),
        ({"envFrom": [{"configMapRef": {"name": "m"}}]}, {}, "one.envFrom is left out"),
        ({"env": [{"name": "A", "valueFrom": {}}]}, {}, "one.env A is left out"),
        ({"livenessProbe": {}}, {}, "one.livenessProbe is left out"),
        ({"resources": {"requests": {"cpu": 1}}}, {}, "one.requests is left out"),
        ({"resources": {"limits": {"gpu": 1}}}, {}, "one.resources.limits.gpu is left out"),
        (security(privileged=True), {}, "no devices"),
        (security(seLinuxOptions={}), {}, "one.securityContext.seLinuxOptions is left out"),
        (security(seccompProfile={"type": "Localhost"}), {}, "one.seccompProfile is left out"),
        ({}, {"securityContext": {"fsGroup": 1}}, "one.securityContext.fsGroup is left out"),
        ({}, {"initContainers": []}, "p.initContainers is left out"),
        ({}, {"hostNetwork": True}, "p.hostNetwork is left out"),
        (security(runAsNonRoot=True), {}, "one.securityContext.runAsNonRoot is left out"),
        ({}, {"hostname": "h"}, "p.hostname is left out: containers are called c0"),
        ({}, {"subdomain": "h"}, "p.subdomain is left out"),
        ({}, {"os": {"name": "windows"}}, "p.os is left out: a guest is linux/amd64"),
        (
            {"volumeMounts": [{"name": "m", "mountPath": "/m", "subPath": "s"}]},
            {"volumes": [{"name": "m", "emptyDir": {"medium": "Memory"}}]},
            "one.volumeMounts.subPath is left out",
        ),
        ({}, {"misspelt": True}, "p.misspelt is left out: it is not known"),
    ],
)
def test_what_a_guest_can_not_is_told(
    read: Read, container: dict[str, Any], spec: dict[str, Any], said: str
) -> None:
    (line,) = told(read, pod(container, **spec))
    assert said in line


BROKEN: dict[str, tuple[Any, str]] = {
    "no pod": ({"apiVersion": "v1", "kind": "Service"}, "there is no pod"),
    "no containers": (pod({}, containers=[]), "Pod.p.containers"),
    "no list": ({"apiVersion": "v1", "kind": "List", "items": 3}, "there is no pod"),
    "the same twice": (
        {"apiVersion": "v1", "kind": "List", "items": [pod({}), pod({})]},
        "p/one is there twice",
    ),
    "no spec": ({"apiVersion": "v1", "kind": "Pod", "spec": 3}, "Pod.: Input should be"),
    "no image": (pod({"image": None}), "containers.0.image"),
    "a number of words": (pod({"resources": {"limits": {"cpu": "many"}}}), "'many' is no quantity"),
    "less than nothing": (pod({"resources": {"limits": {"memory": "-1"}}}), "are no size"),
    "without end": (pod({"resources": {"limits": {"memory": "9e99"}}}), "are no size"),
    "hardly a CPU": (pod({"resources": {"limits": {"cpu": "1m"}}}), "less than a hundredth"),
    "a user of words": (pod(security(runAsUser="me")), "runAsUser"),
    "a user below all": (pod(security(runAsUser=-1)), "runAsUser"),
    "no capability": (pod(security(capabilities={"add": ["FLY"]})), "no capability 'FLY'"),
    "a group of many digits": (
        pod({}, securityContext={"supplementalGroups": [2**32 - 1]}),
        "supplementalGroups",
    ),
    "a tmpfs over ours": (
        pod(
            {"volumeMounts": [{"name": "m", "mountPath": "/proc"}]},
            volumes=[{"name": "m", "emptyDir": {"medium": "Memory"}}],
        ),
        "hides what a container needs",
    ),
    "a kind of none": (
        {"apiVersion": "v1", "kind": "List", "items": [{"kind": [1]}]},
        "kind is no text",
    ),
    "a command of one text": (pod({"command": "a b"}), "containers.0.command"),
    "a second one that is none": (
        {"apiVersion": "v1", "kind": "List", "items": [["a"]]},
        "is no table",
    ),
    "replicas": ({"apiVersion": "v1", "kind": "Deployment", "spec": {"replicas": "x"}}, "replicas"),
}


@pytest.mark.parametrize("why", BROKEN)
def test_what_is_wrong_is_said_in_two_lines(read: Read, why: str) -> None:
    manifest, said = BROKEN[why]
    with pytest.raises(UsageProblem) as refused:
        read(manifest)
    assert said in refused.value.message
    assert "pod.yaml" in refused.value.message
    assert "\n" not in refused.value.message


_PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4)
_KEYS = "name value limits cpu memory add drop type mountPath emptyDir medium sizeLimit".split()
_VALUES = st.recursive(
    _PLAIN,
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(_KEYS), inner, max_size=3)
    ),
    max_leaves=6,
)
_NAMES = "command args env workingDir resources securityContext volumeMounts image name".split()


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.sampled_from(_NAMES), _VALUES, max_size=3), _VALUES, _VALUES)
def test_no_value_of_any_field_is_a_traceback(
    read: Read, container: dict[str, Any], context: Any, volumes: Any
) -> None:
    try:
        found = read(pod(container, securityContext=context, volumes=volumes))
    except PartywallError as refused:
        assert "\n" not in refused.message
    else:
        assert found.service.image


@pytest.mark.parametrize(
    ("told_", "number"),
    [
        ("1", 1),
        ("1.5", 1.5),
        ("100m", 0.1),
        ("1k", 1000),
        ("2Ki", 2048),
        ("1e3", 1000),
        ("1M", 1e6),
        (".5", 0.5),
        ("100u", 0.0001),
        ("500n", 5e-7),
    ],
)
def test_quantities_are_kubernetes_own(told_: str, number: float) -> None:
    assert units.quantity(told_) == number
