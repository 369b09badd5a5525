# SPDX-License-Identifier: GPL-2.0-or-later
"""What the kernel's own tools say of the patches."""

from __future__ import annotations

import pytest

from partywall.core.progress import Quiet
from partywall.kernels import series
from partywall.kernels.series import bases, prove, source


@pytest.mark.parametrize("version", bases.known())
def test_checkpatch_has_nothing_to_say(version: str) -> None:
    base = bases.get(version)
    tree = source.get(Quiet(), base).repository
    found = {patch.name: prove.complaints(tree, patch.path) for patch in series.read(base.folder)}
    assert found
    assert {name: said for name, said in found.items() if said} == {}
