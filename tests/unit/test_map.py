# SPDX-License-Identifier: GPL-2.0-or-later
"""The map: operations and objects over kernels, in words and as a page."""

from __future__ import annotations

import io
import re
import subprocess
from pathlib import Path
from typing import Any

import builders
import numpy as np
import pytest
from click.testing import CliRunner
from markdown_it import MarkdownIt
from rendered import cells
from rich.console import Console

from partywall import workloads
from partywall.advice import map as maps
from partywall.advice.changes import changes
from partywall.analyse.beside import Costs, Judged, Side, touch
from partywall.analyse.transfers import Parties
from partywall.cli import commands
from partywall.cli import map as command
from partywall.core.errors import EnvironmentProblem, UsageProblem
from partywall.core.progress import Progress
from partywall.core.topology import Topology
from partywall.guest.sitting import Round
from partywall.kernels import Kernel, Request
from partywall.measure import sweep
from partywall.measure.run import Wanted
from partywall.record.recording import Kind
from partywall.report import beside as pairs
from partywall.report import map as view
from partywall.report import map_markdown
from partywall.report.html import beside as matrix
from partywall.report.html import map as page
from partywall.results import document, parts, store
from partywall.results.counts import Sums
from partywall.results.failures import Failure
from partywall.results.held import Held
from partywall.results.memory import Grown, Memory, Unsettled
from partywall.results.result import Result
from partywall.results.setting import BARE, NO_APPARMOR, VOLATILE
from partywall.results.touches import Touch


def with_walls(release: str, **operations: dict[str, float]) -> Result:
    """A result of operations with walls of these transfers, by object."""
    found = builders.result(
        *(
            builders.workload(name, [wall(*one) for one in walls.items()])
            for name, walls in operations.items()
        )
    )
    return found.model_copy(update={"kernel": found.kernel.model_copy(update={"release": release})})


def wall(name: str, transfers: float) -> builders.Line:
    """A line of an object that so many transfers move."""
    named = builders.named_wall(name)
    return named.model_copy(
        update={
            "transfers": transfers,
            "between": transfers,
            "object": named.object.model_copy(update={"name": name}),
        }
    )


OLD = with_walls("6.1.1", dup={}, pipe={"label": 4.0, "node": 0.1}, fork={"label": 2.0})
NEW = with_walls("7.3.0", dup={}, pipe={"label": 4.0}, fork={}).model_copy(
    update={"failed": [Failure(title="exec", operation="one exec", why="it broke")]}
)


def printed(found: maps.Map, **more: bool) -> str:
    """The report at a terminal of 80 columns."""
    out = io.StringIO()
    view.render(found, Console(file=out, width=80), **({"everything": False} | more))
    return out.getvalue()


def test_objects_are_ranked_by_all_that_they_cost() -> None:
    drawn = maps.draw([OLD, NEW])
    assert [one.name for one in drawn.objects] == ["label", "node"]
    label = drawn.objects[0]
    assert label.reach[0] is not None
    assert (label.reach[0].operations, label.reach[0].least, label.reach[0].most) == (2, 2.0, 4.0)
    assert label.reach[1] is not None
    assert label.reach[1].operations == 1
    assert drawn.objects[1].reach[1] is None


def test_walls_of_deferred_work_are_in_the_map() -> None:
    late = builders.put_off([wall("label", 3.0)])
    quiet, loud = (builders.workload(name, [], deferred=late) for name in ("udp", "tcp"))
    loud = loud.model_copy(update={"walls": [wall("label", 1.0)], "between": 1.0})
    drawn = maps.draw([builders.result(quiet, loud)])
    cells = [one.cells[0] for one in drawn.operations]
    assert [cell and (cell.verdict, cell.transfers) for cell in cells] == [
        ("walls", 3.0),
        ("walls", 4.0),
    ]
    assert [cell and [share.transfers for share in cell.walls] for cell in cells] == [[3.0], [4.0]]


def test_a_mix_ranks_by_what_it_pays() -> None:
    drawn = maps.draw([OLD], {"fork": 3.0, "pipe": 1.0})
    assert [one.reach[0].mix for one in drawn.objects if one.reach[0]] == pytest.approx(
        [(3 * 2.0 + 4.0) / 4, 0.1 / 4]
    )
    with pytest.raises(UsageProblem, match="the mix has exec, which is none of the operations"):
        maps.draw([OLD], {"exec": 1.0})


def test_what_of_a_mix_one_kernel_lacks_is_left_out_on_all() -> None:
    # The new kernel can't run fork, which costs most: that does not make it a better one.
    broken = NEW.model_copy(
        update={
            "workloads": [one for one in NEW.workloads if one.title != "fork"],
            "failed": [Failure(title="fork", operation="one fork", why="it broke")],
        }
    )
    drawn = maps.draw([OLD, broken], {"fork": 3.0, "pipe": 1.0})
    label = next(one for one in drawn.objects if one.name == "label")
    assert [reach.mix for reach in label.reach if reach] == [4.0, 4.0]
    assert drawn.lacks == {"fork": [1]}
    assert "without fork, of which there is no figure on 7.3.0" in printed(drawn)
    assert "without fork, of which there is no figure on 7.3.0" in page.render(drawn)
    with pytest.raises(UsageProblem, match="no operation of the mix has a figure on all kernels"):
        maps.draw([OLD, broken], {"fork": 3.0})
    # What was not asked for lacks, too.
    assert maps.draw([OLD, NEW], {"exec": 1.0, "pipe": 1.0}).lacks == {"exec": [0, 1]}


def test_a_misspelt_operation_of_a_mix_is_told_what_is_near() -> None:
    with pytest.raises(UsageProblem) as raised:
        maps.draw([OLD], {"pip": 1.0})
    assert raised.value.hint == "near: pipe"


def test_what_could_not_be_measured_is_a_row() -> None:
    drawn = maps.draw([OLD, NEW])
    (row,) = (one for one in drawn.operations if one.title == "exec")
    assert row.cells[0] is None
    assert row.cells[1] is not None
    assert row.cells[1].failed == "it broke"
    assert "exec on 7.3.0: it broke" in printed(drawn)


def test_a_report_fits_a_terminal_and_says_what_it_left_out() -> None:
    objects = {f"object {number:02}": 1.0 + number for number in range(30)}
    drawn = maps.draw([with_walls("6.1.1", pipe=objects)])
    text = printed(drawn)
    assert "object 29" in text
    assert "object 05" not in text
    assert "10 more objects; --all shows them" in text
    assert all(len(line) <= 80 for line in text.splitlines())
    assert "object 05" in printed(drawn, everything=True)


def test_parts_of_one_kernel_are_one_column() -> None:
    both = with_walls("6.1.1", pipe={"label": 4.0}, dup={}, fork={"label": 2.0})
    parts = [
        with_walls("6.1.1", pipe={"label": 4.0}),
        NEW,
        with_walls("6.1.1", dup={}, fork={"label": 2.0}),
    ]
    parts[2] = parts[2].model_copy(update={"created": "2027-01-01T00:00:00Z"})
    drawn, whole = maps.draw(parts), maps.draw([both, NEW])
    assert drawn.operations == whole.operations
    assert drawn.objects == whole.objects
    assert [one.created for one in drawn.kernels] == ["2027-01-01T00:00:00Z", NEW.created]


def test_a_part_without_apparmor_of_its_own_is_of_the_same_column() -> None:
    # As netns is.
    other = made(with_walls("6.1.1", dup={}), confinement=f"docker ({NO_APPARMOR})")
    drawn = maps.draw([with_walls("6.1.1", pipe={}), other])
    assert len(drawn.kernels) == 1


@pytest.mark.parametrize(
    "differs",
    ["operations", "kernel", "environment", "failed", "shape", "confinement", "volatile", "bare"],
)
def test_what_is_no_part_of_a_column_has_its_own(differs: str) -> None:
    one, other = with_walls("6.1.1", pipe={}), with_walls("6.1.1", dup={})
    if differs == "operations":
        other = with_walls("6.1.1", pipe={}, dup={})
    elif differs == "kernel":
        kernel = other.kernel.model_copy(update={"image_sha256": "other"})
        other = other.model_copy(update={"kernel": kernel})
    elif differs == "environment":
        environment = other.environment.model_copy(update={"command_line": "other"})
        other = other.model_copy(update={"environment": environment})
    elif differs == "shape":
        other = made(other, topology=Topology(16, 1), at=8)
    elif differs == "confinement":
        other = made(other, confinement="unconfined (+CAP_NET_ADMIN)")
    elif differs in ("volatile", "bare"):
        how = VOLATILE if differs == "volatile" else BARE
        other = made(other, confinement=f"docker ({how})")
    else:
        failed = [Failure(title="pipe", operation="one pipe", why="it broke")]
        other = other.model_copy(update={"failed": failed})
    drawn = maps.draw([one, other])
    assert drawn.labels == ["6.1.1 (A)", "6.1.1 (B)"]
    text = printed(drawn)
    assert "A and B are of kernels that are called alike, not put together" in text
    shape = "16 x 1" if differs == "shape" else "8 x 1"
    confined = ", unconfined" if differs == "confinement" else ""
    assert f"measured {other.created}, {shape}{confined}\n" in text
    told = page.render(drawn)
    assert "A and B are of kernels that are called alike, not put together" in told
    assert f"measured {other.created}, {shape}{confined}<" in told


def made(result: Result, **otherwise: Any) -> Result:
    """A result of workloads that were measured otherwise."""
    changed = [one.model_copy(update=otherwise) for one in result.workloads]
    return result.model_copy(update={"workloads": changed})


def test_an_operation_that_is_there_twice_is_refused() -> None:
    twice = with_walls("6.1.1", pipe={"label": 4.0}, dup={})
    wide = builders.workload("pipe", [], topology=Topology(4, 2), at=8)
    both = twice.model_copy(update={"workloads": [*twice.workloads, wide]})
    with pytest.raises(UsageProblem, match=r"6\.1\.1: pipe is in one result twice, as 4 x 2 and 8"):
        maps.draw([both])
    failed = [Failure(title="dup", operation="one dup", why="it broke")]
    with pytest.raises(UsageProblem, match=r"dup is in one result twice$"):
        maps.draw([twice.model_copy(update={"failed": failed})])


def test_other_thresholds_are_not_put_together_but_one_does_for_all() -> None:
    low = with_walls("6.1.1", pipe={"label": 4.0, "node": 0.1})
    high = made(with_walls("7.3.0", pipe={"label": 4.0}), threshold=0.5)
    with pytest.raises(UsageProblem, match=r"have more than 0\.01 and 0\.5 transfers") as refused:
        maps.draw([low, high])
    assert refused.value.hint == "add --threshold 0.5, which does for all of them"
    drawn = maps.draw([parts.raised(one, 0.5) for one in (low, high)])
    assert [one.name for one in drawn.objects] == ["label"]
    assert drawn.threshold == 0.5
    with pytest.raises(UsageProblem, match=r"walls above 0\.5 alone were kept"):
        parts.raised(high, 0.01)


def test_a_higher_threshold_makes_rest_of_walls_of_deferred_work_too() -> None:
    late = builders.put_off([wall("label", 3.0), wall("node", 0.5)], handed_over=0.25)
    result = builders.result(builders.workload("udp", [], deferred=late))
    (one,) = parts.raised(result, 1.0).workloads
    assert one.deferred is not None
    assert [found.name for found in one.deferred.objects] == ["label"]
    assert [line.object.name for line in one.deferred.walls] == ["label"]
    assert one.deferred.sums == Sums(walls=3.0, handed_over=0.25, rest=0.5)
    (none,) = parts.raised(result, 4.0).workloads
    assert none.verdict != "walls"


def test_a_higher_threshold_makes_rest_of_walls() -> None:
    sums = Sums(walls=4.1, handed_over=0.2, rest=0.3)
    result = made(with_walls("6.1.1", pipe={"label": 4.0, "node": 0.1}), sums=sums)
    (one,) = parts.raised(result, 1.0).workloads
    assert ([wall.name for wall in one.found], one.verdict) == (["label"], "walls")
    assert one.sums is not None
    assert (one.sums.walls, one.sums.rest) == (pytest.approx(4.0), pytest.approx(0.4))
    (none,) = parts.raised(result, 4.0).workloads
    assert (none.walls, none.found, none.verdict) == ([], [], "no wall")
    (none,) = parts.raised(result, 5.0).workloads
    assert none.verdict == "isolated"


def test_kernels_side_by_side_fit_a_terminal() -> None:
    named = "kmalloc-256: struct a_rather_long_name"
    old, new = (with_walls(r, pipe={named: 4.0}) for r in ("6.1.0-56-cloud-amd64", "7.3.4"))
    text = printed(maps.draw([old, new]))
    assert "A  Linux 6.1.0-56-cloud-amd64" in text
    assert re.search(rf"1 +4\.00 +1 +4\.00 +{named}$", text, re.MULTILINE)
    assert all(len(line) <= 80 for line in text.splitlines())


def test_maps_for_other_numbers_of_containers_are_not_put_together() -> None:
    other = OLD.model_copy(
        update={"workloads": [w.model_copy(update={"at": 512}) for w in OLD.workloads]}
    )
    with pytest.raises(UsageProblem, match="these maps are for 8 and 512 containers"):
        maps.draw([OLD, other])


def test_the_page_has_what_differs_first_and_loads_nothing() -> None:
    text = page.render(maps.draw([OLD, NEW]))
    assert text.index("What differs between kernels") < text.index("Objects that cost most")
    assert re.search(r'<a href="#fork">fork</a>.*2\.00.*good.*0', text, re.DOTALL)
    assert "it broke" in text
    assert not re.findall(r'(?:src|href)="(?!#)', text)
    assert text == page.render(maps.draw([OLD, NEW]))


def test_a_kernel_that_failed_hides_no_change_between_its_neighbours() -> None:
    broken = with_walls("6.6.1", dup={}).model_copy(
        update={"failed": [Failure(title="fork", operation="one fork", why="it broke")]}
    )
    drawn = maps.draw([OLD, broken, NEW])
    (fork,) = (one for one in changes(drawn) if one.title == "fork")
    cells = r"fork</a></td><td>6\.1\.1</td><td>7\.3\.0</td>"
    assert re.search(cells, page.render(drawn))
    assert (fork.before, fork.after, fork.was, fork.now) == (0, 2, 2.0, 0.0)


@pytest.mark.parametrize(
    ("releases", "heads"),
    [
        (["6.1.0-56-cloud-amd64", "7.3.4"], ["6.1.0-56", "7.3.4"]),
        (["6.12.1-stock", "6.12.1-partywall"], ["6.12.1-stock", "6.12.1-partywall"]),
        (["6.12.1-cloud-amd64", "6.12.1-amd64"], ["6.12.1-cloud-amd64", "6.12.1-amd64"]),
        (["6.12.1-amd64", "6.12.1-amd64"], ["6.12.1-amd64 (A)", "6.12.1-amd64 (B)"]),
    ],
)
def test_heads_of_columns_tell_kernels_apart(releases: list[str], heads: list[str]) -> None:
    drawn = maps.draw([with_walls(release, pipe={"label": 4.0}) for release in releases])
    assert page.heads(drawn) == heads


def test_a_link_to_what_the_search_hides_shows_it(tmp_path: Path) -> None:
    text = page.render(maps.draw([with_walls("6.1.1", pipe={"label": 4.0}, fork={"node": 2.0})]))
    steps = """<script>
    const search = document.getElementById("search");
    search.value = "node"; search.dispatchEvent(new Event("input"));
    const hidden = () => [...document.querySelectorAll("section.family")].map((f) => f.hidden);
    const before = hidden();
    location.hash = "#pipe";
    addEventListener("hashchange", () => { document.title = `${before} then ${hidden()}`; });
    </script></body>"""
    path = tmp_path / "page.html"
    path.write_text(text.replace("</body>", steps))
    assert "<title>true,false then false,false</title>" in in_browser(path)


def in_browser(path: Path) -> str:
    """Return a page as it is once its scripts ran."""
    done = subprocess.run(
        [
            *("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"),
            *(f"--user-data-dir={path.parent / 'profile'}", "--virtual-time-budget=2000"),
            *("--dump-dom", path.as_uri()),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout


def test_a_kernel_without_a_figure_mends_nothing_and_ranks_no_object_lower() -> None:
    """An operation that failed, or was not asked for, there."""
    old = with_walls("6.1.1", fork={"label": 300.0}, pipe={"pages": 200.0})
    new = with_walls("6.12.1", pipe={"pages": 200.0}).model_copy(
        update={"failed": [Failure(title="fork", operation="one fork", why="it broke")]}
    )
    drawn = maps.draw([old, new])
    assert [one.name for one in drawn.objects] == ["label", "pages"]
    assert [one.unknown for one in drawn.objects] == [[0, 1], [0, 0]]
    said = " ".join(printed(drawn).split())
    assert "1 300 ? ? label" in said
    assert view.UNKNOWN in said
    assert ["label", "300 of 1, each 300", "?", ""] in cells(
        map_markdown.render(drawn, everything=False)
    )
    text = page.render(drawn)
    assert "1 operation with a figure on both, 0 of which differ" in text
    # Where a part of its operations is not known it may be a wall of more.
    more = with_walls("6.1.1", fork={"label": 300.0}, pipe={"label": 200.0})
    other = new.model_copy(
        update={"workloads": with_walls("6.12.1", pipe={"label": 2.0}).workloads}
    )
    assert "2 300 1? 2.00 label" in " ".join(printed(maps.draw([more, other])).split())


def test_a_wall_that_went_is_told_though_another_one_came_in_its_place() -> None:
    drawn = maps.draw(
        [with_walls("6.1.1", fork={"label": 4.0}), with_walls("7.3.0", fork={"pages": 4.0})]
    )
    (change,) = changes(drawn)
    assert (change.gone, change.come, change.moves) == (("label",), ("pages",), False)
    assert "gone: label; new: pages" in page.render(drawn)
    assert ["fork", "4.00", "4.00", "gone: label; new: pages"] in cells(
        map_markdown.render(drawn, everything=False)
    )


def test_the_variables_of_each_cpu_are_one_object() -> None:
    walls = {"runqueues of CPU 3": 2.0, "runqueues of CPU 11": 1.0}
    (one,) = maps.draw([with_walls("6.1.1", fork=walls)]).objects
    assert one.name == "runqueues of each CPU"
    assert one.reach[0] is not None
    assert (one.reach[0].operations, one.reach[0].most) == (1, 3.0)


def test_results_of_older_versions_are_told_and_no_part_of_newer_ones() -> None:
    older = OLD.model_copy(update={"measured_with": "partywall.result/3", "lacks": ["turns"]})
    newer = with_walls("6.1.1", exec={"label": 1.0})
    drawn = maps.draw([older, newer])
    assert len(drawn.kernels) == 2
    for text in (
        " ".join(printed(drawn).split()),
        page.render(drawn),
        map_markdown.render(drawn, everything=False),
    ):
        assert "saved as partywall.result/3, which lacks turns" in text
        assert view.otherwise(drawn) in text
    assert view.otherwise(maps.draw([OLD, NEW])) == ""


def test_a_row_names_the_objects_of_the_kernel_where_it_moves_most() -> None:
    drawn = maps.draw(
        [with_walls("6.1.1", fork={"tiny": 0.4}), with_walls("7.3.0", fork={"huge": 300.0})]
    )
    assert "0.40 300 fork huge 300" in " ".join(printed(drawn).split())


def test_a_mend_says_of_which_operations_and_kernels_it_is() -> None:
    columns = [{"fork": 1.0, "pipe": 1.0}, {"fork": 1.0}]
    releases = ["6.1.1", "6.12.1-cloud-amd64"]
    both = [(0, "fork"), (0, "pipe"), (1, "fork")]
    assert maps._mended("a patch", both, columns, releases) == "a patch"
    some = maps._mended("a patch", both[1:], columns, releases)
    assert some == "a patch (some of the operations)"
    one = maps._mended("a patch", both[1:2], columns[:1], releases[:1])
    assert one == "a patch (1 of 2 operations)"
    assert maps._mended("a patch", both[:2], columns, releases) == "a patch (on 6.1)"
    again = maps._mended("a patch", both[:2], columns, ["6.1.1 (A)", "6.1.1 (B)"])
    assert again == "a patch (on 6.1.1 (A))"
    alike = ["6.1.1", "6.1.2"]
    assert maps._mended("a patch", both[:1], columns, alike) == (
        "a patch (1 of 2 operations, on 6.1.1)"
    )


def test_patches_for_another_release_are_told_as_such_unless_a_kernel_has_its_own() -> None:
    ours, other = "series a/0001: less", "series a/0001: less; made for Linux 6.12"
    assert maps._merged({other: [(0, "fork")]}) == {other: [(0, "fork")]}
    merged = maps._merged({other: [(0, "fork")], ours: [(1, "fork")]})
    assert merged == {ours: [(0, "fork"), (1, "fork")]}
    bare = "series a/0001: made for Linux 6.12"
    assert maps._merged({bare: [(0, "fork")], "series a/0001": [(1, "fork")]}) == {
        "series a/0001": [(0, "fork"), (1, "fork")]
    }


def test_what_a_mix_has_none_of_is_nothing_and_not_unknown() -> None:
    old = with_walls("6.1.1", fork={"label": 300.0}, pipe={"pages": 200.0})
    new = with_walls("6.12.1", pipe={"pages": 200.0})
    drawn = maps.draw([old, new], {"pipe": 1.0})
    assert {one.name: one.unknown for one in drawn.objects} == {"label": [0, 0], "pages": [0, 0]}


def test_what_nobody_looked_at_is_not_none() -> None:
    nothing = Memory(operations=256, least=0.02, grown=[])
    looked = builders.result(builders.workload("dup", [], memory=nothing))
    said = " ".join(printed(maps.draw([looked, NEW])).split())
    assert "none not measured: 3 operations on 7.3.0" in said
    text = map_markdown.render(maps.draw([looked, NEW]), everything=False)
    assert "none\n\nnot measured: 3 operations on 7.3.0" in text


def test_an_objects_name_shows_the_operations_that_it_is_a_wall_of(tmp_path: Path) -> None:
    """And no other one in whose text its words are."""
    walls = {"label": 4.0, "label of pages": 2.0}
    text = page.render(maps.draw([with_walls("6.1.1", pipe=walls, fork={"label of pages": 2.0})]))
    steps = """<script>
    const links = [...document.querySelectorAll("a[data-object]")];
    links.find((a) => a.textContent === "label").click();
    const shown = [...document.querySelectorAll("[data-row]:not([hidden])")].map((row) => row.id);
    document.title = `shown: ${shown}`;
    </script></body>"""
    path = tmp_path / "page.html"
    path.write_text(text.replace("</body>", steps))
    assert "<title>shown: pipe</title>" in in_browser(path)


def test_names_in_a_page_are_text() -> None:
    evil = "<script>alert(1)</script>"
    text = page.render(maps.draw([with_walls("6.1.1", pipe={evil: 1.0})]))
    assert evil not in text
    assert "&lt;script&gt;alert(1)" in text


def test_the_usual_operations_are_in_one_place_each() -> None:
    every = [workload for workload, _ in workloads.load()]
    usual = sweep.usual(every)
    assert len(usual) >= 150
    places = ("overlay", "volume", "tmpfs")
    stems = [one.title.rsplit("-", 1)[0] for one in usual if one.title.endswith(places)]
    assert len(stems) == len(set(stems))


def test_a_whole_start_of_a_container_is_in_the_map_if_it_is_asked_for() -> None:
    every = [workload for workload, _ in workloads.load()]
    starts = {one.title for one in every if one.bundle}
    assert starts == {"container/run", "container/exec"}
    assert not starts & {one.title for one in sweep.usual(every)}


def test_guests_hold_what_is_confined_alike_and_not_too_much() -> None:
    chosen = workloads.select(["descriptor/*", "ipc/*", "netns", "mount/*", "signal"])
    groups: dict[object, list[str]] = {}
    for one in chosen:
        groups.setdefault(sweep.sitting.alike(one), []).append(one.title)
    parts = list(sweep._parts([Round(one) for one in chosen]))
    assert all(len(part) <= sweep.LONGEST for part in parts)
    assert sum(map(len, parts)) == len(chosen)
    assert len(groups) == 3


# Pairs


def two_sides() -> tuple[Side, Side]:
    """Two containers that do one thing, two that do another half as often."""
    return Side("one", range(2), 100), Side("other", range(2, 4), 50)


DOING = ["dup", "pipe"]
PAIRS = builders.pairs(
    DOING,
    DOING,
    builders.met("dup", "dup"),
    builders.met("dup", "pipe", label=1.0),
    builders.met("pipe", "dup", label=2.0, other=0.5),
    builders.met("pipe", "pipe", label=4.0),
)


def test_what_only_a_pair_shows_is_what_its_like_does_not() -> None:
    assert [(one.victim, one.neighbour, one.transfers) for one in PAIRS.new] == [
        ("dup", "pipe", 1.0),
        ("pipe", "dup", 0.5),
    ]


def test_pairs_are_told_in_words_and_as_a_matrix() -> None:
    out = io.StringIO()
    pairs.render(PAIRS, Console(file=out, width=80), everything=False)
    assert "dup beside pipe" in out.getvalue()
    text = matrix.render(PAIRS)
    assert text.count("<tr>") >= 3
    assert "dup beside pipe: label 1" in text
    assert document.dump(PAIRS).startswith('{\n "schema": "partywall.beside/2"')


class FakeJudgement:
    """All lines are walls that all containers come back to, but for the last one."""

    def __init__(self, lines: int) -> None:
        self.walls = np.ones(lines, bool)
        self.back = np.ones((lines, 4), bool)
        self.back[-1, 2:] = False
        self.grows, self.part = np.ones(lines, bool), np.ones(lines)

    @classmethod
    def of_all(cls, lines: int) -> FakeJudgement:
        """So many lines, to all of which all come back."""
        found = cls(lines)
        found.back[:] = True
        return found


def touched(
    reads: Any,
    writes: Any,
    judgement: FakeJudgement,
    names: list[str],
    parties: Parties | None = None,
) -> Touch:
    """What the second of two sides does to the first in the foreground."""
    nothing = np.zeros_like(writes)
    held = ("again", "loose", "late_again", "late_loose")
    visits = dict.fromkeys(("late_reads", "late_writes", *held), nothing)
    visits |= {"number": np.arange(len(writes)), "reads": reads, "writes": writes}
    lines = type("L", (), visits)()
    parties = parties or Parties(np.arange(4), np.zeros(4, np.uint64), np.arange(4))
    number = lines.number
    judged = Judged(Kind.FOREGROUND, number, judgement, names.__getitem__)  # type: ignore[arg-type]
    one, other = two_sides()
    costs = Costs(one, other, lines, parties, at=3)
    return touch(costs, [judged], threshold=0.01)


def test_a_victims_transfers_are_what_neighbours_can_cause() -> None:
    # A counter that all write, a word that the victims read and the others write, and
    # one that only victims come back to.
    reads = np.array([[0, 0, 0, 0], [300, 300, 0, 0], [0, 0, 0, 0]])
    writes = np.array([[200, 200, 100, 100], [0, 0, 1, 1], [100, 100, 1, 0]])
    found = touched(reads, writes, FakeJudgement(3), ["counter", "word", "own"])
    # Two neighbours with two writes an operation each; with 0.02 each.
    assert {each.object: each.transfers for each in found.objects} == {
        "counter": pytest.approx(2.0),
        "word": pytest.approx(0.04),
    }


def test_what_was_seen_to_move_less_counts_less() -> None:
    """As of an entry of a table, which is one's for a while."""
    writes = np.array([[200, 200, 100, 100]] * 2)
    judged = FakeJudgement.of_all(2)
    judged.part = np.array([1.0, 0.25])
    found = touched(np.zeros_like(writes), writes, judged, ["counter", "entry"])
    assert [(each.object, each.transfers) for each in found.objects] == [
        ("counter", pytest.approx(2.0)),
        ("entry", pytest.approx(0.5)),
    ]


def test_what_a_victim_left_for_another_ones_cpu_is_no_process_of_its() -> None:
    # What is left for later is a party of its own, which foreground work has nothing of.
    writes = np.array([[200, 200, 100, 100, 0]])
    thread = np.array([0, 0, 0, 0, (3 << 14) + 1], np.uint64)
    parties = Parties(np.array([0, 1, 2, 3, 2]), thread, np.array([0, 1, 2, 3, 0]))
    found = touched(np.zeros_like(writes), writes, FakeJudgement(2), ["counter"], parties)
    assert [each.transfers for each in found.objects] == [pytest.approx(2.0)]


def test_a_variable_of_each_cpu_is_one_object() -> None:
    writes = np.array([[100, 0, 100, 0], [0, 100, 0, 100]])
    judged = FakeJudgement.of_all(2)
    names = ["runqueues of CPU 0", "runqueues of CPU 1"]
    found = touched(np.zeros_like(writes), writes, judged, names)
    assert [(each.object, each.transfers) for each in found.objects] == [
        ("runqueues of each CPU", pytest.approx(1.0))
    ]


# The command


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--mix", "sginal=1"], "the mix has sginal, which is none of the operations"),
        (["-w", "fork", "--mix", "signal=1"], "the mix has signal, which is none"),
        (["--kernel", "debian"] * 27, "27 kernels are more than a map has room for"),
        (["--mix", "signal"], "it has to be OPERATION=WEIGHT"),
        (["--mix", "signal=0"], "the weight above 0"),
        (["--mix", "signal=1", "--mix", "signal=2"], "signal has a weight already"),
        (["--mix", "signal=1e308", "--mix", "fork=1e308"], "the weights are too large"),
        (
            ["-w", "fork", "--beside", "signal", "--results", "x"],
            "--beside keeps no result in a fold",
        ),
        (["--beside", "signal"], "--beside takes one kernel and -w"),
        (["-w", "no-such"], "no workload 'no-such'"),
        (["-n", "1"], "no neighbour"),
        (["--json", "--markdown"], "--json and --markdown exclude each other"),
        (["-w", "fork", "--beside", "signal", "--markdown"], "no files, --mix or --markdown"),
    ],
)
def test_wrong_arguments_are_said_before_anything_boots(arguments: list[str], said: str) -> None:
    done = CliRunner().invoke(commands, ["map", *arguments], standalone_mode=False)
    assert isinstance(done.exception, UsageProblem)
    assert said in done.exception.message


MEASURED = ("map", "-w", "descriptor/dup", "--beside", "descriptor/pipe")


def test_pairs_that_were_kept_are_shown_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "_beside", lambda *_: PAIRS)
    kept, page = tmp_path / "pairs.json.gz", tmp_path / "pairs.html"
    words = [*MEASURED, "--output", str(kept)]
    assert commands.main(words, standalone_mode=False) == 0
    first = capsys.readouterr().out
    assert "dup beside pipe" in first
    assert commands.main(["map", str(kept), "--html", str(page)], standalone_mode=False) == 0
    assert capsys.readouterr().out == first
    assert page.read_text() == matrix.render(PAIRS)
    for words, said in (
        (["--threshold", "1"], "that file holds pairs"),
        (["--mix", "dup=1"], "that file holds pairs"),
        ([str(kept)], "shown by itself"),
    ):
        done = CliRunner().invoke(commands, ["map", str(kept), *words], standalone_mode=False)
        assert isinstance(done.exception, UsageProblem)
        assert said in done.exception.message


def test_pairs_that_can_not_be_kept_are_shown_and_have_their_page(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "_beside", lambda *_: PAIRS)
    page = tmp_path / "pairs.html"

    def full(*_: object) -> None:
        raise EnvironmentProblem("no space left")

    monkeypatch.setattr(command.pairs.store, "write", full)
    kept = str(tmp_path / "pairs.json")
    words = [*MEASURED, "--output", kept, "--html", str(page)]
    with pytest.raises(EnvironmentProblem):
        commands.main(words, standalone_mode=False)
    assert "dup beside pipe" in capsys.readouterr().out
    assert page.read_text() == matrix.render(PAIRS)


def test_a_bad_second_kernel_is_said_before_the_first_is_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kernel = Kernel("debian", "6.12", Path("bzImage"), Path("vmlinux"))

    def resolve(request: Request, _: Progress) -> Kernel:
        if request.kernel == "none":
            raise UsageProblem("no kernel 'none'")
        return kernel

    measured: list[Wanted] = []
    monkeypatch.setattr(command, "resolve", resolve)
    monkeypatch.setattr(command.sweep, "plan_of", lambda _: None)
    monkeypatch.setattr(command.sweep, "sweep", lambda wanted, *_: measured.append(wanted))
    arguments = ["map", "-w", "signal", "--kernel", "debian", "--kernel", "none"]
    done = CliRunner().invoke(commands, arguments, standalone_mode=False)
    assert isinstance(done.exception, UsageProblem)
    assert done.exception.message == "no kernel 'none'"
    assert measured == []


def run_on_files(folder: Path, *options: str) -> Any:
    """What the command does with two saved results."""
    for number, result in enumerate((OLD, NEW)):
        store.write(result, folder / f"{number}.json")
    files = [str(folder / f"{number}.json") for number in range(2)]
    return CliRunner().invoke(commands, ["map", *files, *options], standalone_mode=False)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--at", "64"], "--at says how to measure"),
        (["-n", "8"], "--containers says how to measure"),
        (["-j", "1"], "--jobs says how to measure"),
        (["--timeout", "300"], "--timeout says how to measure"),
        (["--results", "other"], "--results says how to measure"),
        (["--threshold", "0.001"], "walls above 0.01 alone were kept"),
    ],
)
def test_what_saved_results_cannot_have_is_refused(
    tmp_path: Path, options: list[str], said: str
) -> None:
    # Also if it is the default: that the files have it, nobody looked.
    done = run_on_files(tmp_path, *options)
    assert isinstance(done.exception, UsageProblem)
    assert said in done.exception.message


def test_a_higher_threshold_applies_to_saved_results(tmp_path: Path) -> None:
    assert "node" in run_on_files(tmp_path, "--json").output
    found = maps.Map.model_validate_json(
        run_on_files(tmp_path, "--json", "--threshold", "1").output
    )
    assert [one.name for one in found.objects] == ["label"]


def test_an_operation_has_all_three_kinds_in_words_and_on_the_page() -> None:
    grown = Grown(kind="slab", what="dentry", objects=2, bytes=384, charged=0.5, more=[512, 1536])
    memory = Memory(operations=256, least=0.02, grown=[grown])
    more = {"memory": memory, "held": builders.held(longest=13.2e6)}
    names = builders.workload("names", [wall("label", 2.0)], **more)
    none = {"memory": memory.model_copy(update={"grown": []}), "held": Held(locks=[], waits=[])}
    drawn = maps.draw([builders.result(names, builders.workload("dup", [], **none))])
    said = " ".join(printed(drawn).split())
    assert "transfers memory waits operation, and its worst objects" in said
    assert "2.00 192 growth 13.2 ms names" in said
    assert "0 - - dup" in said
    # Of what nobody pays for, this alone is named as such.
    assert "192 384 names nobody pays for: dentry 192 charged: dentry 192" in said
    assert "13.2 names rtnl_mutex" in said
    text = page.render(drawn)
    assert '<span class="n">192 growth</span><span class="n">13.2 ms</span>' in text
    assert "leaves 384 bytes behind in memory, 192 of them charged to no container; " in text
    assert "; nobody pays for dentry 192; charged dentry 192</p>" in text
    assert "<code>rtnl_mutex</code> is kept from others because somebody sleeps, for 13.2" in text


def test_what_was_not_looked_at_is_said_to_be_that() -> None:
    said = " ".join(printed(maps.draw([OLD])).split())
    assert "0 ? ? dup" in said
    assert said.count("not measured") == 2


def test_with_several_kernels_the_other_kinds_are_said_of_which() -> None:
    grown = Grown(kind="slab", what="dentry", objects=2, bytes=384, charged=1, more=[512, 1536])
    memory = Memory(operations=256, least=0.02, grown=[grown])
    new = NEW.model_copy(
        update={
            "workloads": [one.model_copy(update={"memory": memory}) for one in NEW.workloads[:1]]
        }
    )
    drawn = maps.draw([OLD, new])
    assert "0 384 dup on 7.3.0 charged: dentry 384" in " ".join(printed(drawn).split())


def test_what_is_not_settled_is_told_and_is_not_nothing() -> None:
    rises = Unsettled(kind="slab", what="kmalloc-64", charged=False, bytes=64, more=[0, 512])
    memory = Memory(operations=256, least=0.02, grown=[], unsettled=[rises])
    found = maps.draw([builders.result(builders.workload("dup", [], memory=memory))])
    said = " ".join(printed(found).split())
    assert "0 ? ? dup" in said
    assert "0 0 dup not settled, at most: kmalloc-64 64.0" in said
    text = page.render(found)
    assert "not settled, at most kmalloc-64 64.0</p>" in text
    assert "leaves nothing behind" not in text


def test_the_tables_of_a_map_are_markdown(tmp_path: Path) -> None:
    text = run_on_files(tmp_path, "--markdown").output
    rows = cells(text)
    assert rows[0] == ["", "6.1.1", "7.3.0"]
    assert ["operations with a figure", "3", "3"] in rows
    assert ["walls", "2", "1"] in rows
    assert ["not measured", "0", "1"] in rows
    assert "From `6.1.1` to `7.3.0`, of 3 operations with a figure on both: 1 move less" in text
    assert ["fork", "2.00", "0", "gone: label"] in rows
    assert "of 1 a wall of more than that half came or went" in text
    assert ["label", "6.00 of 2, each 2.00 to 4.00", "4.00 of 1, each 4.00", ""] in rows
    assert ["node", "0.10 of 1, each 0.10", "-", ""] in rows
    assert ["pipe", "4.10", "4.00", "label 4.00, node 0.10"] in rows
    assert ["exec", "7.3.0", "it broke"] in rows


def test_each_pair_of_neighbours_is_compared_in_markdown() -> None:
    broken = with_walls("6.6.1", dup={}, pipe={"label": 4.1}).model_copy(
        update={"failed": [Failure(title="fork", operation="one fork", why="")]}
    )
    text = map_markdown.render(maps.draw([OLD, broken, NEW]), everything=False)
    none = ": 0 move less, 0 more, each by more than half a transfer"
    assert f"From `6.1.1` to `6.6.1`, of 2 operations with a figure on both{none}" in text
    assert f"From `6.6.1` to `7.3.0`, of 2 operations with a figure on both{none}" in text
    # Where a kernel between has no figure, those beside it are held against each other.
    assert "From `6.1.1` to `7.3.0`, of 1 operation with a figure on both and none between" in text
    assert ["fork", "2.00", "failed", "0", "gone: label"] in cells(text)
    assert ["fork", "6.6.1", ""] in cells(text)


def test_markdown_says_the_mix_and_why_a_kernel_has_two_columns() -> None:
    drawn = maps.draw([OLD, OLD, NEW], {"pipe": 3.0, "exec": 1.0})
    text = map_markdown.render(drawn, everything=False)
    assert "The mix, by weight: `pipe` 3.00, `exec` 1.00." in text
    assert "are of kernels that are called alike, not put together" in text
    assert cells(text)[0] == ["", "6.1.1 (A)", "6.1.1 (B)", "7.3.0"]
    assert "- `without exec, of which there is no figure on 6.1.1 (A) and 6.1.1 (B) and 7" in text
    told = "per operation of the mix"
    assert ["object", *(f"{one}: {told}" for one in drawn.labels), "mended by"] in cells(text)


def test_nothing_in_the_tables_of_a_map_is_markup() -> None:
    name = "a|b [x](http://e) <img src=x onerror=a> _a_ @somebody \x1b[31m\n# head"
    grown = Grown(kind="slab", what=name, objects=2, bytes=384, charged=0.5, more=[512, 1536])
    memory = Memory(operations=256, least=0.02, grown=[grown])
    one = builders.workload("one", [wall(name, 2.0)], memory=memory)
    failed = [Failure(title="other", operation="one other", why=name)]
    result = builders.result(one).model_copy(update={"failed": failed})
    kernel = result.kernel.model_copy(update={"release": name, "source": name})
    hostile = result.model_copy(update={"kernel": kernel})
    # The file says what it says: checks of what is read are another matter.
    for every in ([hostile], [hostile, OLD], [hostile, hostile]):
        mix = {} if OLD in every else {"one": 1.0}
        text = map_markdown.render(maps.draw(every, mix), everything=False)
        assert "\x1b" not in text
        html = MarkdownIt("commonmark").enable("table").render(text)
        tags = {"h3", "p", "table", "thead", "tbody", "tr", "th", "td", "code", "ul", "li"}
        assert set(re.findall(r"<([a-z0-9]+)", html)) <= tags
        outside = re.sub(r"<code>.*?</code>", "", html, flags=re.DOTALL)
        assert "@somebody" not in outside


def test_what_failed_in_a_check_is_the_row_of_its_operation() -> None:
    """A check says how many ran; one container that failed is in no map, as others are not."""
    failed = [
        Failure(title=f"fork {shape}", operation="one fork", why=shape) for shape in ("8x1", "1x8")
    ]
    broken = builders.result(builders.workload("pipe", [])).model_copy(update={"failed": failed})
    other = builders.result(builders.workload("fork", [wall("x", 2.0)]))
    other = other.model_copy(update={"kernel": other.kernel.model_copy(update={"release": "7.3"})})
    drawn = {one.title: one.cells for one in maps.draw([broken, other]).operations}
    assert sorted(drawn) == ["fork", "pipe"]
    (first, second) = drawn["fork"]
    assert first is not None and first.failed == "8x1"
    assert second is not None and second.failed is None


def test_markdown_has_all_three_kinds_and_says_what_it_left_out() -> None:
    grown = Grown(kind="slab", what="dentry", objects=2, bytes=384, charged=0.5, more=[512, 1536])
    memory = Memory(operations=256, least=0.02, grown=[grown])
    more = {"memory": memory, "held": builders.held(longest=13.2e6)}
    names = [builders.workload(f"op{n}", [wall("a|b", 2.0)], **more) for n in range(40)]
    found = maps.draw([builders.result(*names)])
    rows = cells(map_markdown.render(found, everything=False))
    assert ["op0", "2.00", "192 growth", "13.2 ms", "a|b 2.00"] in rows
    told = "nobody pays for dentry 192; charged dentry 192"
    assert ["op0", found.labels[0], "192", "384", told] in rows
    assert ["op0", found.labels[0], "13.2", "", "rtnl_mutex"] in rows
    assert [one[0] for one in rows if "more" in one[0]] == [
        "10 more operations: --all",
        "28 more rows: --all",
        "28 more rows: --all",
    ]
    assert "more" not in map_markdown.render(found, everything=True)
    assert "not measured" in map_markdown.render(maps.draw([OLD]), everything=False)
