# SPDX-License-Identifier: GPL-2.0-or-later
"""What walls cost at a number of containers, by object."""

from __future__ import annotations

import builders
import pytest

from partywall.model import profiles
from partywall.model.cost import cost
from partywall.model.queues import predict

PROFILE = profiles.load(profiles.DEFAULT)


def test_objects_share_what_is_waited() -> None:
    found = cost(builders.signal(), PROFILE, 64)
    assert set(found.waits) == {"init_ucounts", "kmalloc-256: struct aa_label"}
    # Two lines of one object, and one of another with as many transfers as each.
    assert found.waits["init_ucounts"] > found.waits["kmalloc-256: struct aa_label"] > 0
    assert 1 - sum(found.waits.values()) == pytest.approx(found.relative.usual, abs=0.05)
    assert (found.at, found.of, found.bound) == (64, "containers", False)


def test_it_is_what_the_model_predicts() -> None:
    (point,) = predict(builders.signal(), PROFILE, [16]).points
    assert cost(builders.signal(), PROFILE, 16).relative == point.relative


def test_a_lock_costs_what_its_object_costs() -> None:
    wall = builders.signal().walls[0]
    lock = builders.lock("struct aa_label", 3000, field="lock", address=wall.address)
    found = cost(builders.signal().model_copy(update={"locks": [lock]}), PROFILE, 64)
    assert found.waits[wall.object.name] == max(found.waits.values())
    assert set(found.waits) == {"init_ucounts", wall.object.name}


def test_no_more_containers_than_the_machine_has_cores_for() -> None:
    assert cost(builders.signal(), PROFILE, 1000).at == PROFILE.cores
    shape = builders.signal().topology.__class__(4, 8)
    wide = builders.signal().model_copy(update={"topology": shape})
    assert cost(wide, PROFILE, 64).at == PROFILE.cores // 8


def test_what_deferred_work_moves_costs_as_much_as_in_system_calls() -> None:
    own = builders.signal()
    walls = own.walls
    put_off = builders.workload(
        "w", [], deferred=builders.put_off(walls), operation=own.operation, between=0.02
    )
    called = own.model_copy(update={"between": sum(wall.transfers for wall in walls) + 0.02})
    late, found = cost(put_off, PROFILE, 64), cost(called, PROFILE, 64)
    assert late.relative == found.relative
    assert late.waits == found.waits
    assert not late.bound


def test_a_lock_in_deferred_work_costs_what_its_object_costs() -> None:
    wall = builders.signal().walls[0]
    lock = builders.lock("struct aa_label", 3000, field="lock", address=wall.address)
    late = builders.put_off(builders.signal().walls)
    found = cost(builders.workload("w", [], deferred=late, locks=[lock]), PROFILE, 64)
    assert set(found.waits) == {"init_ucounts", wall.object.name}


def test_what_is_isolated_costs_nothing() -> None:
    found = cost(builders.isolated(), PROFILE, 64)
    assert (found.relative.usual, found.waits) == (1.0, {})
