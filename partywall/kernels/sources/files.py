# SPDX-License-Identifier: GPL-2.0-or-later
"""A kernel whose files are on this machine: ``--kernel PATH --vmlinux PATH``.

In the folder that a kernel was built in its vmlinux is found by itself. Of distributions'
packages the debug information of modules is found beside that of the kernel.
"""

from __future__ import annotations

import os
import re
import struct
from pathlib import Path
from typing import TYPE_CHECKING

from partywall.core import elf
from partywall.core.errors import UsageProblem
from partywall.core.progress import Progress
from partywall.kernels.kernel import BZIMAGE, Kernel, embedded_config
from partywall.kernels.modules import release_of

if TYPE_CHECKING:
    from partywall.kernels.resolve import Request

FORMS = ("PATH/bzImage, with --vmlinux PATH/vmlinux where it is not found",)


def understands(request: Request) -> bool:
    """Anything with a slash, and any file that exists."""
    return "/" in request.kernel or os.path.isfile(request.kernel)  # noqa: PTH113 (never raises)


def image_version(image: Path) -> str:
    """Version line of a bzImage: release, builder, number and date of the build.

    Documentation/arch/x86/boot.rst has the header: its magic at 0x202, the
    offset of the version, less 0x200, at 0x20e.
    """
    try:
        with image.open("rb") as file:
            head = file.read(0x10000)
    except OSError as error:
        raise UsageProblem(f"{image}: {error.strerror}", "give a bzImage with --kernel") from error
    if len(head) < 0x210 or head[0x202:0x206] != b"HdrS":
        raise UsageProblem(f"{image} is no x86 bzImage", f"it is {BZIMAGE} in a build's folder")
    (offset,) = struct.unpack_from("<H", head, 0x20E)
    text = head[offset + 0x200 :].split(b"\0", 1)[0] if offset else b""
    return text.decode(errors="replace")


def _banner(vmlinux: Path) -> str:
    found = elf.load_symbols(vmlinux).by_name("linux_banner")
    if not found:
        raise UsageProblem(f"{vmlinux} is no Linux kernel: it has no linux_banner")
    text = elf.read_memory(vmlinux, found[0].address, found[0].size or 512)
    return text.split(b"\0", 1)[0].decode(errors="replace").strip()


def same_build(version: str, banner: str) -> bool:
    """Whether the version line of an image and the banner of a vmlinux agree.

    ``RELEASE (BUILDER) VERSION`` and ``Linux version RELEASE (BUILDER) (COMPILER) VERSION``.
    """
    found = re.fullmatch(r"(\S+ \(.*?\)) #(\d*)( .*)", version)
    if found is None:
        return False
    # Debian's 6.1 has the number of the build in the image alone.
    ends = (f"#{found[2]}{found[3]}", f"#{found[3]}")
    return banner.startswith(f"Linux version {found[1]} (") and banner.endswith(ends)


def _modules(directory: Path, release: str) -> Path:
    if not directory.is_dir():
        raise UsageProblem(f"{directory} is no folder", "give lib/modules/RELEASE with --modules")
    inner = directory / "lib" / "modules" / release
    directory = inner if inner.is_dir() else directory
    built_for = release_of(directory)
    if built_for != release:
        raise UsageProblem(
            f"{directory} holds modules of {built_for or 'no kernel'}, the image is {release}",
            "give the modules of the same build with --modules",
        )
    return directory


def _vmlinux(image: Path, release: str) -> Path | None:
    """That of the folder that an image was built in, or one beside the image."""
    beside = image.absolute().parent
    image = image.resolve()
    depth = len(BZIMAGE.parts)
    folders = [image.parents[depth - 1]] if image.parts[-depth:] == BZIMAGE.parts else []
    found = [folder / "vmlinux" for folder in [*folders, image.parent, beside]]
    found += [folder / f"vmlinux-{release}" for folder in (image.parent, beside)]
    return next((path for path in found if path.is_file()), None)


def _config(vmlinux: Path, image: Path, release: str) -> str | None:
    beside = [folder / f"config-{release}" for folder in (vmlinux.parent, image.absolute().parent)]
    # Fedora has image and configuration in lib/modules/RELEASE.
    if image.absolute().parent.name == release:
        beside.append(image.absolute().parent / "config")
    for path in (vmlinux.parent / ".config", *beside):
        if path.is_file():
            return path.read_text(errors="replace")
    return embedded_config(vmlinux)


def _debug_modules(vmlinux: Path, release: str) -> Path | None:
    """Where a distribution has what is told of modules, for who has its vmlinux.

    Fedora: ``lib/modules/RELEASE/vmlinux``, and ``*.ko.debug`` below. Ubuntu and Debian:
    ``boot/vmlinux-RELEASE``, and ``lib/modules/RELEASE`` beside boot.
    """
    folder = vmlinux.absolute().parent
    for place in (folder, folder.parent / "lib" / "modules" / release):
        if place.name == release and (place / "kernel").is_dir():
            return place
    return None


def get(request: Request, progress: Progress) -> Kernel:
    """The kernel, once image, vmlinux and modules are proven to belong together."""
    image = Path(request.kernel)
    version = image_version(image)
    release = version.split(" ", 1)[0]
    vmlinux = request.vmlinux or _vmlinux(image, release)
    if vmlinux is None:
        raise UsageProblem(
            f"{image} alone does not tell the names of its data",
            f"put its vmlinux beside it or leave it in {BZIMAGE}, or give --vmlinux PATH/vmlinux",
        )
    banner = _banner(vmlinux)
    if not same_build(version, banner):
        other = banner.removeprefix("Linux version ").split(" ", 1)[0]
        detail = f"{other} and {release}" if other != release else f"two builds of {release}"
        raise UsageProblem(
            f"{vmlinux} is of another kernel than {image} ({detail})",
            "give the vmlinux of the same build",
        )
    modules = None if request.modules is None else _modules(request.modules, release)
    return Kernel(
        source=str(image),
        release=release,
        image=image,
        vmlinux=vmlinux,
        modules=modules,
        debug_modules=_debug_modules(vmlinux, release) or modules,
        config=_config(vmlinux, image, release),
    )
