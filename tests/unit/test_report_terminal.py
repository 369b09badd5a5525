# SPDX-License-Identifier: GPL-2.0-or-later
"""The report at a terminal: everything is there, whole, at any width."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import builders
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from partywall.advice.most import Most, most
from partywall.core.errors import UsageProblem
from partywall.core.topology import Topology
from partywall.model import profiles
from partywall.report import blocks, detail, helps, terminal
from partywall.report.terminal import Shown
from partywall.results import store
from partywall.results.counts import Instructions, Passing, Sums
from partywall.results.left import Left
from partywall.results.lines import Deferred, Wall
from partywall.results.result import Result, WorkloadResult

PROFILE = profiles.load(profiles.DEFAULT)


def shown(result: Result, width: int = 80, *, colour: bool = False, **what: Any) -> str:
    """What lands in a file, or with ``colour`` on a terminal. ``what``: see `Shown`."""
    file = io.StringIO()
    console = Console(
        file=file,
        width=width,
        force_terminal=colour,
        color_system="standard" if colour else None,
        legacy_windows=False,
    )
    terminal.render(result, console, PROFILE, Shown(**what))
    return file.getvalue()


def squeezed(text: str) -> str:
    """The text without the blanks and line ends that folding puts in."""
    return "".join(text.split())


def names(workload: WorkloadResult) -> set[str]:
    """Every name that a reader must be able to copy out of the report."""
    found = {workload.title, *(call.function for call in workload.calls)}
    for wall in workload.walls:
        found |= {wall.object.name, wall.object.address}
        found |= {use.path for use in wall.fields}
        for site in wall.code:
            found |= {f"{site.function}+{site.offset:#x}", site.field, site.context}
            found |= {site.source or "", *site.inlined}
    for line in workload.background:
        found |= {line.object.name, *(site.function for site in line.code)}
    return found


@pytest.fixture
def result() -> Result:
    return builders.result(builders.signal(), builders.isolated(), builders.false_sharing())


@pytest.mark.parametrize("width", [40, 80, 100, 120, 200])
def test_no_row_is_wider_than_the_terminal(result: Result, width: int) -> None:
    everything = builders.result(*result.workloads, builders.many_walls())
    report = shown(everything, width, everything=True)
    assert max(cell_len(row) for row in report.splitlines()) <= min(width, blocks.WIDEST)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_every_name_is_whole(result: Result, width: int) -> None:
    everything = builders.result(*result.workloads, builders.many_walls())
    report = squeezed(shown(everything, width, everything=True))
    wanted = {name for workload in everything.workloads for name in names(workload)}
    assert [name for name in wanted if squeezed(name) not in report] == []
    assert everything.kernel.build_id in report


def test_a_long_workload_name_is_whole() -> None:
    name = "a-program-of-somebody-with-" + "many-" * 12 + "words"
    assert name in squeezed(shown(builders.result(builders.workload(name, []))))


def test_a_file_gets_plain_ascii(result: Result) -> None:
    report = shown(result)
    assert report.isascii()
    assert all(row.isprintable() for row in report.splitlines())


def test_colour_adds_no_meaning(result: Result) -> None:
    coloured = shown(result, colour=True)
    assert "\x1b[" in coloured
    assert Text.from_ansi(coloured).plain.split() == shown(result).split()


def test_the_summary_has_a_row_for_each_workload(result: Result) -> None:
    rows = [" ".join(row.split()) for row in shown(result).splitlines()]
    for words in (
        r"signal 8 x 1 2\d% \(1\d-[34]\d%\) 2 walls 6.03 \? \?",
        r"overlay/access 8 x 1 100% isolated \? \?",
        r"overlay/access-shared 1 x 8 \d% \(\d-\d+%\) 1 wall 12.0 \? \?",
    ):
        assert [row for row in rows if re.fullmatch(words, row)], words


def test_what_costs_most_comes_first_with_what_mends_it(result: Result) -> None:
    report = " ".join(shown(result).split())
    (signal,) = re.findall(r"mends it \(series.*?\) signal, 8 x 1 (.*?) overlay", report)
    assert re.search(r"\d+% 1 init_ucounts series ucounts/0001", signal)
    assert re.search(r"\d+% 2 kmalloc-256: struct aa_label series apparmor/0001", signal)
    assert "Linux 6.13: override_creds() without references" in report


def test_what_would_help_comes_before_that(result: Result) -> None:
    report = " ".join(shown(result).split())
    (told,) = re.findall(r"explain tells more\) (.*?) lost wall what costs most", report)
    # Two walls that are equally bad: one mend brings next to nothing.
    whole = r"(\d\.\d\d) the whole series"
    (signal,) = re.findall(rf"signal, 8 x 1 {whole} 1\.0\d series ucounts", told)
    assert float(signal) > 3
    (shared,) = re.findall(r"shared, 1 x 8 (\d+\.\d\d) series overlayfs or Linux 6.13", told)
    assert float(shared) > 3
    assert "overlay/access, 8 x 1" not in told


def test_what_bounds_a_workload_that_nothing_mends_is_said() -> None:
    unknown = builders.workload("w", [builders.named_wall("nobody_knows")])
    report = " ".join(shown(builders.result(unknown)).split())
    assert "w, 8 x 1 no mend is known that would help" in report
    assert re.search(r"x \d\.\d\d if nobody_knows were gone, which bounds it(?! then)", report)


def test_walls_that_hide_each_other_are_said_to_bound_it_together() -> None:
    walls = [
        builders.named_wall(name).model_copy(update={"address": hex(0xFFFF888000000000 + 4096 * n)})
        for n, name in enumerate(("nobody_a", "nobody_b"))
    ]
    report = " ".join(shown(builders.result(builders.workload("w", walls))).split())
    assert re.search(
        r"x \d\.\d\d if nobody_a and nobody_b were gone, the worst of what bounds it(?! then)",
        report,
    )


def test_of_many_workloads_each_has_a_row_of_what_would_help() -> None:
    many = [builders.signal().model_copy(update={"workload": name}) for name in "abcd"]
    lonely = builders.workload("w", [builders.named_wall("nobody_knows")])
    report = " ".join(shown(builders.result(*many, lonely)).split())
    for name in "abcd":
        assert re.search(rf"\d\.\d\d {name}, 8 x 1: the whole series ", report)
    assert "w, 8 x 1: no mend is known that would help; bound by nobody_knows" in report


def topics_of_netns() -> Most:
    """What helps network namespaces, the whole series left out; all together 99 times."""
    result = store.load(Path(__file__).parent / "saved" / "0.2.0-signal+netns.json.gz")
    (netns,) = (one for one in result.workloads if one.workload == "netns")
    found = most(result, netns, PROFILE)
    parts = [one for one in found.remedies if one.kind == "topic"]
    return replace(found, remedies=parts, together=99.0)


def test_in_a_row_of_many_the_whole_is_told_beside_the_best() -> None:
    times, words = helps.in_short(replace(topics_of_netns(), bound=("x",)))
    assert float(times) > 1
    assert "; 99.00 times with all that explain tells of" in words
    assert words.endswith("; then bound by x")


def test_a_name_in_a_row_of_many_moves_no_cursor() -> None:
    hostile = builders.workload("w", [builders.named_wall("ev\x1b[31mil\u202e")])
    report = shown(builders.result(*[hostile] * 4))
    assert all(row.isprintable() for row in report.splitlines())


def test_a_mend_that_other_walls_hide_is_known_all_the_same() -> None:
    signal = builders.signal()
    large = builders.named_wall("nobody_knows").model_copy(
        update={"transfers": 6000.0, "address": "0xffff888000100000"}
    )
    hidden = builders.workload("w", [*signal.walls, large])
    report = " ".join(shown(builders.result(hidden)).split())
    assert "no mend that is known brings anything by itself" in report
    assert "if nobody_knows were gone" in report


def test_together_is_at_most_if_one_of_them_is() -> None:
    found = topics_of_netns()
    assert any(one.at_most for one in found.remedies)
    told = dict(helps.rows(found))
    assert told["99.00"] == "all that explain tells of, together (at most)"


@pytest.mark.parametrize(("containers", "said"), [(4, True), (5, False)])
def test_few_containers_are_said_to_tell_little(containers: int, said: bool) -> None:
    few = builders.signal().model_copy(update={"topology": Topology(containers, 1)})
    words = "of fewer than 5 containers: what two share is taken as shared by all"
    assert (words in shown(builders.result(few))) == said
    # Where there is no wall nothing is taken for another.
    none = builders.isolated().model_copy(update={"topology": Topology(containers, 1)})
    assert words not in shown(builders.result(none))


def test_words_of_the_column_of_memory_are_told() -> None:
    report = shown(builders.result(builders.signal()))
    assert "?: not settled, or not looked at" in report
    assert "charged: containers pay" not in report


def test_an_upper_bound_is_said_to_be_one() -> None:
    lock = builders.lock("sysctl_lock", 50, slept=0.5)
    workload = builders.signal().model_copy(update={"locks": [lock]})
    assert re.search(r"8 x 1 +at most \d+%  ", shown(builders.result(workload)))
    assert not re.search(r"at most \d", shown(builders.result(builders.signal())))


def test_a_result_of_an_older_version_says_what_it_lacks(result: Result) -> None:
    told = {"lacks": ["locks", "names"], "measured_with": "partywall.result/1"}
    report = shown(result.model_copy(update=told))
    assert "locks, names: saved as partywall.result/1" in report
    assert "lacks" not in shown(result)


def test_five_workloads_fit_into_120_lines_however_many_walls(result: Result) -> None:
    locks = [builders.lock("kmalloc-256: struct kernfs_root", 900, field="kernfs_rwsem")]
    groups = [Passing(name=f"kmalloc-{n}", lines=n + 1, transfers=20.0 - n) for n in range(12)]
    large = builders.many_walls(500).model_copy(update={"locks": locks, "passing": groups})
    three = [large.model_copy(update={"workload": name}) for name in ("fork", "netns", "negative")]
    report = shown(builders.result(*result.workloads, *three))
    assert len(report.splitlines()) <= 120
    assert report.count("more objects") == 3


def test_numbers_of_walls_run_through_the_result_and_stay(result: Result) -> None:
    report = shown(result)
    for number, name in ((1, "init_ucounts"), (2, "kmalloc-256: struct aa_label"), (3, "cred")):
        assert re.search(rf"^ +{number} +[\d.]+  {name}", report, re.MULTILINE)
    only = shown(result, workloads=("overlay/access-shared",))
    assert "wall 3: 12.0 transfers/op on cred: struct cred" in only
    assert "init_ucounts" not in only


@pytest.mark.parametrize("name", ["overlay", "overlay/access-shared"])
def test_a_workload_is_shown_by_itself(result: Result, name: str) -> None:
    report = shown(result, workloads=(name,))
    assert "struct cred" in report
    assert "signal" not in report


def test_one_wall_is_told_in_full(result: Result) -> None:
    report = shown(result, wall=1)
    assert "wall 1: 4.03 transfers/op on init_ucounts" in report
    assert "mend: series ucounts/0001" in report
    assert "get_ucounts+0x9" in report
    assert "aa_label" not in report


def test_walls_that_a_function_uses_are_found(result: Result) -> None:
    assert "init_ucounts" in shown(result, function="dec_rlimit_put_ucounts")
    # Inline functions count, and who called a lock.
    assert "init_ucounts" in shown(result, function="atomic_long_add_return")
    assert "aa_label" not in shown(result, function="get_ucounts")


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ({"wall": 4}, "no wall 4"),
        ({"wall": 0}, "no wall 0"),
        ({"function": "nonesuch"}, "nonesuch"),
        ({"workloads": ("nonesuch",)}, "nonesuch was not measured"),
        ({"workloads": ("signal",), "wall": 3}, "no wall 3 of signal"),
        ({"workloads": ("sig*", "x*")}, r"x\* was not measured"),
    ],
)
def test_what_is_not_in_a_result_is_said(result: Result, what: Any, words: str) -> None:
    with pytest.raises(UsageProblem, match=words):
        shown(result, **what)


def test_which_numbers_there_are_is_said(result: Result) -> None:
    with pytest.raises(UsageProblem) as raised:
        shown(result, workloads=("overlay/access-shared",), wall=1)
    assert raised.value.hint == "they are 3"
    with pytest.raises(UsageProblem) as raised:
        shown(result, wall=7)
    assert raised.value.hint == "they are 1 to 3"
    several = builders.result(*[*result.workloads] * 3)
    with pytest.raises(UsageProblem) as raised:
        shown(several, workloads=("signal",), wall=9)
    assert raised.value.hint == "they are 1 to 2, 4 to 5 and 7 to 8"


def test_workloads_are_shown_by_a_pattern(result: Result) -> None:
    report = shown(result, workloads=("overlay/*",))
    assert "overlay/access, 8 containers" in report
    assert "overlay/access-shared, 1 container" in report
    assert "signal, 8 containers" not in report


@pytest.mark.parametrize("width", [40, 60, 72])
def test_where_a_table_leaves_no_room_for_names_words_tell_the_same(
    result: Result, width: int
) -> None:
    report = shown(result, width)
    assert re.search(r"^signal  8 x 1", report, re.MULTILINE)
    flat = " ".join(report.split())
    assert re.search(r"signal 8 x 1 2\d% \(\S+\) of one alone lines 2 walls 6.03 memory \?", flat)


def test_a_wall_of_some_containers_is_said_to_be_theirs() -> None:
    theirs = {"sharing": "some", "writers": [2, 3], "readers": []}
    line = builders.named_wall("hashed_lock").model_copy(update=theirs)
    judged = Wall(
        kind="global", name="hashed_lock", lines=40, transfers=9.0, sharing="some", sharers=[2, 3]
    )
    one = builders.workload("futex", [line], objects=[judged])
    for report in (shown(builders.result(one)), shown(builders.result(one, one, one))):
        assert re.search(r"containers 2-3\b", report)
        assert "9.00" in report
    assert "40 lines, of which 1 is listed" in shown(builders.result(one))


def test_walls_of_one_name_that_are_judged_apart_are_added_up() -> None:
    judged = [
        Wall(kind="global", name="lock", lines=4, transfers=9.0, sharing="some", sharers=sharers)
        for sharers in ([2, 3], [5])
    ]
    line = builders.named_wall("lock").model_copy(update={"writers": [2, 3, 5]})
    one = builders.workload("futex", [line], objects=judged)
    report = shown(builders.result(one))
    assert "wall 1: 18.0 transfers/op on lock" in report
    assert "containers 2-3,5" in report
    assert "8 lines, of which 1 is listed" in report


def test_who_is_not_seen_to_come_back_may_share_a_wall_all_the_same() -> None:
    judged = Wall(
        kind="global", name="lock", lines=1, transfers=9.0, sharing="some", sharers=[0, 5]
    )
    one = builders.workload("netns", [builders.named_wall("lock")], objects=[judged])
    assert "all containers; 0,5 seen to come back" in shown(builders.result(one))


def test_what_splitting_saves_is_said() -> None:
    (line,) = builders.false_sharing().walls
    one = builders.workload("overlay", [line.model_copy(update={"split_saves": 8.0})])
    assert "splitting its fields saves 8.00 of 12.0" in shown(builders.result(one))


def test_what_is_not_isolated_and_has_no_wall_is_no_wall() -> None:
    sums = Sums(walls=0.0, handed_over=3.0, rest=0.5)
    one = builders.workload("netns", [], sums=sums, limit=0.25)
    for report in (shown(builders.result(one)), shown(builders.result(one, one, one))):
        assert "isolated" not in report
        assert "no wall" in report
        said = "3.00 are handed over, 0.50 are shared too seldom to tell"
        assert said in " ".join(report.split())


def test_a_limit_above_the_threshold_is_printed() -> None:
    one = builders.signal().model_copy(update={"limit": 0.25})
    for report in (shown(builders.result(one)), shown(builders.result(one, one, one))):
        assert "0.01 (0.25 for certain)" in " ".join(report.split())
    same = builders.signal().model_copy(update={"limit": 0.01})
    assert "too short" not in shown(builders.result(same))


def test_what_is_shared_too_seldom_is_not_handed_over() -> None:
    groups = [
        Passing(name="given", lines=1, transfers=2.0),
        Passing(name="seldom", lines=2, transfers=0.5, handed_over=False),
    ]
    report = shown(builders.result(builders.workload("w", [], passing=groups)))
    assert "handed over, no walls: 2.00 transfers/op on 1 line that" in report
    assert "shared, but too seldom for a wall: 0.50 transfers/op on 2 lines" in report


def with_deferred() -> Result:
    """A workload without walls but for two of deferred work, and one that has some."""
    signal = builders.signal()
    late = builders.put_off(signal.walls, handed_over=1.25)
    nothing = Sums(walls=0.0, handed_over=0.0, rest=0.0)
    quiet = builders.workload("udp", [], sums=nothing, deferred=late)
    return builders.result(quiet, signal.model_copy(update={"deferred": late}))


def test_walls_of_deferred_work_stand_apart_with_numbers_behind_all_others() -> None:
    result = with_deferred()
    report = " ".join(shown(result).split())
    assert re.search(r"udp 8 x 1 2\d% \(1\d-[34]\d%\) 2 deferred 6.03 ", report)
    assert re.search(r"signal 8 x 1 1\d% \(\d+-\d+%\) 2 walls 6.03 \+6.03 ", report)
    assert "what deferred work adds comes on top" in report
    assert re.search(r"udp, 8 x 1 \d+% 3 init_ucounts of deferred work", report)
    # Once for both kinds of work, of which it is a wall in either, and once in words.
    assert report.count("of deferred work") == 2
    assert re.search(r"signal, 8 x 1 \d+% 1 init_ucounts (?!of deferred)", report)
    assert "2 deferred: no walls but in deferred work, 6.03 transfers/op between" in report
    said = "deferred work (what its system calls put off): 6.03 transfers/op on 2 walls"
    assert report.count(f"{said}, 1.25 handed over") == 2
    assert all(f"{number} 4.03 2 init_ucounts" in report for number in (3, 5))
    assert "wall 5: of deferred work, 4.03 transfers/op on init_ucounts" in shown(result, wall=5)
    assert "wall 1: 4.03 transfers/op" in shown(result, wall=1)
    assert "deferred: 2 walls, 6.03 transfers/op; wall 3: 4.03 on init_ucounts" in (
        " ".join(shown(builders.result(*result.workloads, builders.isolated())).split())
    )


def test_of_a_line_that_both_kinds_of_work_use_both_are_shown_apart() -> None:
    late = builders.put_off([builders.both_kinds()])
    result = builders.result(builders.workload("udp", [], deferred=late))
    wall = shown(result, wall=1)
    assert re.findall(r"in deferred work:|in system calls:|late|soon", wall) == [
        *("in deferred work:", "late", "late"),
        *("in system calls:", "soon", "soon"),
    ]
    report = " ".join(shown(result).split())
    assert "both tasklet softirq in ioctl ioctl syscall ioctl" in report
    # Who looks for the one function or the other finds it.
    assert all("wall 1" in shown(result, function=name) for name in ("tasklet", "ioctl"))
    # Of what one kind alone uses nothing is set apart.
    assert "in deferred work:" not in shown(with_deferred(), wall=5)


def test_instructions_of_deferred_work_are_told_from_the_background() -> None:
    ran = Instructions(kernel=900.0, user=10.0, background=70.0, deferred=50.0)
    report = shown(builders.result(builders.workload("w", [], instructions=ran)))
    assert "900 kernel, 10.0 user, 50.0 deferred, 20.0 background instructions" in report


def test_isolated_says_whether_it_knows_of_deferred_work() -> None:
    sums = Sums(walls=0.0, handed_over=0.0, rest=0.0)
    for late, words in ((builders.put_off([]), "included"), (None, "not judged")):
        verdict = "isolated" if late else "isolated in its calls"
        one = builders.workload("w", [], sums=sums, deferred=late)
        report = " ".join(shown(builders.result(one)).split())
        said = f"no more than 0.01 transfers/op between containers, deferred work {words}"
        assert f"{verdict}: {said}" in report


def test_what_nobody_was_seen_to_leave_is_told_with_every_verdict() -> None:
    sums = Sums(walls=0.0, handed_over=0.0, rest=0.0)
    more = {"background": [builders.moved_in("work item")], "deferred": builders.put_off([])}
    told = "1.50 more are of work items and callbacks of RCU that nobody was seen to leave: do_late"
    quiet = builders.workload("w", [], sums=sums, **more)
    passing = quiet.model_copy(update={"sums": sums.model_copy(update={"handed_over": 1.0})})
    for one in (quiet, passing, builders.signal().model_copy(update=more)):
        report = " ".join(shown(builders.result(one, builders.isolated())).split())
        assert f"{told} (--charge FUNCTION counts a work item's)" in report
    report = " ".join(shown(builders.result(quiet)).split())
    assert "isolated in its calls: no more than 0.01" in report
    assert told in report
    # Of callbacks nothing can be charged.
    callback = quiet.model_copy(update={"background": [builders.moved_in("RCU callback")]})
    report = " ".join(shown(builders.result(callback)).split())
    assert told in report
    assert "--charge" not in report


def test_windows_that_ran_one_after_another_are_told_with_what_that_leaves_open() -> None:
    sums = Sums(walls=0.0, handed_over=1.0, rest=0.0)
    for share, told in ((0.1, True), (0.25, False), (None, False)):
        one = builders.workload("w", [], sums=sums, in_turn=share, deferred=builders.put_off([]))
        report = " ".join(shown(builders.result(one)).split())
        assert "no wall: " in report
        assert ("windows ran one after another (in turn: 10%)" in report) is told
    quiet = one.model_copy(update={"in_turn": 0.1, "sums": Sums(walls=0, handed_over=0, rest=0)})
    assert "one after another" not in shown(builders.result(quiet))


def test_what_the_scheduler_moves_is_told_of_what_is_isolated_too() -> None:
    for moved, told in ((0.5, True), (0.004, False)):
        quiet = builders.isolated().model_copy(update={"background_transfers": moved})
        assert quiet.isolated_itself
        report = " ".join(
            shown(builders.result(quiet, builders.signal(), builders.signal())).split()
        )
        assert (f"background {moved:.2f}" in report) is told


def after_windows(late: Deferred, *left: Left, **more: Any) -> str:
    """What is shown of 1,000 operations that left something for later."""
    sums = Sums(walls=0.0, handed_over=0.0, rest=0.0)
    late = late.model_copy(update={"left": list(left), **more})
    one = builders.workload("w", [], sums=sums, operations=1000, deferred=late)
    return " ".join(shown(builders.result(one), everything=True).split())


def callbacks(times: float, done: float, by: str = "__fput") -> Left:
    return Left(
        context="RCU callback of close", by=by, late=False, times=times, done=done, containers=8
    )


def test_what_was_left_and_ran_after_the_windows_is_told() -> None:
    none = builders.put_off([])
    report = after_windows(none, callbacks(1.0, 0.0))
    left = "1.00 RCU callback of close for each operation, left by __fput()"
    assert "isolated in its calls: no more than" in report
    assert f"not judged, as 0% was done in the windows: {left}" in report
    assert f"0% of {left}: the rest was not done in the windows, and is in no figure" in report
    report = after_windows(none, callbacks(1.0, 0.5))
    assert "isolated: no more than" in report
    assert "not judged" not in report
    assert f"50% of {left}: the rest" in report
    assert "left by" not in after_windows(none, callbacks(1.0, 1.0))
    # What is sampled and comes to more is said with the figure that it comes to.
    report = after_windows(builders.put_off([], rest=0.002), callbacks(1.0, 0.1), later=0.002)
    assert "no wall: " in report
    assert "up to 0.020 with what was done after the windows" in report
    # With walls in deferred work alone as well.
    walls = builders.put_off(builders.signal().walls)
    assert f"not judged, as 0% was done in the windows: {left}" in after_windows(
        walls, callbacks(1.0, 0.0)
    )
    many = [callbacks(1.0, 0.0, by=f"f{n}") for n in range(9)]
    report = after_windows(none, *many)
    assert "and 6 more that functions left" in report
    assert "and of 6 more: the rest" in report
    assert "f2()" in report
    assert "f3()" not in report
    assert "was not counted" in after_windows(none.model_copy(update={"left": None}), left=None)


def test_names_of_what_was_left_cannot_move_the_cursor() -> None:
    evil = callbacks(1.0, 0.0, by="f\x1b[2J").model_copy(update={"context": "RCU \x1b[31mcallback"})
    assert "\x1b" not in after_windows(builders.put_off([]), evil)


def test_what_a_file_of_services_says_and_the_guest_has_not_is_told() -> None:
    lacking = ["compose.yaml: redis.runtime is left out: it is not known here"]
    one = builders.signal().model_copy(update={"left_out": lacking})
    assert lacking[0] in " ".join(shown(builders.result(one)).split())


def test_what_cannot_be_followed_on_a_kernel_is_told_with_the_verdict() -> None:
    sums = Sums(walls=0.0, handed_over=0.0, rest=0.0)
    lost = {"unfollowed": ["work items (no process_one_work)"]}
    late = builders.put_off([]).model_copy(update=lost)
    report = " ".join(
        shown(builders.result(builders.workload("w", [], sums=sums, deferred=late))).split()
    )
    assert "isolated in its calls: " in report
    assert "work items (no process_one_work) of system calls can't be followed" in report


def test_like_objects_are_one_wall() -> None:
    wall = builders.named_wall("struct page")
    pages = [
        wall.model_copy(
            update={"object": wall.object.model_copy(update={"address": f"{0xFFFF0000 + n:#x}"})}
        )
        for n in range(0, 64 * 34, 64)
    ]
    result = builders.result(builders.workload("fork", pages))
    report = shown(result, wall=1)
    assert "wall 1: 102 transfers/op on struct page x 34" in report
    assert report.count("function, field, source") == 1
    assert "x 33 more with the same fields, 99.0 transfers/op" in " ".join(report.split())
    assert f"{0xFFFF0000 + 64 * 33:#x}" in report
    assert shown(result, everything=True).count("function, field, source") == 34


def test_counted_calls_are_shown(result: Result) -> None:
    only = shown(result, workloads=("signal",))
    assert "calls/op: kmem_cache_alloc_noprof 1.00, kmem_cache_free 1.00" in only


def test_lines_of_an_object_share_a_heading(result: Result) -> None:
    report = shown(result, workloads=("signal",))
    assert report.count("4.03 transfers/op on init_ucounts") == 1
    assert report.count("on init_ucounts") == 1
    assert re.search(r"line \+0x0: 2\.03 transfers/op, written by all 8 containers", report)
    assert re.search(r"line \+0x80: 2\.00 transfers/op, written by all 8 containers", report)


def test_the_worst_object_comes_first(result: Result) -> None:
    report = shown(result, workloads=("signal",))
    assert report.index("on init_ucounts") < report.index("on kmalloc-256: struct aa_label")


def test_false_sharing_is_said_in_words() -> None:
    assert "FALSE SHARING" in shown(builders.result(builders.false_sharing()))
    assert "FALSE SHARING" not in shown(builders.result(builders.signal()))


def test_fields_stand_in_the_order_of_their_offsets() -> None:
    report = shown(builders.result(builders.false_sharing()))
    rows = [row.split() for row in report.splitlines()]
    use = ["0", "0", "8.00", "67%", "0x0", "8", "usage"]
    assert rows.index(use) < rows.index(["4.00", "0", "0", "33%", "0x20", "4", "fsuid"])


def test_the_scope_of_the_walls_is_said(result: Result) -> None:
    report = " ".join(shown(result).split())
    assert "2 walls: more than 0.01 transfers/op between containers" in report
    assert "1 wall: more than 0.01 transfers/op between CPUs of one container" in report
    assert "isolated: no more than 0.01 transfers/op between containers" in report
    only = " ".join(shown(result, workloads=("signal",)).split())
    assert "2 walls: 6.03 transfers/op between containers" in only


def test_transfers_of_the_other_scope_are_mentioned() -> None:
    wall = builders.signal().walls[0].model_copy(update={"within": 1.5})
    report = shown(builders.result(builders.workload("signal", [wall])))
    assert "1.50 more between CPUs of one container" in " ".join(report.split())


def test_background_and_named_share_are_shown(result: Result) -> None:
    assert "99.7% of transfers have a name" in shown(result)
    report = " ".join(shown(result, workloads=("signal",)).split())
    assert "background (ticks, RCU, scheduler): 1 line, 0.031 transfers/op" in report
    assert "0.031 jiffies_64 +0x0 (global) tick_do_update_jiffies64+0xa3 irq" in report
    assert "99.7% of transfers have a name" in report


def test_many_walls_are_listed_and_the_worst_detailed() -> None:
    workload = builders.many_walls(120)
    report = shown(builders.result(workload), 120)
    assert len(re.findall(r"^wall \d+: ", report, re.MULTILINE)) == terminal.DETAILED
    table = report[report.index("object and the code") : report.index("wall 1: ")]
    rows = [row for row in table.splitlines() if "%" in row]
    assert len(rows) == terminal.LISTED
    counted = sum(int(row.split()[3]) for row in rows)
    names = {(wall.object.name, wall.object.kind) for wall in workload.walls}
    assert f"{len(names) - terminal.LISTED} more objects" in table
    assert counted < 120


def test_an_object_of_many_lines_counts_by_its_lines() -> None:
    wall = builders.named_wall("hash_table")
    lines = [
        wall.model_copy(update={"object": wall.object.model_copy(update={"line": 64 * index})})
        for index in range(20)
    ]
    workload = builders.workload("w", [*lines, builders.named_wall("single")])
    report = shown(builders.result(workload))
    assert "60.0 transfers/op on hash_table" in report
    assert "global, 8 bytes at 0xffffffff82a00000, 20 lines" in report
    assert len(re.findall(r"^  line \+0x", report, re.MULTILINE)) == detail.LINES + 1
    assert "12 more lines, 36.0 transfers/op; --all shows them" in report


def test_verbose_details_every_wall_and_place() -> None:
    report = shown(builders.result(builders.many_walls(120)), everything=True)
    assert len(re.findall(r"^  line [+-]0x", report, re.MULTILINE)) == 120
    assert "--all" not in report


def test_few_walls_need_no_overview(result: Result) -> None:
    report = shown(result, workloads=("signal",))
    assert "object and the code" not in report
    assert "more object" not in report


def test_only_the_busiest_places_are_shown_unless_all_are_asked_for() -> None:
    wall = builders.named_wall("counter")
    code = [builders.site(f"function_{n}", n, "", writes=10.0 - n) for n in range(6)]
    result = builders.result(builders.workload("w", [wall.model_copy(update={"code": code})]))
    report = shown(result)
    assert "function_3" in report
    assert "function_4" not in report
    assert "2 more places, 11.0 accesses/op; --all shows them" in report
    assert "function_5" in shown(result, everything=True)


def test_a_result_without_workloads_is_said_to_be_empty() -> None:
    assert "No workload was measured." in shown(builders.result())


@settings(deadline=None)
@given(
    name=st.text(max_size=120),
    width=st.integers(min_value=60, max_value=130),
)
def test_no_name_breaks_the_report(name: str, width: int) -> None:
    """Markup, escape sequences and wide letters are shown, not obeyed."""
    wall = builders.signal().walls[0]
    hostile = wall.model_copy(
        update={
            "object": wall.object.model_copy(update={"name": name, "detail": name}),
            "fields": [builders.field(name, 0)],
            "code": [builders.site(name, 0, name, source=name, context=name, inlined=[name])],
        }
    )
    workload = builders.workload(name, [hostile], variant=name, background=[hostile])
    report = shown(builders.result(workload), width)
    assert all(row.isprintable() for row in report.split("\n"))
    assert max(cell_len(row) for row in report.split("\n")) <= width


@pytest.mark.parametrize("name", ["[bold]x[/bold]", "a[red", ":smile:", "rlimit[/]"])
def test_markup_in_a_name_is_text(name: str) -> None:
    report = shown(builders.result(builders.workload("w", [builders.named_wall(name)])))
    # Once more as what bounds it.
    assert report.count(name) == 5


def test_what_is_handed_over_is_told_apart_from_walls() -> None:
    groups = [Passing(name=f"kmalloc-{n}", lines=n + 1, transfers=20.0 - n) for n in range(12)]
    workload = builders.workload("netns", [], passing=groups)
    report = shown(builders.result(workload))
    assert "handed over, no walls: 174 transfers/op on 78 lines" in " ".join(report.split())
    assert "kmalloc-7" in report
    assert "kmalloc-8" not in report
    assert "4 more kinds, 42.0 transfers/op; --all shows them" in report
    everything = shown(builders.result(workload), everything=True)
    assert "kmalloc-11" in everything


def test_what_only_cpus_of_one_container_share_has_a_list_of_its_own() -> None:
    (line,) = builders.false_sharing().walls
    inside = line.model_copy(update={"within": 3.25})
    report = shown(builders.result(builders.workload("overlay", [], inside=[inside])))
    assert "between CPUs of one container: 1 line, 3.25 transfers/op" in report
    assert line.object.name in report


def test_a_lock_function_is_shown_with_who_called_it() -> None:
    site = builders.site("_raw_spin_lock", 0x13, "lock", atomics=1.0).model_copy(
        update={"caller": "proc_register+0x4c", "caller_source": "fs/proc/generic.c:379"}
    )
    (wall,) = builders.false_sharing().walls
    wall = wall.model_copy(update={"code": [site]})
    report = squeezed(shown(builders.result(builders.workload("netns", [wall]))))
    assert "fromproc_register+0x4cfs/proc/generic.c:379" in report


def test_no_row_ends_in_spaces(result: Result) -> None:
    for colour in (False, True):
        for row in shown(result, colour=colour).splitlines():
            assert not re.sub(r"\x1b\[[0-9;]*m", "", row).endswith(" ")
