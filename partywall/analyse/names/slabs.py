# SPDX-License-Identifier: GPL-2.0-or-later
"""Slab objects of a guest that stands still.

drgn's slab_object_info() walks the lists of free objects of every CPU for each
address it is asked about. Here each cache's lists are walked once.
"""

from __future__ import annotations

from typing import Any

from drgn import Program
from drgn.helpers.linux import slab
from drgn.helpers.linux.mm import in_direct_map


class SlabObjects:
    """What ``slab_object_info`` says, remembered by slab cache."""

    def __init__(self, prog: Program) -> None:
        self._prog = prog
        self._helpers: dict[int, Any] = {}

    def info(self, address: int) -> slab.SlabObjectInfo | None:
        """The object at an address; None if it is in no slab."""
        try:
            return self._known(address)
        except AttributeError:
            # Another drgn, whose inside is another.
            return slab.slab_object_info(self._prog, address)

    def _known(self, address: int) -> slab.SlabObjectInfo | None:
        if not in_direct_map(self._prog, address):
            return None
        # No public function does half of the work.
        inside: Any = slab
        found = inside._find_containing_slab(self._prog, address)
        if found is None:
            return None
        page, owner = found
        cache = owner.slab_cache.read_()
        helper = self._helpers.get(cache.value_())
        if helper is None:
            helper = self._helpers[cache.value_()] = inside._get_slab_cache_helper(cache)
            per_cpu = helper._per_cpu_info(catch_errors=True)
            helper._per_cpu_info = lambda **_: per_cpu
        info: slab.SlabObjectInfo = helper.object_info(page, owner, address)
        return info
