# SPDX-License-Identifier: GPL-2.0-or-later
"""What operations leave behind, by looks in the guest in which lines are measured."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from contextlib import nullcontext
from math import inf
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import builders
import commands
import pytest
from rich.console import Console

from partywall import workloads
from partywall.analyse.growth.memory import Cache, Kernel
from partywall.analyse.growth.stocks import Stocks
from partywall.analyse.growth.totals import IN_BATCHES, Total, Totals, grown
from partywall.cli.limits import Limits
from partywall.core.errors import EnvironmentProblem, PartywallError, UsageProblem
from partywall.guest import Guest
from partywall.guest.sitting import LOOKS_TAKE
from partywall.measure import after
from partywall.model import profiles
from partywall.report import compare as comparisons
from partywall.report import ktap, terminal
from partywall.report import memory as report
from partywall.results import document, store
from partywall.results.bookkeeping import LISTS
from partywall.results.compare import compare
from partywall.results.diff import Tolerance, diff
from partywall.results.memory import Grown, Kind, Memory, Unsettled
from partywall.results.result import Result, WorkloadResult

DENTRY: tuple[Kind, str] = ("slab", "dentry")
OPERATIONS = 256


def looks(kind: tuple[Kind, str], size: int, *counts: tuple[int, int]) -> list[Totals]:
    """Looks at which there are so many objects of a kind, and so many of them charged."""
    return [
        {
            (*kind, True): Total(charged, charged * size),
            (*kind, False): Total(objects - charged, (objects - charged) * size),
        }
        for objects, charged in counts
    ]


def test_what_grows_twice_as_much_in_twice_as_many_is_left_behind() -> None:
    found = grown(looks(DENTRY, 192, (1000, 900), (1512, 1412), (2536, 2436)), OPERATIONS)
    assert found.unsettled == []
    assert found.grown == [
        Grown(kind="slab", what="dentry", objects=2, bytes=384, charged=1, more=[512, 1536])
    ]
    assert (found.operations, found.least) == (256, 0.02)
    assert found.verdict == "charged"


@pytest.mark.parametrize(
    "counts",
    [
        # Nothing; what was made once; less than can be told; what goes away.
        (1000, 1000, 1000),
        (1000, 2000, 2000),
        (1000, 1003, 1009),
        (1000, 900, 700),
    ],
)
def test_what_does_not_is_not(counts: tuple[int, ...]) -> None:
    found = grown(looks(DENTRY, 192, *((one, 0) for one in counts)), OPERATIONS)
    assert (found.grown, found.unsettled) == ([], [])
    assert found.verdict == "nothing"


@pytest.mark.parametrize("charged", [False, True])
@pytest.mark.parametrize(
    ("counts", "at_most"),
    [
        # What fills up, or comes unevenly; what began in the second step; hidden by what goes.
        ((1000, 1400, 1500), 400 / 256),
        ((1000, 1000, 1512), 1.0),
        ((1000, 500, 1012), 1.0),
    ],
)
def test_what_rises_unevenly_is_not_settled_and_not_nothing(
    counts: tuple[int, ...], at_most: float, charged: bool
) -> None:
    found = grown(looks(DENTRY, 192, *((one, one * charged) for one in counts)), OPERATIONS)
    (one,) = found.unsettled
    assert (one.what, one.charged, one.bytes) == ("dentry", charged, 192 * at_most)
    assert one.more == [number - 1000 for number in counts[1:]]
    assert (found.grown, found.verdict) == ([], "unsettled")
    # What a container pays for holds no limit up.
    assert found.uncharged_at_most == (0 if charged else 192 * at_most)


def test_looks_see_so_many_bytes_of_anything() -> None:
    """Of what is larger than a page fewer tell."""
    huge: tuple[Kind, str] = ("slab", "kmalloc-8k")
    found = grown(looks(huge, 8192, (9, 0), (12, 0), (18, 0)), OPERATIONS)
    assert found.least_bytes == pytest.approx(81.92)
    (one,) = found.grown
    assert one.bytes == pytest.approx(8192 * 6 / 512)
    small = grown(looks(DENTRY, 192, (9, 0), (12, 0), (18, 0)), OPERATIONS)
    assert small.verdict == "nothing"


def test_who_is_charged_is_told_of_what_is_new() -> None:
    found = grown(looks(DENTRY, 100, (900, 900), (1156, 1028), (1668, 1284)), OPERATIONS)
    assert [(one.objects, one.charged, one.uncharged) for one in found.grown] == [
        (0.5, 0, 50),
        (0.5, 1, 0),
    ] or [(one.objects, one.charged, one.uncharged) for one in found.grown] == [
        (0.5, 1, 0),
        (0.5, 0, 50),
    ]
    assert found.verdict == "growth"


def test_few_that_nobody_pays_for_among_many_are_growth_by_themselves() -> None:
    """One in thirty is less than any share of a twentieth would tell of."""
    found = grown(looks(DENTRY, 192, (0, 0), (1024, 990), (3072, 2970)), OPERATIONS)
    assert found.verdict == "growth"
    assert found.uncharged == pytest.approx(192 * 68 / 512, rel=0.1)


def test_a_kind_that_was_not_there_at_first_is_found() -> None:
    nothing: list[Totals] = [{}]
    (one,) = grown(nothing + looks(DENTRY, 8, (256, 0), (768, 0)), OPERATIONS).grown
    assert (one.objects, one.more) == (1, [256, 768])


def test_what_is_given_back_in_batches_is_not_told() -> None:
    found = grown(looks(("slab", IN_BATCHES[0]), 72, (0, 0), (256, 0), (768, 0)), OPERATIONS)
    assert (found.grown, found.unsettled) == ([], [])


def test_books_of_who_is_charged_are_no_growth_and_are_told() -> None:
    books: tuple[Kind, str] = ("slab", LISTS)
    found = grown(looks(books, 192, (0, 0), (25, 0), (74, 0)), OPERATIONS)
    (one,) = found.grown
    assert (one.bookkeeping, one.charged, one.uncharged) == (True, 0, 0)
    assert (found.bytes, found.uncharged) == (one.bytes, 0)
    uneven = grown(looks(books, 192, (0, 0), (25, 0), (40, 0)), OPERATIONS)
    assert uneven.unsettled == []


def left(*kinds: tuple[float, float]) -> Memory:
    """Memory of kinds of so many bytes, and of which such a share is charged."""
    return Memory(
        operations=256,
        least=0.02,
        grown=[
            Grown(kind="slab", what="x", objects=1, bytes=size, charged=share, more=[256, 768])
            for size, share in kinds
        ],
    )


@pytest.mark.parametrize(
    ("kinds", "verdict", "uncharged"),
    [
        ([], "nothing", 0),
        ([(384, 1.0)], "charged", 0),
        # However small its share is.
        ([(384, 1.0), (18, 0.0)], "growth", 18),
        ([(384, 1.0), (40, 0.0)], "growth", 40),
        ([(64, 0.5)], "growth", 32),
    ],
)
def test_growth_is_what_no_container_pays_for(
    kinds: list[tuple[float, float]], verdict: str, uncharged: float
) -> None:
    found = left(*kinds)
    assert (found.verdict, found.uncharged) == (verdict, uncharged)
    assert found.bytes == sum(size for size, _ in kinds)


class Words:
    """Memory that has these words at these addresses, and is zero elsewhere."""

    def __init__(self, words: dict[int, int]) -> None:
        self._words = words

    def read(self, address: int, size: int) -> bytes:
        memory = bytearray(size)
        for at, word in self._words.items():
            if address - 8 < at < address + size:
                whole = word.to_bytes(8, "little")
                first, last = max(at, address), min(at + 8, address + size)
                memory[first - address : last - address] = whole[first - at : last - at]
        return bytes(memory)

    def read_u64(self, address: int) -> int:
        return int.from_bytes(self.read(address, 8), "little")


def stocks_of(words: dict[int, int]) -> Stocks:
    stocks = object.__new__(Stocks)
    stocks._kernel = cast(Kernel, SimpleNamespace(prog=Words(words)))
    return stocks


@pytest.mark.parametrize("key", [0, 0x1234_5678_9ABC_DEF0])
# In one page, over three, and with a word that lies in two.
@pytest.mark.parametrize("apart", [64, 4096, 4096 - 20])
def test_free_objects_that_a_cpu_keeps_are_counted(key: int, apart: int) -> None:
    base, place = 0xFFFF_8880_0000_0000, 16
    cache = Cache("any", 48, 64, None, key, place)
    order = [base, base + 2 * apart, base + apart]
    words = {}
    for at, following in zip(order, [*order[1:], 0], strict=True):
        turned = int.from_bytes((at + place).to_bytes(8, "little"), "big")
        words[at + place] = following ^ (key ^ turned if key else 0)
    stocks = stocks_of(words)
    assert stocks._listed(cache, base) == 3
    assert stocks._listed(cache, 0) == 0


def test_a_list_in_a_circle_has_an_end() -> None:
    stocks = stocks_of({0x1000: 0x1000})
    assert stocks._listed(Cache("any", 8, 8, None, 0, 0), 0x1000) > 1000


@pytest.mark.parametrize(
    ("name", "processes", "step"),
    [
        # Enough of all processes; a window where that is less; none that has to know how many.
        ("signal", 8, 32),
        ("signal", 64, 4),
        ("netns", 8, 4),
        ("overlay/copy-up", 8, 0),
        ("hold/file", 8, 0),
    ],
)
def test_a_step_is_as_short_as_can_be(name: str, processes: int, step: int) -> None:
    (workload,) = workloads.select([name])
    assert workload.step(processes) == step


def test_a_program_of_ones_own_has_none() -> None:
    (workload,) = workloads.select(["signal"])
    assert not workload.model_copy(update={"source": None}).step(8)
    assert not workload.model_copy(update={"source": Path(__file__)}).step(8)


def test_host_and_guest_agree_on_looks_and_on_how_long_they_take() -> None:
    header = (workloads.DIRECTORY / "harness" / "barrier.h").read_text()
    numbers = {name: int(value) for name, value in re.findall(r"#define (\w+) (\d+)", header)}
    assert numbers["LOOKS"] == after._LOOKS
    asleep = numbers["WINDOWS_END_SECONDS"] + numbers["LOOKS"] * numbers["SETTLE_SECONDS"]
    assert asleep + 10 <= LOOKS_TAKE


class Machine:
    """A guest that is held for a look each time that it goes on, and ends after so many."""

    def __init__(self, folder: Path, looks: int, says: str = "") -> None:
        self._left, self._says = looks, says
        self.look, self.recording = folder / "recording.look", folder / "recording"
        self.recording.touch()
        self.seen: list[str] = []

    def reported(self, word: str) -> str | None:
        return "" if word == self._says and not self._left else None

    def wait_until(self, condition: Callable[[], bool]) -> None:
        assert not self.recording.exists()
        if not condition() and self._left:
            self._left -= 1
            self.look.touch()
        if not condition():
            raise EnvironmentProblem("the guest is gone")


@pytest.fixture
def around(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., Memory | PartywallError]:
    """What is found in a guest with so many looks, of objects that are twice as many each time."""
    monkeypatch.setattr(after.Looks, "_reading", lambda self: (None, None))

    def run(number: int, counts: tuple[int, ...] = (0, 256, 768), says: str = "") -> Any:
        there = iter(looks(DENTRY, 192, *((one, one) for one in counts)))
        monkeypatch.setattr(after, "totals", lambda *_: next(there))
        machine = Machine(tmp_path, number, says)
        found = after.Looks(cast(Guest, machine), cast(Any, None)).around(
            machine.recording, OPERATIONS, "round 0 over"
        )
        assert not machine.look.exists()
        return found

    return run


def test_a_guest_is_looked_at_three_times(around: Callable[..., Any]) -> None:
    found = around(3)
    assert isinstance(found, Memory)
    assert [(one.what, one.objects) for one in found.grown] == [("dentry", 1)]


def test_a_guest_that_ends_meanwhile_is_said(around: Callable[..., Any]) -> None:
    found = around(2)
    assert isinstance(found, EnvironmentProblem)
    assert found.message == "the guest is gone"


def test_an_operation_that_fails_meanwhile_is_no_end_of_the_guest(
    around: Callable[..., Any],
) -> None:
    found = around(1, says="round 0 over")
    assert isinstance(found, PartywallError)
    assert not isinstance(found, EnvironmentProblem)


def test_what_can_not_be_read_is_said_and_the_guest_goes_on(around: Callable[..., Any]) -> None:
    found = around(3, counts=())
    assert isinstance(found, PartywallError)
    assert not isinstance(found, EnvironmentProblem)
    assert "memory could not be read: StopIteration" in found.message


DENTRIES = Grown(kind="slab", what="dentry", objects=2, bytes=384, charged=1, more=[512, 1536])
NAMES = Memory(
    operations=256,
    least=0.004,
    grown=[
        DENTRIES,
        Grown(kind="slab", what="kmalloc-192", objects=0.1, bytes=18, charged=0, more=[26, 78]),
    ],
)
NOTHING = Memory(operations=256, least=0.004, grown=[])
BOOKS = Memory(
    operations=256,
    least=0.004,
    grown=[
        DENTRIES,
        Grown(
            kind="slab",
            what=LISTS,
            objects=0.1,
            bytes=18,
            charged=0,
            bookkeeping=True,
            more=[26, 78],
        ),
    ],
)


def rising(size: float, *, charged: bool = False) -> Memory:
    """Memory of which one kind, of so many bytes at most, is not settled."""
    one = Unsettled(kind="slab", what="kmalloc-64", charged=charged, bytes=size, more=[0, 512])
    return NOTHING.model_copy(update={"unsettled": [one]})


def workload(memory: Memory | None) -> WorkloadResult:
    return builders.isolated().model_copy(update={"memory": memory})


def shown(*found: WorkloadResult, width: int = 80, **what: Any) -> str:
    file = io.StringIO()
    profile = profiles.load(profiles.DEFAULT)
    told = terminal.Shown(**what)
    terminal.render(builders.result(*found), Console(file=file, width=width), profile, told)
    return file.getvalue()


@pytest.mark.parametrize(
    ("memory", "said"),
    [
        (None, "?"),
        (NOTHING, "-"),
        # A number is of what nobody pays for, and of nothing else.
        (NAMES, "18.0 growth"),
        (BOOKS, "charged"),
        (left((64, 0.5), (36, 1.0)), "32.0 growth"),
        (rising(64), "?"),
        (rising(64, charged=True), "?"),
    ],
)
def test_the_summary_says_how_much_stays_and_who_pays(memory: Memory | None, said: str) -> None:
    assert report.brief(workload(memory)) == said
    held = builders.held()
    one = workload(memory).model_copy(update={"held": held})
    rows = [" ".join(row.split()) for row in shown(one).splitlines()]
    assert [row for row in rows if row.endswith(f"% isolated {said} 13.2 ms")]


def test_a_row_with_all_three_kinds_fits_into_80_columns() -> None:
    one = builders.signal().model_copy(
        update={"workload": "negative", "variant": "unique", "memory": NAMES}
    )
    row = next(row for row in shown(one).splitlines() if row.startswith("negative"))
    assert "negative/unique" in row
    assert row.endswith("18.0 growth      ?")


def test_the_report_says_what_stays_and_what_tells_more() -> None:
    text = " ".join(shown(workload(NAMES)).split())
    assert "leaves 402 bytes behind, 18.0 bytes of them charged to no container" in text
    assert "384 2.00 100% dentry" in text
    assert "18.0 0.10 0% kmalloc-192" in text
    assert "partywall growth -w overlay/access tells who made it" in text
    paid = " ".join(shown(workload(left((384, 1.0)))).split())
    assert "leaves 384 bytes behind, charged" in paid
    said = " ".join(shown(workload(NOTHING)).split())
    assert "nothing is left behind that is more than 16.4 bytes an operation, or 0.0040 obj" in said
    books = " ".join(shown(workload(BOOKS)).split())
    assert "402 bytes behind, charged, 18.0 bytes for the books" in books
    assert f"18.0 0.10 with it {LISTS}" in books
    assert "left behind" not in shown(workload(None))


def test_what_is_not_settled_is_said_with_its_steps() -> None:
    text = " ".join(shown(workload(rising(64))).split())
    assert "each operation may leave 64.0 bytes behind that rise unevenly" in text
    assert "<64.0 ? 0% kmalloc-64 not settled: 0 and 512 more" in text
    assert "nothing is left behind" not in text


def test_of_many_workloads_what_stays_is_said_in_a_row() -> None:
    text = " ".join(shown(*[workload(NAMES)] * 3).split())
    assert text.count("leaves 402 bytes behind") == 3
    assert "kmalloc-192" not in text


def test_of_many_kinds_some_are_shown() -> None:
    many = NAMES.model_copy(update={"grown": NAMES.grown * 5})
    assert "4 more kinds" in shown(workload(many))
    assert shown(workload(many), everything=True).count("dentry") == 5


def test_ktap_has_a_line_of_each_kind_and_fails_what_nobody_pays_for() -> None:
    result = builders.result(workload(NAMES))
    text = ktap.render(result, 100.0)
    assert "# overlay/access 8x1: memory: leaves 402 bytes behind, 18.0 bytes of them" in text
    assert "# overlay/access 8x1: waits: not measured" in text
    assert "not ok" not in text
    failed = ktap.render(result, 100.0, fail_growth=17)
    assert "# limit 17 bytes/op that nobody is charged for" in failed
    assert "  # kmalloc-192: 18.0 bytes charged to nobody\n" in failed
    assert "  not ok 1 kmalloc-192 left behind\n" in failed
    assert "not ok 1 overlay/access 8x1\n" in failed
    assert "dentry left" not in failed
    assert "not ok" not in ktap.render(result, 100.0, fail_growth=18)
    assert "memory: none" in ktap.render(builders.result(workload(NOTHING)), 100.0)
    assert "memory: not measured" in ktap.render(builders.result(workload(None)), 100.0)


def test_ktap_says_what_is_not_settled_and_passes_no_limit_that_it_could_be_over() -> None:
    result = builders.result(workload(rising(64)))
    told = "kmalloc-64 64.0 bytes at most, charged to nobody"
    assert f"# overlay/access 8x1: memory: not settled: {told}\n" in ktap.render(result, 100.0)
    failed = ktap.render(result, 100.0, fail_growth=63)
    assert f"  not ok 1 memory is not settled: {told}\n" in failed
    assert "\nnot ok 1 overlay/access 8x1\n" in failed
    assert "not ok" not in ktap.render(result, 100.0, fail_growth=64)


@pytest.mark.parametrize(("limit", "broken"), [(17, True), (18, False), (None, False)])
def test_a_limit_is_held_against_what_nobody_pays_for(limit: float | None, broken: bool) -> None:
    result = builders.result(workload(NOTHING), workload(NAMES))
    assert Limits(inf, growth=limit).broken_by(result) is broken


def test_books_of_who_is_charged_break_no_limit() -> None:
    assert not Limits(inf, growth=17).broken_by(builders.result(workload(BOOKS)))


def test_what_was_not_looked_at_passes_no_limit() -> None:
    result = builders.result(workload(NAMES), workload(None))
    with pytest.raises(UsageProblem, match="what overlay/access leaves behind"):
        Limits(inf, growth=1000).broken_by(result)
    assert not Limits(inf).broken_by(result)
    # Whatever is known to be over it is.
    assert Limits(inf, growth=17).broken_by(result)
    unknown = ktap.render(builders.result(workload(None)), 100.0, fail_growth=17)
    assert "  1..1\n  not ok 1 memory was not measured\n" in unknown
    assert "\nnot ok 1 overlay/access 8x1\n" in unknown
    assert "not ok 1 waits not measured\n" in ktap.render(result, 100.0, 5.0)


def test_what_is_not_settled_passes_no_limit_that_it_could_be_over() -> None:
    result = builders.result(workload(rising(64)))
    with pytest.raises(UsageProblem, match=r"is not settled: kmalloc-64 64\.0 bytes at most"):
        Limits(inf, growth=63).broken_by(result)
    assert not Limits(inf, growth=64).broken_by(result)
    paid = builders.result(workload(rising(64, charged=True)))
    assert not Limits(inf, growth=20).broken_by(paid)


def test_what_looks_can_not_tell_passes_no_limit() -> None:
    result = builders.result(workload(NOTHING))
    with pytest.raises(UsageProblem, match=r"is not known below 16\.4 bytes an operation"):
        Limits(inf, growth=16).broken_by(result)
    assert "not ok 1 memory is not known below 16.4" in ktap.render(result, 100.0, fail_growth=16)


@pytest.mark.parametrize(
    ("name", "limit", "why"),
    [
        ("overlay/copy-up", 1000, "what overlay/copy-up leaves behind in memory can't be looked"),
        # 32 operations of all containers, and then twice as many: one object in eight.
        ("netns", 511, "what netns leaves behind in memory is not known below 512 bytes"),
        ("signal", 81, r"what signal leaves behind in memory is not known below 81\.9 bytes"),
        ("netns", 512, None),
        ("signal", None, None),
    ],
)
def test_a_limit_that_can_not_be_held_is_refused_before_anything_runs(
    name: str, limit: float | None, why: str | None
) -> None:
    chosen = workloads.select([name])
    limits = Limits(inf, growth=limit)
    with nullcontext() if why is None else pytest.raises(UsageProblem, match=why):
        limits.check(chosen, None)


def test_the_commands_refuse_it_too() -> None:
    for command in ("check", "growth"):
        status, out, err = commands.run(command, "-w", "signal", "--fail-growth", "1")
        assert (status, out) == (2, "")
        assert err.startswith("partywall: what signal leaves behind in memory is not known below")
        assert len(err.splitlines()) == 2


def test_it_is_saved_and_read_again_and_older_results_have_none(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    result = builders.result(workload(NAMES))
    path.write_text(document.dump(result))
    assert store.load(path) == result
    old = json.loads(document.dump(result))
    del old["workloads"][0]["memory"]
    path.write_text(json.dumps(old))
    assert store.load(path).workloads[0].memory is None


HALF = Memory(
    operations=256,
    least=0.02,
    grown=[
        Grown(kind="slab", what="dentry", objects=1, bytes=192, charged=1, more=[256, 768]),
        Grown(kind="pages", what="page tables", objects=0.1, bytes=410, charged=0, more=[26, 78]),
    ],
)


def pair(before: Memory | None, after: Memory | None) -> tuple[Result, Result]:
    return builders.result(workload(before)), builders.result(workload(after))


def test_what_stays_on_either_kernel_stands_side_by_side() -> None:
    found = compare(*pair(NAMES, HALF))
    (one,) = found.workloads
    assert one.left is not None
    assert list(one.left.kinds) == ["page tables", "dentry", "kmalloc-192"]
    assert (one.left.all.before, one.left.all.after) == (402, 602)
    assert (one.left.uncharged.before, one.left.uncharged.after) == (18, 410)
    file = io.StringIO()
    comparisons.render(found, Console(file=file, width=80))
    said = " ".join(file.getvalue().split())
    assert "384 -> 192 dentry 18.0 -> 0 kmalloc-192 18.0 -> 410 of all, charged to no" in said


@pytest.mark.parametrize("pair_of", [(None, NAMES), (NAMES, None), (NOTHING, NOTHING)])
def test_where_nothing_stays_or_nobody_looked_nothing_is_said(
    pair_of: tuple[Memory | None, Memory | None],
) -> None:
    found = compare(*pair(*pair_of))
    assert (found.workloads[0].left is None) is (None in pair_of)
    file = io.StringIO()
    comparisons.render(found, Console(file=file, width=80))
    assert "left" not in file.getvalue()


def test_what_stays_and_did_not_before_is_a_regression() -> None:
    found = diff(*pair(NAMES, HALF), Tolerance())
    assert [(one.how, one.what, one.name, one.regression) for one in found.findings] == [
        ("appeared", "memory", "page tables", True),
        ("grew", "memory", "charged to no container", True),
        ("shrank", "memory", "dentry", False),
        ("went", "memory", "kmalloc-192", False),
    ]


def test_what_nobody_pays_for_any_more_is_a_regression_though_it_is_no_more() -> None:
    unpaid = NAMES.model_copy(
        update={"grown": [one.model_copy(update={"charged": 0.0}) for one in NAMES.grown]}
    )
    found = diff(*pair(NAMES, unpaid), Tolerance())
    assert [(one.how, one.name, one.regression) for one in found.findings] == [
        ("grew", "charged to no container", True)
    ]


@pytest.mark.parametrize("pair_of", [(None, NAMES), (NAMES, None)])
def test_what_one_result_alone_has_is_said_to_be_left_out(
    pair_of: tuple[Memory | None, Memory | None],
) -> None:
    found = diff(*pair(*pair_of), Tolerance())
    assert found.left_out == "memory: measured in one of the results alone"
    assert diff(*pair(NAMES, NAMES), Tolerance()).left_out is None
    rises = diff(*pair(NAMES, rising(64)), Tolerance()).left_out
    assert rises == "memory that is not settled: overlay/access"
    slight = NAMES.model_copy(
        update={"grown": [one.model_copy(update={"bytes": one.bytes + 8}) for one in NAMES.grown]}
    )
    assert diff(*pair(NAMES, slight), Tolerance()).findings == []


@pytest.mark.parametrize(
    ("before", "after", "how"),
    [(10, 16, "grew"), (10, 14, None), (10, 4, "shrank"), (0.1, 0.9, None), (1, 2.1, "grew")],
)
def test_a_lock_that_is_held_asleep_for_longer_is_a_regression(
    before: float, after: float, how: str | None
) -> None:
    sides = (
        builders.result(
            workload(None).model_copy(update={"held": builders.held(ms * 1e6, tried=0.0)})
        )
        for ms in (before, after)
    )
    found = [(one.how, one.what, one.name) for one in diff(*sides, Tolerance()).findings]
    assert found == ([] if how is None else [(how, "held", "rtnl_mutex")])
