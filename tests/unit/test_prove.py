# SPDX-License-Identifier: GPL-2.0-or-later
"""What checks of a patch are made of."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from partywall import prove
from partywall.errors import UsageProblem
from partywall.kernels import series
from partywall.progress import Quiet

SAID = """\
  CHECK   kernel/ucount.c
kernel/ucount.c:12:9: warning: context imbalance in 'f' - wrong count at exit
kernel/ucount.c:40:1: warning: twice
kernel/ucount.c:41:1: warning: twice
./include/linux/x.h:3:5: error: incompatible types
./include/linux/x.h:3:5: error: incompatible types
kernel/ucount.c: note: no place
"""


def test_what_sparse_says_is_counted_without_its_lines() -> None:
    assert prove.sparse_warnings(SAID) == {
        "kernel/ucount.c: warning: context imbalance in 'f' - wrong count at exit": 1,
        "kernel/ucount.c: warning: twice": 2,
        "include/linux/x.h: error: incompatible types": 1,
    }


def test_what_was_said_before_elsewhere_in_the_file_is_not_new() -> None:
    moved = SAID.replace(":40:", ":50:")
    assert prove.sparse_warnings(moved) - prove.sparse_warnings(SAID) == Counter()
    more = SAID + "kernel/ucount.c:99:1: warning: twice\n"
    new = prove.sparse_warnings(more) - prove.sparse_warnings(SAID)
    assert new == {"kernel/ucount.c: warning: twice": 1}


def test_the_c_files_of_a_patch_are_known(tmp_path: Path) -> None:
    found = {patch.name: prove.c_files(patch) for patch in series.read()}
    assert ["security/apparmor/lsm.c"] in found.values()
    assert all(path.endswith(".c") for files in found.values() for path in files)


@pytest.mark.parametrize("number", [0, -1, 1000])
def test_there_is_no_such_patch(number: int) -> None:
    with pytest.raises(UsageProblem, match="no patch"):
        next(prove.prove(Quiet(), number))
