# SPDX-License-Identifier: GPL-2.0-or-later
"""What checks of a patch are made of."""

from __future__ import annotations

import subprocess
from pathlib import Path

from partywall.prove import changed_lines, sparse_warnings

SAID = """\
  CHECK   kernel/ucount.c
kernel/ucount.c:12:9: warning: context imbalance in 'f' - wrong count at exit
kernel/ucount.c:40:1: warning: an old one
./include/linux/x.h:3:5: error: incompatible types
./include/linux/x.h:3:5: error: incompatible types
kernel/ucount.c: note: no place
"""


def test_only_what_sparse_says_of_a_patchs_own_lines_counts() -> None:
    lines = {"kernel/ucount.c": {11, 12}, "include/linux/x.h": {3}}
    assert sparse_warnings(SAID, lines) == [
        "kernel/ucount.c:12:9: warning: context imbalance in 'f' - wrong count at exit",
        "./include/linux/x.h:3:5: error: incompatible types",
    ]
    assert sparse_warnings(SAID, {}) == []


def test_lines_of_the_newest_commit_are_found(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        own = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        subprocess.run(["git", *own, *words], cwd=tmp_path, check=True, capture_output=True)

    git("init")
    file = tmp_path / "a.c"
    file.write_text("1\n2\n3\n4\n")
    git("add", ".")
    git("commit", "-m", "one")
    file.write_text("1\nnew\n3\n4\nmore\nand more\n")
    (tmp_path / "gone.c").write_text("x\n")
    git("add", ".")
    git("commit", "-m", "two")
    assert changed_lines(tmp_path) == {"a.c": {2, 5, 6}, "gone.c": {1}}
    file.write_text("1\n3\n4\nmore\nand more\n")
    (tmp_path / "gone.c").unlink()
    git("commit", "-a", "-m", "three")
    assert changed_lines(tmp_path) == {"a.c": set()}
