# SPDX-License-Identifier: GPL-2.0-or-later
"""The kernel's own selftests, out of its source and the series, as static programs."""

from __future__ import annotations

import subprocess
from pathlib import Path

from partywall.core.progress import Quiet
from partywall.kernels import series
from partywall.kernels.git import git
from partywall.kernels.series import source

FOLDER = "tools/testing/selftests"

# What tests of memory need besides: a file, and a header newer than the system's.
_FOR_MM = (
    *("-D__user=", "-D_LINUX_FS_H", "-include", "include/uapi/linux/fs.h"),
    f"{FOLDER}/mm/vm_util.c",
)


def checkout(folder: Path) -> Path:
    """The folder of selftests in ``folder``, with what the series adds to it."""
    archive = folder / "source.tar"
    git(
        source.get(Quiet()).repository,
        *("archive", f"--output={archive}", "HEAD"),
        *(FOLDER, "tools/include", "include/uapi"),
    )
    subprocess.run(["tar", "-xf", archive, "-C", folder], check=True)
    archive.unlink()
    for patch in series.read():
        if any(file.startswith(f"{FOLDER}/") for file in patch.files):
            git(folder, "apply", f"--include={FOLDER}/*", str(patch.path))
    return folder / FOLDER


def compiled(tests: Path, name: str) -> bytes:
    """The static program of ``NAME.c``; raises CalledProcessError if it can't be."""
    folder = tests.parents[2]
    out = folder / name.replace("/", "-")
    # By relative paths: tests print those of their files, and equal ones are to be equal.
    subprocess.run(
        [
            *("gcc", "-O2", "-w", "-static", "-pthread", "-D_GNU_SOURCE=", "-I", FOLDER),
            # Those of mm want the kernel's headers first, those of net the system's.
            *("-I" if name.startswith("mm/") else "-idirafter", "tools/include"),
            *("-o", out, f"{FOLDER}/{name}.c", "-lrt", "-lm"),
            *(_FOR_MM if name.startswith("mm/") else []),
        ],
        cwd=folder,
        check=True,
        capture_output=True,
    )
    return out.read_bytes()
