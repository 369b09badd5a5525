# SPDX-License-Identifier: GPL-2.0-or-later
"""What the kernel's own tools say of the patches."""

from __future__ import annotations

from pathlib import Path

import known
import pytest

from partywall.core.progress import Quiet
from partywall.kernels import series
from partywall.kernels.git import git
from partywall.kernels.series import bases, prove, source


@pytest.mark.parametrize("version", bases.known())
def test_checkpatch_has_nothing_to_say(version: str) -> None:
    base = bases.get(version)
    tree = source.get(Quiet(), base).repository
    found = {patch.name: prove.complaints(tree, patch.path) for patch in series.read(base.folder)}
    assert found
    assert {name: said for name, said in found.items() if said} == {}


def test_what_builds_known_walls_back_applies_to_the_source_of_today(tmp_path: Path) -> None:
    """One after the other, on Debian's newest source: `make known` builds them together."""
    tree = tmp_path / "linux"
    source.clone(source.get(Quiet()), tree)
    git(tree, "checkout", "--quiet", "--detach", series.BASE)
    patches = known.back()
    for patch in patches:
        series.apply(tree, patch)
    assert git(tree, "rev-list", "--count", f"{series.BASE}..HEAD").strip() == str(len(patches))
    assert len(patches) >= 3
