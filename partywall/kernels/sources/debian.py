# SPDX-License-Identifier: GPL-2.0-or-later
"""Debian's own kernels: ``debian``, ``debian:6.1``, ``debian:PACKAGE``.

Image and debug package come through apt, so from whatever sources this machine
trusts; with ``@SUITE`` behind the name from that suite of Debian's. Of the debug
package only vmlinux and the modules a guest loads are unpacked: all of it would be
six times that.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from partywall.core import packages
from partywall.core.errors import EnvironmentProblem, UsageProblem
from partywall.core.progress import Progress
from partywall.kernels import apt, suites
from partywall.kernels.apt import Package
from partywall.kernels.kernel import Kernel

if TYPE_CHECKING:
    from partywall.kernels.resolve import Request

FORMS = (
    "debian",
    "debian:VERSION (6.12, 6.1)",
    "debian:PACKAGE",
    "any of these with @SUITE (debian@trixie-backports)",
)
DEFAULT_VERSION = "6.12"

_UNPACKING = 30
"""Seconds on two cores, for who waits."""

_DEBUG_PARTS = (
    "*/boot/vmlinux-*",
    "*/lib/modules/*/vmlinux",
    "*/kernel/drivers/block/brd.ko*",
    "*/kernel/fs/ext4/*",
    "*/kernel/fs/jbd2/*",
    "*/kernel/fs/overlayfs/*",
)


def understands(request: Request) -> bool:
    """``debian`` alone or with something behind a colon or an at sign."""
    return request.kernel == "debian" or request.kernel.startswith(("debian:", "debian@"))


def newest(names: list[str], version: str) -> str | None:
    """The newest signed cloud image of a version that also has a debug package.

    ``version`` empty: of any. Package names carry the upstream version and Debian's
    ABI as numbers; they are compared number by number.
    """
    known = set(names)
    start = re.escape(version) if version else r"\d+\.\d+"
    pattern = re.compile(rf"linux-image-{start}[.+-]\S*-cloud-amd64")
    fitting = [name for name in known if pattern.fullmatch(name) and f"{name}-dbg" in known]
    return max(
        fitting,
        key=lambda name: ([int(number) for number in re.findall(r"\d+", name)], name),
        default=None,
    )


def _shown(name: str, suite: str | None) -> list[Package]:
    return apt.parse_show(apt.ask("apt-cache", "show", name, suite=suite), suite)


def pair(name: str, suite: str | None = None) -> tuple[Package, Package]:
    """The image and its debug package, of one version."""
    images = _shown(name, suite)
    debug = _shown(f"{name}-dbg", suite)
    debugs = {package.version: package for package in debug}
    for image in images:
        if image.version in debugs:
            return image, debugs[image.version]
    if images:
        raise UsageProblem(f"{name} has no -dbg package of its version, so nothing can be named")
    # What a suite has since its lists were fetched is known the next time.
    suites.forget(suite)
    raise UsageProblem(
        f"apt knows no package {name}{f' in {suite}' if suite else ''}",
        f"look into packages.debian.org for what {suite} has, and run this again"
        if suite
        else f"{packages.REFRESH}; apt-cache pkgnames linux-image lists names",
    )


def parts(image: Package) -> list[Package]:
    """Return the packages beside the image that a kernel is split over.

    From 7.0 on the image is empty; linux-binary has it, linux-modules the modules
    and linux-base the configuration, each with the release behind its name.
    """
    release = image.name.removeprefix("linux-image-")
    found = []
    for name in image.depends:
        if re.fullmatch(rf"linux-(binary|modules|base)-{re.escape(release)}", name):
            fitting = [one for one in _shown(name, image.suite) if one.version == image.version]
            if not fitting:
                raise UsageProblem(f"{image.name} needs {name} {image.version}, which apt lacks")
            found.append(fitting[0])
    return found


def newest_name(version: str, suite: str | None = None) -> str:
    """Package name of the newest cloud image of a version, such as ``6.12``."""
    known = apt.ask("apt-cache", "pkgnames", f"linux-image-{version}", suite=suite)
    name = newest(known.split(), version)
    if name is None:
        raise EnvironmentProblem(
            f"apt knows no cloud image of Linux {version} with a debug package"
            + (f" in {suite}" if suite else ""),
            f"look into packages.debian.org for what {suite} has" if suite else apt.WHERE,
        )
    return name


def _package_name(wanted: str, suite: str | None) -> str:
    if wanted.startswith("linux-image-"):
        return wanted.removesuffix("-dbg")
    if not re.fullmatch(r"\d+\.\d+(\.\d+)?", wanted):
        raise UsageProblem(f"no kernel 'debian:{wanted}'", f"--kernel takes {', '.join(FORMS)}")
    return newest_name(wanted, suite)


def _one(directory: Path, package: Package, *patterns: str) -> Path:
    """Return the first file that fits a pattern: where Debian had it, or has it now."""
    found = [path for pattern in patterns for path in sorted(directory.glob(pattern))]
    if not found:
        raise UsageProblem(f"{package.name} holds no {patterns[0]}", "choose another package")
    return found[0]


def config(version: str, suite: str | None, progress: Progress) -> str:
    """Configuration of the newest cloud kernel of a version, of a suite if one is named."""
    name = newest_name(version, suite)
    image, _ = pair(name, suite)
    return _config(image, apt.fetched(image, (), progress, parts(image)))


def _config(image: Package, files: Path) -> str:
    release = image.name.removeprefix("linux-image-")
    path = _one(files, image, "boot/config-*", f"usr/lib/modules/{release}/config")
    return path.read_text(errors="replace")


def get(request: Request, progress: Progress) -> Kernel:
    """The kernel, downloaded if it is not in the cache."""
    if request.vmlinux is not None or request.modules is not None:
        raise UsageProblem(
            "--vmlinux and --modules belong to a kernel given as a file",
            "leave them out: Debian's package brings both",
        )
    wanted, at, behind = request.kernel.partition("@")
    suite = behind if at else None
    if wanted == "debian":
        name = newest_name("" if suite is not None else DEFAULT_VERSION, suite)
    else:
        name = _package_name(wanted.partition(":")[2], suite)
    image_package, debug_package = pair(name, suite)
    others = parts(image_package)
    missing = [] if apt.is_cached(image_package) else [image_package, *others]
    missing += [] if apt.is_cached(debug_package) else [debug_package]
    apt.announce(name, missing, _UNPACKING, progress)
    files = apt.fetched(image_package, (), progress, others)
    debug_files = apt.fetched(debug_package, _DEBUG_PARTS, progress)
    release = name.removeprefix("linux-image-")
    place = f"usr/lib/modules/{release}"
    debug = f"usr/lib/debug/lib/modules/{release}/vmlinux"
    return Kernel(
        source=f"debian {image_package.version}",
        release=release,
        image=_one(files, image_package, "boot/vmlinuz-*", f"{place}/vmlinuz"),
        vmlinux=_one(debug_files, debug_package, debug, "usr/lib/debug/boot/vmlinux-*"),
        modules=_one(files, image_package, "**/lib/modules/*"),
        debug_modules=debug_files / "usr" / "lib" / "debug",
        config=_config(image_package, files),
    )
