# SPDX-License-Identifier: GPL-2.0-or-later
"""OCI layouts as tests need them: honest ones, and such as only a stranger writes."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

CONFIG = {"Entrypoint": ["/bin/server"], "Cmd": ["-v"], "Env": ["A=b"], "WorkingDir": "/srv"}


def member(name: str, **facts: Any) -> tarfile.TarInfo:
    one = tarfile.TarInfo(name)
    for fact, value in facts.items():
        setattr(one, fact, value)
    return one


def layer(*members: tarfile.TarInfo) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for one in members:
            archive.addfile(one, io.BytesIO(bytes(one.size)))
    return out.getvalue()


USUAL = (
    member("bin", type=tarfile.DIRTYPE, mode=0o755),
    member("bin/server", size=5000, mode=0o755, uid=7),
    member("etc", type=tarfile.DIRTYPE, mode=0o755),
)


def zstd(data: bytes) -> bytes:
    return subprocess.run(["zstd", "-cq"], input=data, capture_output=True, check=True).stdout


def layout(
    folder: Path,
    *contents: bytes,
    architecture: str = "amd64",
    of_layers: list[str] | None = None,
    pack: Callable[[bytes], bytes] = gzip.compress,
) -> Path:
    """Write an OCI layout; ``of_layers``: what its configuration says their hashes are."""
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True)

    def blob(kind: str, data: bytes) -> dict[str, Any]:
        name = hashlib.sha256(data).hexdigest()
        (blobs / name).write_bytes(data)
        media = f"application/vnd.oci.image.{kind}"
        return {"mediaType": media, "digest": f"sha256:{name}", "size": len(data)}

    hashes = of_layers or [f"sha256:{hashlib.sha256(one).hexdigest()}" for one in contents]
    config = {
        "architecture": architecture,
        "os": "linux",
        "config": CONFIG,
        "rootfs": {"type": "layers", "diff_ids": hashes},
    }
    manifest = {
        "schemaVersion": 2,
        "config": blob("config.v1+json", json.dumps(config).encode()),
        "layers": [
            blob(f"layer.v1.tar+{'zstd' if pack is zstd else 'gzip'}", pack(one))
            for one in contents
        ],
    }
    entry = blob("manifest.v1+json", json.dumps(manifest).encode())
    entry["annotations"] = {"org.opencontainers.image.ref.name": "one"}
    (folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [entry]}))
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    return folder


def read(place: Path, digest: str) -> Any:
    """Return what a blob of a layout says."""
    return json.loads((place / "blobs" / "sha256" / digest.partition(":")[2]).read_text())
