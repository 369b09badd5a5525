# SPDX-License-Identifier: GPL-2.0-or-later
"""Prints partywall/guest/seccomp.toml: Docker's default seccomp profile, for x86-64.

    .venv/bin/python scripts/seccomp.py VERSION [ZIP] >seccomp.toml

VERSION is that of the Go module github.com/moby/profiles/seccomp, such as v0.3.0. Its archive
is fetched from Go's proxy (GOPROXY), or is ZIP. Capabilities alone decide what a container may
do here: rules for kernels before the oldest that guests have hold always.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import sys
import urllib.request
import zipfile
from typing import Any

MODULE = "github.com/moby/profiles/seccomp"
PROXY = "https://proxy.golang.org"
OLDEST = (6, 1)
"""The oldest kernel that guests have."""
CONDITIONS = {"caps", "arches", "minKernel"}
KNOWN = {"names", "action", "args", "includes", "excludes", "errnoRet", "comment"}


def archive(version: str, path: str | None) -> zipfile.ZipFile:
    """The module's files, from a file or from Go's proxy."""
    if path is not None:
        return zipfile.ZipFile(path)
    proxy = next(
        (one for one in os.environ.get("GOPROXY", "").split(",") if one.startswith("https://")),
        PROXY,
    )
    address = f"{proxy}/{MODULE}/@v/{version}.zip"
    with urllib.request.urlopen(address, timeout=60) as data:  # noqa: S310
        return zipfile.ZipFile(io.BytesIO(data.read()))


def checksum(files: zipfile.ZipFile) -> str:
    """What go.sum says of these files: their digests, hashed in the order of their names."""
    lines = [
        f"{hashlib.sha256(files.read(name)).hexdigest()}  {name}\n"
        for name in sorted(files.namelist())
    ]
    whole = hashlib.sha256("".join(lines).encode()).digest()
    return f"h1:{base64.b64encode(whole).decode()}"


def holds(conditions: dict[str, Any]) -> bool:
    """Whether a rule is one for x86-64 and for the kernels that guests have."""
    unknown = set(conditions) - CONDITIONS
    if unknown:
        raise SystemExit(f"a rule asks for {', '.join(sorted(unknown))}: not known here")
    least = conditions.get("minKernel")
    new = least is None or tuple(int(part) for part in least.split(".")) <= OLDEST
    return new and "amd64" in conditions.get("arches", ["amd64"])


def text(value: Any) -> str:
    """A value as TOML has it."""
    return json.dumps(value)


def rule(given: dict[str, Any]) -> list[str]:
    """Lines of one rule; none where it is not for us. SystemExit for what is not understood."""
    if not set(given) <= KNOWN:
        raise SystemExit(f"a rule has {', '.join(sorted(set(given) - KNOWN))}: not known here")
    included, excluded = given.get("includes", {}), given.get("excludes", {})
    without = dict(excluded)
    without.pop("caps", None)
    # One of these is enough to leave it out.
    if not holds(included) or any(holds({key: without[key]}) for key in without):
        return []
    lines = ["", "[[rules]]", "names = ["]
    lines += [f"    {text(name)}," for name in sorted(given["names"])]
    lines.append("]")
    for key, where in (("with", included), ("without", excluded)):
        if where.get("caps"):
            lines.append(f"{key} = {text(where['caps'])}")
    if given["action"] == "SCMP_ACT_ERRNO":
        lines.append(f"errno = {given['errnoRet']}")
    elif given["action"] != "SCMP_ACT_ALLOW":
        raise SystemExit(f"a rule does {given['action']}: not known here")
    if given.get("args"):
        conditions = [
            [a["index"], a["op"].removeprefix("SCMP_CMP_"), a["value"], a.get("valueTwo", 0)]
            for a in given["args"]
        ]
        lines.append(f"arguments = {text(conditions)}")
    return lines


def main(version: str, path: str | None = None) -> None:
    """Print the file. SystemExit for a profile that is not understood."""
    files = archive(version, path)
    profile = json.loads(files.read(f"{MODULE}@{version}/default.json"))
    if (profile["defaultAction"], profile["defaultErrnoRet"]) != ("SCMP_ACT_ERRNO", 1):
        raise SystemExit("what no rule is about does not fail with EPERM: not known here")
    lines = [
        # Of the file that is printed; a tag in quotation marks would be this one's.
        f"# SPDX-License-{'Identifier'}: GPL-2.0-or-later",
        "# Which system calls Docker's default seccomp profile lets through on x86-64, by what a",
        "# container holds (with) and does not hold (without). Conditions of arguments: which one,",
        "# how it is compared, with what, and for MASKED_EQ what is left under that mask.",
        "# Names and conditions alone: facts, and no text of theirs.",
        f"# Written by scripts/seccomp.py {version}",
        f"module = {text(MODULE)}",
        f"version = {text(version)}",
        f"sum = {text(checksum(files))}",
    ]
    for given in profile["syscalls"]:
        lines += rule(given)
    print("\n".join(lines))


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: scripts/seccomp.py VERSION [ZIP]")
    main(*sys.argv[1:])
