# SPDX-License-Identifier: GPL-2.0-or-later
"""What a commit is held to is what make lint is."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
LINT = CHECKOUT / "scripts" / "lint"


def test_hooks_before_a_commit_run_every_part_of_lint_and_no_other() -> None:
    told = re.search(r"^# PART: (.+); all if none is named\.$", LINT.read_text(), re.MULTILINE)
    assert told
    parts = re.findall(r"\w+", told[1].replace(" or ", ", "))
    text = (CHECKOUT / ".pre-commit-config.yaml").read_text()
    assert re.findall(r"^ +entry: scripts/lint (\w+)$", text, re.MULTILINE) == parts
    assert text.count("entry:") == len(parts)
    # What runs if no part is named.
    assert f"set -- {' '.join(parts)}\n" in LINT.read_text()


def test_a_part_that_is_none_is_refused_in_one_line() -> None:
    done = subprocess.run([LINT, "speling"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "no part 'speling'" in done.stderr
    assert done.stderr.count("\n") == 1
