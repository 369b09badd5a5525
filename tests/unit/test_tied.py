# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs that do not outlive the one that has started them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from partywall.core.tied import TIED, checked

SAYS = [*TIED, "sh", "-c", 'echo "$@"', "says", "two words", "$HOME"]


def runs(process: int) -> bool:
    """Return whether a process is there, and not only its end that nobody has asked for."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def said(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def test_what_has_its_parent_runs_with_its_words() -> None:
    assert said(checked(SAYS)) == "two words $HOME\n"


def test_what_has_lost_its_parent_ends_at_once() -> None:
    # As whoever has taken its parent's place would be.
    assert said(checked(SAYS, parent=os.getpid() + 1)) == ""


def test_what_is_not_tied_is_refused() -> None:
    with pytest.raises(ValueError, match="not tied"):
        checked(["sleep", "1"])


def test_it_ends_with_who_has_started_it(tmp_path: Path) -> None:
    told = tmp_path / "pid"
    starts = (
        "import subprocess, sys\n"
        "from partywall.core.tied import TIED, checked\n"
        f"subprocess.Popen(checked([*TIED, 'sh', '-c', 'echo $$ >{told}; exec sleep 600']))\n"
        "sys.stdin.read()\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", starts], stdin=subprocess.PIPE)
    while not told.exists() or not told.read_text().strip():
        time.sleep(0.01)
    child = int(told.read_text())
    assert runs(child)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    deadline = time.monotonic() + 60
    while runs(child):
        assert time.monotonic() < deadline
        time.sleep(0.01)
