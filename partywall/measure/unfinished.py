# SPDX-License-Identifier: GPL-2.0-or-later
"""Guests of a map that were done when it was interrupted, for when it is asked for again.

Two guests that do the same find the same, or nearly so, as docs/how-it-works.md has it: so what
one found is as good later. It is kept until the map's result is written: who measures again
after that measures anew.
"""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from partywall.core import cache
from partywall.core.errors import PartywallError
from partywall.core.progress import Progress, Quiet
from partywall.measure.sitting import Found, Sitting

T = TypeVar("T")

KIND = "unfinished"
ROOM = 1 << 30
"""Bytes of guests of maps that nobody has gone on with."""

FILE = "found"


class Unfinished:
    """The guests of one map. ``over()`` when what they found is kept elsewhere."""

    def __init__(self) -> None:
        self._used: list[str] = []

    def found(self, key: str) -> Found[Any] | None:
        """Return what the guest of this key found before, if it did and that can be read."""
        self._used.append(key)
        if not cache.has(KIND, key):
            return None
        place = cache.root() / KIND / key
        cache.use(place)
        # Whatever is wrong with it, it can be measured again.
        with contextlib.suppress(Exception):
            # Written by this program: who else can write there can write what is run as well.
            found = pickle.loads((place / FILE).read_bytes())  # noqa: S301
            if isinstance(found, Found) and found.can_be_read():
                return found
        cache.drop(place)
        return None

    def over(self) -> None:
        """Drop what was kept, for another map with the same words as well."""
        with contextlib.suppress(OSError):
            for key in self._used:
                cache.drop(cache.root() / KIND / key)
        self._used.clear()


@dataclass(frozen=True)
class Keeping(Generic[T]):
    """``measure``, as `sitting.measure`, which keeps what it found if nothing failed.

    ``key``: of the guest.
    """

    measure: Callable[[Sitting, Path, int, Progress], Found[T]]
    key: str

    def __call__(self, wanted: Sitting, plugin: Path, memory: int, progress: Progress) -> Found[T]:
        """Measure, in a process that does nothing else, and keep what was found."""
        found = self.measure(wanted, plugin, memory, progress)
        if found.whole:

            def fill(folder: Path) -> None:
                (folder / FILE).write_bytes(pickle.dumps(found))

            # A map goes on where there is no room to keep it.
            with contextlib.suppress(OSError, PartywallError):
                cache.entry(KIND, self.key, fill, Quiet())
                cache.trim(KIND, ROOM)
        return found
