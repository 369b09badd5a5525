# SPDX-License-Identifier: GPL-2.0-or-later
"""All that decides what a guest finds, as a hash."""

from __future__ import annotations

import functools
import hashlib
import sys
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from importlib import metadata
from pathlib import Path

from pydantic import BaseModel

import partywall
from partywall.core import hashes
from partywall.core.progress import Progress
from partywall.kernels import Kernel
from partywall.measure import sitting
from partywall.measure.sitting import Sitting

_LIBRARIES = ("capstone", "drgn", "numpy", "pydantic", "pyelftools")
"""What names and judges lines, beside this program."""

_MADE = {"__pycache__", "target"}
"""Folders of what Python and cargo make of a program."""


def key_of(wanted: Sitting, plugin: Path, progress: Progress) -> str:
    """Return the hash of all that decides what a guest finds.

    That is what it holds, programs, profile and modules with it, the kernel, the emulator and
    its recorder, this program and its libraries. It is not the snapshot that it goes on from,
    which a machine may make anew meanwhile: a result says of each workload which that was.
    """
    _, contents = sitting.contents(wanted, progress)
    versions = [f"{name} {metadata.version(name)}" for name in _LIBRARIES]
    hashed = hashlib.sha256()
    for word in (program(), sys.version, *versions, contents, files(plugin), *_told(wanted)):
        hashed.update(f"{len(word)}:{word}".encode())
    return hashed.hexdigest()


def _told(value: object) -> Iterator[str]:
    """Yield all that is in a value, in words: of a kernel what it is, of a folder its files."""
    if isinstance(value, Kernel):
        yield from (value.image_sha256, value.build_id, value.config_sha256 or "", str(value))
    elif isinstance(value, BaseModel):
        yield type(value).__name__
        for name in type(value).model_fields:
            yield name
            yield from _told(getattr(value, name))
    elif is_dataclass(value) and not isinstance(value, type):
        yield type(value).__name__
        for one in fields(value):
            yield one.name
            yield from _told(getattr(value, one.name))
    elif isinstance(value, tuple | list):
        yield str(len(value))
        for each in value:
            yield from _told(each)
    elif isinstance(value, dict):
        yield from _told(sorted(value.items()))
    elif isinstance(value, Path) and value.exists():
        yield f"{value} {files(value)}"
    else:
        yield repr(value)


@functools.cache
def files(place: Path) -> str:
    """Return a hash of a file, or of all files in a folder but what is made of them there."""
    return hashes.of_files(place, _MADE)


def program() -> str:
    """Return a hash of this program."""
    return files(Path(partywall.__file__).parent)
