# SPDX-License-Identifier: GPL-2.0-or-later
"""Overlays: walls that stand on the stock kernel and not on ours."""

from __future__ import annotations

import math

import pytest
from compared import Both, Compared, moved

OVERLAY = ("stock", "partywall", "-w", "overlay/*", "-n", "1", "-c", "4")


LOOKS = ("overlay/access", "overlay/access-missing", "overlay/stat-volume")


def test_looks_at_an_overlay_meet_no_others_in_a_credential_and_cost_no_more(both: Both) -> None:
    name = "cred: struct cred"
    words = [word for title in LOOKS for word in ("-w", title)]
    comparison, ours = both("stock", "partywall", *words, "-n", "1", "-c", "4")
    assert {change.title for change in comparison.workloads} == set(LOOKS)
    for change in comparison.workloads:
        assert moved(change, name)[0] > 1, change.title
        if change.title == "overlay/access":
            assert change.instructions.after <= change.instructions.before
    for each in ours.workloads:
        assert all(w.transfers <= 0.1 for w in each.walls if w.object.name == name), each.title


def test_buffers_of_apparmor_have_their_name_on_kernels_of_our_own(compared: Compared) -> None:
    # By local variables, of which debug information says where they are.
    words = ("stock", "partywall", "-w", "overlay/open", "-n", "8", "-c", "1")
    (change,) = compared(*words).workloads
    assert min(moved(change, "union aa_buffer")) > 1
    others = ("struct list_head", "struct aa_local_cache")
    assert [one.object for one in change.objects if one.object.endswith(others)] == []


@pytest.mark.slow
def test_no_operation_of_an_overlay_meets_others_in_a_credential(both: Both) -> None:
    name = "cred: struct cred"
    comparison, ours = both(*OVERLAY)
    before = {change.title: moved(change, name)[0] for change in comparison.workloads}
    assert len(before) == 31
    # In RCU walk, on CPUs that did nothing else on the mount before.
    assert before["overlay/access-missing"] > 1
    assert before["overlay/stat-volume"] > 1
    # All but what asks nothing of the layers but their device and inode.
    assert sum(transfers > 1 for transfers in before.values()) >= 25, before
    # mkdir() has credentials of its own made, in memory that another CPU may have
    # freed: any number of lines, each moved once or twice in the whole run. One that
    # all of them count is a line that moves in every operation.
    after = {
        each.title: max((w.transfers for w in each.walls if w.object.name == name), default=0.0)
        for each in ours.workloads
    }
    assert set(after) == set(before)
    assert {title: most for title, most in after.items() if most > 0.1} == {}


# What the journal and the page cache do beside the others differs from run to run,
# and so does how long one of four waits for the counters that statfs() sums up.
STEADY = frozenset(f"overlay/{name}" for name in "access getxattr listxattr readlink".split())

# They ask for the mounter's credentials once and no layer of a permission check. To find
# the processor's own is some instructions more than to find the only ones.
ASKS_ONCE = frozenset({"overlay/read", "overlay/write"})


# Of CPUs of one container each adds names to one directory, and who looks one up tries again
# whenever another was added: how often is the emulator's choice. Those of other containers don't.
TRIES_AGAIN = "overlay/lookup"
APART = ("stock", "partywall", "-w", TRIES_AGAIN, "-n", "4", "-c", "1")


@pytest.mark.slow
def test_no_operation_of_an_overlay_costs_more(compared: Compared) -> None:
    changes = {change.title: change.instructions for change in compared(*OVERLAY).workloads}
    assert set(changes) > STEADY | ASKS_ONCE | {TRIES_AGAIN}
    (apart,) = compared(*APART).workloads
    changes[TRIES_AGAIN] = apart.instructions
    dearer = {}
    for title, change in changes.items():
        more = change.after - change.before
        allowed = 0.03 * change.before
        if title in STEADY:
            allowed = 0
        elif title in ASKS_ONCE:
            # Each operation has a whole number of them. Beside that is what happens once in
            # hundreds of operations: of 4,000 writes ten to twelve take a new object.
            more, allowed = math.floor(more), 8
        if more > allowed:
            dearer[title] = (change.before, change.after)
    assert dearer == {}
