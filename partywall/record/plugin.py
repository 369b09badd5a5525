# SPDX-License-Identifier: GPL-2.0-or-later
"""The recorder, a plugin of QEMU: built from its source in Rust, and kept."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from partywall.core import cache, packages
from partywall.core.errors import EnvironmentProblem
from partywall.core.progress import Progress
from partywall.guest.qemu import Qemu

SOURCE = Path(__file__).resolve().parent / "recorder"
_BUILT = Path(__file__).resolve().parent / "built"
"""Where a package of a distribution has plugins for the distribution's QEMU."""
_BESIDE = ("build.rs", "numbers.toml")


def _digest(abi: int) -> str:
    """Hash of all that the plugin is built from, hex."""
    digest = hashlib.sha256(f"abi {abi}\n".encode())
    for path in sorted(
        [*SOURCE.glob("Cargo.*"), *map(SOURCE.joinpath, _BESIDE), *SOURCE.glob("src/*")]
    ):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _ready_made(digest: str) -> Path:
    return _BUILT / f"{digest[:16]}.so"


def came_along() -> bool:
    """Whether some plugin came with the program."""
    return any(_BUILT.glob("*.so"))


def is_there(qemu: Qemu) -> bool:
    """Whether the plugin for this QEMU needs no building."""
    digest = _digest(qemu.plugin_abi)
    return _ready_made(digest).exists() or cache.has("recorder", digest)


def build(abi: int, into: Path) -> Path:
    """Build the plugin for QEMUs of a version of plugins; return its path in the folder ``into``.

    EnvironmentProblem if there is no cargo, or with its first error.
    """
    if shutil.which("cargo") is None:
        raise EnvironmentProblem("cargo is not installed", packages.mend("check", "recorder"))
    done = subprocess.run(
        ["cargo", "build", "--release", "--quiet", "--offline", "--target-dir", into],
        cwd=SOURCE,
        env=os.environ | {"PARTYWALL_PLUGIN_ABI": str(abi)},
        capture_output=True,
        text=True,
        check=False,
    )
    built = into / "release" / "libpartywall_recorder.so"
    if done.returncode or not built.exists():
        first = next((line for line in done.stderr.splitlines() if "error" in line), "")
        raise EnvironmentProblem(f"building the recorder failed: {first}")
    plugin = built.rename(into / "recorder.so")
    shutil.rmtree(into / "release")
    return plugin


def bring_along(abi: int) -> Path:
    """Build the plugin into the program's own folder, for a package; return its path."""
    _BUILT.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="partywall-") as folder:
        return Path(shutil.copy(build(abi, Path(folder)), _ready_made(_digest(abi))))


def recorder(qemu: Qemu, progress: Progress) -> Path:
    """Return the plugin's path, built for this QEMU's ABI if it is neither here nor in the cache.

    EnvironmentProblem as of `build`.
    """
    digest = _digest(qemu.plugin_abi)
    if (ours := _ready_made(digest)).exists():
        return ours
    with progress.step("recorder"):
        entry = cache.entry(
            "recorder", digest, lambda folder: _fill(qemu.plugin_abi, folder), progress
        )
    return entry / "recorder.so"


def _fill(abi: int, folder: Path) -> None:
    build(abi, folder)
