# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs on one image and on an image each are told apart, and compared where that is meant."""

from __future__ import annotations

import builders
import pytest

from partywall import workloads
from partywall.core.errors import UsageProblem
from partywall.core.topology import Layers, Topology
from partywall.guest import image
from partywall.results.compare import compare
from partywall.results.result import Result, WorkloadResult


def result(*found: WorkloadResult) -> Result:
    return builders.result(*found)


def fork(layers: Layers, **more: object) -> WorkloadResult:
    return builders.workload("fork", [], layers=layers, **more)


@pytest.mark.parametrize(("layers", "own"), [("shared", False), ("own", True)])
def test_the_guest_is_told_whose_the_image_is(layers: Layers, own: bool) -> None:
    (workload,) = workloads.select(["signal"])
    packed = image.job(workload, Topology(2, 1), confined=False, layers=layers)
    assert (b"job/own-layers\0" in packed) is own


def test_layers_are_shared_unless_told() -> None:
    (workload,) = workloads.select(["signal"])
    packed = image.job(workload, Topology(2, 1), confined=False)
    assert packed == image.job(workload, Topology(2, 1), confined=False, layers="shared")


def test_the_title_says_which_it_is() -> None:
    assert fork("shared").title == "fork"
    assert fork("own").title == "fork, own layers"
    assert fork("own", variant="x").title == "fork/x, own layers"


def test_of_two_results_with_both_like_is_compared_with_like() -> None:
    both = result(fork("shared", between=500.0), fork("own", between=200.0))
    compared = compare(both, both)
    assert [one.title for one in compared.workloads] == ["fork", "fork, own layers"]
    for one in compared.workloads:
        assert one.all_transfers.before == one.all_transfers.after


def test_what_one_image_costs_is_the_difference_between_two_results() -> None:
    compared = compare(result(fork("shared", between=500.0)), result(fork("own", between=200.0)))
    (one,) = compared.workloads
    assert one.title == "fork to fork, own layers"
    assert (one.all_transfers.before, one.all_transfers.after) == (500.0, 200.0)
    assert compared.alone == []


def test_other_workloads_are_not_compared_for_their_layers() -> None:
    with pytest.raises(UsageProblem, match="no workload in common"):
        compare(result(fork("shared")), result(builders.workload("signal", [], layers="own")))
