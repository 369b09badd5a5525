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
    subprocess.run(
        [
            *("gcc", "-O2", "-w", "-static", "-pthread", "-D_GNU_SOURCE=", "-I", tests),
            # Those of mm want the kernel's headers first, those of net the system's.
            *("-I" if name.startswith("mm/") else "-idirafter", folder / "tools" / "include"),
            *("-o", out, tests / f"{name}.c", "-lrt", "-lm"),
            *(_for_mm(folder) if name.startswith("mm/") else []),
        ],
        check=True,
        capture_output=True,
    )
    return out.read_bytes()


def _for_mm(folder: Path) -> list[str]:
    """What tests of memory need besides: a file, and a header newer than the system's."""
    header = folder / "include" / "uapi" / "linux" / "fs.h"
    words = ["-D__user=", "-D_LINUX_FS_H", "-include", str(header)]
    return [*words, str(folder / FOLDER / "mm" / "vm_util.c")]
