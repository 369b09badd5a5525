# SPDX-License-Identifier: GPL-2.0-or-later
"""What a container is told, held against the runtime specification's own schema."""

from __future__ import annotations

import hashlib
import json
import os
import urllib.request
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from referencing import Registry
from referencing.jsonschema import DRAFT4

from partywall import workloads
from partywall.core import cache
from partywall.core.progress import Quiet
from partywall.core.topology import Topology
from partywall.guest import image, peers
from partywall.guest.cpio import Archive
from partywall.guest.roots import Place, Start, media
from partywall.workloads import Service, Workload
from partywall.workloads.service import Limit

MODULE, VERSION = "github.com/opencontainers/runtime-spec", "v1.2.1"
SHA256 = "847dfbbec37aef7d1e14caebacb0ea036ecd22fa84bca96a0da3dfebfc16ef31"
PROXY = "https://proxy.golang.org"
BASE = "https://runtime-spec.invalid/"


def fetch(draft: Path) -> None:
    """Put the module's archive into a folder."""
    told = os.environ.get("GOPROXY", "").split(",")
    proxy = next((one for one in told if one.startswith("https://")), PROXY)
    address = f"{proxy}/{MODULE}/@v/{VERSION}.zip"
    for left in (2, 1, 0):
        try:
            with urllib.request.urlopen(address, timeout=60) as data:
                packed = data.read()
            break
        except OSError:
            if not left:
                raise
    assert hashlib.sha256(packed).hexdigest() == SHA256
    (draft / "module.zip").write_bytes(packed)


@pytest.fixture(scope="module")
def schema() -> jsonschema.Draft4Validator:
    """The specification's validator of a config.json."""
    file = cache.entry("runtime-spec", SHA256, fetch, Quiet()) / "module.zip"
    registry: Registry[Any] = Registry()
    top = f"{MODULE}@{VERSION}/schema/"
    with zipfile.ZipFile(file) as packed:
        for name in packed.namelist():
            if name.startswith(top) and name.endswith(".json") and "/test/" not in name:
                made = DRAFT4.create_resource(json.loads(packed.read(name)))
                registry = registry.with_resource(f"{BASE}{name.removeprefix(top)}", made)
    return jsonschema.Draft4Validator({"$ref": f"{BASE}config-schema.json"}, registry=registry)


def disk(folder: Path) -> media.Fitted:
    file = folder / "root"
    file.write_bytes(bytes(1 << 20))
    start = Start(args=("run",), uid=33, gid=33, groups=(4,))
    return media.Fitted(file, Place((), start), "key", media.Medium(media.RAM, media._SYSTEMS[0]))


def of(name: str) -> Workload:
    """A workload, or a server, of this name."""
    (found,) = workloads.select_any([name])
    return found


def usual(name: str, folder: Path) -> Archive:
    commands = [image.Contained(["/bin/true"])] * 2
    return image.containers(of(name), Topology(2, 1), commands, {}, confined=True)


def server(name: str, folder: Path, service: Service | None = None) -> Archive:
    workload, on = of(name).model_copy(update={"service": service}), disk(folder)
    shape = peers.topology(workload, Topology(2, 1))
    every = [image.rooted_one(workload, on.place.start, n) for n in range(shape.containers)]
    return image.containers(workload, shape, every, {}, confined=True, disk=on)


def whole(name: str, folder: Path) -> Archive:
    """A service with all that a file can ask for."""
    limits = (Limit(kind="RLIMIT_NOFILE", soft=-1, hard=-1),)
    service = Service(
        name="web",
        image="web.tar",
        cpus=0.5,
        memory=1 << 26,
        pids=100,
        shm=1 << 20,
        limits=limits,
        sysctls=(("net.core.somaxconn", "1"),),
        tmpfs=(),
        read_only=True,
        no_new_privileges=True,
        dropped=("ALL",),
    )
    return server(name, folder, service)


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("signal", usual),
        ("netns", usual),
        ("redis", server),
        ("redis/get-peer", server),
        ("nginx/keep-outside", server),
        ("redis/set-apart", whole),
    ],
)
def test_what_a_container_is_told_fits_the_specification(
    schema: jsonschema.Draft4Validator,
    tmp_path: Path,
    name: str,
    made: Callable[[str, Path], Archive],
) -> None:
    entries = made(name, tmp_path).entries
    configs = [json.loads(data) for path, (_, data) in entries.items() if "config.json" in path]
    assert len(configs) >= 2
    for config in configs:
        schema.validate(config)
    # What is not as it says is seen.
    configs[0]["process"]["user"]["uid"] = "root"
    with pytest.raises(jsonschema.ValidationError):
        schema.validate(configs[0])
