# SPDX-License-Identifier: GPL-2.0-or-later
"""Keeps what is expensive to make, by a hash of all that it is made from."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import gzip
import io
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from partywall.core.errors import EnvironmentProblem, UsageProblem
from partywall.core.progress import Progress

_COMPLETE = ".complete"
# It can be read by setting it alone.
_UMASK = os.umask(0o022)
os.umask(_UMASK)


def root() -> Path:
    """Where everything is kept: ``${XDG_CACHE_HOME:-~/.cache}/partywall``."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    try:
        return Path(base).expanduser() / "partywall"
    except RuntimeError as error:
        raise EnvironmentProblem(
            "nobody knows where this user's home is", "set HOME, or XDG_CACHE_HOME"
        ) from error


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


def check_place(path: Path, doing: str) -> None:
    """See that a file can be written at a path, whose folder is made.

    UsageProblem if a folder is in its place; EnvironmentProblem if its folder can't be made
    or written.
    """
    with file_errors(doing, path.parent):
        if path.is_dir():
            raise UsageProblem(f"{path} is a folder", "name a file in it")
        if path.exists() and not path.is_file():
            # A device or a pipe, which is written to as it is.
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        # Permissions alone do not tell: a file system may be read-only, and root may do all.
        with tempfile.TemporaryFile(dir=path.parent):
            pass


@contextmanager
def locked(path: Path, what: str, progress: Progress) -> Iterator[None]:
    """One process at a time; the others say that they wait for it to make ``what``.

    On NFS one of all machines, unless it is mounted without locks. EnvironmentProblem
    where the file system has none.
    """
    with path.open("w") as lock:
        if not _wait_for(lock, what, progress):
            raise EnvironmentProblem(
                f"the file system of {path.parent} has no locks",
                "mount it with locks (Lustre: -o flock), or choose another with XDG_CACHE_HOME",
            )
        yield


def _wait_for(lock: TextIO, what: str, progress: Progress) -> bool:
    """Lock an open file, and return whether that is possible on its file system."""
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with progress.step(f"waiting for another process to make {what}"):
                fcntl.flock(lock, fcntl.LOCK_EX)
    except OSError as error:
        if error.errno in (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK):
            return False
        raise
    return True


def has(kind: str, key: str) -> bool:
    """Whether there is a whole entry."""
    return _whole(root() / kind / key)


def entry(
    kind: str,
    key: str,
    fill: Callable[[Path], None],
    progress: Progress,
    what: str | None = None,
) -> Path:
    """Folder of what ``fill`` made for ``key``; made now if it is not there whole.

    ``what``: that it is, for people who wait for it.

    ``fill`` writes into a folder that nobody else sees. It becomes the entry by a rename
    once it is complete, so an interrupted one is never used. A lock keeps others from
    making it meanwhile. That saves work, and no more: where locks do not reach another
    machine, both make it, the first one's stays, and the second one takes that.
    """
    place = root() / kind / key
    if _whole(place):
        return place
    with file_errors(f"keeping a {kind}", root()):
        place.parent.mkdir(parents=True, exist_ok=True)
        with (place.parent / f"{key}.lock").open("w") as lock:
            alone = _wait_for(lock, what or key, progress)
            # What NFS remembers as missing it looks for anew once the folder is read.
            next(place.parent.iterdir(), None)
            if not _whole(place):
                _make(place, fill, alone)
    return place


_ABANDONED = 48 * 3600.0
"""Seconds after which a draft of another machine's is nobody's; no entry takes so long."""


def _whole(place: Path) -> bool:
    return (place / _COMPLETE).exists()


def _here() -> str:
    """Return a name of the running kernel: a lock is seen by all processes on it at least."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return "unknown"


def _make(place: Path, fill: Callable[[Path], None], alone: bool) -> None:
    """Make an entry. ``alone``: no other process of this machine does."""
    ours = f"{place.name}.new-{_here()}-"
    for left in place.parent.glob(f"{place.name}.new-*"):
        if (alone and left.name.startswith(ours)) or _age(left) > _ABANDONED:
            shutil.rmtree(left, ignore_errors=True)
    new = Path(tempfile.mkdtemp(prefix=ours, dir=place.parent))
    try:
        new.chmod(0o755)
        fill(new)
        (new / _COMPLETE).touch()
        _put(new, place)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise


def _put(new: Path, place: Path) -> None:
    """Give a whole draft its name; drop it if a whole entry has that. Others may read that one."""
    for _ in range(9):
        try:
            # Never takes the place of a folder with something in it.
            new.rename(place)
            return
        except OSError:
            if _whole(place):
                shutil.rmtree(new, ignore_errors=True)
                return
            if not place.is_dir():
                raise
        # What has lost its stamp is no entry.
        broken = Path(tempfile.mkdtemp(prefix=new.name, dir=place.parent))
        with contextlib.suppress(FileNotFoundError):
            place.rename(broken)
        shutil.rmtree(broken, ignore_errors=True)
    raise EnvironmentProblem(f"{place} is put back again and again", "remove it")


def _age(path: Path) -> float:
    """Return seconds since a draft last changed at its top; 0 if it is gone."""
    try:
        return time.time() - path.stat().st_mtime
    except OSError:
        return 0.0


def use(place: Path) -> None:
    """Note that an entry is used, as `trim` wants to know."""
    # One that another process drops meanwhile is not there to be noted.
    with contextlib.suppress(OSError):
        os.utime(place / _COMPLETE)


def trim(kind: str, room: int) -> None:
    """Drop entries of a kind, those that nobody used for longest, until ``room`` bytes hold all.

    The one that was used last stays, however large. Drafts that nobody makes any more go, too.
    """
    found = []
    for draft in (root() / kind).glob("*.new-*"):
        if _age(draft) > _ABANDONED:
            shutil.rmtree(draft, ignore_errors=True)
    for stamp in (root() / kind).glob(f"*/{_COMPLETE}"):
        if ".new-" in stamp.parent.name:
            continue
        with contextlib.suppress(OSError):
            size = sum(path.stat().st_size for path in stamp.parent.rglob("*") if path.is_file())
            found.append((stamp.stat().st_mtime_ns, size, stamp.parent))
    for number, (_, size, place) in enumerate(sorted(found, reverse=True)):
        room -= size
        if number and room < 0:
            drop(place)


def drop(place: Path) -> None:
    """Remove an entry. Who has its files open may read on."""
    with contextlib.suppress(OSError):
        # Not half of it, for anybody who looks meanwhile.
        (place / _COMPLETE).unlink(missing_ok=True)
    shutil.rmtree(place, ignore_errors=True)


def packed(text: str) -> bytes:
    """Return a text compressed by gzip; equal texts give equal bytes, with no name and no time."""
    out = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=out, mtime=0) as file:
        file.write(text.encode())
    return out.getvalue()


def write_whole(path: Path, content: str | bytes) -> None:
    """Writes a file so that nobody ever sees a part of it, not even after a crash.

    Behind a link that is its file. What is there and is no file, such as a device or a pipe,
    is written to and stays.
    """
    with file_errors("writing a file", path.parent):
        path = path.resolve() if path.is_symlink() else path
        if path.exists() and not path.is_file():
            with path.open("wb") as out:
                out.write(content.encode() if isinstance(content, str) else content)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name[:40]}.", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as out:
                out.write(content.encode() if isinstance(content, str) else content)
                out.flush()
                os.fsync(out.fileno())
            Path(name).chmod(0o666 & ~_UMASK)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
