# SPDX-License-Identifier: GPL-2.0-or-later
"""What a root is on in a guest, by what its kernel has."""

from __future__ import annotations

import os
import subprocess
from io import BytesIO
from pathlib import Path

import pytest

from partywall.core.errors import UsageProblem
from partywall.core.progress import Quiet
from partywall.guest import roots
from partywall.guest.roots import media
from partywall.guest.roots.disks import Start
from partywall.kernels import Kernel
from partywall.workloads import Root

MEMORY = "CONFIG_ACPI_NFIT=m\nCONFIG_BLK_DEV_PMEM=y\n"
RAM = "CONFIG_BLK_DEV_RAM=m\n"
SQUASHFS = "CONFIG_SQUASHFS=m\nCONFIG_SQUASHFS_XATTR=y\n"
EXT4 = "CONFIG_EXT4_FS=y\n"


def kernel(config: str | None) -> Kernel:
    return Kernel("a test", "6.12", Path("bzImage"), Path("vmlinux"), config=config)


@pytest.mark.parametrize(
    ("config", "device", "system"),
    [
        (MEMORY + RAM + SQUASHFS + EXT4, "/dev/pmem0", "squashfs"),
        (MEMORY + RAM + EXT4, "/dev/pmem0", "ext4"),
        (RAM + EXT4, "/dev/ram1", "ext4"),
        # What a layer removes would come back.
        (RAM + EXT4 + "CONFIG_SQUASHFS=y\n", "/dev/ram1", "ext4"),
        (RAM + SQUASHFS, "/dev/ram1", "squashfs"),
        ("CONFIG_ACPI_NFIT=m\n" + RAM + EXT4, "/dev/ram1", "ext4"),
        (None, "/dev/pmem0", "squashfs"),
    ],
)
def test_a_medium_is_one_that_the_kernel_has(config: str | None, device: str, system: str) -> None:
    found = media.choose(kernel(config))
    assert (found.device.name, found.system.name) == (device, system)


@pytest.mark.parametrize(
    ("config", "lacks"),
    [
        (MEMORY, "CONFIG_SQUASHFS and CONFIG_SQUASHFS_XATTR or CONFIG_EXT4_FS"),
        (SQUASHFS, "CONFIG_ACPI_NFIT and CONFIG_BLK_DEV_PMEM or CONFIG_BLK_DEV_RAM"),
        # Its disks are there before anybody says how large they are to be.
        ("CONFIG_BLK_DEV_RAM=y\n" + EXT4, "CONFIG_BLK_DEV_RAM=m"),
    ],
)
def test_a_kernel_that_has_none_is_refused_by_what_it_lacks(config: str, lacks: str) -> None:
    with pytest.raises(UsageProblem) as refused:
        media.choose(kernel(config))
    assert lacks in refused.value.message
    assert refused.value.hint


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    root = tmp_path / "root"
    (root / "srv").mkdir(parents=True)
    (root / "srv" / "file").write_bytes(b"x" * 5000)
    (root / "srv" / "link").symlink_to("file")
    (root / "srv" / "file").chmod(0o640)
    os.utime(root / "srv" / "file", (7, 7))
    return root


def fitted(folder: Path, config: str) -> media.Fitted:
    disk = roots.disk(Root(kind="directory", what=str(folder)), Quiet())
    return roots.fitted(disk, kernel(config), Quiet())


def debugfs(file: Path, request: str) -> str:
    done = subprocess.run(
        ["/usr/sbin/debugfs", "-R", request, file], capture_output=True, text=True, check=True
    )
    return done.stdout


def test_an_ext4_has_what_the_squashfs_has(folder: Path) -> None:
    found = fitted(folder, RAM + EXT4)
    assert found.told.startswith("/dev/ram1 ext4 ")
    assert debugfs(found.file, "cat /srv/file") == "x" * 5000
    told = debugfs(found.file, "stat /srv/file")
    assert "Mode:  0640" in told
    assert "Jan  1 " in told or "1970" in told
    assert 'Fast link dest: "file"' in debugfs(found.file, "stat /srv/link")
    subprocess.run(["/usr/sbin/e2fsck", "-fn", found.file], check=True, capture_output=True)


def test_a_ram_disk_is_brought_along_and_takes_memory(folder: Path) -> None:
    found, carried = fitted(folder, RAM + SQUASHFS), BytesIO()
    found.carry(carried)
    room, words = found.machine(1000)
    assert int(room) > 1000 + 2 * (found.file.stat().st_size >> 20)
    assert words == []
    assert len(carried.getvalue()) > found.file.stat().st_size
    listed = subprocess.run(
        ["busybox", "cpio", "-t"], input=carried.getvalue(), capture_output=True, check=True
    )
    assert listed.stdout == b"root.disk\n"


def test_a_memory_device_is_mapped_from_the_file(folder: Path) -> None:
    found, carried = fitted(folder, MEMORY + SQUASHFS), BytesIO()
    found.carry(carried)
    room, words = found.machine(1000)
    assert carried.getvalue() == b""
    assert room.startswith("1000,slots=1,")
    assert any(str(found.file) in word for word in words)


def test_what_no_initramfs_holds_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(media, "_MOST_CARRIED", 100)
    (tmp_path / "key").mkdir()
    file = tmp_path / "key" / "root.squashfs"
    file.write_bytes(bytes(101))
    disk = roots.Disk(file=file, start=Start())
    with pytest.raises(UsageProblem, match="no memory device"):
        roots.fitted(disk, kernel(RAM + SQUASHFS), Quiet())
    assert roots.fitted(disk, kernel(MEMORY + SQUASHFS), Quiet()).file == file
