# SPDX-License-Identifier: GPL-2.0-or-later
"""What the program needs of a machine: Debian's packages, and the command that installs them.

The lists lie in ``needs/``: for a check, for the recorder, for building kernels, for
packages of kernels, for roots of containers that somebody else made.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from partywall.core.errors import EnvironmentProblem

Kind = Literal["check", "recorder", "kernels", "debs", "roots"]
OPTIONAL: tuple[Kind, ...] = ("roots", "kernels", "debs")
"""Lists without which a check of Debian's kernel runs all the same."""
_LISTS = Path(__file__).resolve().parent / "needs"
IN_CHECKOUT = (Path(__file__).resolve().parents[2] / "scripts" / "setup").exists()
"""Whether the program runs from its checkout, where ``make setup`` installs what it needs."""
_SETUP, _SETUP_DEBS = "make setup", "scripts/setup --debs"
"""The second one installs what makes packages of kernels as well, which the first leaves out."""
REFRESH = "run apt-get update as root, which refreshes apt's lists, and this again"
_OTHERS = {"qemu-system-x86_64": "PARTYWALL_QEMU"}
"""Programs that the environment may name others for."""
_DOCTOR = "partywall doctor says what this machine lacks"


@dataclass(frozen=True)
class Need:
    """A package, what does as well, and what it is for.

    ``tool``: a program; a file if it begins with a slash; behind ``static:`` a program
    that needs no libraries.
    """

    package: str
    tool: str
    use: str

    @property
    def name(self) -> str:
        """What it is called where it is missing."""
        if self.tool.startswith("/"):
            return self.package
        name = self.tool.rpartition(":")[2]
        return os.environ.get(_OTHERS.get(name, ""), name)

    def found(self) -> Path | None:
        """Where the tool is; None if there is none that does."""
        if self.tool.startswith("/"):
            return Path(self.tool) if Path(self.tool).exists() else None
        path = program(self.name)
        if path and self.tool.startswith("static:") and not _static(path):
            return None
        return path


def needs(kind: Kind) -> list[Need]:
    """Return one of the lists."""
    lines = (_LISTS / f"{kind}.txt").read_text().splitlines()
    return [Need(*line.split(maxsplit=2)) for line in lines if line and not line.startswith("#")]


def program(name: str) -> Path | None:
    """A program wherever root's or a user's path has it."""
    path = f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin:/sbin"
    found = shutil.which(name, path=path)
    return Path(found) if found else None


def _static(path: Path) -> bool:
    done = subprocess.run(["ldd", str(path)], capture_output=True, check=False)
    return done.returncode != 0


def missing(*kinds: Kind) -> list[Need]:
    """What is not here of these lists."""
    return [need for kind in kinds for need in needs(kind) if need.found() is None]


def mend(*kinds: Kind) -> str:
    """What to do where something of these lists is missing: the command for all of it."""
    lacks = missing(*kinds)
    if IN_CHECKOUT:
        return f"run {install(lacks)}"
    return install(lacks) if lacks else _DOCTOR


def install(lacks: list[Need]) -> str:
    """Return the command that installs these."""
    if IN_CHECKOUT:
        return _SETUP_DEBS if set(lacks) & set(needs("debs")) else _SETUP
    names = sorted({need.package for need in lacks})
    return f"apt-get install --no-install-recommends {' '.join(names)}"


def require(*kinds: Kind) -> None:
    """EnvironmentProblem that names all that is missing of these lists.

    Where there is no apt nobody knows how it is called, and what fails first says so.
    """
    lacks = missing(*kinds) if program("apt-get") else []
    if lacks:
        names = ", ".join(need.name for need in lacks)
        raise EnvironmentProblem(f"this machine lacks {names}", mend(*kinds))
