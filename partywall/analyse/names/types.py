# SPDX-License-Identifier: GPL-2.0-or-later
"""What type a slab object has, judged by the code that touches it.

Caches are often named after their one type. The kmalloc caches are not: there, the
variable decides whose value the instruction had in the register that it used, or
its caller in the one that it passed on. Where debug information does not know of
one, every access votes for the structures that variables in its scope point to, if
the displacement and the field it touched fit.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from drgn import Program, Type, TypeKind

from partywall.analyse.names.code import CodeNamer
from partywall.analyse.names.fields import fits, goes_on, size_of
from partywall.analyse.names.registers import Registers
from partywall.analyse.names.unreadable import UNREADABLE

# Caches whose name is not that of their type, as the kernel's sources have it.
_CACHES = {
    "anon_inode_inode_cache": "inode",
    "bdev_cache": "bdev_inode",
    "cred": "cred",
    "cred_jar": "cred",
    "ext4_inode_cache": "ext4_inode_info",
    "ext4_groupinfo_4k": "ext4_group_info",
    "files_cache": "files_struct",
    "filp": "file",
    "fs_cache": "fs_struct",
    "inode_cache": "inode",
    "kernfs_iattrs_cache": "kernfs_iattrs",
    "kernfs_node_cache": "kernfs_node",
    "mnt_cache": "mount",
    "mqueue_inode_cache": "mqueue_inode_info",
    "net_namespace": "net",
    "ovl_inode": "ovl_inode",
    "proc_inode_cache": "proc_inode",
    "RAW": "raw_sock",
    "RAWv6": "raw6_sock",
    "TCP": "tcp_sock",
    "TCPv6": "tcp6_sock",
    "UDP": "udp_sock",
    "UDPv6": "udp6_sock",
    "UNIX": "unix_sock",
    "radix_tree_node": "xa_node",
    "shmem_inode_cache": "shmem_inode_info",
    "sighand_cache": "sighand_struct",
    "signal_cache": "signal_struct",
    "skbuff_head_cache": "sk_buff",
    "sock_inode_cache": "socket_alloc",
    "task_struct": "task_struct",
    "uid_cache": "user_struct",
    "vm_area": "vm_area_struct",
}

# These come from caches of their own, so nothing in a kmalloc cache is one.
_OWN_CACHE = frozenset(_CACHES.values())

# Structures that are always a part of another, which is what was allocated.
_INSIDE = {
    "aa_label": ("aa_profile",),
    "kernfs_elem_dir": ("kernfs_node",),
    "lruvec": ("mem_cgroup_per_node",),
}

# Structures that others are made of: an object is hardly ever one of these alone.
_PARTS = frozenset(
    "callback_head fwnode_handle hlist_bl_head hlist_bl_node hlist_head hlist_node "
    "futex_key hlist_nulls_node kref list_head list_lru_node nested_table nf_inet_addr "
    "llist_head llist_node lockref mutex optimistic_spin_queue page_counter path "
    "percpu_counter percpu_ref qspinlock "
    "raw_spinlock rb_node rb_root rcu_head refcount_struct rhash_head rhashtable rhltable "
    "rw_semaphore seqcount "
    "spinlock swait_queue_head timer_list timerqueue_node wait_queue_entry "
    "wait_queue_head work_struct xarray".split()
)

_KMALLOC = re.compile(r"(?:dma-)?kmalloc-.*?(\d+)(k?)$")
_SIZES = (8, 16, 32, 64, 96, 128, 192, 256, 512, 1024, 2048, 4096, 8192)


class Evidence(NamedTuple):
    """One instruction's accesses to an object: offset in it, bytes, code, caller."""

    offset: int
    size: int
    code: int
    caller: int


@dataclass(frozen=True)
class Guess:
    """``type`` starts ``shift`` bytes into the object; ``array``: and repeats from there.

    ``agreed`` of ``places`` in the code say so: their registers, or if those of none
    are known (not ``sure``), the variables in their scope.
    """

    type: Type
    shift: int
    array: bool = False
    sure: bool = False
    agreed: int = 0
    places: int = 0

    @property
    def why(self) -> str:
        """For people: what the type was told by."""
        by = "the pointer used" if self.sure else "variables in scope"
        return f"type told by {by}, in {self.agreed} of {self.places} places in the code"


def kmalloc_size(cache: str) -> int | None:
    """Object size of a kmalloc cache, None if ``cache`` is not one."""
    found = _KMALLOC.match(cache)
    return int(found[1]) * (1024 if found[2] else 1) if found else None


def _plausible(type_: Type, object_size: int) -> bool:
    """Whether a structure of this size would have come from this kmalloc cache."""
    smaller = max((size for size in _SIZES if size < object_size), default=0)
    size = size_of(type_)
    return size <= object_size and (size > smaller or goes_on(type_))


def by_cache(prog: Program, cache: str, object_size: int) -> Type | None:
    """The type that a cache is named after, if a structure of that size exists."""
    if kmalloc_size(cache) is not None:
        return None
    stem = re.sub(r"(_cache|_jar|_cachep|_slab)$", "", cache)
    for tag in (_CACHES.get(cache), cache, stem, f"{stem}_struct", f"{stem}_info"):
        if tag is None or not tag.isidentifier():
            continue
        try:
            type_ = prog.type(f"struct {tag}")
        except UNREADABLE:
            continue
        if type_.is_complete() and size_of(type_) <= object_size < size_of(type_) + 64:
            return type_
        # Objects that grow with the machine; a task's FPU state may even be smaller.
        if tag == _CACHES.get(cache) and type_.is_complete():
            return type_
    return None


@dataclass
class _Said:
    """What places in the code say, by tag and where in the object the type starts."""

    weight: Counter[_Choice] = field(default_factory=Counter)
    agreed: Counter[_Choice] = field(default_factory=Counter)


class TypeGuesser:
    """Guesses types of objects; what it learns of code serves for all objects."""

    def __init__(self, prog: Program, code: CodeNamer) -> None:
        self._prog, self._code = prog, code
        self._registers = Registers(prog)
        self._types: dict[str, Type] = {}
        self._sizes: dict[str, int] = {}
        # One guest's rounds use what is looked up again and again.
        self._said = lru_cache(maxsize=_KEPT)(self._ask)
        self._starts = lru_cache(maxsize=_KEPT)(self._started)
        # What comes and goes is used by the same places, in object after object.
        self._guessed = lru_cache(maxsize=_ALIKE)(self._guess)
        self._about = lru_cache(maxsize=_ALIKE)(self._around)

    def guess(
        self, object_size: int, evidence: Iterable[Evidence], *, kmalloc: bool
    ) -> Guess | None:
        """The type most instructions agree on, None if there is no good one.

        ``kmalloc``: the object is from a cache of all sorts, not of one type.
        """
        those = frozenset(evidence)
        asked = self._guessed if len(those) <= _FEW else self._guess
        return asked(object_size, those, kmalloc=kmalloc)

    def _guess(
        self, object_size: int, evidence: frozenset[Evidence], *, kmalloc: bool
    ) -> Guess | None:
        scopes, pointers, arrays = (_Said(), _Said(), _Said())
        for seen in evidence:
            told = self._said(object_size, seen)
            for said, found in zip((scopes, pointers, arrays), told, strict=True):
                for choice, (weight, type_) in found.items():
                    if not (kmalloc and choice[0] in _OWN_CACHE):
                        self._note(choice[0], type_)
                        said.weight[choice] += weight
                        said.agreed[choice] += 1
        parts = {choice for choice in pointers.weight if choice[0] in _PARTS}
        # Parts of others are the whole if they fill it, and nothing else was seen.
        for said, chosen in (
            (pointers, pointers.weight.keys() - parts),
            (arrays, _whole(arrays.weight, scopes.weight, pointers.weight)),
            (scopes, scopes.weight.keys()),
            (pointers, parts),
        ):
            votes = {choice: pointers.weight[choice] + scopes.weight[choice] for choice in chosen}
            if said is arrays:
                votes = {choice: weight + arrays.weight[choice] for choice, weight in votes.items()}
            best = self._best(votes, object_size, evidence)
            if best is not None:
                choice, guess = best
                sure, agreed = said is not scopes, said.agreed[choice]
                return replace(guess, sure=sure, agreed=agreed, places=len(evidence))
        return None

    def _note(self, name: str, type_: Type) -> None:
        """Remember a type by its name, with its size, which takes long to ask for."""
        if self._types.get(name) is not type_:
            self._types[name], self._sizes[name] = type_, size_of(type_)

    def _best(
        self, votes: dict[_Choice, int], object_size: int, evidence: frozenset[Evidence]
    ) -> tuple[_Choice, Guess] | None:
        """What has most votes, and the type it means; None if there are too few or it can't be."""
        if not votes:
            return None
        # Of equals the largest: an inner structure is seen wherever its outer one is.
        choice, weight = max(
            votes.items(), key=lambda vote: (vote[1], self._sizes[vote[0][0]], vote[0])
        )
        tag, shift = choice
        if weight < 2:
            return None
        for outer in _INSIDE.get(tag, ()):
            guess = _outer(self._prog, outer, tag, shift)
            if guess is not None:
                return choice, guess
        starts = {start for voted, start in votes if voted == tag}
        guess = _consistent(self._types[tag], shift, starts, object_size, evidence)
        return None if guess is None else (choice, guess)

    def _ask(self, object_size: int, seen: Evidence) -> tuple[_Votes, _Votes, _Votes]:
        """What variables in scope say, pointers in registers, and those to arrays."""
        return (
            self._count_votes(object_size, seen),
            self._pointed(object_size, seen),
            self._indexed(object_size, seen),
        )

    def _pointed(self, object_size: int, seen: Evidence) -> _Votes:
        """Structures at which a pointer in a register says this access was, with weights."""
        found: _Votes = {}
        for type_, start, size in self._starts(seen):
            if type_.tag is None or not 0 <= start <= object_size - size:
                continue
            whole = start == 0 and _plausible(type_, object_size)
            if type_.tag in _PARTS and not whole:
                continue
            found[type_.tag, start] = 8 if whole else 4, type_
        return found

    def _indexed(self, object_size: int, seen: Evidence) -> _Votes:
        """Structures that can only be all of the object, of an array in which this access was.

        Where in them the array begins is known, and where in it the access was is not.
        """
        found: _Votes = {}
        for type_, inside in self._registers.indexed(seen.code):
            if type_.tag is None or type_.tag in _PARTS or type_.tag in _INSIDE:
                continue
            within = inside <= seen.offset < size_of(type_)
            if within and not goes_on(type_) and _plausible(type_, object_size):
                found[type_.tag, 0] = 2, type_
        return found

    def _started(self, seen: Evidence) -> tuple[tuple[Type, int, int], ...]:
        """Structures that were used, where they start and their sizes, by pointers in registers."""
        here = self._registers.based(seen.code)
        places = [(type_, seen.offset - inside) for type_, inside in here]
        if seen.caller:
            # What is handed on starts where the function's own pointer points to.
            handed = {start for _, start in places}
            displacement = self._code.displacement(seen.code)
            if not handed and displacement is not None:
                handed = {seen.offset - displacement}
            for type_, inside in self._registers.argument(seen.caller):
                places += [(type_, start - inside) for start in handed]
        return tuple((type_, start, size_of(type_)) for type_, start in places)

    def around(self, evidence: Iterable[Evidence], size: int) -> tuple[Guess, ...]:
        """Objects in ``size`` bytes of which no structure of the kernel tells what they are.

        ``evidence``: with offsets from where these bytes start. By pointers alone: votes
        want to know where an object ends. Those most places agree on come first.
        """
        those = frozenset(evidence)
        return (self._about if len(those) <= _FEW else self._around)(those, size)

    def _around(self, evidence: frozenset[Evidence], size: int) -> tuple[Guess, ...]:
        agreed: Counter[_Choice] = Counter()
        for seen in evidence:
            here: set[_Choice] = set()
            for type_, start, own in self._starts(seen):
                tag = type_.tag
                if tag is not None and -own < start < size:
                    self._types[tag], self._sizes[tag] = type_, own
                    here.add((tag, start))
            # A place agrees once, however many inlined functions have the pointer.
            agreed.update(here)
        elements: Counter[_Choice] = Counter()
        for seen in evidence:
            element = self._registers.element(seen.code)
            if element is not None and element.size == seen.size:
                self._note(element.name, element)
                elements[element.name, seen.offset] += 1
        # Parts of others come behind what they may be parts of.
        order = sorted(
            agreed.items(),
            key=lambda one: (
                one[0][0] not in _PARTS,
                one[1],
                self._sizes[one[0][0]],
                one[0],
            ),
        )
        # Numbers that are by themselves, as per-CPU counters and bitmaps are.
        found = [*reversed(order), *sorted(elements.items())]
        return tuple(
            Guess(self._types[tag], start, sure=True, agreed=count, places=len(evidence))
            for (tag, start), count in found
        )

    def _count_votes(self, object_size: int, seen: Evidence) -> _Votes:
        prog, code = self._prog, self._code
        votes: _Votes = {}

        def vote(type_: Type, tag: str, start: int, weight: int) -> None:
            before, _ = votes.get((tag, start), (0, type_))
            votes[tag, start] = before + weight, type_

        displacement = code.displacement(seen.code)
        if displacement is not None:
            start = seen.offset - displacement
            for type_ in code.pointees(seen.code):
                if type_.tag is None or type_.tag in _PARTS:
                    continue
                inside = 0 <= start <= object_size - size_of(type_)
                if inside and fits(prog, type_, displacement, seen.size):
                    whole = start == 0 and _plausible(type_, object_size)
                    vote(type_, type_.tag, start, 4 if whole else 2)
        for type_ in code.pointees(seen.caller) if seen.caller else ():
            if type_.tag is None or type_.tag in _PARTS:
                continue
            if _plausible(type_, object_size) and fits(prog, type_, seen.offset, seen.size):
                vote(type_, type_.tag, 0, 1)
        return votes


def _whole(
    arrays: Counter[_Choice], scopes: Counter[_Choice], pointers: Counter[_Choice]
) -> set[_Choice]:
    """Which types that only all of an object can be, as an array in them tells, it may be.

    ``arrays``: their weights; ``scopes`` and ``pointers``: of all types. Not one that was seen to
    begin elsewhere, nor that variables in scope speak more against: it may be a part of another
    that is as large as the object as well.
    """
    elsewhere = {tag for tag, start in pointers if start}
    return {
        choice
        for choice, weight in arrays.items()
        if choice[0] not in elsewhere
        and all(weight + scopes[choice] > scopes[other] for other in scopes if other != choice)
    }


_ELEMENTS = 3

_KEPT = 1 << 16
"""Places in the code and in objects of which it is kept what they tell."""

_ALIKE = 1 << 12
"""Sets of such places of which the same is kept, twice; of a hundred places each, 150 MB."""

_FEW = 256
"""Larger ones, of pages that many use, are seldom alike."""

_Choice: TypeAlias = tuple[str, int]
"""Tag and where in the object the type starts."""

_Votes: TypeAlias = dict[_Choice, tuple[int, Type]]
"""Weight and type, by tag and where in the object the type starts."""


def _consistent(
    type_: Type, shift: int, starts: set[int], object_size: int, evidence: Iterable[Evidence]
) -> Guess | None:
    """The guess, unless most of the object would have to be something else.

    ``starts``: where in the object the type was seen to start. If that is at
    several places, whole elements apart, the object is an array of it.
    """
    size = size_of(type_)
    if len(starts) >= _ELEMENTS and all((start - shift) % size == 0 for start in starts):
        return Guess(type_, shift % size, array=True)
    if _plausible(type_, object_size):
        return Guess(type_, shift)
    inside = all(shift <= seen.offset < shift + size for seen in evidence)
    return Guess(type_, shift) if inside else None


def _outer(prog: Program, outer: str, inner: str, shift: int) -> Guess | None:
    try:
        type_ = prog.type(f"struct {outer}")
    except UNREADABLE:
        return None
    for member in type_.members or ():
        kind = member.type
        if kind.kind == TypeKind.STRUCT and kind.tag == inner:
            start = shift - member.bit_offset // 8
            if start >= 0:
                return Guess(type_, start)
    return None
