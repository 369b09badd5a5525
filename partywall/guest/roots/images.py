# SPDX-License-Identifier: GPL-2.0-or-later
"""A container image as the root of containers: an OCI layout, or an archive of images.

skopeo reads it and umoci unpacks it: neither lets a name or a link in a layer lead out of
the folder. What is too large or for another machine is refused before it is unpacked.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from partywall.core.errors import UsageProblem
from partywall.core.progress import Progress
from partywall.guest.roots import archives, layers, stacked
from partywall.guest.roots.disks import FORM, Disk, Filled, Stack, Start, kept, remove, say, tool
from partywall.guest.roots.layers import WANTED

_CHUNK = 1 << 20


def _split(what: str) -> tuple[Path, str]:
    """Return where images are, and the tag of one of them, empty if none is named."""
    if Path(what).exists():
        return Path(what).resolve(), ""
    name, colon, tag = what.rpartition(":")
    if colon and "/" not in tag and Path(name).exists():
        return Path(name).resolve(), tag
    # Docker's own tags have one more colon.
    name, colon, first = name.rpartition(":")
    if colon and Path(name).exists():
        return Path(name).resolve(), f"{first}:{tag}"
    raise UsageProblem(f"{what}: there is no such file", WANTED)


def _reference(place: Path, tag: str, what: str, work: Path) -> str:
    """Return what skopeo calls an image."""
    if ":" in str(place):
        raise UsageProblem(f"{place}: skopeo takes no colon in a path", "give it another name")
    if not place.is_dir():
        return archives.reference(place, tag, what, work)
    if not (place / "oci-layout").exists():
        raise UsageProblem(f"{place} is no OCI layout: it has no file oci-layout", WANTED)
    return f"oci:{place}:{tag}" if tag else f"oci:{place}"


def _key(place: Path, tag: str) -> str:
    # The index of a layout has hashes of all that belongs to it.
    total = hashlib.sha256(f"{FORM} layers 2 {tag}\n".encode())
    file = place / "index.json" if place.is_dir() else place
    try:
        with file.open("rb") as data:
            while piece := data.read(_CHUNK):
                total.update(piece)
    except OSError as error:
        raise UsageProblem(f"{file}: {error.strerror}", WANTED) from error
    return total.hexdigest()


def _refuse_foreign(config: dict[str, Any], what: str) -> None:
    found = f"{config.get('os', 'unknown')}/{config.get('architecture', 'unknown')}"
    if found != "linux/amd64":
        raise UsageProblem(f"{what} is an image for {found}", "the guest is linux/amd64")


def _start(process: dict[str, Any], facts: dict[str, Any]) -> Start:
    config = facts.get("config")
    entrypoint, own = (
        config.get(name) if isinstance(config, dict) else None for name in ("Entrypoint", "Env")
    )
    user = process.get("user", {})
    return Start(
        args=tuple(process.get("args") or ()),
        entry=len(entrypoint) if isinstance(entrypoint, list) else 0,
        env=tuple(process.get("env") or ()) or Start().env,
        # umoci adds that of the user whom an image names.
        home=isinstance(own, list) and any(str(one).startswith("HOME=") for one in own),
        cwd=process.get("cwd") or "/",
        uid=user.get("uid", 0),
        gid=user.get("gid", 0),
        groups=tuple(user.get("additionalGids") or ()),
    )


def _must(command: list[str], what: str, hint: str = WANTED) -> str:
    status, said, why = say(command)
    if status:
        reason = (why.partition(" msg=")[2].strip('"') or why).removeprefix("⨯ ")
        raise UsageProblem(f"{what} can't be read: {reason[:160]}", hint)
    return said


def _layered(
    layout: Path, blobs: Sequence[Path], facts: dict[str, Any], work: Path
) -> tuple[Path, Stack, dict[str, Any]]:
    """Unpack an image's layers side by side; `stacked.FlatError` if that can't be.

    Return the folder that they are in, what they are, and the image's ``process``.
    """
    top, told = work / "layers", work / "config.json"
    top.mkdir()
    top.chmod(0o755)

    def unpack(tag: str, into: Path) -> None:
        _must(_umoci(("raw", "unpack"), "--image", f"{layout}:{tag}", str(into)), tag)

    stack = stacked.unpack(layout, blobs, facts, top, unpack)
    known = stacked.users(stack, work / "users")
    command = _umoci(("raw", "runtime-config"), "--image", f"{layout}:image")
    status, _, why = say([*command, "--rootfs", str(known), str(told)])
    if status:
        # Its lists of users may be links.
        raise stacked.FlatError(why)
    return top, stack, json.loads(told.read_text())["process"]


def _umoci(kind: Sequence[str], *words: str) -> list[str]:
    """Return a command of umoci's that unpacks."""
    return [tool("umoci"), *kind, *(["--rootless"] if os.geteuid() else []), *words]


def disk(what: str, progress: Progress) -> Disk:
    """Return the disk of an image."""
    place, tag = _split(what)
    skopeo = tool("skopeo")

    def fill(work: Path) -> Filled:
        layout, bundle = work / "layout", work / "bundle"
        image = f"{layout}:image"
        # Whose image it is makes no difference to who measures it: no signature is asked for.
        command = [skopeo, "--insecure-policy", "--override-os", "linux"]
        command += ["--override-arch", "amd64", "--tmpdir", str(work), "copy", "--quiet"]
        command += [_reference(place, tag, what, work), f"oci:{image}"]
        with progress.step(f"reading {place.name}"):
            _must(command, what, "give the tag of one behind it with a colon, if it has several")
            config = _must([skopeo, "inspect", "--config", f"oci:{image}"], what)
            facts = json.loads(config)
            _refuse_foreign(facts, what)
            blobs = layers.prepare(layout, what)
            layers.refuse_hostile(blobs, what)
        with progress.step(f"unpacking {place.name}"):
            try:
                top, stack, process = _layered(layout, blobs, facts, work)
                return Filled(top, _start(process, facts), stack)
            except stacked.FlatError as why:
                # As far as it is honest.
                told = "".join(char if char.isprintable() else "?" for char in str(why))
                progress.note(f"{place.name}: its layers are one folder: {told[-160:]}")
                remove(work / "layers")
            _must(_umoci(("unpack",), "--image", image, str(bundle)), what)
        made = json.loads((bundle / "config.json").read_text())
        return Filled(bundle / "rootfs", _start(made["process"], facts))

    return kept(_key(place, tag), fill, progress)
