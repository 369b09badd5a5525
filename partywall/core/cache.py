# SPDX-License-Identifier: GPL-2.0-or-later
"""Keeps what is expensive to make, by a hash of all that it is made from."""

from __future__ import annotations

import errno
import fcntl
import gzip
import io
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from partywall.core.errors import EnvironmentProblem
from partywall.core.progress import Progress

_COMPLETE = ".complete"


def root() -> Path:
    """Where everything is kept: ``${XDG_CACHE_HOME:-~/.cache}/partywall``."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "partywall"


@contextmanager
def file_errors(doing: str, where: Path) -> Iterator[None]:
    """Turns the errors of files into ones that say what to do about them."""
    try:
        yield
    except OSError as error:
        hint = None
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            hint = f"free space on the file system of {where}"
        elif error.errno in (errno.EACCES, errno.EROFS, errno.EPERM):
            hint = f"make {where} writable"
            if where.absolute().is_relative_to(root().absolute()):
                hint += ", or choose another place with XDG_CACHE_HOME"
        raise EnvironmentProblem(f"{doing} in {where}: {error.strerror or error}", hint) from error


@contextmanager
def locked(path: Path, what: str, progress: Progress) -> Iterator[None]:
    """One process at a time; the others say that they wait for it to make ``what``."""
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with progress.step(f"waiting for another process to make {what}"):
                fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def has(kind: str, key: str) -> bool:
    """Whether there is a whole entry."""
    return (root() / kind / key / _COMPLETE).exists()


def entry(kind: str, key: str, fill: Callable[[Path], None], progress: Progress) -> Path:
    """Folder of what ``fill`` made for ``key``; made now if it is not there whole.

    ``fill`` writes into a folder that nobody else sees. It becomes the entry
    by a rename once it is complete, so an interrupted one is never used.
    """
    place = root() / kind / key
    if (place / _COMPLETE).exists():
        return place
    with file_errors(f"keeping a {kind}", root()):
        place.parent.mkdir(parents=True, exist_ok=True)
        with locked(place.parent / f"{key}.lock", key, progress):
            if (place / _COMPLETE).exists():
                return place
            _make(place, fill)
    return place


def _make(place: Path, fill: Callable[[Path], None]) -> None:
    # Of a run that was killed; nobody else makes this entry while we hold its lock.
    for left in place.parent.glob(f"{place.name}.new-*"):
        shutil.rmtree(left, ignore_errors=True)
    new = Path(tempfile.mkdtemp(prefix=f"{place.name}.new-", dir=place.parent))
    try:
        new.chmod(0o755)
        fill(new)
        (new / _COMPLETE).touch()
        shutil.rmtree(place, ignore_errors=True)
        new.rename(place)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise


def packed(text: str) -> bytes:
    """Return a text compressed by gzip; equal texts give equal bytes, with no name and no time."""
    out = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=out, mtime=0) as file:
        file.write(text.encode())
    return out.getvalue()


def write_whole(path: Path, content: str | bytes) -> None:
    """Writes a file so that nobody ever sees a part of it, not even after a crash."""
    with file_errors("writing a file", path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name[:40]}.", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as out:
                out.write(content.encode() if isinstance(content, str) else content)
                out.flush()
                os.fsync(out.fileno())
            Path(name).chmod(0o644)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
