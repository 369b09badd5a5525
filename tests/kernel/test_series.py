# SPDX-License-Identifier: GPL-2.0-or-later
"""What the kernel's own tools say of the patches."""

from __future__ import annotations

from partywall.core.progress import Quiet
from partywall.kernels import series
from partywall.kernels.series import prove, source


def test_checkpatch_has_nothing_to_say() -> None:
    tree = source.get(Quiet()).repository
    found = {patch.name: prove.complaints(tree, patch.path) for patch in series.read()}
    assert {name: said for name, said in found.items() if said} == {}
