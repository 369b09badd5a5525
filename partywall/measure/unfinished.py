# SPDX-License-Identifier: GPL-2.0-or-later
"""Guests of a map that were done when it was interrupted, for when it is asked for again.

Two guests that do the same find the same, so what one found is as good later. It is kept by all
that it was found by, this program included, until the map is whole: who measures again after
that measures anew.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

import partywall
from partywall.core import cache
from partywall.core.errors import PartywallError
from partywall.core.progress import Progress, Quiet
from partywall.guest import image
from partywall.kernels import Kernel
from partywall.measure.sitting import Found, Sitting

T = TypeVar("T")

KIND = "unfinished"
ROOM = 1 << 30
"""Bytes of guests of maps that nobody has gone on with."""

_FILE = "found"


class Unfinished:
    """The guests of one map. ``over()`` when it is whole."""

    def __init__(self) -> None:
        self._used: list[str] = []

    def found(self, wanted: Sitting) -> Found[Any] | None:
        """Return what a guest found before, if it did and that can be read."""
        key = key_of(wanted)
        self._used.append(key)
        if not cache.has(KIND, key):
            return None
        place = cache.root() / KIND / key
        cache.use(place)
        # Whatever is wrong with it, it can be measured again.
        with contextlib.suppress(Exception):
            # Written by this program itself: who else can write there needs no pickle.
            found = pickle.loads((place / _FILE).read_bytes())  # noqa: S301
            if isinstance(found, Found) and len(found) == len(wanted.rounds):
                return found
        cache.drop(place)
        return None

    def over(self) -> None:
        """Drop what was kept, and of other maps what there is no room for."""
        for key in self._used:
            cache.drop(cache.root() / KIND / key)
            (cache.root() / KIND / f"{key}.lock").unlink(missing_ok=True)
        self._used.clear()
        cache.trim(KIND, ROOM)


@dataclass(frozen=True)
class Keeping(Generic[T]):
    """``measure``, as `sitting.measure`, which keeps what it found unless a guest failed.

    ``key``: of the guest, as `key_of` has it.
    """

    measure: Callable[[Sitting, Path, int, Progress], Found[T]]
    key: str

    def __call__(self, wanted: Sitting, plugin: Path, memory: int, progress: Progress) -> Found[T]:
        """Measure, in a process that does nothing else, and keep what was found."""
        found = self.measure(wanted, plugin, memory, progress)
        if found.whole:

            def fill(folder: Path) -> None:
                (folder / _FILE).write_bytes(pickle.dumps(found))

            # A map goes on where there is no room to keep it.
            with contextlib.suppress(OSError, PartywallError):
                cache.entry(KIND, self.key, fill, Quiet())
        return found


def key_of(wanted: Sitting) -> str:
    """Return the hash of all that decides what a guest finds."""
    hashed = hashlib.sha256()
    for word in (_program(), _tools(), *_told(wanted)):
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
        yield f"{value} {_files(value)}"
    else:
        yield repr(value)


@functools.cache
def _files(place: Path) -> str:
    """Return a hash of a file, or of all files in a folder but what Python and cargo make."""
    hashed = hashlib.sha256()
    every = sorted(place.rglob("*")) if place.is_dir() else [place]
    for path in every:
        if path.is_file() and not {"__pycache__", "target"} & set(path.parts):
            content = path.read_bytes()
            hashed.update(f"{path.relative_to(place)}:{len(content)}:".encode())
            hashed.update(content)
    return hashed.hexdigest()


def _program() -> str:
    """Return a hash of this program."""
    return _files(Path(partywall.__file__).parent)


@functools.cache
def _tools() -> str:
    """Return the versions of the programs that a guest is made with, in words."""
    return repr(sorted(image.tool_versions().items()))
