# SPDX-License-Identifier: GPL-2.0-or-later
"""Containers that containers start are confined as those, within the user namespace of theirs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from partywall import workloads
from partywall.guest import bundle, image, oci

INSTEAD = dict.fromkeys((bundle.CRUN, "/lib64/ld.so"), b"")


def config(name: str) -> dict[str, object]:
    data, _ = bundle.files(INSTEAD, b"")[f"{bundle.DIRECTORY}/{name}.json"]
    found: dict[str, object] = json.loads(data)
    return found


def outer() -> dict[str, object]:
    return oci.config(
        number=0,
        cpus=range(1),
        arguments=[],
        environment={},
        capabilities=(),
        confined=True,
        apparmor=True,
        systempaths=True,
    )


def part(container: dict[str, object], name: str) -> dict[str, object]:
    found = container[name]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("name", ["true", "sleep"])
def test_what_is_started_is_confined_as_docker_does_it(name: str) -> None:
    inner, other = part(config(name), "linux"), part(outer(), "linux")
    for what in ("seccomp", "maskedPaths", "readonlyPaths"):
        assert inner[what] == other[what]
    held = part(config(name), "process")["capabilities"]
    assert held == part(outer(), "process")["capabilities"]


@pytest.mark.parametrize("name", ["true", "sleep"])
def test_nothing_of_it_names_what_only_the_outer_one_has(name: str) -> None:
    container = config(name)
    linux = part(container, "linux")
    assert {"type": "user"} not in linux["namespaces"]  # type: ignore[operator]
    assert not {"uidMappings", "gidMappings", "cgroupsPath"} & set(linux)
    mounts = container["mounts"]
    assert isinstance(mounts, list)
    # A source with a path would be looked for in the outer one.
    assert all("/" not in one["source"] for one in mounts)


def test_only_who_asks_for_it_has_crun_in_the_image(tmp_path: Path) -> None:
    (run,) = workloads.select(["container/run"])
    (signal,) = workloads.select(["signal"])
    without = image.layer_files({}, [signal])
    both = image.layer_files({}, [signal, run])
    assert bundle.CRUN.lstrip("/") in both
    # The interpreter goes where the program looks for it.
    assert "lib64/ld-linux-x86-64.so.2" in both
    assert f"{bundle.DIRECTORY}/rootfs/bin/busybox" in both
    assert not [path for path in without if "bundle" in path or "lib64" in path]
    assert set(bundle.FOLDERS) <= set(image.layer_folders([signal, run]))
    assert not set(bundle.FOLDERS) & set(image.layer_folders([signal]))
