# SPDX-License-Identifier: GPL-2.0-or-later
"""The source that a series starts from: Debian's package linux-source-VERSION, in git."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from partywall.core import cache
from partywall.core.cache import file_errors
from partywall.core.errors import EnvironmentProblem, UsageProblem
from partywall.core.progress import Progress
from partywall.kernels import apt, series
from partywall.kernels.git import GitProblem, git, require_identity
from partywall.kernels.series import bases

_UNPACKING = 60
"""Seconds on two cores, git's import as well."""


@dataclass(frozen=True)
class Source:
    """A repository with the source as its one commit, tagged `series.BASE`."""

    repository: Path
    version: str
    key: str
    base: bases.Base = field(default_factory=bases.get)


def _newest(base: bases.Base) -> apt.Package:
    shown = apt.ask("apt-cache", "show", base.package, suite=base.suite)
    found = apt.parse_show(shown, base.suite)
    if not found:
        raise EnvironmentProblem(
            f"apt knows no package {base.package}" + (f" in {base.suite}" if base.suite else ""),
            f"{base.folder / 'base.toml'} names the suite" if base.suite else apt.WHERE,
        )
    # apt lists the one that it would install first.
    return found[0]


def get(progress: Progress, base: bases.Base | None = None) -> Source:
    """The source of a base, 6.12 if not given, from the cache or downloaded and imported."""
    base = base or bases.get()
    package = _newest(base)
    key = f"{package.name}-{package.sha256[:16]}"

    def fill(directory: Path) -> None:
        apt.announce(package.name, [package], _UNPACKING, progress)
        deb = apt.download(package, directory, progress)
        with progress.step(f"unpacking {package.name}", _UNPACKING):
            apt.unpack(deb, directory, ("*/usr/src/linux-source-*.tar.xz",))
            deb.unlink()
            (archive,) = directory.glob("usr/src/*.tar.xz")
            _import(archive, directory / "linux", base, package.version)
            archive.unlink()

    # The number: what is made of the package, and how.
    entry = cache.entry("source", f"{key}-2", fill, progress)
    return Source(entry / "linux", package.version, key, base)


def _import(archive: Path, tree: Path, base: bases.Base, version: str) -> None:
    tree.mkdir()
    done = subprocess.run(
        ["tar", "-xf", str(archive), "-C", str(tree), "--strip-components=1"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise EnvironmentProblem(
            f"unpacking {archive.name}: {done.stderr.strip()[:160]}",
            f"free space in {cache.root()}",
        )
    git(tree, "init", "--quiet", f"--initial-branch=linux-{base.version}")
    git(tree, "config", "gc.auto", "0")
    # The kernel's own .gitignore covers files that its archive has.
    git(tree, "add", "--all", "--force")
    _mend_gitignore(tree)
    message = f"Linux as in Debian's {base.package} {version}"
    git(tree, "commit", "--quiet", f"--message={message}")
    git(tree, "tag", series.BASE)


def _mend_gitignore(tree: Path) -> None:
    """Debian's packaging has git ignore all that is new. A developer's files are."""
    path = tree / ".gitignore"
    lines = [line for line in path.read_text().splitlines() if line not in ("/*", "!/debian/")]
    path.write_text("\n".join(lines) + "\n")
    git(tree, "add", ".gitignore")


def clone(source: Source, into: Path) -> None:
    """A tree of its own at the base, which shares the objects."""
    git(source.repository, "clone", "--quiet", "--shared", str(source.repository), str(into))
    git(into, "config", "gc.auto", "0")
    # Gone with the first push or pull by accident: the origin is a cache.
    git(into, "remote", "remove", "origin")


def usable(tree: Path, source: Source) -> bool:
    """Whether ``tree`` is a clone of ``source`` that still works."""
    # A working tree of somebody's repository, left there by a bisection that was killed,
    # is none of ours.
    if not (tree / ".git").is_dir():
        return False
    try:
        wanted = git(source.repository, "rev-parse", series.BASE)
        return git(tree, "rev-parse", series.BASE) == wanted
    except GitProblem:
        return False


def open_tree(source: Source, patches: list[series.Patch], into: Path, progress: Progress) -> None:
    """A tree for a person to work in: the base, and each patch of the series as a commit."""
    if into.exists() and (not into.is_dir() or any(into.iterdir())):
        raise UsageProblem(f"{into} is there already", "name another folder, or remove it")
    require_identity(into)
    with file_errors("opening a tree", into):
        into.parent.mkdir(parents=True, exist_ok=True)
    with progress.step(f"checking out {source.base.package} {source.version}", 15):
        # A clone of its own, not of the cache's objects: work must outlive the cache.
        git(into.parent, "clone", "--quiet", "--no-hardlinks", str(source.repository), str(into))
        git(into, "remote", "remove", "origin")
    with progress.step(f"applying {len(patches)} patches", len(patches)) as step:
        for number, patch in enumerate(patches):
            series.apply(into, patch, own=False)
            step.done = (number + 1) / len(patches)
