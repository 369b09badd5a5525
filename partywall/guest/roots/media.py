# SPDX-License-Identifier: GPL-2.0-or-later
"""What a root is on in a guest: a device and a file system that its kernel has.

No device that answers later is among them: who waits for it makes the guest's clock run ahead.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from partywall.core.errors import UsageProblem
from partywall.core.progress import Progress
from partywall.guest import cpio
from partywall.guest.roots import ext4
from partywall.guest.roots.disks import Disk
from partywall.guest.roots.together import Place, place
from partywall.kernels import Kernel, is_set

_PIECE = 1 << 20
_CARRIED = "root.disk"
_MOST_CARRIED = 3 << 30
"""Bytes: a file of an initramfs has less than four times 2^30, and the guest has it twice."""


@dataclass(frozen=True)
class _Part:
    """A device or a file system: its name in the guest, what a kernel needs, modules in order."""

    name: str
    options: tuple[str, ...]
    modules: tuple[str, ...] = ()


MEMORY = _Part("/dev/pmem0", ("CONFIG_ACPI_NFIT", "CONFIG_BLK_DEV_PMEM"), ("nfit", "nd_pmem"))
"""A memory device that is mapped from the file: it takes nothing of the guest's memory."""
RAM = _Part("/dev/ram1", ("CONFIG_BLK_DEV_RAM",), ("brd",))
"""A RAM disk, that the guest copies the file to: the initramfs brings it."""
_DEVICES = (MEMORY, RAM)
_SYSTEMS = (
    _Part("squashfs", ("CONFIG_SQUASHFS", "CONFIG_SQUASHFS_XATTR"), ("squashfs",)),
    _Part("ext4", ("CONFIG_EXT4_FS",), ("ext4",)),
)


@dataclass(frozen=True)
class Medium:
    """A device and the file system on it."""

    device: _Part
    system: _Part

    @property
    def modules(self) -> tuple[str, ...]:
        """Modules that a guest needs, if they are not built in."""
        return self.device.modules + self.system.modules


def choose(kernel: Kernel) -> Medium:
    """Return the medium of a kernel; UsageProblem if it has none, with what it lacks.

    Of an unknown configuration, the first is taken; the guest then says what failed.
    """

    def lacking(part: _Part) -> list[str]:
        if kernel.config is None:
            return []
        lacks = [one for one in part.options if not is_set(kernel.config, one)]
        if part is RAM and "\nCONFIG_BLK_DEV_RAM=y\n" in f"\n{kernel.config}\n":
            # How many there are and how large is told as it is loaded.
            lacks = ["CONFIG_BLK_DEV_RAM=m"]
        return lacks

    chosen, lacks = list[_Part](), list[str]()
    for parts in (_DEVICES, _SYSTEMS):
        found = next((part for part in parts if not lacking(part)), None)
        if found is None:
            lacks.append(" or ".join(" and ".join(lacking(part)) for part in parts))
        else:
            chosen.append(found)
    if lacks:
        raise UsageProblem(
            f"kernel {kernel.release} can't have a root on a disk: it was built without "
            f"{'; nor with '.join(lacks)}",
            "build it with that, built in or as a module; a RAM disk as a module",
        )
    return Medium(*chosen)


@dataclass(frozen=True)
class Fitted:
    """A root as a kernel takes it.

    ``key``: by which what is on it is known; ``place``: where the root is there, if it is one.
    """

    file: Path
    place: Place
    key: str
    medium: Medium

    @property
    def told(self) -> str:
        """What the guest's init is told: device, file system, KiB, and what is on it."""
        names = f"{self.medium.device.name} {self.medium.system.name}"
        return f"{names} {self._size >> 10} {self.key}\n"

    @property
    def path(self) -> str:
        """The file's path as QEMU takes it."""
        return str(self.file).replace(",", ",,")

    @property
    def beside(self) -> bool:
        """Whether it is memory of its own beside the guest's, which QEMU has in a file."""
        return self.medium.device is not RAM

    @property
    def state(self) -> str:
        """What tells it from others, and from the same made anew."""
        return f"{self.told}{self.file.stat().st_mtime_ns}"

    @property
    def _size(self) -> int:
        return self.file.stat().st_size

    def machine(self, memory: int) -> tuple[str, list[str]]:
        """Return QEMU's size of memory, and more options, for a guest with so many MiB."""
        if self.medium.device is RAM:
            # As it is loaded, and unpacked or copied.
            return f"{memory + 2 * (self._size >> 20) + 64}", []
        room = f"{memory},slots=1,maxmem={memory + (self._size >> 20) + 1024}M"
        file = f"memory-backend-file,id=disk,mem-path={self.path},size={self._size}"
        words = ["-machine", "nvdimm=on", "-object", f"{file},share=on,readonly=on"]
        return room, [*words, "-device", "nvdimm,memdev=disk,unarmed=on"]

    def carry(self, initramfs: IO[bytes]) -> None:
        """Write behind an initramfs what the guest has of the root there."""
        if self.medium.device is RAM:
            for piece in self._archive():
                initramfs.write(piece)

    def _archive(self) -> Iterator[bytes]:
        before, after = cpio.around(_CARRIED, self._size)
        yield before
        with self.file.open("rb") as data:
            while piece := data.read(_PIECE):
                yield piece
        yield after


def fitted(disk: Disk, kernel: Kernel, progress: Progress) -> Fitted:
    """Return a root as a kernel takes it; made now if it is not kept."""
    medium = choose(kernel)
    file, key = disk.file, disk.file.parent.name
    if medium.system.name == "ext4":
        file = ext4.made(disk.file, key, progress)
    if medium.device is RAM and file.stat().st_size > _MOST_CARRIED:
        raise UsageProblem(
            f"the root has more than {_MOST_CARRIED >> 30} GiB, and kernel {kernel.release} "
            "no memory device",
            f"build it with {' and '.join(MEMORY.options)}",
        )
    return Fitted(file, place(disk), key, medium)
