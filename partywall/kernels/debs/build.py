# SPDX-License-Identifier: GPL-2.0-or-later
"""Builds the series as Debian's packages, by the kernel's own scripts/package.

The path is in no file, the time is that of the newest patch, and nothing is signed: two
builds by one compiler give the same bytes.
"""

from __future__ import annotations

import lzma
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from partywall.core import cache, packages
from partywall.core.errors import EnvironmentProblem, UsageProblem
from partywall.core.progress import Progress
from partywall.kernels import apt, build, series
from partywall.kernels.debs import headers, image, words
from partywall.kernels.git import git
from partywall.kernels.make import Make, cached, compiler_version
from partywall.kernels.series import source
from partywall.kernels.sources import debian

_ROOM = {"cloud-amd64": 20, "amd64": 40}
"""GB of disk that a build takes at most."""
_ROOM_LISTED = 10
_SECONDS = {"cloud-amd64": 80 * 60.0, "amd64": 6 * 3600.0}
"""On two cores; of the generic one nobody has waited for the end."""
_SECONDS_LISTED = 1200.0
_OPTIONS = "it takes lines as a .config has them: CONFIG_NAME=y, # CONFIG_NAME is not set"


@dataclass(frozen=True)
class Wanted:
    """A kernel to package, as Debian configures it unless one says otherwise.

    ``lsmod``: a file of lsmod's lines, whose modules alone are built. ``over``: a file of
    options that are laid over the configuration.
    """

    flavour: str = "cloud-amd64"
    revision: int = 1
    lsmod: Path | None = None
    over: Path | None = None


def debian_config(version: str, flavour: str, progress: Progress) -> str:
    """Return Debian's configuration of a flavour, from linux-config of the source's version."""
    name = f"linux-config-{debian.DEFAULT_VERSION}"
    shown = apt.parse_show(apt.ask("apt-cache", "show", name))
    fitting = [package for package in shown if package.version == version]
    if not fitting:
        raise EnvironmentProblem(f"apt knows no {name} {version}", apt.WHERE)
    folder = apt.fetched(fitting[0], (), progress)
    path = folder / "usr" / "src" / name / f"{words.FLAVOURS[flavour]}.xz"
    try:
        return lzma.decompress(path.read_bytes()).decode()
    except (OSError, lzma.LZMAError) as error:
        raise EnvironmentProblem(f"{path}: {error}", "remove that folder and try again") from error


def require_room(folder: Path, gigabytes: int) -> None:
    """EnvironmentProblem where a file system has less room than a build takes."""
    free = shutil.disk_usage(folder).free / 1e9
    if free < gigabytes:
        raise EnvironmentProblem(
            f"building takes {gigabytes} GB in {folder}, which has {free:.0f}",
            "free space there, or choose another place with XDG_CACHE_HOME",
        )


def modules_of(lsmod: Path) -> list[str]:
    """Return the names of modules that a file of lsmod's lines has. UsageProblem if none."""
    try:
        lines = lsmod.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageProblem(f"{lsmod}: {error}", "lsmod >FILE writes one") from error
    if not lines or not lines[0].startswith("Module "):
        raise UsageProblem(f"{lsmod} is not what lsmod prints", "lsmod >FILE writes one")
    return [line.split()[0] for line in lines[1:] if line.strip()]


def settings(tree: Path, version: str, patches: Iterable[series.Patch]) -> dict[str, str]:
    """Return the environment in which a build depends on neither place nor time."""
    written = words.newest(patches)
    # The kernel's own option maps macros alone; the names of files in debug data are these.
    mapped = f"-ffile-prefix-map={tree}=."
    return {
        "CCACHE_DIR": str(cache.root() / "ccache-debs"),
        "CCACHE_MAXSIZE": "8G",
        "DEB_BUILD_OPTIONS": "terse",
        "HOSTCFLAGS": mapped,
        "KAFLAGS": mapped,
        "KBUILD_BUILD_TIMESTAMP": f"{written:%a %b %e %H:%M:%S} UTC {written:%Y}",
        "KBUILD_BUILD_VERSION_TIMESTAMP": version,
        "KCFLAGS": mapped,
        "KDEB_SOURCENAME": words.SOURCE,
        "SOURCE_DATE_EPOCH": f"{written.timestamp():.0f}",
        "TZ": "UTC",
    }


def options_of(over: Path) -> str:
    """Return the options that a file has. UsageProblem where that is no file of options."""
    try:
        lines = over.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageProblem(f"{over}: {error}", _OPTIONS) from error
    for number, line in enumerate(lines, start=1):
        if not re.fullmatch(r"CONFIG_\w+=\S.*|#.*|\s*", line):
            raise UsageProblem(f"{over}:{number}: '{line}' is no option", _OPTIONS)
    return "\n".join(lines) + "\n"


# CONFIG_GCC_VERSION, CONFIG_CC_VERSION_TEXT and the like.
_OF_TOOLS = re.compile(
    r"CONFIG_(CC|GCC|CLANG|LD|LLD|AS|RUSTC|RUSTC_LLVM|BINDGEN|PAHOLE)_\w*VERSION(_TEXT)?\b"
)


def lost(config: str, got: str) -> list[str]:
    """Return options of Debian's that a configuration made of it has otherwise.

    What compilers say of themselves is no option.
    """
    return [option for option in build.unmet(config, got) if not _OF_TOOLS.search(option)]


def _configure(make: Make, wanted: Wanted, config: str, name: str, progress: Progress) -> None:
    own = options_of(wanted.over) if wanted.over else ""
    over = own + words.over(name)
    path = make.tree / ".config"
    path.write_text(f"{config}\n{over}")
    make("olddefconfig")
    if wanted.lsmod is not None:
        make(f"LSMOD={wanted.lsmod.absolute()}", "localmodconfig")
        # What a module asked for that is gone now.
        path.write_text(f"{path.read_text()}\n{over}")
        make("olddefconfig")
    lacking = build.unmet(over, path.read_text())
    if lacking:
        raise EnvironmentProblem(f"{name} can't be configured as {', '.join(lacking)}")
    others = lost(f"{config}\n{over}", path.read_text())
    if others and wanted.lsmod is None:
        more = f" and {len(others) - 9} more" if len(others) > 9 else ""
        said = f"{', '.join(others[:9])}{more}"
        progress.note(f"not as Debian configures it, by this machine: {said}")


def package(into: Path, wanted: Wanted, progress: Progress) -> list[Path]:
    """Write linux-image, linux-headers and -dbg of the series into a folder; return them.

    UsageProblem for files that are not what they should be, EnvironmentProblem where room
    or a program is missing: before anything is downloaded.
    """
    if wanted.lsmod is not None:
        modules_of(wanted.lsmod)
    if wanted.over is not None:
        options_of(wanted.over)
    packages.require("kernels", "debs")
    cache.check_place(into / "kernel.deb", "writing packages")
    folder = cache.root() / "build" / "debs"
    room, seconds = _ROOM[wanted.flavour], _SECONDS[wanted.flavour]
    if wanted.lsmod is not None:
        room, seconds = _ROOM_LISTED, _SECONDS_LISTED
    with cache.file_errors("building packages", folder):
        folder.mkdir(parents=True, exist_ok=True)
        require_room(folder, room)
        with cache.locked(folder / "lock", "its packages", progress):
            made = _package(folder, wanted, seconds, progress)
            return [_moved(deb, into) for deb in made]


def _moved(deb: Path, into: Path) -> Path:
    """Put a package into a folder, whole or not at all; it stays where it is if it can't.

    EnvironmentProblem then, which says where that is.
    """
    place = into / deb.name
    draft = into / f".{deb.name}.new"
    try:
        shutil.copyfile(deb, draft)
        draft.rename(place)
    except OSError as error:
        raise EnvironmentProblem(
            f"writing packages in {into}: {error.strerror or error}",
            f"they are in {deb.parent}: take them from there before the next build",
        ) from error
    finally:
        draft.unlink(missing_ok=True)
    deb.unlink()
    return place


def _package(folder: Path, wanted: Wanted, seconds: float, progress: Progress) -> list[Path]:
    origin = source.get(progress)
    patches = series.read(origin.base.folder)
    config = debian_config(origin.version, wanted.flavour, progress)
    name = words.release(origin.version, wanted.revision, wanted.flavour)
    version = words.version(origin.version, wanted.revision)
    for left in folder.glob("*.deb"):
        left.unlink()
    log = folder / f"{name}.log"
    log.write_bytes(b"")
    with progress.step(f"checking out the source of {name}", 10 + len(patches)):
        tree = build.checkout(origin, patches, folder)
    make = Make(
        tree,
        log,
        # Where CC and HOSTCC differ, the headers' programs are built once more.
        words=(
            f"HOSTCC={cached('gcc')}",
            # Its version is in the configuration, of a compiler that nothing uses.
            "RUSTC=false",
            f"LOCALVERSION={words.local_version(wanted.revision, wanted.flavour)}",
        ),
        settings=settings(tree, version, patches),
        whole=True,
    )
    with progress.step(f"building {name}", seconds):
        _configure(make, wanted, config, name, progress)
        # What bindeb-pkg begins with; it goes on to build with a changelog of its own.
        make("include/config/kernel.release")
        make("run-command", "KBUILD_RUN_COMMAND=$(srctree)/scripts/package/mkdebian")
        # mkdebian dates its changelog, and with it all files, by the clock.
        (tree / "debian" / "changelog").write_text(
            words.changelog(origin.version, wanted.revision, wanted.flavour, patches)
        )
        compiler = f"gcc-{compiler_version().rpartition(' ')[2].partition('.')[0]}"
        headers.complete(tree, compiler)
        image.complete(tree)
        # Of the headers' programs it is known what they need when they are there.
        make("prepare", "scripts")
        control = tree / "debian" / "control"
        needs = [compiler, "make", *headers.libraries(tree)]
        control.write_text(words.control(control.read_text(), patches, needs))
        # Its number of the build is one for who reads it; the version says which it is.
        make("-f", "debian/rules", "revision=1", "binary")
    git(tree, "clean", "-fdxq")
    return sorted(folder.glob("*.deb"))
