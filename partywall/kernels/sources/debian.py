# SPDX-License-Identifier: GPL-2.0-or-later
"""Debian's own kernels: ``debian``, ``debian:6.1``, ``debian:PACKAGE``.

Image and debug package come through apt, so from whatever sources this machine
trusts. Of the debug package only vmlinux and the modules a guest loads are
unpacked: all of it would be six times that.
"""

from __future__ import annotations

import re
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from partywall import cache
from partywall.errors import EnvironmentProblem, UsageProblem
from partywall.kernels.kernel import Kernel
from partywall.progress import Progress

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


@dataclass(frozen=True)
class Package:
    """One version of a binary package, as apt knows it. ``size`` in bytes."""

    name: str
    version: str
    size: int
    sha256: str


def understands(request: Request) -> bool:
    """``debian`` alone or with something behind a colon."""
    return request.kernel == "debian" or request.kernel.startswith("debian:")


def _apt(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise EnvironmentProblem(
            f"{command[0]} is not here: this is no Debian",
            "use --kernel PATH/bzImage --vmlinux PATH/vmlinux",
        ) from error
    return done.stdout


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


def parse_show(text: str) -> list[Package]:
    """The packages that ``apt-cache show`` describes."""
    found = []
    for paragraph in text.strip().split("\n\n"):
        facts = dict(re.findall(r"^(Package|Version|Size|SHA256): (.*)$", paragraph, re.MULTILINE))
        if {"Package", "Version", "Size", "SHA256"} <= facts.keys() and re.fullmatch(
            "[1-9][0-9]*", facts["Size"]
        ):
            found.append(
                Package(facts["Package"], facts["Version"], int(facts["Size"]), facts["SHA256"])
            )
    return found


def pair(name: str) -> tuple[Package, Package]:
    """The image and its debug package, of one version."""
    images = parse_show(_apt("apt-cache", "show", name))
    debug = parse_show(_apt("apt-cache", "show", f"{name}-dbg"))
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
    name = newest(_apt("apt-cache", "pkgnames", f"linux-image-{version}").split(), version)
    if name is None:
        raise EnvironmentProblem(
            f"apt knows no cloud image of Linux {version} with a debug package",
            "run make setup, which refreshes apt's lists",
        )
    return name


def _package_name(wanted: str) -> str:
    if wanted.startswith("linux-image-"):
        return wanted.removesuffix("-dbg")
    if not re.fullmatch(r"\d+\.\d+(\.\d+)?", wanted):
        raise UsageProblem(f"no kernel 'debian:{wanted}'", f"--kernel takes {', '.join(FORMS)}")
    return newest_name(wanted)


def _download(package: Package, into: Path, progress: Progress) -> Path:
    """The package's file, which apt has checked against its signed lists."""
    size = f"{package.size / 1e6:.0f} MB"
    with progress.step(f"downloading {package.name} ({size})") as step:
        process = subprocess.Popen(
            [
                *("apt-get", "-qq", "-o", "APT::Sandbox::User=root", "-o", "Acquire::Retries=3"),
                *("download", f"{package.name}={package.version}"),
            ],
            cwd=into,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        said: list[str] = []
        assert process.stderr is not None
        reader = threading.Thread(target=lambda: said.append(process.stderr.read()))  # type: ignore[union-attr]
        reader.start()
        try:
            while process.poll() is None:
                have = sum(path.stat().st_size for path in into.glob("*.deb*"))
                step.done = min(have / package.size, 1.0)
                time.sleep(0.2)
        except BaseException:
            process.kill()
            raise
        finally:
            process.wait()
            reader.join()
    files = list(into.glob("*.deb"))
    if process.returncode or len(files) != 1:
        errors = [line for line in "".join(said).splitlines() if line.startswith("E:")]
        why = re.sub(r"https?://\S+", "the archive", errors[0][2:].strip()) if errors else "no file"
        raise EnvironmentProblem(
            f"downloading {package.name} failed: {why[:160]}",
            "see that the network and apt's sources work and run this again",
        )
    return files[0]


def _unpack(deb: Path, into: Path, parts: tuple[str, ...]) -> None:
    """Unpacks ``parts`` (tar wildcards; all if there are none) of a package."""
    with subprocess.Popen(
        ["dpkg-deb", "--fsys-tarfile", str(deb)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as source:
        command = ["tar", "-x", "-C", str(into), "--no-same-owner"]
        if parts:
            command += ["--wildcards", *parts]
        done = subprocess.run(
            command, stdin=source.stdout, capture_output=True, text=True, check=False
        )
        assert source.stdout is not None
        source.stdout.close()
        source.wait()
    # tar says which patterns matched nothing, and fails for them.
    errors = [
        line for line in done.stderr.splitlines() if line and "Not found in archive" not in line
    ]
    errors = [line for line in errors if "Exiting with failure status" not in line]
    if errors:
        raise EnvironmentProblem(
            f"unpacking {deb.name}: {errors[0][:160]}", f"free space in {cache.root()}"
        )


def _key(package: Package) -> str:
    return f"{package.name}-{package.sha256[:16]}"


def is_cached(package: Package) -> bool:
    """Whether the package is unpacked already."""
    return cache.has("debian", _key(package))


def _fetched(package: Package, parts: tuple[str, ...], progress: Progress) -> Path:
    def fill(directory: Path) -> None:
        deb = _download(package, directory, progress)
        with progress.step(f"unpacking {package.name}", 20 if parts else 3):
            _unpack(deb, directory, parts)
        deb.unlink()

    return cache.entry("debian", _key(package), fill, progress)


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
    image_files = _fetched(image_package, (), progress)
    debug_files = _fetched(debug_package, _DEBUG_PARTS, progress)
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
