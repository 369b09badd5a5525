# SPDX-License-Identifier: GPL-2.0-or-later
"""Network namespaces: walls that stand on the stock kernel and not on ours."""

from __future__ import annotations

import pytest
from compared import Compared, moved

NETNS = ("stock", "partywall", "-w", "netns")


@pytest.mark.parametrize("name", ["sysctl_lock", "proc_inum_ida"])
def test_namespaces_do_not_meet_in_their_registries(compared: Compared, name: str) -> None:
    (change,) = compared(*NETNS).workloads
    before, after = moved(change, name)
    assert before > 100
    assert after < before / 100


@pytest.mark.parametrize("name", ["kernfs_idr_lock", "iattr_mutex"])
def test_under_rtnl_they_take_no_locks_of_sysfs_either(compared: Compared, name: str) -> None:
    """Whoever has RTNL meets nobody there: such a line moves once in each hold of that."""
    (change,) = compared(*NETNS).workloads
    before, after = moved(change, name)
    assert (before, after) == (pytest.approx(1, abs=0.5), 0)
    held = [lock for lock in change.locks if name in lock.object]
    assert sum(lock.instructions.before for lock in held) > 10_000
    assert sum(lock.instructions.after for lock in held) == 0


def test_rtnl_is_held_for_less(compared: Compared) -> None:
    (change,) = compared(*NETNS).workloads
    named = [lock.instructions for lock in change.locks if lock.object.startswith("rtnl_mutex")]
    # Its wait_lock is another one.
    held = max(named, key=lambda one: one.before)
    assert held.after < 0.85 * held.before


def test_namespaces_wait_for_no_lock_of_all_of_proc(compared: Compared) -> None:
    # On stock it may lie in a line with another lock, and is then part of that wall.
    (change,) = compared(*NETNS).workloads
    held = {lock.object: lock.instructions for lock in change.locks}
    for name in ("proc_subdir_lock", "sysctl_lock", "kernfs_idr_lock"):
        assert held[name].before > 10_000
        assert held[name].after == 0


def test_namespaces_keep_netlink_s_kernel_sockets_to_themselves(compared: Compared) -> None:
    (change,) = compared(*NETNS).workloads
    before, after = moved(change, "netlink_table")
    assert before > 20
    assert after == 0


def test_who_listens_to_all_is_no_concern_of_new_namespaces(compared: Compared) -> None:
    (change,) = compared("stock", "partywall", "-w", "netns/heard").workloads
    # On stock each event takes the lock.  Ours takes it for sockets of users alone.
    held = {lock.object: lock.instructions for lock in change.locks}["nl_table_lock"]
    assert held.before > 400
    assert held.after < held.before / 10


# Where memory comes from and goes back to: of that more moves the more die at a time on another
# CPU, which is chance.
MEMORY = ("*node_data[", "kmem_cache_node: ", "pcpu_chunk", "pcpu_block_md", "pcpu_create_chunk")


def test_namespaces_meet_a_twelfth_as_often_but_where_memory_is_from(compared: Compared) -> None:
    (change,) = compared(*NETNS).workloads
    named = [one for one in change.objects if any(name in one.object for name in MEMORY)]
    before = sum(one.transfers.before for one in named)
    after = sum(one.transfers.after for one in named)
    whole = change.wall_transfers
    assert before > 100
    assert after < before / 2
    assert whole.after - after < (whole.before - before) / 12
    # Each namespace hashes anew to a table of locks, has one, and then its end has that.
    assert moved(change, "sysctl_set_locks")[1] < 8
    assert change.instructions.after < change.instructions.before
