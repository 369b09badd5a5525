# SPDX-License-Identifier: GPL-2.0-or-later
"""A pointer that is the same as a variable's, and arrays that are all of a structure."""

from __future__ import annotations

import pytest
from coded import Code, coded, guess, told

from partywall.analyse.names.code import CodeNamer
from partywall.analyse.names.registers import Registers
from partywall.analyse.names.types import Evidence

# `whole` is a variable in one register, and what is used is another one.
SOURCE = """
struct bitmap { unsigned long bits[16]; };
struct inner { unsigned long bits[13]; };
struct owner { long first; struct bitmap *whole; };
struct outer { long first; struct inner inner; };
struct lruvec { unsigned long lists[12]; };
struct rest { long first[12]; long more[]; };

#define NOINLINE __attribute__((noinline))
#define INC(label, where) label ": incq " where "; "

NOINLINE void other(void) { __asm__ volatile("" ::: "memory"); }

NOINLINE void clear(struct bitmap *whole, long number)
{
	register unsigned long *bits __asm__("rdx");

	__asm__ volatile("mov %1, %0" : "=r"(bits) : "r"(whole));
	__asm__ volatile("first_it: incq %0" : "+m"(*bits));
	__asm__ volatile("bit_it: btrq %1, %0" : "+m"(*bits) : "r"(number));
	__asm__ volatile("one_it: btsq $1, 8(%0)" :: "r"(bits) : "memory");
	__asm__ volatile("some_it: incq (%0,%1,8)" :: "r"(bits), "r"(number) : "memory");
	__asm__ volatile("bytes_it: incq (%0,%1,1)" :: "r"(bits), "r"(number) : "memory");
	__asm__ volatile("add $8, %0" : "+r"(whole));
	__asm__ volatile("elsewhere_it: incq %0" : "+m"(*bits));
	__asm__ volatile("" :: "r"(whole), "r"(bits));
}

NOINLINE void lose(struct bitmap *whole)
{
	register struct bitmap *kept __asm__("rbx") = whole;

	__asm__ volatile(
		"mov %0, %%r12; mov %0, %%rdx; mov %0, %%rax; mov %%ebx, %%ecx; "
		INC("copied_it", "8(%%rdx)") INC("short_it", "8(%%rcx)")
		"lock cmpxchg %%esi, (%%rsp); " INC("swapped_it", "8(%%rax)")
		"call other; " INC("kept_it", "8(%%r12)") INC("lost_it", "8(%%rdx)")
		"mov %0, %%rdx; xchg %%rdx, %%rcx; " INC("changed_it", "8(%%rdx)")
		"mov %%rsp, %%rdx; " INC("stack_it", "8(%%rsp)")
		:: "r"(kept) : "rax", "rcx", "rdx", "r12", "rdi", "rsi", "memory");
	__asm__ volatile("" :: "r"(kept));
}

NOINLINE void taken(struct bitmap *made)
{
	register unsigned long *from __asm__("rdx") = (unsigned long *)made;
	register struct bitmap *into __asm__("rbx");

	__asm__ volatile("" : "+r"(from));
	__asm__ volatile("mov %1, %0" : "=r"(into) : "r"(from));
	__asm__ volatile("" :: "r"(into));
	__asm__ volatile("source_it: incq 8(%0)" :: "r"(from) : "memory");
	__asm__ volatile("" :: "r"(into));
	other();
	__asm__ volatile("" :: "r"(into));
}

NOINLINE void member(struct owner *owner, long number)
{
	__asm__ volatile("mov 8(%0), %%rdx; words_it: incq (%%rdx,%1,8); "
			"any_it: incq (%%rdx,%1,1)" :: "r"(owner), "r"(number) : "rdx", "memory");
}

NOINLINE void scan(struct lruvec *lruvec, long number)
{
	__asm__ volatile("scan_it: incq (%0,%1,8)" :: "r"(lruvec), "r"(number) : "memory");
}

NOINLINE void more(struct rest *rest, long number)
{
	__asm__ volatile("rest_it: incq (%0,%1,8)" :: "r"(rest), "r"(number) : "memory");
}

NOINLINE void embedded(struct inner *inner, long number)
{
	__asm__ volatile("start_it: incq 8(%0)" :: "r"(inner) : "memory");
	__asm__ volatile("inner_it: incq (%0,%1,8)" :: "r"(inner), "r"(number) : "memory");
}

NOINLINE void around(struct outer *outer, unsigned long *somewhere)
{
	__asm__ volatile("outer_it: incq (%0)" :: "r"(outer) : "memory");
	__asm__ volatile("scope_it: incq 8(%0); scope_too: incq 16(%0)" :: "r"(somewhere) : "memory");
	__asm__ volatile("" :: "r"(outer), "r"(somewhere));
}

void _start(void)
{
	clear(0, 0);
	lose(0);
	taken(0);
	scan(0, 0);
	more(0, 0);
	embedded(0, 0);
	around(0, 0);
	member(0, 0);
}
"""
LABELS = (
    *("first_it", "bit_it", "one_it", "some_it", "bytes_it", "elsewhere_it", "copied_it"),
    *("short_it", "swapped_it", "kept_it", "lost_it", "changed_it", "stack_it", "source_it"),
    *("scan_it", "rest_it", "start_it", "inner_it", "outer_it", "scope_it", "scope_too"),
    *("words_it", "any_it"),
)


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> Code:
    return coded(tmp_path_factory.mktemp("equal"), SOURCE, LABELS)


def test_a_pointer_is_what_another_register_has_that_is_the_same(code: Code) -> None:
    registers = Registers(code.prog)
    assert told(registers.based(code.at["first_it"])) == {("bitmap", 0)}
    assert registers.indexed(code.at["first_it"]) == ()
    assert registers.based(code.at["elsewhere_it"]) == ()
    for label in ("copied_it", "kept_it", "source_it"):
        assert told(registers.based(code.at[label])) == {("bitmap", 8)}, label


@pytest.mark.parametrize("label", ["short_it", "swapped_it", "lost_it", "changed_it", "stack_it"])
def test_what_was_changed_since_is_no_longer_the_same(code: Code, label: str) -> None:
    assert Registers(code.prog).based(code.at[label]) == ()


def test_in_which_word_a_bit_is_its_number_says(code: Code) -> None:
    registers, namer = Registers(code.prog), CodeNamer(code.prog)
    for label in ("bit_it", "some_it"):
        assert registers.based(code.at[label]) == ()
        assert told(registers.indexed(code.at[label])) == {("bitmap", 0)}
        assert namer.displacement(code.at[label]) is None
    assert told(registers.based(code.at["one_it"])) == {("bitmap", 8)}
    assert registers.indexed(code.at["one_it"]) == ()
    assert namer.displacement(code.at["one_it"]) == 8


def test_of_two_registers_that_are_added_up_either_may_be_the_pointer(code: Code) -> None:
    registers = Registers(code.prog)
    for label in ("bytes_it", "any_it"):
        assert registers.indexed(code.at[label]) == ()
    assert told(registers.indexed(code.at["words_it"])) == {("bitmap", 0)}


def test_an_array_that_is_all_of_a_structure_tells_what_it_is(code: Code) -> None:
    bits = [Evidence(offset, 8, code.at["bit_it"], 0) for offset in (8, 64)]
    found = guess(code, 128, *bits)
    assert found is not None
    assert (found.type.tag, found.shift) == ("bitmap", 0)
    # Of a larger object it says nothing: where in it the array begins is not known.
    assert guess(code, 1024, *bits) is None


@pytest.mark.parametrize("label", ["scan_it", "rest_it"])
def test_an_array_says_nothing_of_what_is_a_part_or_goes_on(code: Code, label: str) -> None:
    # Of what has no end nobody knows where in it an element is.
    assert guess(code, 96, *(Evidence(offset, 8, code.at[label], 0) for offset in (8, 64))) is None


def test_who_knows_where_a_structure_begins_is_believed_before_who_knows_an_array(
    code: Code,
) -> None:
    indexed = [Evidence(offset, 8, code.at["inner_it"], 0) for offset in (8, 64, 72)]
    # Both are as large as what such a cache gives out.
    alone = guess(code, 128, *indexed)
    assert alone is not None
    assert (alone.type.tag, alone.shift) == ("inner", 0)
    # It was seen to begin elsewhere; then another one was, that it is a part of.
    found = guess(code, 128, *indexed, Evidence(16, 8, code.at["start_it"], 0))
    assert found is not None
    assert (found.type.tag, found.shift) == ("inner", 8)
    found = guess(code, 128, *indexed, Evidence(0, 8, code.at["outer_it"], 0))
    assert found is not None
    assert (found.type.tag, found.shift) == ("outer", 0)


def test_variables_in_scope_may_speak_against_an_array_that_is_all_of_an_object(
    code: Code,
) -> None:
    array = [Evidence(8, 8, code.at["inner_it"], 0)]
    scopes = [Evidence(8, 8, code.at["scope_it"], 0), Evidence(16, 8, code.at["scope_too"], 0)]
    found = guess(code, 128, *array, *scopes)
    assert found is not None
    assert (found.type.tag, found.sure, found.agreed) == ("outer", False, 2)
