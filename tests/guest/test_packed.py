# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernels from files as other distributions pack them: Debian's, laid out as theirs are."""

from __future__ import annotations

import lzma
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from checks import Checked, partywall

from partywall.kernels import Kernel
from partywall.results import store
from partywall.results.result import WorkloadResult


def packed(kernel: Kernel, as_in: str, root: Path) -> list[str | Path]:
    """Put a kernel's files where a distribution has them; return options of check."""
    assert kernel.modules is not None
    assert kernel.debug_modules is not None
    modules = root / "lib" / "modules" / kernel.release
    debug = root / "usr" / "lib" / "debug" / "lib" / "modules" / kernel.release
    fedora = as_in == "fedora"
    for path in kernel.modules.rglob("*.ko*"):
        if path.name.split(".")[0] not in ("ext4", "jbd2", "mbcache", "crc16", "overlay", "brd"):
            continue
        place = modules / "kernel" / path.relative_to(kernel.modules).parent
        place.mkdir(parents=True, exist_ok=True)
        data = lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()
        plain = place / f"{path.name.split('.')[0]}.ko"
        plain.write_bytes(data)
        subprocess.run(["xz" if fedora else "zstd", "-q", plain], check=True)
        if not fedora:
            plain.unlink()
    for name in ("modules.builtin",):
        shutil.copy(kernel.modules / name, modules)
    for path in kernel.debug_modules.rglob("*.ko"):
        place = debug / "kernel" / path.parent.name
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{path.name}{'.debug' if fedora else ''}").symlink_to(path)
    image = modules / "vmlinuz" if fedora else root / "boot" / f"vmlinuz-{kernel.release}"
    config = modules / "config" if fedora else root / "boot" / f"config-{kernel.release}"
    debug_boot = root / "usr" / "lib" / "debug" / "boot"
    vmlinux = debug / "vmlinux" if fedora else debug_boot / f"vmlinux-{kernel.release}"
    for path in (image, vmlinux):
        path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(kernel.image, image)
    vmlinux.symlink_to(kernel.vmlinux)
    config.write_text(kernel.config or "")
    return ["--kernel", image, "--vmlinux", vmlinux, "--modules", modules]


@pytest.mark.parametrize("as_in", ["fedora", "ubuntu"])
def test_a_kernel_of_another_distributions_packages_is_taken_from_its_files(
    kernel: Kernel, check: Callable[..., Checked], as_in: str, tmp_path: Path
) -> None:
    """All is found that Debian's own packages show, names of modules' code and types too."""
    shape = ("-w", "overlay/create", "--containers", "1", "--cpus", "2")
    saved = tmp_path / "found.json"
    done = partywall("check", *packed(kernel, as_in, tmp_path), *shape, "--output", saved)
    assert done.returncode == 0, done.stderr
    result = store.load(saved)
    assert result.kernel.config_sha256 == kernel.config_sha256
    mine, theirs = told(result.workloads[0]), told(check(*shape).result.workloads[0])
    assert any("fs/overlayfs/" in place for place in theirs)
    assert mine == theirs


def told(workload: WorkloadResult) -> list[str]:
    """What a report says of lines: objects, fields, and places in the code."""
    lines = (*workload.walls, *workload.inside)
    return [
        f"{line.object.name} {line.object.type} {site.field} {site.function} {site.source}"
        for line in lines
        for site in line.code
    ]
