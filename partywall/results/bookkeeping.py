# SPDX-License-Identifier: GPL-2.0-or-later
"""Memory that nobody is charged for and that is no growth: the kernel's books of who is charged.

There is so much of it as there is memory or are cgroups that containers are charged for. What
bounds these bounds it as well, and it goes with them. Anything else that nobody is charged
for is growth, however little it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

LISTS: Final = "lists of who is charged"
"""What they are called where slabs are counted without who made objects. There is one for each
slab with an object that somebody is charged for: 8 bytes for each that has room there."""

MAKERS: Final = {
    "memcg_alloc_slab_cgroups": "a slab's list of who is charged, until Linux 6.9",
    "alloc_slab_obj_exts": "the same from Linux 6.10 on",
    "memcg_list_lru_alloc": "a cgroup's part of a list of what can be reclaimed, for which a "
    "charged object asks that is to be in it: once for each cgroup and list",
    "memcg_init_list_lru_one": "the same",
    "__memcg_init_list_lru_node": "the same in older kernels",
    "obj_cgroup_alloc": "who is charged for objects: once for each cgroup",
}
"""Functions that make it, and what it is."""

_DEPTH: Final = 3
"""Innermost functions that tell: what calls a maker from further out makes things of its own."""


def makes(functions: Iterable[str]) -> bool:
    """Return whether these, innermost first, made memory of this kind."""
    return not MAKERS.keys().isdisjoint(list(functions)[:_DEPTH])
