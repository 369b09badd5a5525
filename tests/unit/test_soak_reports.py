# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernels' reports are read as the kernel writes them, whole ones and damaged ones."""

from __future__ import annotations

import pytest
import reports
from reports import Frame

RACE = """\
[   36.046901] ==================================================================
[   36.046907] BUG: KCSAN: data-race in __d_lookup_rcu / negative_isolate

[   36.046915] write to 0xff110000062b0ce8 of 4 bytes by task 175 on cpu 3:
[   36.046921]  negative_isolate+0x90/0x110
[   36.046925]  __list_lru_walk_one+0x105/0x2a0
[   36.046929]  do_syscall_64+0x82/0x190

[   36.046935] read to 0xff110000062b0ce8 of 4 bytes by task 178 on cpu 1:
[   36.046941]  __d_lookup_rcu+0x5c/0x240
[   36.046945]  ovl_permission+0x1d/0x120 [overlay]

[   36.046950] value changed: 0x00480000 -> 0x00080000

[   36.046955] Reported by Kernel Concurrency Sanitizer on:
[   36.046961] CPU: 1 UID: 0 PID: 178 Comm: missing Tainted: G        W          6.12.1-kcsan #1
[   36.046970] Hardware name: QEMU Standard PC (i440FX + PIIX, 1996)
[   36.046977] ==================================================================
[   36.050000] hrtimer: interrupt took 90300 ns
"""

UNKNOWN_ORIGIN = """\
[   40.1] BUG: KCSAN: data-race in ovl_copy_creds+0x31/0x80 [overlay]
[   40.2]
[   40.3] race at unknown origin, with read-write (marked) to 0xff11 of 8 bytes by task 9 on cpu 0:
[   40.4]  ovl_copy_creds+0x31/0x80 [overlay]
[   40.5]  ovl_permission+0x1d/0x120 [overlay]
[   40.6]
[   40.7] value changed: 0x0000000000000001 -> 0x0000000000000002
[   40.8] ==================================================================
"""

KASAN = """\
[   30.10] ==================================================================
[   30.11] BUG: KASAN: slab-use-after-free in kernfs_put+0x20/0x50
[   30.12] Read of size 4 at addr ff110000062b0ce8 by task netns-fails/1213
[   30.13]
[   30.14] CPU: 2 UID: 0 PID: 1213 Comm: netns-fails Not tainted 6.12.1-debug #1
[   30.15] Call Trace:
[   30.16]  <TASK>
[   30.17]  kasan_report+0xc6/0x100
[   30.18] ==================================================================
[   30.19] Disabling lock debugging due to kernel taint
"""

LOCKDEP = """\
[   31.10] ======================================================
[   31.11] WARNING: possible circular locking dependency detected
[   31.12] 6.12.1-debug #1 Not tainted
[   31.13] ------------------------------------------------------
[   31.14] netns/{task} is trying to acquire lock:
[   31.15] ff1100001{task} (&root->kernfs_rwsem){{++++}}-{{3:3}}, at: kernfs_add_one+0x3{task}/0x110
[   31.16]
[   31.17] but task is already holding lock:
[   31.18] ff1100002{task} (rtnl_mutex){{+.+.}}-{{3:3}}, at: {second}+0x2{task}/0x60
"""

WARNING = """\
[   30.3] WARNING: CPU: 1 PID: 77 at fs/dcache.c:{line} d_lru_add+0x{line}/0x120
[   30.4] Modules linked in: overlay
[   30.5] CPU: 1 UID: 0 PID: 77 Comm: iou-wrk-75 Not tainted 6.12.1 #1
[   30.6] ---[ end trace 0000000000000000 ]---
[   30.7] hrtimer: interrupt took 90300 ns
"""

LEAKS = """\
unreferenced object 0xff110000062b0c00 (size 192):
  comm "mounts", pid 1234, jiffies 4294901234
  hex dump (first 32 bytes):
    01 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00  ................
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00  ................
  backtrace (crc 3c4a1d2e):
    kmem_cache_alloc_noprof+0x2a0/0x330
    prepare_creds+0x27/0x3c0
    ovl_copy_creds+0x31/0x80 [overlay]
    ovl_permission+0x1d/0x120 [overlay]
unreferenced object 0xff110000062b1c00 (size 64):
  comm "init", pid 1, jiffies 4294890000
  hex dump (first 32 bytes):
    01 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00  ................
  backtrace (crc 0):
"""


def test_a_race_names_the_innermost_frame_of_both_accesses() -> None:
    (report,) = reports.of_console(RACE)
    assert report.kind == "KCSAN"
    assert report.title == "BUG: KCSAN: data-race in __d_lookup_rcu / negative_isolate"
    assert report.accesses == (
        Frame("negative_isolate", 0x90, 0x110),
        Frame("__d_lookup_rcu", 0x5C, 0x240),
    )
    assert report.comm == "missing"
    assert "hrtimer" not in report.text


def test_a_race_of_unknown_origin_names_one_in_a_module() -> None:
    (report,) = reports.of_console(UNKNOWN_ORIGIN)
    assert report.accesses == (Frame("ovl_copy_creds", 0x31, 0x80, "overlay"),)
    assert str(report.accesses[0]) == "ovl_copy_creds+0x31/0x80 [overlay]"
    assert report.comm is None


@pytest.mark.parametrize(
    "kind",
    [
        "read",
        "read (marked)",
        "write (reordered)",
        "read-write (marked, reordered)",
        "assert no writes",
        "assert no accesses (reordered)",
    ],
)
@pytest.mark.parametrize("who", ["task 178", "interrupt"])
def test_every_kind_of_access_is_known(kind: str, who: str) -> None:
    text = RACE.replace("read to", f"{kind} to").replace("task 178", who)
    assert len(reports.of_console(text)[0].accesses) == 2


def test_what_others_say_between_the_lines_of_a_race_is_no_frame() -> None:
    text = RACE.replace(
        "[   36.046921]", "[   36.046920] overlayfs: upperdir is in-use\n[   36.046921]"
    )
    assert reports.of_console(text)[0].accesses == reports.of_console(RACE)[0].accesses


def test_who_speaks_may_stand_behind_the_time() -> None:
    text = RACE.replace("] ", "][  T178] ")
    (report,) = reports.of_console(text)
    assert report.accesses == reports.of_console(RACE)[0].accesses
    assert report.comm == "missing"


@pytest.mark.parametrize(
    ("end", "count"),
    [("[   36.046921]", 1), ("[   36.046941]", 2), ("[   36.046935]", 1), ("[   36.046915]", 0)],
)
def test_a_race_that_is_cut_off_lacks_a_frame_or_an_access(end: str, count: int) -> None:
    (report,) = reports.of_console(RACE[: RACE.index(end)])
    assert len(report.accesses) == count
    if count:
        assert report.accesses[-1] is None or end == "[   36.046935]"


def test_other_reports_say_their_kind_and_task() -> None:
    console = KASAN + LOCKDEP.format(task=12, second="rtnl_lock") + WARNING.format(line=10)
    found = [(one.kind, one.comm) for one in reports.of_console(console)]
    assert found == [("KASAN", "netns-fails"), ("lockdep", "netns"), ("WARNING", "iou-wrk-75")]
    hang = "[  400.1] INFO: task kworker/u8:3:77 blocked for more than 300 seconds."
    (report,) = reports.of_console(hang)
    assert (report.kind, report.comm) == ("hang", "kworker/u8:3")


def test_an_alarm_is_shown_with_what_explains_it() -> None:
    first, second = reports.of_console(KASAN + WARNING.format(line=1))
    assert first.text.splitlines()[0].endswith("kernfs_put+0x20/0x50")
    assert first.text.splitlines()[-1].endswith("kasan_report+0xc6/0x100")
    assert second.text.splitlines()[-1].endswith("6.12.1 #1")
    endless = "[ 1.0] BUG: x\n" + "[ 1.1] y\n" * 1000
    assert len(reports.of_console(endless)[0].text.splitlines()) < 200
    assert reports.of_console("[ 1.0] hrtimer: interrupt took 90300 ns\n") == []


def test_one_fault_has_one_signature_whatever_its_numbers() -> None:
    def of(text: str) -> str:
        (report,) = reports.of_console(text)
        return report.signature

    assert of(WARNING.format(line=10)) == of(WARNING.format(line=37))
    assert of(WARNING.format(line=10)) != of(WARNING.format(line=10).replace("d_lru_add", "dput"))
    assert of(KASAN) == of(KASAN.replace("kernfs_put+0x20/0x50", "kernfs_put.part.0+0x8/0x51"))
    one = of(LOCKDEP.format(task=12, second="rtnl_lock"))
    assert one == of(LOCKDEP.format(task=99, second="rtnl_lock"))
    assert one != of(LOCKDEP.format(task=12, second="__rtnl_newlink"))


def test_leaks_are_listed_with_who_asked_for_the_memory() -> None:
    first, second = reports.of_kmemleak(LEAKS)
    assert (first.kind, first.comm) == ("kmemleak", "mounts")
    assert first.title == "unreferenced object of 192 bytes"
    assert first.signature.split()[-3:] == ["prepare_creds", "ovl_copy_creds", "ovl_permission"]
    assert (second.comm, second.signature) == ("init", "unreferenced object of N bytes")
    assert reports.of_kmemleak("") == []
    cut = LEAKS[: LEAKS.index("    prepare_creds")]
    assert reports.of_kmemleak(cut)[0].signature == "unreferenced object of N bytes"
