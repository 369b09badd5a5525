# SPDX-License-Identifier: GPL-2.0-or-later
"""The pointer that an instruction used decides the type of what it touched."""

from __future__ import annotations

import pytest
from coded import Code, coded, guess, told

from partywall.analyse.names.code import CodeNamer
from partywall.analyse.names.registers import Registers
from partywall.analyse.names.types import Evidence, TypeGuesser

# Where code and structures of the kernel look like this. `owner` and `decoy` are both in
# scope, and each has a field of that size at every offset that is used.
SOURCE = """
struct list_head { struct list_head *next, *prev; };
struct owner { long first; int lock; int count; struct list_head list; long more[4]; };
struct stranger { long first; int lock; int count; long more[6]; };
struct large { long pad[20]; struct owner inner; };
struct percpu { long a, b, c; };
struct lruvec { struct list_head lists[5]; long more; };
struct mem_cgroup_per_node { long state[8]; struct lruvec lruvec; long kept[20]; };
union buffer { struct list_head list; struct { struct { } none; char bytes[]; }; };
union older { struct list_head list; char bytes[1]; };
struct counter {
	long sum;
	int *counts;
	struct owner *owner;
	union { struct owner *one; struct stranger *other; };
	unsigned char *bytes;
};

#define NOINLINE __attribute__((noinline))

NOINLINE void other(void) { __asm__ volatile("" ::: "memory"); }

NOINLINE void take(int *lock)
{
	__asm__ volatile("take_it: lock incl %0" : "+m"(*lock));
}

NOINLINE int use(struct stranger *decoy, struct owner *owner)
{
	__asm__ volatile("" :: "r"(decoy));
	__asm__ volatile("use_it: incl %0" : "+m"(owner->count));
	return decoy->count;
}

NOINLINE void hand_on(struct stranger *decoy, struct owner *owner)
{
	take(&owner->lock);
	__asm__ volatile("after:");
	other();
	__asm__ volatile("" :: "r"(decoy), "r"(owner));
}

NOINLINE void add(struct list_head *list)
{
	__asm__ volatile("add_it: incq %0" : "+m"(list->prev));
}

NOINLINE void unlist(union buffer *buffer)
{
	__asm__ volatile("unlist_it: incq %0" : "+m"(buffer->list.prev));
}

NOINLINE void unlist_older(union older *buffer)
{
	__asm__ volatile("older_it: incq %0" : "+m"(buffer->list.prev));
}

NOINLINE void age(struct lruvec *lruvec)
{
	__asm__ volatile("age_it: incq %0" : "+m"(lruvec->more));
}

NOINLINE void keep(struct mem_cgroup_per_node *node)
{
	__asm__ volatile("keep_it: incq %0" : "+m"(node->kept[1]));
}

NOINLINE void inside(struct large *large)
{
	struct owner *owner = &large->inner;

	__asm__ volatile("inside_it: incl %0" : "+m"(owner->count));
	other();
	__asm__ volatile("" :: "r"(owner));
}

NOINLINE void of_a_cpu(struct percpu *counter)
{
	__asm__ volatile("percpu_it: incq %%gs:%0" : "+m"(counter->b));
}

NOINLINE void set(unsigned long *map, long number)
{
	__asm__ volatile("set_it: orq $1, %0" : "+m"(map[number]));
}

NOINLINE void copy(unsigned char *to)
{
	__asm__ volatile("copy_it: incb %0" : "+m"(*to));
}

NOINLINE void through(struct counter *counter)
{
	__asm__ volatile("counts_it: incl %%gs:%0" : "+m"(*counter->counts));
	__asm__ volatile("" ::: "memory");
	__asm__ volatile("owner_it: incl %0" : "+m"(counter->owner->count));
	__asm__ volatile("" ::: "memory");
	__asm__ volatile("either_it: incl %0" : "+m"(counter->one->count));
	__asm__ volatile("" ::: "memory");
	__asm__ volatile("bytes_it: incb %0" : "+m"(*counter->bytes));
}

NOINLINE void of_one(struct counter *counter)
{
	__asm__ volatile("mov 16(%0), %%rdx; "
			"add %%gs:0, %%rdx; "
			"cpu_it: incl 12(%%rdx); "
			"add $64, %%rdx; "
			"moved_it: incl 12(%%rdx)" :: "r"(counter) : "rdx", "memory");
}

NOINLINE void over(struct counter *counter)
{
	__asm__ volatile("mov 16(%0), %%rbx; "
			"mov 16(%0), %%rdx; "
			"call other; "
			"kept_it: incl 12(%%rbx); "
			"lost_it: incl 12(%%rdx); "
			"mov 16(%0), %%rdx; "
			"1: round_it: incl 12(%%rdx); "
			"jz 1b" :: "D"(counter) : "rbx", "rdx", "memory");
}

NOINLINE void ways(struct counter *counter)
{
	__asm__ volatile("mov 16(%0), %%rdx; "
		"mov %%rdx, %%rcx; "
		"followed_it: incl 12(%%rcx); "
		"add 0x1000(,%%rsi,8), %%rdx; "
		"table_it: incl 12(%%rdx); "
		"beyond_it: incl 72(%%rdx); "
		"mov 16(%0,%%rsi,8), %%rdx; "
		"indexed_it: incl 12(%%rdx); "
		"mov 16(%0), %%edx; "
		"short_it: incl 12(%%rdx); "
		"mov %%fs:16(%0), %%rdx; "
		"segment_it: incl 12(%%rdx); "
		"mov 16(%0), %%rax; "
		"cltq; "
		"wide_it: incl 12(%%rax); "
		"mov 16(%0), %%rax; "
		"lock cmpxchg %%ecx, (%%rsi); "
		"swapped_it: incl 12(%%rax); "
		"mov 16(%0), %%rdx; "
		"jmp 2f; "
		"behind_it: incl 12(%%rdx); "
		"2: nop" :: "D"(counter) : "rax", "rcx", "rdx", "rsi", "memory");
}

void _start(void)
{
	set(0, 0);
	copy(0);
	use(0, 0);
	hand_on(0, 0);
	add(0);
	unlist(0);
	unlist_older(0);
	age(0);
	keep(0);
	inside(0);
	of_a_cpu(0);
	through(0);
	of_one(0);
	over(0);
	ways(0);
}
"""
LABELS = (
    *("take_it", "use_it", "after", "add_it", "inside_it", "percpu_it", "set_it", "copy_it"),
    *("unlist_it", "older_it", "age_it", "keep_it"),
    *("counts_it", "owner_it", "either_it", "bytes_it"),
    *("cpu_it", "moved_it", "kept_it", "lost_it", "round_it"),
    *("followed_it", "table_it", "beyond_it", "indexed_it", "short_it", "segment_it"),
    *("wide_it", "swapped_it", "behind_it"),
)


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> Code:
    return coded(tmp_path_factory.mktemp("registers"), SOURCE, LABELS)


def test_the_base_register_tells_the_variable(code: Code) -> None:
    assert told(Registers(code.prog).based(code.at["use_it"])) == {("owner", 12)}


def test_a_pointer_into_another_object_is_told_by_both(code: Code) -> None:
    # `owner` has no register of its own: it is `large` and a number.
    found = told(Registers(code.prog).based(code.at["inside_it"]))
    assert found == {("large", 172), ("owner", 12)}


def test_what_is_handed_on_is_told_by_the_caller(code: Code) -> None:
    found = told(Registers(code.prog).argument(code.call_before("after")))
    assert ("owner", 8) in found
    assert not any(tag == "stranger" for tag, _ in found)


def test_the_segment_of_a_cpu_does_not_hide_the_pointer(code: Code) -> None:
    assert told(Registers(code.prog).based(code.at["percpu_it"])) == {("percpu", 8)}


def test_a_register_that_holds_no_structure_tells_nothing(code: Code) -> None:
    assert told(Registers(code.prog).based(code.at["take_it"])) == set()


def test_what_is_no_code_tells_nothing(code: Code) -> None:
    registers = Registers(code.prog)
    assert registers.based(0x1234) == ()
    assert registers.argument(0x1234) == ()


def test_one_pointer_outvotes_all_variables_in_scope(code: Code) -> None:
    # The displacement fits both; by votes the one that comes last in the alphabet, or is
    # larger, had it.
    found = guess(code, 64, Evidence(12, 4, code.at["use_it"], 0))
    assert found is not None
    assert (found.type.tag, found.shift, found.sure) == ("owner", 0, True)
    assert (found.agreed, found.places) == (1, 1)
    assert found.why == "type told by the pointer used, in 1 of 1 places in the code"


def test_a_lock_is_of_the_object_that_its_caller_had(code: Code) -> None:
    lock = Evidence(8, 4, code.at["take_it"], code.call_before("after"))
    found = guess(code, 64, lock)
    assert found is not None
    assert (found.type.tag, found.shift, found.sure) == ("owner", 0, True)


def test_a_part_of_others_is_not_the_object(code: Code) -> None:
    assert guess(code, 64, Evidence(8, 8, code.at["add_it"], 0)) is None


def test_a_part_that_fills_the_object_is_the_object(code: Code) -> None:
    found = guess(code, 16, Evidence(8, 8, code.at["add_it"], 0))
    assert found is not None
    assert (found.type.tag, found.sure) == ("list_head", True)


@pytest.mark.parametrize(("label", "name"), [("unlist_it", "buffer"), ("older_it", "older")])
def test_a_union_that_ends_with_an_array_is_the_object(code: Code, label: str, name: str) -> None:
    # As AppArmor's buffers are, whose bytes nobody has a pointer of their type to.
    bytes_ = [Evidence(4000 + n, 1, code.at["copy_it"], 0) for n in range(8)]
    found = guess(code, 8192, Evidence(8, 8, code.at[label], 0), *bytes_)
    assert found is not None
    assert (found.type.type_name(), found.shift, found.sure) == (f"union {name}", 0, True)


def test_what_is_always_a_part_is_named_after_the_whole(code: Code) -> None:
    lists = [Evidence(64 + 80, size, code.at["age_it"], 0) for size in (1, 2, 4, 8)]
    for seen in (lists, [*lists, Evidence(64 + 96, 8, code.at["keep_it"], 0)]):
        found = guess(code, 512, *seen)
        assert found is not None
        assert (found.type.tag, found.shift) == ("mem_cgroup_per_node", 0)


def test_memory_of_which_nothing_is_known_is_what_it_is_used_as(code: Code) -> None:
    guesser = TypeGuesser(code.prog, CodeNamer(code.prog))
    seen = [
        Evidence(1000 + 12, 4, code.at["use_it"], 0),
        Evidence(1000 + 8, 4, code.at["take_it"], code.call_before("after")),
        Evidence(2000, 8, code.at["add_it"], 0),
    ]
    found = guesser.around(seen, 4096)
    assert [(one.type.type_name(), one.shift, one.agreed) for one in found] == [
        ("struct owner", 1000, 2),
        # A part of others, behind what it might be a part of.
        ("struct list_head", 1992, 1),
        # All that the lock's own code knows of it, which the first has in it.
        ("int", 1008, 1),
    ]


def test_a_place_in_the_code_is_read_once_however_many_objects_it_uses(code: Code) -> None:
    def reads(objects: int) -> int:
        guesser = TypeGuesser(code.prog, CodeNamer(code.prog))
        before = len(code.reads)
        for number in range(objects):
            here = 1000 * number
            seen = [
                Evidence(here + 12, 4, code.at["use_it"], 0),
                Evidence(here + 8, 4, code.at["take_it"], code.call_before("after")),
                Evidence(here + 80, 8, code.at["set_it"], 0),
            ]
            assert len(guesser.around(seen, 1000 * objects)) == 3
        return len(code.reads) - before

    few = reads(1)
    assert few > 0
    assert reads(100) == few


def test_what_starts_before_the_memory_looked_at_is_told_as_well(code: Code) -> None:
    guesser = TypeGuesser(code.prog, CodeNamer(code.prog))
    found = guesser.around([Evidence(4, 4, code.at["use_it"], 0)], 4096)
    assert [(one.type.tag, one.shift) for one in found] == [("owner", -8)]
    assert guesser.around([Evidence(-400, 4, code.at["use_it"], 0)], 4096) == ()


def test_numbers_by_themselves_are_told_if_nothing_else_is(code: Code) -> None:
    guesser = TypeGuesser(code.prog, CodeNamer(code.prog))
    map_, owner = Evidence(80, 8, code.at["set_it"], 0), Evidence(92, 4, code.at["use_it"], 0)
    (found,) = guesser.around([map_], 4096)
    assert (found.type.name, found.shift, found.agreed) == ("unsigned long", 80, 1)
    assert [one.type.type_name() for one in guesser.around([map_, owner], 4096)] == [
        "struct owner",
        "unsigned long",
    ]


def test_bytes_are_what_everything_is_made_of(code: Code) -> None:
    guesser = TypeGuesser(code.prog, CodeNamer(code.prog))
    assert guesser.around([Evidence(80, 1, code.at["copy_it"], 0)], 4096) == ()


def test_an_index_hides_a_structure_and_not_the_numbers_of_an_array(code: Code) -> None:
    registers = Registers(code.prog)
    assert registers.based(code.at["set_it"]) == ()
    element = registers.element(code.at["set_it"])
    assert element is not None
    assert element.size == 8


def test_a_pointer_that_no_variable_has_is_told_by_the_member_that_it_was(code: Code) -> None:
    registers = Registers(code.prog)
    element = registers.element(code.at["counts_it"])
    assert element is not None
    assert element.size == 4
    assert told(registers.based(code.at["owner_it"])) == {("owner", 12)}
    # Which member of a union was meant, and what bytes are, nobody says.
    assert registers.based(code.at["either_it"]) == ()
    assert registers.element(code.at["bytes_it"]) is None


def test_a_pointer_stays_what_it_is_for_another_cpu_and_not_elsewhere(code: Code) -> None:
    registers = Registers(code.prog)
    assert told(registers.based(code.at["cpu_it"])) == {("owner", 12)}
    assert registers.based(code.at["moved_it"]) == ()


def test_what_a_call_or_a_loop_may_have_changed_is_not_known(code: Code) -> None:
    registers = Registers(code.prog)
    assert told(registers.based(code.at["kept_it"])) == {("owner", 12)}
    assert registers.based(code.at["lost_it"]) == ()
    assert registers.based(code.at["round_it"]) == ()


@pytest.mark.parametrize("label", ["followed_it", "table_it"])
def test_a_pointer_is_followed_from_register_to_register_and_to_another_cpu(
    code: Code, label: str
) -> None:
    assert told(Registers(code.prog).based(code.at[label])) == {("owner", 12)}


@pytest.mark.parametrize(
    "label",
    [
        *("beyond_it", "indexed_it", "short_it", "segment_it"),
        *("wide_it", "swapped_it", "behind_it"),
    ],
)
def test_what_else_was_done_with_a_register_tells_nothing(code: Code, label: str) -> None:
    assert Registers(code.prog).based(code.at[label]) == ()
