# SPDX-License-Identifier: GPL-2.0-or-later
"""Small programs, objects and folders of modules, compiled for a test."""

from __future__ import annotations

import subprocess
from pathlib import Path

# No C library: it takes no time to link and brings no symbols of its own.
BARE = ("-nostdlib", "-static", "-ffreestanding", "-fno-pic", "-no-pie", "-O1")


def compiled(directory: Path, name: str, source: str, *flags: str) -> Path:
    """``source`` as C, compiled to ``directory/name``."""
    directory.mkdir(parents=True, exist_ok=True)
    out = directory / name
    subprocess.run(
        ["gcc", "-x", "c", "-", "-o", str(out), *flags],
        input=source,
        text=True,
        check=True,
        capture_output=True,
    )
    return out


def module(directory: Path, name: str, depends: str = "", vermagic: str = "") -> Path:
    """A file that has of a kernel module what is read before a guest runs."""
    facts = {"license": "GPL", "depends": depends, "vermagic": vermagic}
    source = "".join(
        f'static const char {key}[] __attribute__((section(".modinfo"), used)) = "{key}={value}";\n'
        for key, value in facts.items()
        if value or key == "depends"
    )
    return compiled(directory, f"{name}.ko", source, "-c")
