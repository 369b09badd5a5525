# SPDX-License-Identifier: GPL-2.0-or-later
"""Signals and forks, and all of Debian's: walls that stand on the stock kernel and not on ours."""

from __future__ import annotations

import pytest
from compared import Compared, moved, signals_charge_a_user

SIGNAL = ("stock", "partywall", "-w", "signal")


@pytest.mark.parametrize("shape", [(), ("-n", "1", "-c", "8")])
def test_a_signal_meets_no_neighbour(compared: Compared, shape: tuple[str, ...]) -> None:
    (change,) = compared(*SIGNAL, *shape).workloads
    assert change.walls.before >= 2
    assert signals_charge_a_user(moved(change, "init_ucounts")[0])
    assert moved(change, "aa_profile")[0] == pytest.approx(2, rel=0.01)
    assert [one.object for one in change.objects if one.transfers.after] == []


@pytest.mark.parametrize("shape", [(), ("-n", "1", "-c", "8")])
def test_a_signal_takes_nothing_from_the_slab_and_costs_no_more(
    compared: Compared, shape: tuple[str, ...]
) -> None:
    (change,) = compared(*SIGNAL, *shape).workloads
    # A page that a process first touches in the window takes one besides, now and then.
    assert len(change.calls) == 2
    for call in change.calls:
        assert 1 <= call.calls.before < 1.02
        assert call.calls.after < 0.02
    assert change.instructions.after < change.instructions.before


def test_a_timers_signal_takes_nothing_from_the_slab_either(compared: Compared) -> None:
    # It is taken in an interrupt, which is no part of an operation; who gets the signal
    # frees it. What RCU frees now and then is in whichever operation.
    (change,) = compared("stock", "partywall", "-w", "signal/alarm").workloads
    (freed,) = (one.calls for one in change.calls if one.function == "kmem_cache_free")
    assert freed.before == pytest.approx(1, abs=0.1)
    assert freed.after == pytest.approx(0, abs=0.1)


def test_who_looks_at_a_status_takes_no_line_of_who_signals(compared: Compared) -> None:
    # All processors charge one user: each has stock for him.
    arguments = ("-w", "signal/watched", "-n", "1", "-c", "8")
    (change,) = compared("stock", "partywall", *arguments).workloads
    assert moved(change, "struct ucounts")[0] >= 1.98
    for name in ("init_ucounts", "struct ucounts", "ucounts_stock"):
        assert moved(change, name)[1] == 0, name


def test_forks_meet_in_no_count_of_a_users_processes(compared: Compared) -> None:
    (change,) = compared("stock", "partywall", "-w", "fork").workloads
    before, after = moved(change, "init_ucounts")
    assert before > 1
    assert after == 0
    assert change.instructions.relative is not None
    assert change.instructions.relative <= 0.01


@pytest.mark.slow
def test_what_is_built_here_costs_what_debians_own_costs(compared: Compared) -> None:
    # Who meets a neighbour may have to spin, and who meets whom is chance: what
    # costs more with seven of them, but not with one, costs the same. Look-ups of
    # new names in one directory try again whenever another was added, with any number
    # of neighbours; so they say nothing here. Nor do network namespaces: in how many
    # batches they die, each of which costs, is the emulator's choice.
    few = {
        change.title: change.instructions.relative
        for change in compared("debian", "stock", "-n", "2", "-c", "1").workloads
    }
    for change in compared("debian", "stock").workloads:
        if change.title in ("negative/unique", "netns"):
            continue
        found = [change.instructions.relative, few.get(change.title)]
        least = min((one for one in found if one is not None), key=abs)
        assert least == pytest.approx(0, abs=0.02), (change.title, found)


def is_allocated(name: str) -> bool:
    """Tell an object of a slab, of pages or of a file from a variable of the kernel's own."""
    return ":" in name or " of " in name


@pytest.mark.slow
def test_what_is_built_here_has_the_walls_of_debians_own(compared: Compared) -> None:
    for change in compared("debian", "stock").workloads:
        before, after = change.wall_transfers.before, change.wall_transfers.after
        assert after == pytest.approx(before, rel=0.3, abs=0.01), change.title
        if change.title in ("signal", "overlay/access"):
            for one in change.objects:
                if "init_ucounts" in one.object:
                    assert signals_charge_a_user(one.transfers.before)
                    assert signals_charge_a_user(one.transfers.after)
                    continue
                assert one.transfers.after == pytest.approx(one.transfers.before, rel=0.01)
                assert one.lines.after == one.lines.before
            continue
        # Small variables share lines as the linker lays them, and a line is one wall, by the
        # name of one: together they move alike, and so does the largest object of others.
        laid, others = [], []
        for one in change.objects:
            (others if is_allocated(one.object) else laid).append(one.transfers)
        for some in (laid, others[:1]):
            total = sum(one.before for one in some)
            assert sum(one.after for one in some) == pytest.approx(total, rel=0.4, abs=0.01)
