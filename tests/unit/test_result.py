# SPDX-License-Identifier: GPL-2.0-or-later
"""What a result says of itself: figures as measured and as judged."""

from __future__ import annotations

import json
from typing import Any

import builders
import pytest

from partywall.core.topology import Topology
from partywall.results import document, store
from partywall.results.counts import Sums
from partywall.results.left import Left
from partywall.results.reading import read
from partywall.results.result import WorkloadResult

WALL = builders.signal().walls[0]


def rarely_written() -> WorkloadResult:
    """A wall at 64 containers that moves next to nothing among the eight that ran."""
    wall = WALL.model_copy(update={"transfers": 0.004, "transfers_at": 0.032})
    return builders.workload("read", [wall], at=64, between=0.004, between_at=0.032)


def test_figures_are_those_at_the_number_of_containers_that_was_asked_for() -> None:
    found = rarely_written()
    assert found.judged == found.walls[0].judged == builders.result(found).worst == 0.032
    assert found.wall_transfers == 0.004
    assert found.sharers == 64
    assert not found.isolated
    assert not found.model_copy(update={"walls": []}).isolated


def test_a_result_that_was_not_asked_for_a_number_is_for_those_that_ran() -> None:
    found = builders.signal()
    assert found.judged == found.wall_transfers == pytest.approx(6.031)
    # Of the object with the most, which has two lines.
    assert builders.result(found).worst == pytest.approx(4.031)
    assert found.sharers == 8


def test_within_one_container_the_cpus_are_counted() -> None:
    found = builders.workload("w", [], scope="within", topology=Topology(containers=1, cpus=4))
    assert found.sharers == 4


def test_a_result_of_lines_alone_has_their_objects_as_walls() -> None:
    found = builders.signal().found
    assert [(wall.name, wall.lines) for wall in found] == [
        ("init_ucounts", 2),
        ("kmalloc-256: struct aa_label", 1),
    ]
    assert sum(wall.judged for wall in found) == pytest.approx(6.031)


@pytest.mark.parametrize(
    ("handed_over", "rest", "verdict"),
    [(0.004, 0.005, "isolated"), (0.25, 0.0, "no wall"), (0.006, 0.006, "no wall")],
)
def test_isolated_is_what_moves_no_more_than_the_threshold_all_in_all(
    handed_over: float, rest: float, verdict: str
) -> None:
    sums = Sums(walls=0.0, handed_over=handed_over, rest=rest)
    found = builders.workload("w", [], sums=sums)
    assert found.verdict == verdict
    assert found.isolated == (verdict == "isolated")
    assert builders.workload("w", [WALL], sums=sums).verdict == "walls"


@pytest.mark.parametrize(
    ("moved", "rest", "verdict"),
    [(0.004, 0.005, "isolated"), (0.006, 0.006, "no wall")],
)
def test_isolated_is_said_only_of_what_has_none_in_deferred_work_either(
    moved: float, rest: float, verdict: str
) -> None:
    sums = Sums(walls=0.0, handed_over=moved, rest=0.0)
    late = builders.put_off([], handed_over=0.0, rest=rest)
    assert builders.workload("w", [], sums=sums, deferred=late).verdict == verdict


def test_isolated_is_not_said_where_something_is_moved_that_nobody_was_seen_to_leave() -> None:
    nothing = Sums(walls=0.0, handed_over=0.0, rest=0.0)
    for context, verdict in (("work item", "isolated in its calls"), ("scheduler", "isolated")):
        line = builders.moved_in(context)
        found = builders.workload("w", [], sums=nothing, background=[line])
        assert found.verdict == verdict
        assert found.isolated_itself
        assert found.unseen == ([line] if context == "work item" else [])


def left(
    times: float, done: float, by: str = "__fput", containers: int = 8, *, late: bool = False
) -> Left:
    """Callbacks of RCU that `close()` left, or that they left in turn."""
    where = {"context": "RCU callback of close", "by": by, "late": late}
    return Left(**where, containers=containers, times=times, done=done)


def quiet(*found: Left, later: float = 0.0, softirqs: float = 0.0) -> WorkloadResult:
    """A workload of 1,000 operations that moves nothing at once."""
    nothing = Sums(walls=0.0, handed_over=0.0, rest=0.0)
    late = builders.put_off([], rest=later + softirqs)
    late = late.model_copy(update={"left": list(found), "later": later})
    return builders.workload("w", [], sums=nothing, operations=1000, deferred=late)


def test_isolated_is_not_said_of_what_is_done_after_the_windows_unless_enough_was_seen() -> None:
    assert quiet().verdict == quiet(left(1.0, 1.0)).verdict == "isolated"
    none = quiet(left(1.0, 0.001))
    assert none.verdict == "isolated in its calls"
    assert none.isolated_itself
    assert not none.isolated
    assert [one.later for one in none.unsampled] == [0.999]
    # One item may stand for what many operations put on its list.
    assert quiet(left(0.001, 0.0)).verdict == "isolated in its calls"
    # Few, and almost all of them were done.
    assert quiet(left(0.02, 0.019)).verdict == "isolated"
    # What one container alone does moves nothing between two.
    assert quiet(left(1.0, 0.1, containers=3)).verdict == "isolated in its calls"
    assert quiet(left(1.0, 0.1, containers=4)).verdict == "isolated"
    # Each that leaves something needs a sample of its own.
    more = quiet(left(1.0, 0.5), left(1.0, 0.0, by="put_cred"), left(2.0, 0.0, by="free"))
    assert more.verdict == "isolated in its calls"
    assert [one.by for one in more.unsampled] == ["free", "put_cred"]


def test_what_was_done_in_the_windows_is_a_sample_of_what_was_left() -> None:
    # Of a tenth that was done, ten times what it moves is what all of it does.
    assert quiet(left(1.0, 0.1), later=0.0009).verdict == "isolated"
    assert quiet(left(1.0, 0.1), later=0.0011).verdict == "no wall"
    assert quiet(left(1.0, 0.1), later=0.0011).at_most == pytest.approx(0.011)
    assert quiet(left(1.0, 1.0), later=0.0011).verdict == "isolated"
    # All of it for the one of which the least was done; softirqs were all done.
    two = quiet(left(1.0, 0.1), left(1.0, 0.5, by="put_cred"), later=0.001, softirqs=0.005)
    assert two.at_most == pytest.approx(0.015)
    assert quiet(left(1.0, 0.1), softirqs=0.005).verdict == "isolated"
    # A quarter of what a quarter of them left.
    chain = quiet(left(1.0, 0.25), left(0.25, 0.0625, by="put_cred", late=True), later=0.002)
    assert chain.at_most == pytest.approx(0.032)
    assert chain.verdict == "no wall"
    # What is no sample is told, and nothing made of it.
    assert quiet(left(1.0, 0.0), later=0.0011).at_most == pytest.approx(0.0011)


def test_isolated_is_not_said_of_a_result_that_does_not_know_what_was_left() -> None:
    found = quiet()
    assert found.deferred is not None
    older = found.deferred.model_copy(update={"left": None})
    assert found.model_copy(update={"deferred": older}).verdict == "isolated in its calls"
    assert found.model_copy(update={"deferred": None}).verdict == "isolated in its calls"


def test_isolated_is_not_said_where_what_is_left_cannot_be_followed() -> None:
    nothing = Sums(walls=0.0, handed_over=0.0, rest=0.0)
    late = builders.put_off([])
    late = late.model_copy(
        update={"unfollowed": ["callbacks of RCU (no rcu_do_batch)"], "left": []}
    )
    found = builders.workload("w", [], sums=nothing, deferred=late)
    assert found.verdict == "isolated in its calls"


def test_the_verdict_is_written_and_follows_from_the_rest_when_read() -> None:
    whole = builders.result(builders.isolated(), builders.signal())
    data = whole.written()
    assert [one["verdict"] for one in data["workloads"]] == ["isolated", "walls"]
    data["workloads"][0]["verdict"] = "walls"
    assert read(data) == whole


def test_a_wall_of_deferred_work_is_one_and_counts_against_the_limit() -> None:
    nothing = Sums(walls=0.0, handed_over=0.0, rest=0.0)
    late = builders.put_off([builders.signal().walls[0]])
    found = builders.workload("w", [], sums=nothing, deferred=late)
    assert found.verdict == "walls"
    assert not found.found
    assert found.judged == 0
    assert builders.result(found).worst == late.sums.walls > 1
    assert builders.result(builders.workload("w", [], sums=nothing)).worst == 0


def test_deferred_work_is_read_again_and_a_result_without_it_says_so() -> None:
    late = builders.put_off([builders.signal().walls[0]])
    one = builders.signal().model_copy(update={"deferred": late})
    whole = builders.result(one)
    assert read(whole.written()) == whole
    written = whole.written()
    del written["workloads"][0]["deferred"]
    assert read(written).workloads[0].deferred is None


def test_of_a_document_no_more_than_one_workload_is_there_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written = builders.result(*[builders.signal() for _ in range(5)]).written()
    written["workloads"] = list(written["workloads"])
    left: list[int] = []
    checked = WorkloadResult.model_validate_json

    def check(*told: Any, **more: Any) -> WorkloadResult:
        left.append(len(written["workloads"]))
        return checked(*told, **more)

    monkeypatch.setattr(WorkloadResult, "model_validate_json", check)
    assert len(read(written).workloads) == 5
    assert left == [4, 3, 2, 1, 0]


def test_what_is_wrong_in_a_workload_is_said_with_its_number() -> None:
    whole = builders.result(*[builders.signal() for _ in range(3)])
    data = json.loads(document.dump(whole))
    data["workloads"][1]["walls"][0]["transfers"] = "many"
    with pytest.raises(
        document.DocumentError, match=r"workloads\[1\].walls\[0\].transfers: .*number"
    ):
        store.parse(json.dumps(data))


def test_a_result_without_sums_is_isolated_only_if_nothing_moves() -> None:
    assert builders.workload("w", [], between=0.004).verdict == "isolated"
    assert builders.workload("w", [], between=0.25).verdict == "no wall"
    within = {"scope": "within", "topology": Topology(containers=1, cpus=8)}
    assert builders.workload("w", [], within=0.25, **within).verdict == "no wall"
