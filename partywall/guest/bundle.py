# SPDX-License-Identifier: GPL-2.0-or-later
"""What a container starts containers with: crun, and bundles whose root is one of busybox.

They are confined as Docker's defaults say, but for AppArmor, which has its profile loaded
outside. A bundle's root is to be mounted on ``rootfs`` beside where it is used, as a lower
layer.
"""

from __future__ import annotations

import json

from partywall.guest import oci

CRUN = "/usr/bin/crun"
DIRECTORY = "usr/share/partywall/bundle"
FOLDERS = tuple(f"{DIRECTORY}/rootfs/{name}" for name in ("dev", "etc", "proc", "sys", "tmp"))

# A bundle each: what its container does.
_ARGUMENTS = {"true": ["/bin/busybox", "true"], "sleep": ["/bin/busybox", "sleep", "1000000"]}


def config(arguments: list[str]) -> bytes:
    """Return config.json of a container within one."""
    made = oci.config(
        number=0,
        cpus=range(1),
        arguments=arguments,
        environment={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
        capabilities=(),
        confined=True,
        apparmor=False,
        systempaths=True,
    )
    linux = made["linux"]
    # Docker has none unless told; of the outer one these would be.
    linux["namespaces"] = [one for one in linux["namespaces"] if one["type"] != "user"]
    for name in ("uidMappings", "gidMappings", "cgroupsPath"):
        del linux[name]
    del linux["resources"]["cpu"]
    own = ("/run/partywall", "/volume")
    made["mounts"] = [one for one in made["mounts"] if one["destination"] not in own]
    return json.dumps(made).encode()


def files(crun: dict[str, bytes], busybox: bytes) -> dict[str, tuple[bytes, int]]:
    """Data and mode by path in the image.

    ``crun``: the program for `CRUN` and its libraries, by path.
    """
    found = {path.lstrip("/"): (data, 0o755) for path, data in crun.items()}
    found[f"{DIRECTORY}/rootfs/bin/busybox"] = (busybox, 0o755)
    for name, arguments in _ARGUMENTS.items():
        found[f"{DIRECTORY}/{name}.json"] = (config(arguments), 0o644)
    return found
