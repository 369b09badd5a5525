# SPDX-License-Identifier: GPL-2.0-or-later
"""Who uses what of a type, and the grouping of its fields that costs least."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import builders
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from partywall.analyse.layout import LineOfType, layout, patterns
from partywall.analyse.sharing import Together, split_saves
from partywall.analyse.transfers import Parties, transfers
from partywall.core.errors import UsageProblem
from partywall.core.topology import Topology
from partywall.report import layout as view
from partywall.results import document, store
from partywall.results.fields import Visits
from partywall.results.lines import Line, LineObject
from partywall.results.reading import read
from partywall.results.result import Result

FUZZ = settings(max_examples=200, deadline=None)

A, B, C = 1, 2, 4


def visits(n: float, read: int, written: int) -> Visits:
    return Visits(read=read, written=written, visits=n)


def line(*used: Visits, start: int = 0, fields: Any = None, **more: Any) -> Line:
    """A line of a struct cred; its first three words are the fields a, b and c."""
    cred = LineObject(
        kind="slab",
        name="cred: struct cred",
        type="struct cred",
        address="0xff11000004a71e40",
        size=176,
        line=start,
    )
    named = [builders.field(name, 8 * at, reads=1.0) for at, name in enumerate("abc")]
    return builders.line(cred, 3.0, visits=list(used), fields=fields or named, **more)


def only(*lines: Line, **more: Any) -> LineOfType:
    """The one line that a layout has."""
    found = layout([builders.result(builders.workload("dup", list(lines), **more))], "cred")
    ((one,),) = [kernel.lines for kernel in found.kernels]
    return one


def together(*rows: tuple[int, int, int], parties: int = 1) -> Together:
    """Visits (number, mask read, mask written) that each of the parties makes."""
    party = np.repeat(np.arange(parties), len(rows))
    number, read, written = np.tile(np.array(rows, np.int64).reshape(-1, 3), (parties, 1)).T
    return Together(party, read, written, number)


def test_visits_alike_are_one_and_a_word_that_is_written_is_not_read() -> None:
    made = together((10, A | B, B), (30, A, B), (5, 0, 0), parties=2)
    assert patterns(made, 20) == [visits(4.0, A, B)]


def test_seldom_visits_are_two_that_use_all_of_their_words() -> None:
    many = [(1000, word, 0) for word in range(1, 9)]
    made = together(*many, (3, 16, 0), (2, 32, 0), (4, 0, 64), (1, 64, 128))
    found = patterns(made, 1)
    assert len(found) == 10
    assert found[8:] == [visits(5.0, 0, 64 | 128), visits(5.0, 16 | 32, 0)]


def test_what_is_only_read_gets_a_line_of_its_own() -> None:
    one = only(line(visits(8.0, 0, A), visits(4.0, B, 0)))
    assert (one.now, one.then, one.groups) == (12.0, 8.0, [["a"], ["b"]])


def test_what_is_used_together_stays_together() -> None:
    one = only(line(visits(2.0, A, A | B), visits(3.0, C, 0)))
    assert (one.now, one.then, one.groups) == (5.0, 2.0, [["a", "b"], ["c"]])


def test_reads_cost_no_more_than_others_write() -> None:
    used = line(visits(1.0, 0, A), visits(100.0, B, 0))
    assert only(used).now == 1.0 + 7.0
    assert only(used, at=64).now == 1.0 + 63.0
    few = used.model_copy(update={"sharing": "some", "writers": [1], "readers": [2, 5]})
    assert only(few, at=64).now == 1.0 + 2.0


def test_groupings_are_those_of_all_workloads_and_of_all_objects() -> None:
    first, second = line(visits(8.0, 0, A)), line(visits(4.0, B, 0), address="0xff11000004a72e40")
    one = only(first, second)
    # Nobody writes what the second reads: no line of the two has anything to gain.
    assert (one.objects, one.now, one.then, len(one.groups)) == (2, 8.0, 8.0, 1)
    results = builders.result(
        builders.workload("dup", [first]),
        builders.workload("pipe", [line(visits(2.0, 0, A), visits(1.0, B, 0))]),
    )
    (kernel,) = layout([results], "cred").kernels
    assert (kernel.lines[0].now, kernel.lines[0].then) == (11.0, 10.0)
    assert kernel.lines[0].fields[0].workloads == ["dup", "pipe"]
    # One object that two workloads use.
    assert kernel.lines[0].objects == 1


def test_of_what_was_measured_twice_the_newest_counts() -> None:
    old, new = (
        builders.result(builders.workload("dup", [line(visits(n, 0, A))])) for n in (5.0, 6.0)
    )
    (kernel,) = layout([old, new], "cred").kernels
    assert kernel.lines[0].now == 6.0


def test_what_was_measured_otherwise_counts_beside() -> None:
    def one(n: float, cpus: int, confinement: str) -> Result:
        shape = Topology(containers=8, cpus=cpus)
        walls = [line(visits(n, 0, A))]
        return builders.result(
            builders.workload("dup", walls, topology=shape, confinement=confinement)
        )

    ones = [one(5.0, 1, "docker"), one(6.0, 1, "unconfined"), one(7.0, 2, "docker")]
    (kernel,) = layout(ones, "cred").kernels
    assert kernel.lines[0].now == 18.0
    assert kernel.workloads == ["dup 8 x 1, docker", "dup 8 x 1, unconfined", "dup 8 x 2"]


def test_fields_are_told_by_their_place_in_the_object() -> None:
    one = only(line(visits(1.0, 0, A), start=-0x20))
    assert (one.line, [field.offset for field in one.fields]) == (-0x20, [-0x20, -0x18, -0x10])


def test_without_visits_no_grouping_is_told() -> None:
    one = only(line())
    assert (one.now, one.then, one.groups, one.unknown) == (None, None, [], ["dup"])
    assert one.fields[0].reads == 1.0


@pytest.mark.parametrize(
    ("name", "says"),
    [("crd", "did you mean struct cred"), ("page", "such as struct cred"), ("", "such as")],
)
def test_an_unknown_type_is_refused_with_what_there_is(name: str, says: str) -> None:
    result = builders.result(builders.workload("dup", [line()]))
    with pytest.raises(UsageProblem, match="no line of a type") as caught:
        layout([result], name)
    assert says in str(caught.value.hint)


@pytest.mark.parametrize("name", ["ucounts", "struct ucounts", " struct  ucounts "])
def test_a_type_is_known_with_and_without_struct(name: str) -> None:
    found = layout([builders.result(builders.signal())], name)
    assert (found.type, len(found.kernels[0].lines)) == ("struct ucounts", 2)


Rows = st.lists(
    st.tuples(st.integers(1, 50), st.integers(0, 15), st.integers(0, 15)), min_size=1, max_size=8
)


def groupings(words: list[int]) -> Iterator[list[int]]:
    """All ways to share words out among lines, as masks."""
    if not words:
        yield []
        return
    first, *rest = words
    for count in range(len(rest) + 1):
        for beside in combinations(rest, count):
            for others in groupings([word for word in rest if word not in beside]):
                yield [first + sum(beside), *others]


@FUZZ
@given(Rows, st.integers(2, 5), st.integers(1, 3))
def test_of_containers_that_are_alike_it_is_as_the_verdict_has_it(
    rows: Any, containers: int, cpus: int
) -> None:
    parties = containers * cpus
    made = together(*rows, parties=parties)
    number = np.arange(parties)
    others, _ = Parties(number, np.zeros(parties, np.uint64), number // cpus).others()

    def cost(mask: int) -> float:
        wrote = (made.written & mask) != 0
        used = ~wrote & ((made.read & mask) != 0)
        reads, writes = np.zeros((2, 1, parties))
        np.add.at(writes[0], made.party[wrote], made.visits[wrote])
        np.add.at(reads[0], made.party[used], made.visits[used])
        return float(transfers(reads, writes, others)[0])

    fields = [builders.field(f"f{at}", 8 * at) for at in range(8)]
    shape = Topology(containers=containers, cpus=cpus)
    one = only(line(*patterns(made, 1), fields=fields), at=containers, topology=shape)
    used = int(np.bitwise_or.reduce(made.read | made.written))
    if used:
        words = [1 << at for at in range(8) if used >> at & 1]
        tried = [sum(map(cost, lines)) for lines in groupings(words)]
        assert one.now == pytest.approx(cost(used))
        assert one.then == pytest.approx(min(tried))
        assert one.then <= cost(used) - split_saves(made, words, others) + 1e-6


def test_each_cpu_of_a_container_pays_for_what_others_write() -> None:
    used = line(visits(1.0, 0, A), visits(100.0, B, 0))
    shape = Topology(containers=4, cpus=2)
    assert only(used, topology=shape).now == 1.0 + 6.0
    assert only(used, topology=shape, scope="within").now == 1.0 + 1.0
    alone = used.model_copy(update={"sharing": "some", "writers": [], "readers": []})
    assert only(alone, topology=shape).now == 1.0


def test_a_saved_result_keeps_visits_and_may_lack_them() -> None:
    result = builders.result(builders.workload("dup", [line(visits(8.0, 1, 2))]))
    text = document.dump(result)
    assert store.parse(text) == result
    older = json.loads(text)
    del older["workloads"][0]["walls"][0]["visits"]
    assert read(older).workloads[0].walls[0].visits == []


def printed(result: Result, *, everything: bool = False) -> str:
    file = io.StringIO()
    view.render(layout([result], "cred"), Console(file=file, width=80), everything=everything)
    return file.getvalue()


def test_it_is_printed_in_80_columns() -> None:
    fields = [builders.field(f"member_{n}_with_a_long_{'long_' * n}name", 8 * n) for n in range(8)]
    walls = [line(visits(8.0, 0, A), visits(4.0, B, 0), fields=fields), line(start=64)]
    said = printed(builders.result(builders.workload("dup", walls)))
    assert max(map(len, said.splitlines())) <= 80
    assert "in 2 lines: 8.00 transfers/op, now 12.0" in said
    assert "not known which fields are used together: dup" in said


def test_lines_beyond_the_worst_are_shown_if_all_are_asked_for() -> None:
    walls = [line(start=64 * at, address=f"{0xFF11000004A71E40 + 64 * at:#x}") for at in range(10)]
    result = builders.result(builders.workload("dup", walls))
    assert "2 more lines, 6.00 transfers/op" in printed(result)
    assert "line +0x240" not in printed(result)
    assert "line +0x240" in printed(result, everything=True)
