# SPDX-License-Identifier: GPL-2.0-or-later
"""Configures and builds kernels for guests, and keeps them.

The configuration is that of Debian's cloud kernel, with the fragments of
``config/`` laid over it: ``guest`` for every kernel, and what a variant adds.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from partywall.core import cache
from partywall.core.errors import EnvironmentProblem, UsageProblem
from partywall.core.progress import Progress
from partywall.kernels import bisect, kept, series
from partywall.kernels.git import GitProblem, git
from partywall.kernels.kernel import BZIMAGE, Kernel
from partywall.kernels.make import ENVIRONMENT, Make, compiler_version
from partywall.kernels.series import bases, source
from partywall.kernels.sources import debian
from partywall.results.bisect import Commit

FRAGMENTS = Path(__file__).resolve().parent / "config"
BASE_FRAGMENT = "guest"

# Modules that guests load, and what those need; all others are not built.
_KEPT = frozenset(
    "BLK_DEV_RAM CRC16 CRYPTO_CRC32C CRYPTO_CRC32C_INTEL EXT4_FS FS_MBCACHE FW_CFG_SYSFS JBD2 "
    "LIBCRC32C MACVLAN OVERLAY_FS".split()
)

_RECIPE = "2"
"""Changed when a kernel built from the same inputs would come out different."""

# Lines that make prints for a whole build, until one was counted here.
_LINES = 3000
_SECONDS = 900.0


@dataclass(frozen=True)
class Variant:
    """What is laid over the guest's configuration: fragments of ``config/``."""

    fragments: tuple[str, ...] = ()

    @property
    def suffix(self) -> str:
        """For names: ``+lean+debug``."""
        return "".join(f"+{name}" for name in self.fragments)


def variants() -> list[str]:
    """Fragments that a variant may name."""
    return sorted(path.stem for path in FRAGMENTS.glob("*.config") if path.stem != BASE_FRAGMENT)


def debian_config(progress: Progress, base: series.Base | None = None) -> str:
    """Configuration of Debian's newest cloud kernel of a base's version, 6.12 if not given."""
    base = base or bases.get()
    return debian.config(base.version, base.suite, progress)


def fragments(variant: Variant, base: series.Base | None = None, *, own: bool = False) -> str:
    """What is laid over Debian's configuration, later lines winning.

    A base may say last what its release needs, ``guest.config``; and, where its series
    is applied (``own``), add to a variant what only that has: its own ``NAME.config``.
    """
    base = base or bases.get()
    parts = []
    for name in (BASE_FRAGMENT, *variant.fragments):
        path = FRAGMENTS / f"{name}.config"
        if not path.is_file():
            raise UsageProblem(f"no variant '{name}'", f"known: {', '.join(variants())}")
        parts.append(path.read_text())
        if own and name != BASE_FRAGMENT and (ours := base.folder / path.name).is_file():
            parts.append(ours.read_text())
    release = base.folder / f"{BASE_FRAGMENT}.config"
    if release.is_file():
        parts.append(release.read_text())
    return "\n".join(parts)


def configuration(base: str, over: str) -> str:
    """``base`` without the modules that no guest loads, and ``over`` laid over it."""

    def line(text: str) -> str:
        option = re.fullmatch(r"CONFIG_(\w+)=m", text)
        if option is None or option[1] in _KEPT:
            return text
        return f"# CONFIG_{option[1]} is not set"

    return "\n".join([*map(line, base.splitlines()), over, ""])


def _with_own(variant: Variant, progress: Progress, base: series.Base | None) -> str:
    """The whole configuration of a variant, with what the series of a base adds."""
    return configuration(debian_config(progress, base), fragments(variant, base, own=True))


def unmet(wanted: str, got: str) -> list[str]:
    """Options that a fragment asks for and the configuration made of it lacks."""
    have = dict(re.findall(r"^(CONFIG_\w+)=(.*)$", got, re.MULTILINE))
    said: dict[str, str | None] = {}
    for line in wanted.splitlines():
        if on := re.fullmatch(r"(CONFIG_\w+)=(.*)", line):
            said[on[1]] = None if on[2] == "n" else on[2]
        elif off := re.fullmatch(r"# (CONFIG_\w+) is not set", line):
            said[off[1]] = None
    return [
        f"no {option}" if value is None else f"{option}={value}"
        for option, value in said.items()
        if have.get(option) != value
    ]


@contextlib.contextmanager
def _alone(progress: Progress) -> Iterator[Path]:
    """The one working folder, for one process at a time.

    Its path never changes, so that ccache knows files again and two builds of
    one source are the same to the byte.
    """
    folder = cache.root() / "build"
    with cache.file_errors("building a kernel", folder):
        folder.mkdir(parents=True, exist_ok=True)
        with cache.locked(folder / "lock", "its kernel", progress):
            yield folder


def _configure(make: Make, config: str, wanted: str, version: str, name: str) -> None:
    """Makes the configuration; EnvironmentProblem if it comes out without what is wanted."""
    output = make.output or make.tree
    (output / ".config").write_text(config)
    make("olddefconfig", version)
    got = (output / ".config").read_text()
    lacking = unmet(wanted, got)
    if lacking:
        raise EnvironmentProblem(
            f"{name} can't be configured as {', '.join(lacking[:3])}",
            f"the fragments are in {FRAGMENTS}",
        )


def _compile(
    make: Make, config: str, wanted: str, local: str, into: Path, name: str, progress: Progress
) -> None:
    """Configures, compiles, and puts what a guest needs into ``into``."""
    output = make.output or make.tree
    version = f"LOCALVERSION={local}"
    _configure(make, config, wanted, version, name)
    known = cache.root() / "build" / "lines"
    try:
        whole, seconds = (float(word) for word in known.read_text().split())
    except (OSError, ValueError):
        whole, seconds = _LINES, _SECONDS
    begun, first = time.monotonic(), make.lines()
    with progress.step(f"building {name}", seconds) as step:

        def told(lines: int) -> None:
            step.done = min((lines - first) / whole, 0.99)

        make(version, "bzImage", "modules", told=told)
    if make.lines() - first > whole / 2:
        known.write_text(f"{make.lines() - first} {time.monotonic() - begun:.0f}\n")
    make(version, f"INSTALL_MOD_PATH={into}", "modules_install")
    for link in into.glob("lib/modules/*/build"):
        link.unlink()
    shutil.copy(output / BZIMAGE, into / "bzImage")
    shutil.copy(output / "vmlinux", into / "vmlinux")
    shutil.copy(output / ".config", into / "config")


def _kernel(entry: Path, name: str) -> Kernel:
    (modules,) = entry.glob("lib/modules/*")
    return Kernel(
        source=name,
        release=modules.name,
        image=entry / "bzImage",
        vmlinux=entry / "vmlinux",
        modules=modules,
        debug_modules=modules,
        config=(entry / "config").read_text(),
    )


def _key(config: str, *inputs: str) -> str:
    total = hashlib.sha256()
    named = ("where local variables are",) if _named(config) else ()
    settings = map(str, ENVIRONMENT.items())
    for part in (_RECIPE, compiler_version(), config, *inputs, *named, *settings):
        total.update(f"{len(part)} {part}\n".encode())
    return total.hexdigest()


def _named(config: str) -> bool:
    """Whether debug information is whole, from which objects are named by local variables."""
    lines = config.splitlines()
    return not {"CONFIG_DEBUG_INFO_NONE=y", "CONFIG_DEBUG_INFO_REDUCED=y"}.intersection(lines)


def _cleaned(tree: Path) -> bool:
    """Brings a tree to the base; not one that git was killed in, which holds its locks."""
    if (tree / ".git" / "rebase-apply").exists():
        return False
    try:
        git(tree, "reset", "--quiet", "--hard")
        git(tree, "checkout", "--quiet", "--force", "--detach", series.BASE)
        git(tree, "clean", "-fdxq")
    except GitProblem:
        return False
    return True


def checkout(origin: source.Source, patches: list[series.Patch], folder: Path) -> Path:
    """The working tree at the base, clean, with ``patches`` applied."""
    # One for each base: to go from one to another touches most files.
    default = origin.base.version == debian.DEFAULT_VERSION
    tree = folder / ("linux" if default else f"linux-{origin.base.version}")
    if not (source.usable(tree, origin) and _cleaned(tree)):
        shutil.rmtree(tree, ignore_errors=True)
        source.clone(origin, tree)
        git(tree, "checkout", "--quiet", "--detach", series.BASE)
    for patch in patches:
        series.apply(tree, patch)
    return tree


def from_series(
    name: str,
    patches: list[series.Patch],
    variant: Variant,
    progress: Progress,
    base: series.Base | None = None,
) -> Kernel:
    """The kernel of Debian's source and a series, built if it is not in the cache."""
    origin = source.get(progress, base)
    over = fragments(variant, origin.base, own=bool(patches))
    config = configuration(debian_config(progress, origin.base), over)
    title = f"{name}{variant.suffix}"

    def fill(directory: Path) -> None:
        with _alone(progress) as folder:
            log = folder / f"{title}.log"
            log.write_bytes(b"")
            with progress.step(f"checking out the source of {title}", 10 + len(patches)):
                tree = checkout(origin, patches, folder)
            local = "-" + re.sub(r"[+@]", "-", title)
            make = Make(tree, log, named=_named(config))
            _compile(make, config, over, local, directory, title, progress)
            log.rename(directory / "build.log")
            git(tree, "clean", "-fdxq")

    key = _key(config, origin.key, title, series.digest(patches))
    entry = cache.entry("kernel", key, fill, progress)
    return _kernel(entry, f"{title} (linux-source {origin.version})")


class Steps:
    """A tree in which patches are applied and built one after the other."""

    VERSION = "LOCALVERSION=-step"

    def __init__(
        self,
        tree: Path,
        place: Path,
        variant: Variant,
        progress: Progress,
        base: series.Base | None = None,
    ) -> None:
        self._place, self._progress = place, progress
        # What no patch has made yet is no option yet, and asked for all the same.
        self._over = fragments(variant, base)
        self._config = _with_own(variant, progress, base)
        self.make = Make(tree, place / "log", named=_named(self._config))
        self.make.log.write_bytes(b"")
        self._configure()

    def _configure(self) -> None:
        with self._progress.step("configuring", 60):
            _configure(self.make, self._config, self._over, self.VERSION, "the kernel")
            self.make(self.VERSION, "prepare")

    def apply(self, patch: series.Patch) -> None:
        """Applies one more patch."""
        series.apply(self.make.tree, patch)
        if any("Kconfig" in Path(file).name for file in patch.files):
            self._configure()

    def kernel(self, title: str) -> Kernel:
        """The kernel as the tree is now; the one before is gone."""
        into = self._place / "kernel"
        shutil.rmtree(into, ignore_errors=True)
        into.mkdir()
        local = self.VERSION.partition("=")[2]
        _compile(self.make, self._config, self._over, local, into, title, self._progress)
        return _kernel(into, title)


class Commits(Steps):
    """A tree in which commits are checked out and built one after the other."""

    VERSION = "LOCALVERSION=-bisect"


def step_keys(
    patches: list[series.Patch],
    variant: Variant,
    progress: Progress,
    base: series.Base | None = None,
) -> list[str]:
    """For each patch the hash of all that what `steps` has after it is made from."""
    origin = source.get(progress, base)
    last = _key(_with_own(variant, progress, origin.base), origin.key, "step")
    keys = []
    for patch in patches:
        last = hashlib.sha256(f"{last} {series.digest([patch])}".encode()).hexdigest()
        keys.append(last)
    return keys


@contextlib.contextmanager
def steps(
    patches: list[series.Patch],
    variant: Variant,
    progress: Progress,
    base: series.Base | None = None,
) -> Iterator[Steps]:
    """A tree with ``patches`` applied, to go on from, patch by patch."""
    origin = source.get(progress, base)
    with _alone(progress) as folder, tempfile.TemporaryDirectory(dir=folder) as place:
        tree = checkout(origin, patches, folder)
        yield Steps(tree, Path(place), variant, progress, origin.base)
        git(tree, "clean", "-fdxq")


@contextlib.contextmanager
def _aside(tree: Path) -> Iterator[Path]:
    """The place of our own clone, which is put aside as long as another tree is there."""
    kept = tree.with_name(f"{tree.name}.aside")
    # Of one that was killed in between, what is there is the other tree.
    if (tree / ".git").is_dir():
        shutil.rmtree(kept, ignore_errors=True)
        tree.rename(kept)
    try:
        yield tree
    finally:
        if kept.exists():
            shutil.rmtree(tree, ignore_errors=True)
            kept.rename(tree)


@contextlib.contextmanager
def commits(tree: Path, at: Commit, progress: Progress) -> Iterator[Commits]:
    """A working tree of a repository of yours, to build commits in, ``at`` to begin with.

    UsageProblem if that is no kernel's tree.
    """
    with (
        _alone(progress) as folder,
        tempfile.TemporaryDirectory(dir=folder) as place,
        _aside(folder / "linux") as free,
        bisect.worktree(tree, at, free) as own,
    ):
        _require_linux(own, f"{at.short} of {tree}")
        yield Commits(own, Path(place), Variant(), progress)


@contextlib.contextmanager
def working_tree(
    origin: source.Source, patches: list[series.Patch], progress: Progress
) -> Iterator[Path]:
    """The working tree with ``patches`` applied, and nothing built in it."""
    with _alone(progress) as folder:
        with progress.step("checking out the source", 10 + len(patches)):
            tree = checkout(origin, patches, folder)
        yield tree
        git(tree, "clean", "-fdxq")


def is_linux(folder: Path) -> bool:
    """Return whether a folder is a tree of Linux, whatever its name is."""
    try:
        return (folder / "Kbuild").is_file() and (folder / "kernel").is_dir()
    except (OSError, ValueError):
        return False


def _require_linux(tree: Path, name: str) -> None:
    if not is_linux(tree):
        raise UsageProblem(f"{name} is no tree of Linux", "partywall kernel-tree DIR makes one")


def from_tree(tree: Path, variant: Variant, progress: Progress) -> Kernel:
    """The kernel of a tree of yours. Only what changed since last time is compiled.

    UsageProblem if that is no kernel's tree.
    """
    tree = tree.resolve()
    _require_linux(tree, str(tree))
    if (tree / ".config").exists() or (tree / "include" / "config").exists():
        raise UsageProblem(
            f"{tree} was built in, so it can't be built elsewhere",
            f"give {tree / BZIMAGE}, or make -C {tree} mrproper",
        )
    base = bases.of_tree(tree)
    over = fragments(variant, base)
    config = configuration(debian_config(progress, base), over)
    title = f"{tree.name}{variant.suffix}"
    known = hashlib.sha256(f"{tree} {variant.suffix}".encode()).hexdigest()[:16]
    output = cache.root() / "tree" / known
    with cache.file_errors("building a kernel", output):
        (output / "obj").mkdir(parents=True, exist_ok=True)
        with cache.locked(output / "lock", title, progress):
            log = output / "build.log"
            log.write_bytes(b"")
            new = output / "new"
            shutil.rmtree(new, ignore_errors=True)
            new.mkdir()
            make = Make(tree, log, output / "obj", named=_named(config))
            _compile(make, config, over, "-tree", new, title, progress)
            place = kept.put(new, output)
    return _kernel(place, f"tree {tree}{variant.suffix}")
