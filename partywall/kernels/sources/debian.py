# SPDX-License-Identifier: GPL-2.0-or-later
"""Debian's own kernels: ``debian``, ``debian:6.1``, ``debian:PACKAGE``.

Image and debug package come through apt, so from whatever sources this machine
trusts. Of the debug package only vmlinux and the modules a guest loads are
unpacked: all of it would be six times that.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from partywall.core.errors import EnvironmentProblem, UsageProblem
from partywall.core.progress import Progress
from partywall.kernels import apt
from partywall.kernels.apt import Package
from partywall.kernels.kernel import Kernel

if TYPE_CHECKING:
    from partywall.kernels.resolve import Request

FORMS = ("debian", "debian:VERSION (6.12, 6.1)", "debian:PACKAGE")
DEFAULT_VERSION = "6.12"

_DEBUG_PARTS = (
    "*/boot/vmlinux-*",
    "*/kernel/drivers/block/brd.ko*",
    "*/kernel/fs/ext4/*",
    "*/kernel/fs/jbd2/*",
    "*/kernel/fs/overlayfs/*",
)


def understands(request: Request) -> bool:
    """``debian`` alone or with something behind a colon."""
    return request.kernel == "debian" or request.kernel.startswith("debian:")


def newest(names: list[str], version: str) -> str | None:
    """The newest signed cloud image of a version that also has a debug package.

    Package names carry the upstream version and Debian's ABI as numbers; they
    are compared number by number.
    """
    known = set(names)
    pattern = re.compile(rf"linux-image-{re.escape(version)}[.+-]\S*-cloud-amd64")
    fitting = [name for name in known if pattern.fullmatch(name) and f"{name}-dbg" in known]
    return max(
        fitting,
        key=lambda name: ([int(number) for number in re.findall(r"\d+", name)], name),
        default=None,
    )


def pair(name: str) -> tuple[Package, Package]:
    """The image and its debug package, of one version."""
    images = apt.parse_show(apt.ask("apt-cache", "show", name))
    debug = apt.parse_show(apt.ask("apt-cache", "show", f"{name}-dbg"))
    debugs = {package.version: package for package in debug}
    for image in images:
        if image.version in debugs:
            return image, debugs[image.version]
    if images:
        raise UsageProblem(f"{name} has no -dbg package of its version, so nothing can be named")
    raise UsageProblem(
        f"apt knows no package {name}",
        "run make setup, which refreshes apt's lists; apt-cache pkgnames linux-image lists names",
    )


def newest_name(version: str) -> str:
    """Package name of the newest cloud image of a version, such as ``6.12``."""
    name = newest(apt.ask("apt-cache", "pkgnames", f"linux-image-{version}").split(), version)
    if name is None:
        raise EnvironmentProblem(
            f"apt knows no cloud image of Linux {version} with a debug package",
            apt.WHERE,
        )
    return name


def _package_name(wanted: str) -> str:
    if wanted.startswith("linux-image-"):
        return wanted.removesuffix("-dbg")
    if not re.fullmatch(r"\d+\.\d+(\.\d+)?", wanted):
        raise UsageProblem(f"no kernel 'debian:{wanted}'", f"--kernel takes {', '.join(FORMS)}")
    return newest_name(wanted)


def _one(directory: Path, pattern: str, package: Package) -> Path:
    found = sorted(directory.glob(pattern))
    if not found:
        raise UsageProblem(f"{package.name} holds no {pattern}", "choose another package")
    return found[0]


def get(request: Request, progress: Progress) -> Kernel:
    """The kernel, downloaded if it is not in the cache."""
    if request.vmlinux is not None or request.modules is not None:
        raise UsageProblem(
            "--vmlinux and --modules belong to a kernel given as a file",
            "leave them out: Debian's package brings both",
        )
    name = _package_name(request.kernel.partition(":")[2] or DEFAULT_VERSION)
    image_package, debug_package = pair(name)
    image_files = apt.fetched(image_package, (), progress)
    debug_files = apt.fetched(debug_package, _DEBUG_PARTS, progress)
    image = _one(image_files, "boot/vmlinuz-*", image_package)
    release = image.name.removeprefix("vmlinuz-")
    config = _one(image_files, "boot/config-*", image_package)
    return Kernel(
        source=f"debian {image_package.version}",
        release=release,
        image=image,
        vmlinux=_one(debug_files, "usr/lib/debug/boot/vmlinux-*", debug_package),
        modules=_one(image_files, "**/lib/modules/*", image_package),
        debug_modules=debug_files / "usr" / "lib" / "debug",
        config=config.read_text(errors="replace"),
    )
