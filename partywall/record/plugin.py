# SPDX-License-Identifier: GPL-2.0-or-later
"""The recorder, a plugin of QEMU: built from its source in Rust, and kept."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from partywall.core import cache
from partywall.core.errors import EnvironmentProblem
from partywall.core.progress import Progress
from partywall.guest.qemu import Qemu

SOURCE = Path(__file__).resolve().parent / "recorder"
_BESIDE = ("build.rs", "numbers.toml")


def recorder(qemu: Qemu, progress: Progress) -> Path:
    """Return the plugin's path, built for this QEMU's ABI if it is not in the cache.

    EnvironmentProblem if there is no cargo, or with its first error.
    """
    digest = hashlib.sha256(f"abi {qemu.plugin_abi}\n".encode())
    for path in sorted(
        [*SOURCE.glob("Cargo.*"), *map(SOURCE.joinpath, _BESIDE), *SOURCE.glob("src/*")]
    ):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())

    def fill(directory: Path) -> None:
        if shutil.which("cargo") is None:
            raise EnvironmentProblem("cargo is not installed", "run make setup")
        environment = os.environ | {"PARTYWALL_PLUGIN_ABI": str(qemu.plugin_abi)}
        done = subprocess.run(
            ["cargo", "build", "--release", "--quiet", "--offline", "--target-dir", directory],
            cwd=SOURCE,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        built = directory / "release" / "libpartywall_recorder.so"
        if done.returncode or not built.exists():
            first = next((line for line in done.stderr.splitlines() if "error" in line), "")
            raise EnvironmentProblem(f"building the recorder failed: {first}")
        built.rename(directory / "recorder.so")
        shutil.rmtree(directory / "release")

    with progress.step("recorder"):
        return cache.entry("recorder", digest.hexdigest(), fill, progress) / "recorder.so"
