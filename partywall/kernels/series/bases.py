# SPDX-License-Identifier: GPL-2.0-or-later
"""The releases of Linux that there are series for, each a folder ``series/linux-VERSION``.

A folder's ``base.toml`` says which of Debian's suites has the release. Without one it
comes from where this machine's apt gets its packages.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from partywall.core.errors import UsageProblem
from partywall.kernels.sources.debian import DEFAULT_VERSION

_PACKAGED = Path(__file__).resolve().parent
"""Where a wheel has them: pyproject.toml says so."""
_BESIDE = Path(__file__).resolve().parents[3] / "series"
_NAME = "linux-"


@dataclass(frozen=True)
class Base:
    """A release of Linux, ``version`` such as ``6.12``, and the folder of its series."""

    version: str
    folder: Path
    suite: str | None = None

    @property
    def package(self) -> str:
        """Debian's package of its source."""
        return f"linux-source-{self.version}"

    @property
    def installed(self) -> bool:
        """Whether it is the installed program's, which the next installation overwrites."""
        return self.folder.parent == _PACKAGED


def load(folder: Path) -> Base:
    """Return the base that a folder of patches is for."""
    version = folder.name.removeprefix(_NAME)
    try:
        facts = tomllib.loads((folder / "base.toml").read_text())
    except FileNotFoundError:
        facts = {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageProblem(f"{folder / 'base.toml'}: {error}") from error
    suite = facts.pop("suite", None)
    if facts or not isinstance(suite, str | None):
        raise UsageProblem(
            f"{folder / 'base.toml'}: '{next(iter(facts), 'suite')}' can't be understood",
            "known: suite, one of Debian's such as trixie-backports",
        )
    return Base(version, folder, suite)


def known(root: Path | None = None) -> dict[str, Base]:
    """Return the bases by version, the oldest first; ``root``: the folder of their folders."""
    if root is None:
        root = _PACKAGED if any(_PACKAGED.glob(f"{_NAME}*")) else _BESIDE
    found = [path for path in root.glob(f"{_NAME}*") if (path / "series").is_file()]
    bases = [load(path) for path in found]
    return {
        base.version: base
        for base in sorted(bases, key=lambda base: [int(n) for n in base.version.split(".")])
    }


def get(version: str = DEFAULT_VERSION) -> Base:
    """Return the base of a version, or the one whose folder is named."""
    bases = known()
    wanted = Path(version).name.removeprefix(_NAME)
    if wanted not in bases:
        raise UsageProblem(f"no series for Linux '{version}'", f"known: {', '.join(bases)}")
    return bases[wanted]


def of_tree(tree: Path) -> Base | None:
    """Return the base whose release a tree of Linux is of, as its Makefile says; None if none."""
    try:
        text = (tree / "Makefile").read_text(errors="replace")
    except OSError:
        return None
    said = dict(re.findall(r"^(VERSION|PATCHLEVEL) = (\d+)$", text, re.MULTILINE))
    return known().get(f"{said.get('VERSION')}.{said.get('PATCHLEVEL')}")
