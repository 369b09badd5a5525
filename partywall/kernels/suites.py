# SPDX-License-Identifier: GPL-2.0-or-later
"""Lists of a suite of Debian's that this machine's apt does not use.

They lie in the cache, and what they list is signed by Debian's keys. Nothing of
the machine's own apt is touched, so no package comes from there by itself.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import time
from pathlib import Path

from partywall.core import cache
from partywall.core.errors import EnvironmentProblem, UsageProblem
from partywall.core.progress import Progress, Quiet

_MIRROR = "http://deb.debian.org/debian"
_KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
_FRESH = 7 * 24 * 3600.0
"""Seconds for which lists are taken as they are: as long as make setup takes apt's own."""


def folder(suite: str) -> Path:
    """Return where the lists of a suite lie."""
    if not re.fullmatch(r"[a-z]+(-[a-z]+)*", suite):
        raise UsageProblem(f"no suite '{suite}'", "name one of Debian's, such as trixie-backports")
    return cache.root() / "apt" / suite


def options(suite: str | None) -> list[str]:
    """Return the options by which apt's programs use a suite's lists; none without a suite."""
    if suite is None:
        return []
    place = folder(suite)
    told = {
        "Dir::Etc::sourcelist": place / "sources.list",
        "Dir::Etc::sourceparts": "-",
        "Dir::State::lists": place / "lists",
        "Dir::Cache": place / "cache",
        "Acquire::Languages": "none",
        "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled": "false",
        "APT::Sandbox::User": "root",
    }
    return [word for name, value in told.items() for word in ("-o", f"{name}={value}")]


def forget(suite: str | None) -> None:
    """Have a suite's lists fetched again before they are next used, whatever their age."""
    if suite is not None:
        # Old, not gone: without a network what the lists have is as good as it was.
        with contextlib.suppress(FileNotFoundError):
            os.utime(folder(suite) / "fetched", (0, 0))


def refresh(suite: str | None, progress: Progress | None = None) -> None:
    """Fetch a suite's lists if they are a week old; without a suite do nothing.

    EnvironmentProblem if there are none, old or new.
    """
    if suite is None:
        return
    progress = progress or Quiet()
    place = folder(suite)
    stamp = place / "fetched"
    with cache.file_errors("keeping lists", place):
        for name in ("lists/partial", "cache/archives/partial"):
            (place / name).mkdir(parents=True, exist_ok=True)
        with cache.locked(place / "lock", f"lists of {suite}", progress):
            if stamp.exists() and time.time() - stamp.stat().st_mtime < _FRESH:
                return
            line = f"deb [signed-by={_KEYS}] {_MIRROR} {suite} main\n"
            (place / "sources.list").write_text(line)
            with progress.step(f"lists of {suite}"):
                done = subprocess.run(
                    [
                        *("apt-get", "-qq", "update", "-o", "APT::Update::Error-Mode=any"),
                        *options(suite),
                    ],
                    capture_output=True,
                    text=True,
                    check=False,
                )
            if not done.returncode:
                stamp.touch()
            elif not stamp.exists():
                raise EnvironmentProblem(
                    f"apt has no lists of {suite}", "see that the network works and run this again"
                )
