# SPDX-License-Identifier: GPL-2.0-or-later
"""What checks of a patch are made of."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from partywall.core import cache
from partywall.core.errors import EnvironmentProblem, UsageProblem
from partywall.core.progress import Progress, Quiet
from partywall.kernels import build, series
from partywall.kernels.make import Make
from partywall.kernels.series import prove

Proof = Callable[[Progress, int], Iterator[str]]

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
@pytest.mark.parametrize(
    "proof", [partial(prove.prove, lambda kernel, progress: None), prove.prove_compiled]
)
def test_there_is_no_such_patch(proof: Proof, number: int) -> None:
    with pytest.raises(UsageProblem, match="no patch"):
        next(proof(Quiet(), number))


def test_a_file_that_another_takes_in_is_no_object(tmp_path: Path) -> None:
    (tmp_path / "net").mkdir()
    (tmp_path / "net/core.c").write_text('#include "core_kunit.c"\n')
    (tmp_path / "net/core_kunit.c").write_text("int x;\n")
    paths = ["net/core.c", "net/core_kunit.c", "net/comes_later.c"]
    assert prove.objects(tmp_path, paths) == ["net/core.o"]
    # Also where nothing else of that one is touched.
    assert prove.units(tmp_path, paths[1:]) == {"net/core_kunit.c": ["net/core.o"]}


@pytest.mark.parametrize(("proven", "count"), [("", 0), ("abc", 3), ("ac", 1), ("bc", 0)])
def test_what_was_proven_before_ends_where_a_patch_was_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, proven: str, count: int
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(build, "step_keys", lambda *of: list("abc"))
    for key in proven:
        cache.entry("proof", key, lambda folder: None, Quiet())
    assert prove.compiled_before(series.read()[:3], Quiet()) == count


MAKEFILE = """\
%.o: %.c
\t$(CC) -Wall -c -o $@ $<
"""


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("int f(void) { return 0; }\n", None),
        ("int f(void) { int unused; return 0; }\n", "unused variable"),
        ("int f(void) { return g; }\n", "'g' undeclared|\u2018g\u2019 undeclared"),
    ],
)
def test_what_is_compiled_has_no_warning(tmp_path: Path, text: str, why: str | None) -> None:
    (tmp_path / "Makefile").write_text(MAKEFILE)
    (tmp_path / "a.c").write_text(text)
    log = tmp_path / "log"
    log.write_bytes(b"old.c:1:1: warning: of a patch before\n")
    refused = pytest.raises(EnvironmentProblem, match=why) if why else contextlib.nullcontext()
    with refused:
        prove.compiles(Make(tmp_path, log), ["a.o"], Quiet(), "a")
