# SPDX-License-Identifier: GPL-2.0-or-later
"""Tables that are hashed to: whether their entries are shared, or one's for a while."""

from __future__ import annotations

import random
from typing import Any

import pytest
from judging import ONCE, WINDOW, counter, judged, thing

from partywall.analyse import verdict
from partywall.analyse.judgement import Judgement


def entries(number: int, visits: tuple[int, ...], **more: Any) -> tuple[list[Any], list[Any]]:
    """Lines of a table that two of eight containers visited each, and a counter of all; names."""
    lines: list[list[Any]] = [
        [visits if cpu in (n % 8, (n + 1) % 8) else 0 for cpu in range(8)] for n in range(number)
    ]
    given = {"type": "struct x [64]", **more}
    names = [thing("locks", "static", address=f"{n:#x}", **given) for n in range(number)]
    # The emulator ran each in 41 slices.
    return [*lines, [(ONCE, ONCE, 40)] * 8], [*names, thing("counter", "static")]


@pytest.mark.parametrize(("returns", "theirs"), [(0, False), (3, False), (4, True)])
def test_locks_that_are_hashed_to_are_no_wall_where_one_has_each_for_a_while(
    returns: int, theirs: bool
) -> None:
    # Of 16 returns that chance would have had.
    lines, names = entries(8, (50, 50, returns, 33))
    found = judged(lines, names)
    assert found.walls.tolist() == [theirs] * 8 + [True]
    assert ((found.sharing[:8] != verdict.HANDED_OVER) == theirs).all()


def test_a_lock_of_a_table_that_two_take_in_turns_is_their_wall_among_others() -> None:
    lines, names = entries(8, (50, 50, 0, 33))
    lines[0][0] = lines[0][1] = (50, 50, 20, 33)
    assert judged(lines, names).walls.tolist() == [True] + [False] * 7 + [True]
    # Nor does an entry that all take turns at say anything of the others.
    lines[0] = [(ONCE, ONCE, 40)] * 8
    assert judged(lines, names).walls.tolist() == [True] + [False] * 7 + [True]


@pytest.mark.parametrize(("slices", "others"), [(4, (3,)), (5, (3, 5)), (9, (3, 4, 5))])
def test_who_is_at_an_entry_in_two_slices_says_nothing_of_who_has_it(
    slices: int, others: tuple[int, ...]
) -> None:
    # As many returns of these would be more than chance expects of who has it, and of them none.
    lines, names = entries(8, (50, 50, 0, slices))
    for number in range(8):
        for other in others:
            lines[number][(number + other) % 8] = (2, 2, 1, 2)
    assert judged(lines, names).walls.tolist() == [False] * 8 + [True]


def test_how_often_a_kernel_thread_comes_to_a_table_says_nothing_of_containers() -> None:
    lines, names = entries(16, (50, 50, 0, 33))
    found = judged(lines, names, thread=(50, 50, 40, 41))
    assert found.walls.tolist() == [False] * 16 + [True]


SHORT = 4
"""Operations in a window in which nobody has an entry twice."""


def alone(number: int, visits: tuple[int, ...] = (25, 25, 0, 1)) -> tuple[list[Any], list[Any]]:
    """Lines of a table that one container visited each, not that of CPU 0; names."""
    lines = [[visits if cpu == n % 7 + 1 else 0 for cpu in range(8)] for n in range(number)]
    return lines, [thing("locks", "static", type="struct x [64]") for _ in lines]


def visited(by: list[tuple[int, int]]) -> list[list[Any]]:
    """Lines that two of sixteen CPUs visited each, in one slice, and one of all."""
    lines: list[list[Any]] = [
        [(25, 25, 0, 1) if cpu in both else 0 for cpu in range(16)] for both in by
    ]
    return [*lines, [(ONCE, ONCE, 0, 1)] * 16]


THREAD = (20, 20, 0, 3)
"""What gives entries up, on CPU 0."""


def moved(
    own: tuple[list[Any], list[Any]],
    shared: tuple[list[Any], list[Any]],
    *,
    window: int = SHORT,
    in_turn: float | None = None,
) -> float:
    """Transfers an operation of a table of such lines, all of which are walls."""
    lines, names = [*own[0], *shared[0]], [*own[1], *shared[1]]
    found = judged(lines, names, thread=THREAD, window=window, in_turn=in_turn)
    assert found.walls.all()
    return float(found.moved[:-1].sum())


@pytest.mark.parametrize(("met", "seen"), [(0, True), (2, True), (3, False)])
def test_a_table_whose_entries_one_has_and_then_a_thread_moves_as_was_seen_in_a_short_window(
    met: int, seen: bool
) -> None:
    # Turns say 40 moves of each: but one had it, and then the thread.
    of_table = moved(alone(8 - met), entries(met, (25, 25, 0, 1)))
    assert (of_table < 0.5) == seen
    assert (of_table > 10) != seen
    # That a thread came is seen, in whichever order windows ran.
    later = moved(alone(8 - met), entries(met, (25, 25, 0, 1)), in_turn=0.1)
    assert (later < 0.5) == seen
    # Of fewer entries that may be chance.
    assert moved(alone(7 - met), entries(met, (25, 25, 0, 1))) > 8


def test_what_a_table_moves_in_a_short_window_is_known_of_tables_with_a_thread_alone() -> None:
    # Lines that CPUs of one container share, and no thread visits, say nothing of the others.
    own = visited([(0, 1)] * 12 + [(2, 4)] * 4)
    names = [thing("locks", "static", type="struct x [64]") for _ in range(16)]
    found = judged(own, [*names, thing("counter", "static")], cpus=2, window=SHORT)
    assert found.walls[12:].all()
    assert found.moved[12:16].tolist() == [2 * 25 / (16 * SHORT)] * 4
    lines, names = alone(8)
    plain = [thing("x", "static") for _ in names]
    assert moved((lines, plain), entries(0, (25, 25, 0, 1))) == pytest.approx(10)
    # Most lines are one's, but most visits are not: these move as turns have it.
    shared = [[(ONCE, ONCE, 0, 1)] * 8] * 2
    counter = [(ONCE, ONCE, 0, 1)] * 8
    lines, names = alone(8, (4, 4, 0, 1))
    names = [*names, *alone(2)[1], thing("counter", "static")]
    found = judged([*lines, *shared, counter], names, thread=THREAD, window=SHORT)
    assert float(found.moved[:8].sum()) == 2.0


@pytest.mark.parametrize("lonely", [0, 24])
def test_returns_that_tell_are_asked_before_who_has_an_entry_alone(lonely: int) -> None:
    # Two come back to each of eight entries almost as often as chance has it.
    back = moved(alone(lonely, (50, 50, 0, 33)), entries(8, (50, 50, 13, 33)), window=WINDOW)
    assert back > 2 * 8 * 50 / (8 * WINDOW)


def test_what_cpus_of_a_container_share_is_not_told_by_who_has_an_entry_alone() -> None:
    # Lines that only CPU 2 of two containers visits say nothing of the CPUs within one.
    lines = visited([(1, 3)] * 4 + [(2, 10)] * 12)
    names = [thing("locks", "static", type="struct x [64]") for _ in range(16)]
    told = [*names, thing("counter", "static")]
    found = judged(lines, told, cpus=8, scope="within", window=SHORT, thread=THREAD)
    assert found.walls[:4].all()
    assert found.moved[:4].tolist() == [2 * 25 / (16 * SHORT)] * 4


def test_lines_of_a_structure_or_of_few_entries_are_no_table_that_is_hashed_to() -> None:
    assert judged(*entries(8, (50, 50, 0, 33), type="struct x")).walls.all()
    assert judged(*entries(7, (50, 50, 0, 33))).walls.all()


def test_an_array_inside_a_variable_is_a_table_that_is_hashed_to() -> None:
    # raw_v6_hashinfo: a structure of 64 locks and of the buckets they guard.
    inside = {"type": "struct raw_hashinfo", "array": "locks"}
    lines, names = entries(8, (50, 50, 0, 33), **inside)
    assert judged(lines, names).walls.tolist() == [False] * 8 + [True]
    # Its other lines are what they are, and say nothing of the array.
    head, name = [(50, 50, 0, 33)] * 2 + [0] * 6, thing("locks", "static", type=inside["type"])
    assert judged([head, *lines], [name, *names]).walls.tolist() == [True, *[False] * 8, True]
    assert judged([head, *lines[1:]], [name, *names[1:]]).walls.all()


def test_two_arrays_of_one_variable_are_two_tables() -> None:
    inside = {"type": "struct raw_hashinfo"}
    had, had_too = (entries(8, (50, 50, 0, 33), array=name, **inside) for name in ("locks", "ht"))
    taken, names = entries(8, (50, 50, 6, 33), array="ht", **inside)
    assert not judged([*had[0][:8], *had_too[0]], [*had[1][:8], *had_too[1]]).walls[:16].any()
    # Together they would have had less than a quarter of the returns of chance.
    found = judged([*had[0][:8], *taken], [*had[1][:8], *names])
    assert found.walls.tolist() == [False] * 8 + [True] * 9
    # Four lines of each are no table.
    few, names = [*had[0][:4], *had_too[0][4:]], [*had[1][:4], *had_too[1][4:]]
    assert judged(few, names).walls.all()


def test_a_table_that_nobody_visits_in_many_slices_is_not_known_to_be_hashed_to() -> None:
    # Less than eight returns that chance would have had may be none by chance.
    few, more = (entries(8, (50, 50, 0, slices)) for slices in (1, 3))
    assert judged(*few).sharing[0] == verdict.SOME
    assert judged(*more).sharing[0] == verdict.HANDED_OVER


@pytest.mark.parametrize(("seldom", "known"), [(2, False), (3, True)])
def test_from_eight_returns_that_chance_would_have_had_a_table_tells(
    seldom: int, known: bool
) -> None:
    # Two in three slices each are expected to return twice; of three and two 0.8 times, which
    # makes 7.6 or 8.4 in all. None ever did.
    lines, names = entries(8, (50, 50, 0, 1))
    for n in range(3 + seldom):
        there = [cpu for cpu in range(8) if lines[n][cpu]]
        for cpu, slices in zip(there, (3, 3 if n < 3 else 2), strict=True):
            lines[n][cpu] = (50, 50, 0, slices)
    found = judged(lines, names).sharing[:8]
    assert set(found.tolist()) == ({verdict.HANDED_OVER} if known else {verdict.SOME})


def emulated(
    containers: int,
    window: int,
    *,
    entries: int,
    operations_each: int,
    turns: int = 5,
    cpus: int = 1,
    anew: float = 0.0,
    lonely: bool = False,
) -> list[list[tuple[int, ...]]]:
    """What the recorder counts of those entries of a hashed table that several visit.

    ``lonely``: of those that one visits, too, as a kernel thread does besides.

    Each operation of a CPU takes one entry for some ``turns``. It is drawn anew for each; or
    a container's CPUs have one together for ``operations_each``, which nobody else takes
    meanwhile, but for a share ``anew`` of its operations, each of which takes any. The
    emulator runs one CPU for two to four operations, and then the next one.
    """
    draw = random.Random(17)
    parties = range(containers * cpus)
    counts = [[[0, 0, 0, 0] for _ in parties] for _ in range(entries)]
    last: dict[int, int] = {}
    gone = [0] * entries
    known: dict[tuple[int, int], tuple[int, int]] = {}
    held = [0] * len(parties)
    now = [0] * len(parties)
    done = [0] * len(parties)
    slice_ = 0
    while min(done) < window * turns:
        for cpu in parties:
            slice_ += 1
            holder = cpu if operations_each == 1 else cpu // cpus * cpus
            for _ in range(draw.randint(2 * turns, 4 * turns)):
                if holder == cpu and done[cpu] % (turns * operations_each) == 0:
                    taken = set(held) if operations_each > 1 else set()
                    held[cpu] = draw.choice(sorted(set(range(entries)) - taken))
                if done[cpu] % turns == 0:
                    passing = anew > 0 and draw.random() < anew
                    now[cpu] = draw.randrange(entries) if passing else held[holder]
                done[cpu] += 1
                entry = now[cpu]
                count = counts[entry][cpu]
                gone[entry] += last.get(entry, cpu) // cpus != cpu // cpus
                before, seen = known.get((entry, cpu), (gone[entry], 0))
                count[0] += 1
                count[1] += last.get(entry, cpu) != cpu and count[0] > 1
                count[2] += seen != slice_
                count[3] += gone[entry] != before
                last[entry] = cpu
                known[entry, cpu] = gone[entry], slice_
    least = 1 if lonely else 2
    met = [line for line in counts if sum(count[0] > 0 for count in line) >= least]
    return [[(n, n, *rest) if n else 0 for n, *rest in line] for line in met]


def judged_with_a_counter(
    containers: int,
    window: int,
    entries: int,
    operations_each: int,
    each: int,
    cpus: int = 1,
    anew: float = 0.0,
) -> Judgement:
    """The judgement on a table as `emulated`, and last on a `counter`."""
    lines = emulated(
        containers,
        window,
        entries=entries,
        operations_each=operations_each,
        cpus=cpus,
        anew=anew,
    )
    names = [thing("locks", "static", type=f"struct x [{entries}]") for _ in lines]
    lines.append(counter(containers * cpus, window, each))
    return judged([*lines], [*names, thing("all", "static")], window=window, cpus=cpus)


@pytest.mark.parametrize("each", [1, 5])
@pytest.mark.parametrize(
    ("entries", "containers", "window"),
    [(32, 2, 64), (32, 8, 64), (32, 8, 96), (256, 4, 64), (256, 8, 400), (1024, 8, 64)],
)
def test_a_table_that_each_operation_hashes_to_anew_is_a_wall_in_any_window(
    entries: int, containers: int, window: int, each: int
) -> None:
    found = judged_with_a_counter(containers, window, entries, 1, each)
    assert found.walls.all()


@pytest.mark.parametrize(
    ("entries", "containers", "window"),
    [(1024, 8, 64), (2048, 8, 64), (256, 8, 16), (256, 4, 16), (128, 2, 32), (256, 2, 64)],
)
def test_a_table_with_more_entries_than_operations_is_a_wall_where_a_thread_gives_them_up(
    entries: int, containers: int, window: int
) -> None:
    lines = emulated(containers, window, entries=entries, operations_each=1, lonely=True)
    names = [thing("locks", "static", type=f"struct x [{entries}]") for _ in lines]
    every = [*lines, counter(containers, window, 5)], [*names, thing("all", "static")]
    found = judged(*every, window=window, thread=(40, 40, 0, 3))
    # The thread is on CPU 0: what that alone visits besides does not move.
    both = [sum(count != 0 for count in line) > 1 for line in lines]
    assert any(both)
    assert found.walls[:-1][both].all()


@pytest.mark.parametrize("each", [1, 5])
@pytest.mark.parametrize(
    ("entries", "containers", "window"), [(32, 4, 400), (32, 8, 400), (32, 8, 800), (256, 8, 400)]
)
def test_a_table_of_which_each_has_an_entry_for_many_operations_is_none(
    entries: int, containers: int, window: int, each: int
) -> None:
    found = judged_with_a_counter(containers, window, entries, 20, each)
    assert found.walls.tolist() == [False] * (len(found.walls) - 1) + [True]


@pytest.mark.parametrize(
    ("entries", "containers", "window", "anew"),
    [(64, 8, 400, 0.05), (256, 8, 400, 0.1), (256, 4, 800, 0.15), (512, 8, 400, 0.25)],
)
def test_a_table_of_which_a_few_operations_hash_anew_is_a_wall_with_the_moves_seen(
    entries: int, containers: int, window: int, anew: float
) -> None:
    found = judged_with_a_counter(containers, window, entries, 20, 5, anew=anew)
    assert found.walls.all()
    # By visits alone, each of which is a turn of five, it is ten times as much or more.
    assert float(found.moved[:-1].sum()) < anew + 2 / 20
    assert found.moved_at[:-1].tolist() == found.moved[:-1].tolist()
    assert not found.grows[:-1].any() and found.grows[-1]
    assert (found.part[:-1] < 1).any() and found.part[-1] == 1


def test_how_often_it_moves_is_known_where_half_of_the_returns_are_in_passing() -> None:
    # Overall a quarter of the returns that are expected; of who has an entry none.
    held, passing = (90, 90, 0, 9), (9, 9, 3, 9)
    lines: list[list[Any]] = [[held, held, 0, 0, passing, passing, 0, 0] for _ in range(8)]
    names = [thing("locks", "static", type="struct x [64]", address=f"{n:#x}") for n in range(8)]
    everybody = [(ONCE, ONCE, 40)] * 8
    found = judged([*lines, everybody], [*names, thing("all", "static")])
    assert found.walls.all()
    # Each of four is there for the first time, three of them after another, and six return.
    assert found.moved[:8].tolist() == pytest.approx([9 / (8 * WINDOW)] * 8)
    # Of fewer lines that may be chance; and of who was there in two slices nothing is told.
    found = judged([*lines[:7], everybody], [*names[:7], thing("all", "static")])
    assert found.moved[0] > 100 / (8 * WINDOW)
    once = [[*lines[0][:2], (300, 300, 0, 2), *lines[0][3:]], *lines[1:]]
    found = judged([*once, everybody], [*names, thing("all", "static")])
    assert found.moved[1] == pytest.approx(9 / (8 * WINDOW))
    assert found.walls.all()
    # Who has it comes back as well.
    shared = [[(90, 90, 6, 9)] * 2 + line[2:] for line in lines]
    found = judged([*shared, everybody], [*names, thing("all", "static")])
    assert found.moved[0] == pytest.approx((2 * 90 + 2 * 9) / (8 * WINDOW))
    # Three returns of one that passes, where five were to be expected, may be chance.
    few = [[held, held, passing if n == 0 else 0, *[0] * 5] for n in range(8)]
    found = judged([*few, everybody], [*names, thing("all", "static")])
    assert found.walls.tolist() == [False] * 8 + [True]
    # Where nobody passes, the same returns are of all who have it.
    alike = [[(49, 49, 2, 9)] * 3 + [0] * 5 for _ in range(8)]
    found = judged([*alike, everybody], [*names, thing("all", "static")])
    assert found.moved[0] == pytest.approx(3 * 49 / (8 * WINDOW))


@pytest.mark.parametrize(
    ("containers", "cpus", "entries"), [(2, 4, 32), (4, 2, 32), (4, 2, 256), (8, 4, 256)]
)
def test_cpus_of_a_container_that_has_an_entry_are_no_others_to_each_other(
    containers: int, cpus: int, entries: int
) -> None:
    found = judged_with_a_counter(containers, WINDOW, entries, 20, 5, cpus)
    assert found.walls.tolist() == [False] * (len(found.walls) - 1) + [True]
    anew = judged_with_a_counter(containers, WINDOW, entries, 1, 5, cpus)
    assert anew.walls.all()


@pytest.mark.parametrize(("crossings", "theirs"), [(1, True), (0, False)])
def test_slices_of_the_same_container_are_not_expected_to_part_ones_own(
    crossings: int, theirs: bool
) -> None:
    # Of nine slices and three of another container's two returns are to be expected, with nine
    # more of one's own four and a half.
    own, other = (50, 50, 8, 9, crossings), (10, 10, 0, 3, 0)
    lines: list[list[Any]] = [[own, own, other, 0] for _ in range(8)]
    names = [thing("locks", "static", type="struct x [64]", address=f"{n:#x}") for n in range(8)]
    found = judged([*lines, [(ONCE, ONCE, 40)] * 4], [*names, thing("counter", "static")], cpus=2)
    assert found.walls.tolist() == [theirs] * 8 + [True]


@pytest.mark.parametrize(("pairs", "slices"), [(8, 2), (4, 3)])
def test_a_table_that_two_have_each_line_of_is_theirs_though_none_ever_met(
    pairs: int, slices: int
) -> None:
    # In long slices the window of one may be over before the other's begins.
    number = 2 * pairs
    lines: list[list[Any]] = [
        [(ONCE, ONCE, 0) if cpu // 2 == n else 0 for cpu in range(number)] for n in range(pairs)
    ]
    given = {"type": "struct x [64]"}
    names = [thing("pairs", "static", address=f"{n:#x}", **given) for n in range(pairs)]
    counter = [(ONCE, ONCE, slices - 1)] * number
    found = judged([*lines, counter], [*names, thing("counter", "static")])
    assert (found.sharing[:pairs] == verdict.SOME).all()
    assert found.walls.all()
