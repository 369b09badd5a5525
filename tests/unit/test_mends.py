# SPDX-License-Identifier: GPL-2.0-or-later
"""What mends a wall is named where its code was seen, and only there."""

from __future__ import annotations

import re

import builders
import pytest

from partywall.advice import mends
from partywall.advice.mends import Advice, Mend
from partywall.kernels import series
from partywall.results.lines import Line, LineObject
from partywall.results.result import Result, WorkloadResult

ALL = mends.load()


def named(result: Result, workload: WorkloadResult) -> list[str]:
    """Patches, releases or words of what mends the workload's walls."""
    advice = Advice(result)
    found = [mend for wall in workload.walls for mend in advice.on([wall], workload)]
    return [one for mend in found for one in (mend.patches or [mend.release or mend.says])]


@pytest.mark.parametrize("mend", ALL, ids=lambda mend: f"{mend.object} {mend.by}")
def test_a_mend_says_what_it_is(mend: Mend) -> None:
    assert mend.source
    assert mend.words.isprintable()
    assert bool(mend.patches) == (mend.by == "series")
    assert bool(mend.release) == (mend.by == "upstream")
    assert mend.commit is None or re.fullmatch(r"[0-9a-f]{12,40}", mend.commit)
    # One that names no code could be right for one kernel and wrong for the next.
    # How containers are started is the same for any.
    named = mend.functions or mend.beside or mend.together or mend.gone
    # What was measured can be measured again.
    assert mend.saved is None or mend.saved.command.startswith("partywall ")
    assert named or mend.by == "none" or mend.option
    assert bool(mend.option) == (mend.by == "option")


def test_patches_of_the_series_are_there() -> None:
    there = {f"{patch.topic}/{patch.path.name[:4]}" for patch in series.read()}
    assert {name for mend in ALL for name in mend.patches} <= there


@pytest.mark.parametrize("mend", [m for m in ALL if m.gone], ids=lambda mend: mend.object)
def test_what_a_patch_takes_away_is_in_it(mend: Mend) -> None:
    texts = [
        patch.text
        for patch in series.read()
        if f"{patch.topic}/{patch.path.name[:4]}" in mend.patches
    ]
    assert any(re.search(rf"^-.*\b{mend.object}\b", text, re.MULTILINE) for text in texts)


def test_what_a_patch_brings_is_in_it() -> None:
    for mend in ALL:
        if mend.by == "series":
            texts = "".join(
                p.text for p in series.read() if p.name[: len(p.topic) + 5] in mend.patches
            )
            for name in mend.brings:
                assert re.search(rf"^\+.*\b{name}\b", texts, re.MULTILINE), name


def test_walls_of_debians_kernel_are_mended_by_the_series() -> None:
    signal = builders.signal()
    found = named(builders.result(signal), signal)
    assert set(found) == {"ucounts/0001", "apparmor/0001"}
    overlay = builders.false_sharing()
    assert named(builders.result(overlay), overlay) == ["6.13", "overlayfs/0001", "cred/0001"]


def test_what_containers_are_started_with_is_told_once_and_where_it_can_be() -> None:
    own = "references of its own"
    label = builders.signal().walls[0].object
    profile = label.model_copy(update={"name": "kmalloc-512: struct aa_profile"})
    line = builders.line(
        profile,
        2.0,
        fields=[builders.field("label.count.count.refcount", 0, atomics=2.0)],
        code=[builders.site("apparmor_task_kill", 0, "label.count.count.refcount")],
    )
    for more, expected in (
        ({}, True),
        ({"confinement": "docker (an AppArmor profile each)"}, False),
        ({"confinement": "docker (no AppArmor)"}, False),
        ({"confinement": "unconfined"}, False),
        ({"scope": "within"}, False),
    ):
        workload = builders.workload("signal", [line], **more)
        assert (own in named(builders.result(workload), workload)) == expected, more
    page = _line("struct page of file layer/bin/sh (ext4)", ["_refcount"], "filemap_map_pages")
    shared = builders.workload("fork", [page])
    assert any("an image" in word for word in _words(shared))
    assert not any(
        "an image" in word for word in _words(shared.model_copy(update={"layers": "own"}))
    )


def test_a_wall_of_other_code_is_not_mended() -> None:
    (wall,) = builders.false_sharing().walls
    other = [site.model_copy(update={"function": "get_task_cred"}) for site in wall.code]
    workload = builders.workload("w", [wall.model_copy(update={"code": other})])
    assert named(builders.result(workload), workload) == []


def test_a_kernel_as_new_as_the_release_has_it() -> None:
    overlay = builders.false_sharing()
    result = builders.result(overlay)
    kernel = result.kernel.model_copy(update={"release": "6.13.0-rc1"})
    newer = result.model_copy(update={"kernel": kernel})
    assert "6.13" not in named(newer, newer.workloads[0])
    odd = result.model_copy(update={"kernel": result.kernel.model_copy(update={"release": "next"})})
    assert "6.13" in named(odd, odd.workloads[0])


def test_patches_say_for_which_kernel_they_are_made() -> None:
    result = builders.result(builders.signal())
    for release, expected in (("6.12.117+deb12", False), ("7.3.4+deb13", True)):
        kernel = result.kernel.model_copy(update={"release": release})
        at_hand = result.model_copy(update={"kernel": kernel})
        (workload,) = at_hand.workloads
        found = [m for wall in workload.walls for m in Advice(at_hand).on([wall], workload)]
        told = {mend.patches[0]: "made for Linux 6.12" in mend.words for mend in found}
        # 7.3 has a series of its own, and in that what charges a signal.
        assert told == {"ucounts/0001": False, "apparmor/0001": expected}


def _words(workload: WorkloadResult) -> list[str]:
    advice = Advice(builders.result(workload))
    return [mend.words for wall in workload.walls for mend in advice.on([wall], workload)]


def _line(name: str, fields: list[str], function: str) -> Line:
    what = LineObject(kind="slab", name=name, address="0xff110000", size=64, line=0)
    return builders.line(
        what,
        3.0,
        fields=[builders.field(path, 8 * at) for at, path in enumerate(fields)],
        code=[builders.site(function, 0, fields[0])],
    )


def test_fields_have_to_lie_together() -> None:
    for fields, expected in (
        (["i_data.i_mmap_rwsem.count", "i_data.i_mmap.rb_root.rb_node"], ["6.9"]),
        (["i_data.i_mmap_rwsem.count", "i_data.a_ops"], []),
    ):
        line = _line("struct inode", fields, "down_write")
        workload = builders.workload("fork", [line])
        result = builders.result(workload)
        old = result.model_copy(
            update={"kernel": result.kernel.model_copy(update={"release": "6.1.0-9"})}
        )
        assert named(old, old.workloads[0]) == expected


def test_what_a_mend_brings_says_that_it_is_there() -> None:
    root = _line("struct kernfs_root", ["kernfs_rwsem.count"], "kernfs_add_one")
    workload = builders.workload("netns", [root])
    assert "kernfs/0005" in named(builders.result(workload), workload)
    there = builders.workload("fork", [_line("x", ["y"], "kernfs_add_new")])
    assert named(builders.result(workload, there), workload) == []


def test_a_mend_may_be_for_what_is_done_in_one_workload() -> None:
    lock = _line("pcpu_lock", ["pcpu_lock"], "pcpu_alloc_noprof")
    fork = builders.workload("fork", [lock])
    netns = builders.workload("netns", [lock, _line("x", ["y"], "setup_net")])
    result = builders.result(fork, netns)
    assert named(result, fork) == []
    assert named(result, netns) == ["netns/0005"]
