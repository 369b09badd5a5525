# SPDX-License-Identifier: GPL-2.0-or-later
"""Overlays: the same comes of every operation as on stock, and nothing is left of a mount."""

from __future__ import annotations

import base64
import gzip
import re
from collections.abc import Callable

import pytest
from machine import Job, Ran, slabs

Boot = Callable[[str, Job], Ran]
Alarms = Callable[[str, Ran], list[str]]

# The guest's line is slow, so what the battery says goes over it packed.
BATTERY = """\
battery >/tmp/said
echo "status $?"
gzip -c /tmp/said | base64
"""

# What must never be let through, by kind, user, object and operation.
REFUSED = {
    "plain user secret read": "EACCES",
    "plain user secret r": "EACCES",
    "plain user secret write": "EACCES",
    "plain user secret truncate": "EACCES",
    "plain user open write": "EACCES",
    "plain user open chmod": "EPERM",
    "plain user open chown": "EPERM",
    "plain user open setxattr": "EACCES",
    "plain user dir create_in": "EACCES",
    "plain user dir tmpfile_in": "EACCES",
    "plain user open trusted": "EPERM",
    "plain member user read": "EACCES",
    "plain member private list": "EACCES",
    "plain member private file_in": "EACCES",
    "plain acl-user secret read": "EACCES",
    "plain capable secret write": "EACCES",
    "plain capable open chown": "EPERM",
    "plain nested-root secret read": "EACCES",
    "plain nested-root open chown": "EINVAL",
    "plain nested-root dir create_in": "EACCES",
    "readonly root open write": "EROFS",
    "remounted root open write": "EROFS",
    "nested user secret read": "EACCES",
    "idmapped user secret read": "EACCES",
    "userns user secret read": "EACCES",
    "userns root open trusted": "EPERM",
}


@pytest.fixture(scope="session")
def said(boot: Boot) -> Callable[[str], list[str]]:
    """What the battery says on the kernel of a name."""
    known: dict[str, list[str]] = {}

    def get(name: str) -> list[str]:
        if name not in known:
            job = Job({"1-battery": BATTERY}, ["battery"], modules=["overlay"], timeout=900)
            ran = boot(name, job)
            assert ran.ended, ran.end
            assert ran.alarms() == []
            output = ran.output("1-battery")
            status, _, packed = output.partition("\n")
            lines = gzip.decompress(base64.b64decode(packed)).decode().splitlines()
            assert status.strip() == "status 0", [one for one in lines if "BROKEN" in one]
            known[name] = lines
        return known[name]

    return get


def test_every_operation_ends_as_on_the_stock_kernel(said: Callable[[str], list[str]]) -> None:
    stock, ours = said("stock"), said("partywall")
    assert len(stock) > 100_000
    assert [pair for pair in zip(stock, ours, strict=True) if pair[0] != pair[1]] == []


@pytest.mark.parametrize("name", ["stock", "partywall"])
def test_nobody_gets_what_he_must_not(said: Callable[[str], list[str]], name: str) -> None:
    lines = said(name)
    assert [line for line in lines if line.startswith(("ESCAPED", "BROKEN"))] == []
    found = {}
    for line in lines:
        words = line.split(" ", 4)
        if len(words) == 5:
            found.setdefault(" ".join(words[:4]), words[4])
    assert {key: found.get(key) for key in REFUSED} == REFUSED


# LKRG follows these functions by name. Of the two overrides with which overlayfs creates
# a file only one is reverted, for which it makes up where the third one returns.
FOLLOW = """\
mount -t tracefs tracing /sys/kernel/tracing
mkdir -p /tmp/lower /tmp/upper /tmp/work /tmp/merged
echo low >/tmp/lower/low
mount -t overlay overlay -o lowerdir=/tmp/lower,upperdir=/tmp/upper,workdir=/tmp/work /tmp/merged
cd /sys/kernel/tracing
echo 'p:lkrg/override override_creds' >kprobe_events
echo 'p:lkrg/revert revert_creds' >>kprobe_events
echo 'r:lkrg/shown overlay:ovl_dentry_init_reval' >>kprobe_events
echo 1 >events/lkrg/enable
echo 1 >/tmp/merged/file
mkdir /tmp/merged/dir
mknod /tmp/merged/fifo p
ln -s file /tmp/merged/link
ln /tmp/merged/file /tmp/merged/hard
echo more >>/tmp/merged/low
mv /tmp/merged/file /tmp/merged/dir/
cat /tmp/merged/low /tmp/merged/dir/file
rm -r /tmp/merged/dir /tmp/merged/fifo
echo 0 >events/lkrg/enable
grep -v '^#' trace
"""


@pytest.mark.parametrize("name", ["stock", "partywall"])
def test_the_depth_of_overrides_is_what_lkrg_makes_of_it(boot: Boot, name: str) -> None:
    ran = boot(name, Job({"1-follow": FOLLOW}, modules=["overlay"]))
    assert ran.ended, ran.end
    events = re.findall(r"-(\d+) .*: (override|revert|shown): \(", ran.output("1-follow"))
    depth: dict[str, int] = {}
    for task, event in events:
        known = depth.get(task, 0)
        if event == "shown":
            depth[task] = 1 if known == 2 else known
        else:
            depth[task] = known + (1 if event == "override" else -1)
        assert depth[task] >= 0, f"task {task} reverts what it has not overridden"
    assert set(depth.values()) == {0}
    counts = {event: sum(one == event for _, one in events) for event in ("override", "shown")}
    # Each file that is made is shown once and overridden for twice.
    assert counts["shown"] >= 4, counts
    assert sum(event == "revert" for _, event in events) < counts["override"]


CACHES = ("cred", "ovl_inode", "filp")


def worked(ran: Ran, task: str) -> None:
    """The stress program did what it is for."""
    assert ran.ended, ran.end
    assert ran.status(task) == 0, ran.output(task)[-2000:]
    done = {
        what: int(n)
        for n, what in re.findall(r"(\d+) (operations|mounts|asynchronous|kills)", ran.output(task))
    }
    assert done["operations"] > 2000, done
    assert done["mounts"] > 20, done
    assert done["asynchronous"] > 50, done
    assert done["kills"] > 20, done


def test_mounts_under_load_leave_no_credentials(boot: Boot) -> None:
    tasks = {"1-warm": "mounts 5", "2-before": slabs(*CACHES)}
    tasks |= {"3-many": "mounts 60", "4-after": slabs(*CACHES)}
    ran = boot("partywall", Job(tasks, ["mounts"], modules=["overlay"], timeout=400))
    worked(ran, "3-many")
    assert ran.alarms() == []
    before, after = ran.slabs("2-before"), ran.slabs("4-after")
    # A slab that a processor works on counts as full.
    for cache in CACHES:
        assert after[cache] <= before[cache] + 150, (cache, before, after)


@pytest.mark.soak
@pytest.mark.parametrize("variant", ["debug", "kcsan"])
def test_mounts_under_load_with_sanitizers(boot: Boot, alarms: Alarms, variant: str) -> None:
    job = Job({"1-mounts": "mounts 60"}, ["mounts"], modules=["overlay"], memory=4096, timeout=600)
    ran = boot(f"partywall+lean+net+{variant}", job)
    worked(ran, "1-mounts")
    assert alarms(f"partywall+lean+net+{variant}", ran) == []
