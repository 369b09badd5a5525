# SPDX-License-Identifier: GPL-2.0-or-later
"""Snapshots of guests whose kernels have booted, from which others go on.

Most of a guest's time is its boot, which is the same for all that have the same kernel,
processors and memory. What a guest is to do it gets after that (see files/init). Snapshots
are kept, the last used of them, by a hash of all that they are made from.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import shlex
import time
from dataclasses import replace
from pathlib import Path

from qemu.qmp import QMPClient, QMPError

from partywall.core import cache
from partywall.core.errors import EnvironmentProblem
from partywall.core.progress import Progress
from partywall.guest.boot import GIVEN, Guest
from partywall.guest.qmp import APART, connected
from partywall.guest.settings import Settings, Snapshot, expected_seconds

KIND = "snapshot"
ROOM = 4 << 30
"""Bytes that all snapshots may take; one has about a hundred million."""

_ROOM_FOR_IT = "free space there, or choose another place with XDG_CACHE_HOME"

_WRITTEN_WITHIN = 120.0
"""Seconds in which a disk has taken what QEMU has given away."""


def booted(settings: Settings, progress: Progress) -> Settings:
    """Return settings of the same guest that goes on from a snapshot of its boot.

    One is made if none is kept. Returned is what was given if there can be none: of a guest
    on threads or KVM, whose time is not its own, or with a RAM disk, which would be in it; or
    if it can't be kept, which is said. DidNotBoot if the kernel does not.
    """
    disk = settings.disk
    if settings.accel != "icount" or (disk is not None and not disk.beside):
        return settings
    first = replace(
        settings, initramfs=settings.initramfs[:1], plugin=None, hooks="", second_line=True
    )
    begun = time.time()
    waiting = Waiting(first)
    try:
        key = waiting.key()
        failure = cache.root() / KIND / f"{key}.failed"

        def fill(place: Path) -> None:
            # Those who waited for it would fail as well, one after the other.
            _raise_again(failure, begun)
            with progress.step("booting its kernel, once", expected_seconds(settings.topology)):
                try:
                    waiting.save(place)
                    _digest(place)
                except EnvironmentProblem as error:
                    _note(failure, error)
                    raise

        place = cache.entry(KIND, key, fill, progress, "a snapshot of a guest")
    except DidNotBoot:
        raise
    except (EnvironmentProblem, OSError) as error:
        progress.note(f"each guest boots: {getattr(error, 'message', error)}")
        return settings
    finally:
        waiting.close()
    failure.unlink(missing_ok=True)
    cache.use(place)
    cache.trim(KIND, ROOM)
    snapshot = Snapshot(place / "state", place / "console", _digest(place))
    return replace(settings, snapshot=snapshot, second_line=True)


def _digest(place: Path) -> str | None:
    """Return the hash of a snapshot's state; None if it is gone meanwhile.

    It is kept beside it. What was kept by an older version has none yet.
    """
    kept = place / "digest"
    try:
        return kept.read_text()
    except OSError:
        pass
    try:
        with (place / "state").open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None
    with contextlib.suppress(OSError):
        draft = place / f"digest.{os.getpid()}"
        draft.write_text(found)
        draft.replace(kept)
    return found


def _note(failure: Path, error: EnvironmentProblem) -> None:
    """Write down what the next one would fail of as well."""
    boots = not isinstance(error, DidNotBoot)
    if boots or "panicked" in error.message:
        said = {"at": time.time(), "boots": boots, "message": error.message, "hint": error.hint}
        with contextlib.suppress(OSError):
            failure.write_text(json.dumps(said))


def _raise_again(failure: Path, begun: float) -> None:
    """Raise what a guest failed of that was started by somebody else since a time."""
    try:
        said = json.loads(failure.read_text())
    except (OSError, ValueError):
        return
    if said["at"] < begun:
        return
    kind = EnvironmentProblem if said["boots"] else DidNotBoot
    raise kind(said["message"], said["hint"])


class DidNotBoot(EnvironmentProblem):
    """A guest failed before it came to what it waits for."""


class Waiting(Guest):
    """A guest that boots, and waits for what it is to do."""

    def command(self) -> list[str]:
        """The QEMU command line, with nothing in place of what it waits for."""
        words = super().command()
        for name in GIVEN:
            words += ["-fw_cfg", f"name=opt/partywall/{name},string=-"]
        return words

    def key(self) -> str:
        """Return a hash of all that the guest depends on, hex."""
        s = self.settings
        named = {str(self.directory): "FOLDER", str(s.kernel_image): "IMAGE"}
        words = [s.qemu.version, *self.command()]
        if s.disk is not None:
            named[s.disk.path] = "DISK"
            words.append(s.disk.state)
        for text, name in named.items():
            words = [word.replace(text, name) for word in words]
        total = hashlib.sha256(json.dumps(words).encode())
        # Its firmware comes with it, or does not: what does not fit is dropped when it is used.
        for path in (s.qemu.program, s.kernel_image):
            with path.open("rb") as file:
                total.update(hashlib.file_digest(file, "sha256").digest())
        for part in s.initramfs:
            total.update(part)
        return total.hexdigest()

    def save(self, place: Path) -> None:
        """Boot, and keep the guest in a folder.

        DidNotBoot if its kernel does not; EnvironmentProblem if it can't be kept.
        """
        with self:
            try:
                self.wait_for("booted")
                apart = self.settings.disk is not None
                asyncio.run(_migrate(self.qmp, place / "state", apart=apart))
            except EnvironmentProblem as error:
                # A kernel without what the guest waits with gets as far as this.
                if self.said("version") is None:
                    raise DidNotBoot(error.message, error.hint) from error
                raise
            # What it says while it is written down may be lost, or be said again.
            said = self.console.partition("PARTYWALL booted")[0]
        (place / "console").write_text(said)


async def _migrate(socket: Path, state: Path, *, apart: bool) -> None:
    """Have QEMU write down a guest while it waits. EnvironmentProblem if that fails.

    ``apart``: memory that lies in a file is not in it.
    """
    # QEMU is done before what it has given away is written: names say what became of that.
    draft, failed = state.with_suffix(".draft"), state.with_suffix(".failed")
    one, two, three = (shlex.quote(str(path)) for path in (draft, state, failed))
    command = f"exec:cat >{one} && mv {one} {two} || touch {three}"
    try:
        async with connected(socket) as client:
            # The guest runs meanwhile: one that was stopped would have to be told to go on.
            await client.execute("migrate-set-parameters", {"max-bandwidth": 1 << 40})
            if apart:
                await client.execute("migrate-set-capabilities", APART)
            await client.execute("migrate", {"uri": command})
            await asyncio.wait_for(_written(client, state, failed), _WRITTEN_WITHIN)
    except TimeoutError as error:
        raise EnvironmentProblem(
            f"QEMU did not write its guest down in {_WRITTEN_WITHIN:.0f} s", _ROOM_FOR_IT
        ) from error
    except (QMPError, OSError, EOFError) as error:
        raise EnvironmentProblem(f"QEMU could not write its guest down: {error}") from error


async def _written(client: QMPClient, state: Path, failed: Path) -> None:
    """Wait until a guest is written down, and QEMU says that it was all of it."""
    while True:
        said = await client.execute("query-migrate")
        status = said.get("status") if isinstance(said, dict) else None
        if failed.exists():
            raise EnvironmentProblem(f"{state.parent} can't be written", _ROOM_FOR_IT)
        if status == "failed":
            raise EnvironmentProblem("QEMU could not write its guest down")
        if status == "completed" and state.exists():
            return
        await asyncio.sleep(0.02)
