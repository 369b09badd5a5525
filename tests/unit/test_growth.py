# SPDX-License-Identifier: GPL-2.0-or-later
"""What is said of memory that stays, and when it is said to grow."""

from __future__ import annotations

import functools
import io
from pathlib import Path
from typing import Any, cast

import commands
import pytest
from builders import result
from rich.console import Console

from partywall import workloads
from partywall.analyse.growth import LEAST, RATE, least
from partywall.analyse.growth.makers import telling
from partywall.analyse.growth.slope import at_most, per_operation
from partywall.core.errors import EnvironmentProblem
from partywall.measure import growth as measuring
from partywall.measure import sweep
from partywall.measure.plan import Plan
from partywall.measure.run import Wanted
from partywall.report import growth as view
from partywall.results import bookkeeping, document
from partywall.results.failures import Failure
from partywall.results.growth import Bound, Growth, Left, Operation, Raised
from partywall.results.memory import Unsettled

DENTRY = Left(
    kind="slab",
    what="dentry",
    made_by=("__d_alloc", "d_alloc_parallel"),
    objects=1.0,
    bytes=192.0,
    charged=1.0,
    after={"gone": 1.0, "reclaimed": 0.0, "ended": 0.0},
)

UNEVEN = Unsettled(
    kind="slab",
    what="dentry",
    made_by=DENTRY.made_by,
    charged=False,
    bytes=64.0,
    more=[0, 100],
)


@pytest.mark.parametrize(
    ("first", "second", "rate"),
    [
        (100, 200, 1.0),
        (50, 100, 0.5),
        # Batches, such as pages of objects.
        (3, 12, 0.06),
        (9, 9, 0.045),
        (100, 150, 0.75),
        # What only fills up: less in twice as many operations.
        (100, 99, 0.0),
        (100, 140, 0.0),
        # What began in the second step has nothing to do with the operations.
        (0, 200, 0.0),
        (24, 200, 0.0),
        (-5, 200, 0.0),
        # So few may be anything else's.
        (4, LEAST - 1, 0.0),
        (4, LEAST, LEAST / 200),
    ],
)
def test_what_grows_grows_twice_as_much_in_twice_as_many(
    first: int, second: int, rate: float
) -> None:
    assert per_operation(first, second, 100) == pytest.approx(rate)


@pytest.mark.parametrize(
    ("first", "second", "most"),
    [
        # It grows, or does not rise by what can be told, or not in the longer step.
        (100, 200, 0.0),
        (4, LEAST - 1, 0.0),
        (100, 0, 0.0),
        (100, -10, 0.0),
        # The step that has more for each operation.
        (100, 99, 1.0),
        (0, 200, 1.0),
        (-50, 100, 0.5),
    ],
)
def test_what_rises_and_does_not_grow_is_not_settled(first: int, second: int, most: float) -> None:
    assert at_most(first, second, 100) == pytest.approx(most)


def test_what_grows_in_one_of_many_operations_is_not_said() -> None:
    operations = 10_000
    fewest = int(RATE * 2 * operations)
    assert per_operation(fewest // 2, fewest, operations)
    assert not per_operation(fewest // 2, fewest - 1, operations)
    assert least(operations) == RATE
    # Of few operations fewer are seen.
    assert least(100) == LEAST / 200


def test_of_a_stack_is_told_what_lies_between_the_allocator_and_the_system_call() -> None:
    stack = [
        *("slab_alloc_node", "kmem_cache_alloc_lru_noprof", "__d_alloc", "d_alloc_parallel"),
        *("__lookup_slow", "path_lookupat", "__do_sys_access", "do_syscall_64"),
        "entry_SYSCALL_64_after_hwframe",
    ]
    assert telling(stack) == ("__d_alloc", "d_alloc_parallel", "__lookup_slow", "path_lookupat")
    assert telling(["kmalloc_node_noprof", "alloc_slab_obj_exts"]) == ("alloc_slab_obj_exts",)
    assert telling(["kvmalloc_node_noprof", "kmemdup_noprof", "sk_alloc"]) == ("sk_alloc",)
    assert telling(["__do_kmalloc_node", "ovl_alloc_entry"]) == ("ovl_alloc_entry",)
    assert telling([]) == ()


@pytest.mark.parametrize(
    ("after", "back"),
    [
        ({"gone": 0.0, "reclaimed": 0.0, "ended": 0.0}, "exit"),
        ({"gone": 0.05, "reclaimed": 0.0, "ended": 0.0}, "exit"),
        ({"gone": 0.06, "reclaimed": 0.01, "ended": 0.0}, "reclaim"),
        ({"gone": 1.0, "reclaimed": 1.0, "ended": 0.0}, "container's end"),
        ({"gone": 1.0, "reclaimed": 0.5, "ended": 0.5}, "nothing"),
        ({"gone": 1.0, "reclaimed": 1.0, "stopped": 0.0, "ended": 0.0}, "container's end"),
        ({"gone": 1.0, "reclaimed": 1.0, "stopped": 1.0, "ended": 0.05}, "umount"),
        ({"gone": 1.0, "reclaimed": 1.0, "stopped": 1.0, "ended": 1.0}, "nothing"),
        ({"gone": 1.0, "reclaimed": 1.0, "stopped": 1.0}, None),
        ({"gone": 1.0, "reclaimed": 1.0}, None),
        ({}, None),
    ],
)
def test_what_takes_it_back_is_the_first_that_does(
    after: dict[str, float], back: str | None
) -> None:
    assert DENTRY.model_copy(update={"after": after}).back == back


@pytest.mark.parametrize(
    ("charged", "verdict"), [(1.0, "unlimited"), (0.99, "growth"), (0.0, "growth")]
)
def test_growth_is_what_no_container_pays_for(charged: float, verdict: str) -> None:
    """However small its share is."""
    assert DENTRY.model_copy(update={"charged": charged}).verdict == verdict


@pytest.mark.parametrize(
    ("after", "verdict"),
    [
        ({"gone": 0.0, "reclaimed": 0.0, "ended": 0.0}, "charged"),
        ({"gone": 1.0, "reclaimed": 0.0, "ended": 0.0}, "unlimited"),
        ({"gone": 1.0, "reclaimed": 1.0, "ended": 0.0}, "unlimited"),
        ({"gone": 1.0, "reclaimed": 1.0, "ended": 1.0}, "unlimited"),
        # What nobody saw is not said; which limit it would pass is asked elsewhere.
        ({"gone": 1.0}, "charged"),
    ],
)
def test_what_outlives_its_processes_is_bounded_by_nothing_of_its_own(
    after: dict[str, float], verdict: str
) -> None:
    left = DENTRY.model_copy(update={"after": after})
    assert left.verdict == verdict
    one = leaves("a", left)
    assert one.unlimited == (192 if verdict == "unlimited" else 0)
    bound = {"killed": False, "reclaimed": False, "taken": 9, "error": "ENOSPC", "value": "9"}
    for bounded, knob in (("cap", "a.max"), ("own", None), ("memory", None)):
        told = Bound(verdict=cast(Any, bounded), knob=knob, **cast(Any, bound))
        limited = one.model_copy(update={"bound": told})
        # A limit of all is none of its own: one container can use up what all need.
        assert limited.unlimited == one.unlimited
        capped = bounded == "cap" and verdict == "unlimited"
        assert limited.verdict_of(left) == ("cap" if capped else verdict)
        # The memory of the machine is none that could be used up alone.
        killed = told.model_copy(update={"killed": True, "knob": None})
        assert one.model_copy(update={"bound": killed}).verdict_of(left) == verdict


def test_books_of_who_is_charged_are_no_growth() -> None:
    books = DENTRY.model_copy(update={"charged": 0.0, "bookkeeping": True, "what": "kmalloc-192"})
    assert (books.verdict, books.uncharged) == ("charged", 0)
    text = " ".join(shown(found(books)).split())
    assert "none: all that operations leave behind is charged to a container" in text
    assert "192 1.00 with it kmalloc-192" in text


@pytest.mark.parametrize(
    ("functions", "books"),
    [
        (("alloc_slab_obj_exts", "d_alloc"), True),
        (("xas_alloc", "__xas_nomem", "memcg_list_lru_alloc", "d_alloc"), True),
        # What such a function calls from further out makes what it is for.
        (("a", "b", "c", "memcg_list_lru_alloc"), False),
        (("d_alloc",), False),
        ((), False),
    ],
)
def test_books_are_told_by_who_makes_them(functions: tuple[str, ...], books: bool) -> None:
    assert bookkeeping.makes(functions) is books


def leaves(title: str, *left: Left, **other: Any) -> Operation:
    """An operation that leaves these behind; ``other``: what else there is to say of it."""
    usual: dict[str, Any] = {
        "operation": f"one of {title}",
        "count": 100,
        "least": 0.02,
        "kept": False,
        "confirmed": True,
        "raised": [],
    }
    return Operation(title=title, left=list(left), **usual | other)


def found(*left: Left, failed: list[Failure] | None = None) -> Growth:
    said = result()
    return Growth(
        created=said.created,
        kernel=said.kernel,
        environment=said.environment,
        containers=2,
        operations=[
            leaves("a/b", *left),
            leaves("c"),
        ],
        failed=failed or [],
    )


def everything_of(*operations: Operation) -> Growth:
    return found().model_copy(update={"operations": list(operations)})


def shown(growth: Growth, *, everything: bool = False) -> str:
    out = io.StringIO()
    view.render(growth, Console(file=out, width=80), everything=everything)
    return out.getvalue()


def test_what_nobody_pays_for_comes_first() -> None:
    leak = DENTRY.model_copy(
        update={
            "what": "leak",
            "charged": 0.0,
            "bytes": 8.0,
            "after": dict.fromkeys(DENTRY.after, 1.0),
        }
    )
    text = shown(found(DENTRY, leak))
    assert text.index("leak\n") < text.index("dentry\n")
    assert "taken back by nothing that was tried: 100% outlives its container" in " ".join(
        text.split()
    )
    assert "Nothing is left behind by 1 of 2 operations" in text
    assert max(map(len, text.splitlines())) <= 80


def test_who_makes_another_pay_is_said() -> None:
    others = DENTRY.model_copy(update={"elsewhere": 0.5})
    said = " ".join(shown(found(others)).split())
    assert "another container than who made it pays for 50% of it" in said
    for share in (None, 0.0, 0.04):
        few = DENTRY.model_copy(update={"elsewhere": share})
        assert "another container" not in shown(found(few))


def test_where_nothing_grows_it_is_said() -> None:
    text = shown(found())
    assert "none: all that operations leave behind is charged to a container" in text
    assert "Nothing is left behind by 2 of 2 operations" in text


def test_what_was_not_measured_is_said_with_its_reason() -> None:
    text = shown(found(failed=[Failure(title="d", operation="one of d", why="it went out")]))
    assert "d: it went out" in text


def test_of_many_rows_some_are_shown() -> None:
    kinds = [DENTRY.model_copy(update={"what": f"dentry-{n}"}) for n in range(view.SHOWN + 3)]
    many = found(*kinds)
    assert "3 more kinds; --all shows them" in " ".join(shown(many).split())
    assert shown(many, everything=True).count("dentry-") == view.SHOWN + 3


def test_what_several_operations_leave_is_one_row_of_the_one_that_leaves_most() -> None:
    more = DENTRY.model_copy(update={"bytes": 384.0})
    one = found(DENTRY)
    other = leaves("z", more)
    text = shown(one.model_copy(update={"operations": [*one.operations, other]}))
    assert text.count("dentry\n") == 1
    assert "z and 1 more operation" in text
    assert "384" in text
    assert " 192 " not in text


def test_what_an_operation_leaves_uncharged_is_summed() -> None:
    half = DENTRY.model_copy(update={"charged": 0.5})
    assert found(DENTRY, half).operations[0].uncharged == 96


def test_if_all_fail_the_first_is_said() -> None:
    (signal,) = workloads.select(["signal"])
    wanted = cast(Wanted, type("Wanted", (), {"workloads": [signal]}))
    with pytest.raises(EnvironmentProblem, match=f"{signal.title}: it went out"):
        measuring._document(wanted, cast(Plan, None), [EnvironmentProblem("it went out")], set())


def test_a_step_is_long_enough_and_no_shorter_than_a_window() -> None:
    (signal,) = workloads.select(["signal"])

    def step(**update: object) -> int:
        asked = cast(int | None, update.pop("asked", None))
        return measuring._long_enough(signal.model_copy(update=update), asked).window

    assert step(window=4) == measuring.LEAST_OPERATIONS
    assert step(window=1000) == 1000
    assert step(window=4, bundle=True) == measuring.LEAST_STARTS
    assert step(window=1000, asked=20) == 20


def test_what_does_not_grow_again_is_not_said() -> None:
    batch = DENTRY.model_copy(update={"what": "vmap_area"})
    again = DENTRY.model_copy(update={"objects": 0.99})
    found = measuring.confirmed(
        leaves("a", DENTRY, batch, confirmed=False), leaves("a", again, confirmed=False)
    )
    (left,) = found.left
    assert (left.objects, found.unsettled) == (0.99, [])
    assert found.confirmed


@pytest.mark.parametrize(
    ("first", "again", "ways", "words"),
    [
        # Of the first run: gone, reclaimed, and the end; of the second nothing is reclaimed.
        ((1, 0, 0, 0), (1, 1, 1, 0), ["reclaim"], "by reclaim alone: it outlives its container"),
        ((1, 0, 0, 0), (1, 0, 0, 0), ["reclaim", "container's end"], "by its container's end"),
        ((1, 0, 0, 0), (1, 1, 0, 0), ["reclaim", "umount"], "reclaim or by the unmounting of"),
        ((1, 1, 0, 0), (1, 0, 0, 0), ["container's end"], "container's end, and not by reclaim"),
        ((1, 1, 1, 0), (1, 1, 0, 0), ["umount"], "root, and not by reclaim"),
        ((1, 1, 1, 1), (1, 1, 1, 1), ["nothing"], "nothing that was tried: 100% outlives"),
        # Only with both, in whichever order, as nothing did it by itself.
        ((1, 1, 0, 0), (1, 1, 1, 0), ["both"], "container's end together, by neither alone"),
        ((1, 1, 1, 1), (1, 1, 1, 0), ["both"], "container's end together, by neither alone"),
        ((1, 1, 1, 1), (1, 0, 0, 0), ["container's end"], "container's end, and not by reclaim"),
        # The second guest ended before its last looks.
        ((1, 0, 0, 0), (1, 1), ["reclaim"], "by reclaim, and not by the end of its processes"),
        # A little of it is chance.
        ((0.06, 0.06, 0, 0), (0.04, 0, 0, 0), ["exit"], "by the end of its processes"),
        ((0, 0, 0, 0), (0, 0, 0, 0), ["exit"], "by the end of its processes and of their files"),
        # It rose unevenly in the first run, so that only the second one followed it.
        (None, (1, 1, 1, 0), ["both"], "once its container has ended; before that it was not"),
        (None, (1, 1, 0, 0), ["umount"], "by the unmounting of its container's root"),
        (None, (1, 1, 1, 1), ["nothing"], "nothing that was tried: 100% outlives"),
    ],
)
def test_what_takes_it_back_each_by_itself_is_told_of_two_runs(
    first: tuple[float, ...] | None, again: tuple[float, ...], ways: list[str], words: str
) -> None:
    def after(looks: tuple[str, ...], shares: tuple[float, ...]) -> Left:
        return DENTRY.model_copy(
            update={"after": dict(zip(looks, map(float, shares), strict=False))}
        )

    before = leaves("a", unsettled=[UNEVEN], confirmed=False)
    if first is not None:
        left = after(("gone", "reclaimed", "stopped", "ended"), first)
        before = leaves("a", left, confirmed=False)
    longer = after(("gone", "stopped", "ended", "reclaimed"), again)
    found = measuring.confirmed(before, leaves("a", longer, confirmed=False))
    assert found.left[0].ways == ways
    text = " ".join(shown(everything_of(found)).split())
    assert words in text, text
    assert "not by reclaim" in words or "not by reclaim" not in text


def test_what_grows_in_the_longer_of_two_runs_alone_is_not_settled() -> None:
    new = DENTRY.model_copy(update={"what": "journal", "charged": 0.0})
    found = measuring.confirmed(leaves("a"), leaves("a", new, confirmed=False))
    assert found.left == []
    assert [(one.what, one.charged, one.bytes) for one in found.unsettled] == [
        ("journal", False, 192)
    ]


def test_what_rose_unevenly_is_settled_by_more_operations() -> None:
    leak = DENTRY.model_copy(update={"charged": 0.0})
    ended = UNEVEN.model_copy(update={"what": "pool"})
    before = leaves("a", unsettled=[UNEVEN, ended], confirmed=False)
    found = measuring.confirmed(before, leaves("a", leak, confirmed=False))
    assert ([one.charged for one in found.left], found.unsettled) == ([0.0], [])
    still = measuring.confirmed(before, leaves("a", unsettled=[UNEVEN], confirmed=False))
    assert (still.left, still.unsettled) == ([], [UNEVEN])


def test_what_is_not_settled_is_shown_by_itself_and_is_not_nothing() -> None:
    text = shown(found().model_copy(update={"operations": [leaves("a", unsettled=[UNEVEN])]}))
    assert "Not settled: it rises, and not as what grows with the operations does" in text
    assert "64.0       0%  dentry" in text
    assert "__d_alloc < d_alloc_parallel" in text
    assert "Nothing is left behind by 0 of 1 operation" in text


def test_objects_of_a_kind_that_an_operation_makes_in_two_places_are_one_row() -> None:
    other = DENTRY.model_copy(
        update={"made_by": (*DENTRY.made_by, "ovl_lookup"), "bytes": 96.0, "objects": 0.5}
    )
    text = shown(found(DENTRY, other))
    assert text.count("dentry\n") == 1
    assert "288   1.50     100%  dentry" in text


run = functools.partial(commands.run, "growth")


def test_what_was_saved_is_shown_again(tmp_path: Path) -> None:
    saved, growth = tmp_path / "growth.json", found(DENTRY)
    saved.write_text(document.dump(growth))
    assert run(saved) == (0, shown(growth), "")
    assert run(saved, "--json") == (0, saved.read_text(), "")


def test_a_limit_is_held_against_what_nobody_pays_for(tmp_path: Path) -> None:
    saved, half = tmp_path / "growth.json", DENTRY.model_copy(update={"charged": 0.5})
    saved.write_text(document.dump(found(half)))
    assert run(saved, "--fail-growth", "96")[0] == 0
    assert run(saved, "--fail-growth", "95")[0] == 1
    failed = found(half, failed=[Failure(title="d", operation="one of d", why="it went out")])
    saved.write_text(document.dump(failed))
    saved.write_text(document.dump(failed))
    # Less can't be told by looks, whatever they found.
    status, out, err = run(saved, "--fail-growth", "81")
    assert (status, out) == (2, "")
    assert "what a/b leaves behind in memory is not known below 81.9 bytes" in err
    # What was not measured has not passed.
    assert run(saved, "--fail-growth", "96")[0] == 3
    assert run(saved)[0] == 0


def test_what_is_kept_and_stays_behind_uncharged_is_growth_too() -> None:
    stays = DENTRY.model_copy(
        update={"what": "filp", "charged": 0.0, "after": dict.fromkeys(DENTRY.after, 1.0)}
    )
    goes = stays.model_copy(update={"what": "pipe", "after": dict.fromkeys(DENTRY.after, 0.0)})
    kept = [leaves("a", DENTRY, stays, goes, kept=True)]
    told = shown(found().model_copy(update={"operations": kept}))
    growth, _, rest = told.partition("Unlimited:")
    assert "filp" in growth and "pipe" not in growth
    assert "none: all that" not in told
    assert "dentry" in rest


def test_a_limit_is_held_against_what_nothing_of_its_own_bounds(tmp_path: Path) -> None:
    saved = tmp_path / "growth.json"

    def status(limit: int, *left: Left, **other: Any) -> tuple[int, str]:
        only = [leaves("a", *left, **other)]
        saved.write_text(document.dump(found().model_copy(update={"operations": only})))
        found_, _, err = run(saved, "--fail-unlimited", str(limit))
        return found_, err

    assert status(191, DENTRY) == (1, "")
    assert status(192, DENTRY) == (0, "")
    # Nobody pays for it, or it goes with its processes: other questions.
    unpaid = DENTRY.model_copy(update={"charged": 0.0})
    goes = DENTRY.model_copy(update={"after": {"gone": 0.0, "reclaimed": 0.0, "ended": 0.0}})
    assert status(100, unpaid, goes) == (0, "")
    # What was not seen, and what is not settled, may be over it.
    unseen = DENTRY.model_copy(update={"after": {"gone": 1.0}})
    code, err = status(191, unseen)
    assert (code, "what takes back what a leaves behind is not known" in err) == (2, True)
    assert status(192, unseen) == (0, "")
    rises = UNEVEN.model_copy(update={"bytes": 90.0, "charged": True})
    assert status(281, unseen, unsettled=[rises])[0] == 2
    assert status(282, unseen, unsettled=[rises])[0] == 0
    books = unseen.model_copy(update={"bookkeeping": True})
    assert status(100, books) == (0, "")
    assert status(191, DENTRY, kept=True) == (1, "")
    kept = found().model_copy(update={"operations": [leaves("a", DENTRY, kept=True)]})
    assert "reclaim, and not by the end of its processes" in " ".join(shown(kept).split())
    code, err = status(89, unsettled=[rises])
    assert (code, "dentry 90.0 bytes at most" in err) == (2, True)
    assert status(90, unsettled=[rises]) == (0, "")
    assert "Unlimited: a container pays, and it stays until memory is short" in shown(found(DENTRY))


def test_what_is_not_settled_passes_no_limit_that_it_could_be_over(tmp_path: Path) -> None:
    saved, rises = tmp_path / "growth.json", UNEVEN.model_copy(update={"bytes": 90.0})
    only = [leaves("a", unsettled=[rises])]
    saved.write_text(document.dump(found().model_copy(update={"operations": only})))
    assert run(saved, "--fail-growth", "90")[0] == 0
    status, _, err = run(saved, "--fail-growth", "89")
    assert status == 2
    assert "what a leaves behind is not settled: dentry 90.0 bytes at most" in err


def test_a_file_that_holds_none_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text('{"schema": "partywall.result/3"}')
    status, out, err = run(other)
    assert (status, out) == (2, "")
    assert err.startswith(f"partywall: {other}: not a saved result: ")
    assert len(err.splitlines()) <= 2


def test_with_a_file_nothing_is_measured(tmp_path: Path) -> None:
    saved = tmp_path / "growth.json"
    saved.write_text(document.dump(found(DENTRY)))
    status, _, err = run(saved, "-w", "signal")
    assert status == 2
    assert "--workload says how to measure" in err


def test_what_is_kept_is_shown_by_itself_and_fails_nothing_unless_it_stays() -> None:
    held = DENTRY.model_copy(
        update={"what": "file", "charged": 0.0, "after": dict.fromkeys(DENTRY.after, 0.0)}
    )
    hold = leaves("hold/x", held, kept=True, confirmed=False)
    assert hold.uncharged == 0
    text = shown(found(DENTRY).model_copy(update={"operations": [hold]}))
    assert "What is kept takes, while it is there" in text
    assert "192" in text
    assert "hold/x" in text
    assert "Nothing is left behind by" not in text
    assert "Not tried with more operations" not in text
    stays = held.model_copy(update={"after": dict.fromkeys(DENTRY.after, 1.0)})
    assert hold.model_copy(update={"left": [stays]}).uncharged == 192


def test_counters_are_shown_with_who_raises_them_most() -> None:
    def raises(title: str, each: float) -> Operation:
        counter = Raised(name="nr_files", each=each, returned=1.0)
        only = found().operations[1]
        return only.model_copy(update={"title": title, "raised": [counter]})

    few = [raises(f"hold/{name}", 1.0) for name in "abcd"]
    text = shown(found().model_copy(update={"operations": [*few, raises("hold/z", 3.0)]}))
    assert " 3.00           5  nr_files" in text
    assert "hold/z, hold/a, hold/b and 2 more" in text


def test_what_keeps_what_it_makes_never_runs_on_the_users_machine() -> None:
    library = [one for one, _ in workloads.load()]
    every = [one for one in library if one.keeps]
    assert every
    assert all(one.guests_only and one.counted for one in every)
    assert not {one.title for one in every} & {one.title for one in sweep.usual(library)}
