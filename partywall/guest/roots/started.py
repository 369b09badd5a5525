# SPDX-License-Identifier: GPL-2.0-or-later
"""How a root's programs are started where a service says otherwise than its image."""

from __future__ import annotations

import subprocess

from partywall.core.errors import UsageProblem
from partywall.guest.roots.disks import Disk, Start, tool
from partywall.workloads import Service

_LONGEST = 1 << 20
_MOST = 2**32 - 2


def started(disk: Disk, service: Service | None) -> Start:
    """Return how programs of a disk are started for a service.

    UsageProblem if it is to run nothing, or as a user whom the root does not know.
    """
    start = disk.start
    if service is None:
        return start
    entrypoint, command = start.args[: start.entry], start.args[start.entry :]
    if service.entrypoint is not None:
        # What an image has behind its own is not meant for another one.
        entrypoint, command = service.entrypoint, ()
    if service.command is not None:
        command = service.command
    if not (*entrypoint, *command):
        raise UsageProblem(f"{service.name} runs nothing", "give it a command")
    env = dict(one.partition("=")[::2] for one in start.env)
    changed: dict[str, object] = {}
    if service.user is not None or service.groups:
        who = _Users(disk, service.name)
        changed = who.of(service.user, service.groups, start)
        if service.user is not None and not start.home:
            env.pop("HOME", None)
        env = who.home | env
    for name, value in service.environment:
        if value is None:
            env.pop(name, None)
        else:
            env[name] = value
    changed |= {
        "args": (*entrypoint, *command),
        "entry": len(entrypoint),
        "env": tuple(f"{name}={value}" for name, value in env.items()),
        "cwd": service.cwd or start.cwd,
    }
    return start.model_copy(update=changed)


def _valid(told: str) -> int | None:
    """Return the number of a user or a group; None if it is none."""
    digits = told.lstrip("0") or told[:1]
    if not told.isascii() or not told.isdecimal() or len(digits) > len(str(_MOST)):
        return None
    return int(digits) if int(digits) <= _MOST else None


def _rows(text: str) -> list[list[str]]:
    """Return rows of a list of users or groups: a name, a password, a number, and more."""
    rows = [line.split(":") for line in text.splitlines()]
    return [row for row in rows if len(row) > 3 and _valid(row[2]) is not None]


class _Users:
    """Users and groups of a disk's root."""

    def __init__(self, disk: Disk, service: str) -> None:
        self._disk, self._service = disk, service
        stack = disk.stack
        self._passwd = _rows(self._text("etc/passwd") if stack is None else stack.passwd)
        self._group = _rows(self._text("etc/group") if stack is None else stack.group)
        self.home: dict[str, str] = {}

    def _text(self, name: str) -> str:
        command = [tool("unsquashfs"), "-cat", str(self._disk.file), name]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL
        ) as prints:
            assert prints.stdout is not None
            text = prints.stdout.read(_LONGEST)
            prints.kill()
        return text.decode(errors="replace")

    def of(self, told: str | None, more: tuple[str, ...], start: Start) -> dict[str, object]:
        """Return what of a `Start` says who runs it: Docker's rules."""
        groups = [self._number(one, self._group, "group") for one in more]
        if told is None:
            return {"groups": (*start.groups, *groups)}
        user, colon, group = told.partition(":")
        known = next((row for row in self._passwd if user in (row[0], row[2])), None)
        uid = self._number(user, self._passwd, "user") if user else 0
        if known is not None and len(known) > 5 and known[5].startswith("/"):
            self.home = {"HOME": known[5]}
        if colon and group:
            gid = self._number(group, self._group, "group")
        else:
            gid = 0 if known is None else self._number(known[3], [], "group")
            if known is not None:
                # With a group of its own choice it has no others.
                groups += [int(row[2]) for row in self._group if known[0] in row[3].split(",")]
        return {"uid": uid, "gid": gid, "groups": tuple(dict.fromkeys(groups))}

    def _number(self, told: str, rows: list[list[str]], what: str) -> int:
        number = _valid(next((row[2] for row in rows if row[0] == told), told))
        if number is None:
            raise UsageProblem(
                f"{self._service}: its image has no {what} {told[:60]!r}",
                f"/etc/{'passwd' if what == 'user' else 'group'} there has names; a number does",
            )
        return number
