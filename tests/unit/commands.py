# SPDX-License-Identifier: GPL-2.0-or-later
"""The program as a user runs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

MAIN = "from partywall.cli import main; main()"


def run(*arguments: str | Path) -> tuple[int, str, str]:
    """Return exit status, stdout and stderr of ``partywall`` with these arguments."""
    done = subprocess.run(
        [sys.executable, "-c", MAIN, *arguments], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr
