# SPDX-License-Identifier: GPL-2.0-or-later
"""Struct pages, and what the memory behind them is used for."""

from __future__ import annotations

import re

from drgn import Object, Program
from drgn.helpers.linux.fs import inode_path
from drgn.helpers.linux.mm import (
    PageReserved,
    PageSlab,
    compound_head,
    page_to_pfn,
    page_to_virt,
)
from drgn.helpers.linux.slab import find_containing_slab_cache

from partywall.analyse.names.unreadable import UNREADABLE

FREE = "free memory"
PG_TABLE = 0x200
"""Of Linux 6.1 to 6.8, where it is a macro, which debug information has not."""
PAGE_MAPPING_ANON = 1
PAGE_MAPPING_FLAGS = 3


def _is_page_table(prog: Program, page: Object) -> bool:
    value = page.page_type.value_() & 0xFFFF_FFFF
    try:
        # Linux 6.11 made the type a number in the top byte.
        return bool(value >> 24 == prog.constant("PGTY_table").value_())
    except UNREADABLE:
        pass
    try:
        bit = prog.constant("PG_table").value_()
    except UNREADABLE:
        bit = PG_TABLE
    return bool(value & (0xF000_0000 | bit) == 0xF000_0000)


# An image's layers have folders that are called by their hashes, which a new build changes.
_LAYER = re.compile(r"^[0-9a-f]{12}/")


def page_of(prog: Program, address: int) -> tuple[Object, int, int] | None:
    """The struct page at ``address`` in the memory map: it, its start, its size."""
    start = prog["vmemmap"].value_()
    size = prog.type("struct page").size
    assert size
    index = (address - start) // size
    # 2**40 pages are more than any x86-64 machine can have.
    if address < start or index >= 1 << 40:
        return None
    page = Object(prog, "struct page *", start + index * size)
    return page, start + index * size, size


def _file(prog: Program, page: Object) -> str:
    mapping = Object(prog, "struct address_space *", page.mapping.value_() & ~PAGE_MAPPING_FLAGS)
    inode = mapping.host
    if not inode:
        return "page cache"
    kind = inode.i_sb.s_type.name.string_().decode(errors="replace")
    path = inode_path(inode)
    if not path:
        return f"file inode {inode.i_ino.value_()} ({kind})"
    return f"file {_LAYER.sub('', path.decode(errors='replace'))} ({kind})"


def kind(prog: Program, head: Object) -> tuple[str, str]:
    """Kind of object (as in LineObject) and description of a page's use."""
    try:
        if PageSlab(head):
            return "slab", "slab"
        if _is_page_table(prog, head):
            return "pagetable", "page table"
        if PageReserved(head):
            return "memory", "memory allocated at boot"
        if head.mapping:
            if head.mapping.value_() & PAGE_MAPPING_ANON:
                return "memory", "anonymous memory"
            return "memory", _file(prog, head)
    except UNREADABLE:
        return "memory", "memory of unknown use"
    if not head._refcount.counter.value_():
        return "memory", FREE
    return "memory", "kernel memory (pages)"


def describe(prog: Program, page: Object) -> tuple[str, str]:
    """A struct page's frame, and what the memory there is used for."""
    try:
        head = compound_head(page)
        _, use = kind(prog, head)
        if PageSlab(head):
            cache = find_containing_slab_cache(page_to_virt(head))
            use = f"slab {cache.name.string_().decode(errors='replace')}"
        return f"page frame {page_to_pfn(page).value_():#x}", use
    except UNREADABLE:
        return "", "unknown use"
