# SPDX-License-Identifier: GPL-2.0-or-later
"""The page: all is in it, nothing is fetched, and a real browser has no complaint."""

from __future__ import annotations

import base64
import gzip
import json
import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import builders
import pytest

from partywall.model import profiles
from partywall.report import html
from partywall.report.html import drawing
from partywall.results.counts import CallCount, Passing
from partywall.results.failures import Failure
from partywall.results.memory import Grown, Memory, Unsettled
from partywall.results.pairs import PairOfLines, PairsOfLines
from partywall.results.result import Result

TWO = profiles.load("ice-lake-2x32")
VOID = set("meta link br hr img input col path use rect".split())
EVIL = '</script><script>alert(1)</script>" onload="x\x1b'


def before() -> Result:
    lock = builders.lock("sysctl_lock", 1500, slept=0.5)
    waits = [CallCount(function="synchronize_rcu", per_op=0.5)]
    locked = builders.many_walls().model_copy(update={"locks": [lock], "waits": waits})
    return builders.result(builders.signal(), builders.isolated(), builders.false_sharing(), locked)


def after() -> Result:
    return builders.result(builders.signal().model_copy(update={"walls": [], "between": 0.0}))


def opened(page: str) -> dict[str, str]:
    """What each row of a page opens, by its key."""
    (data,) = re.findall(r'<script id="packed" type="text/plain">(.*?)</script>', page, re.DOTALL)
    found: dict[str, str] = json.loads(gzip.decompress(base64.b64decode(data)))
    return found


class Reader(HTMLParser):
    """Notes what a page is made of; fails if an element is not closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.said = ""

    def handle_starttag(self, tag: str, attributes: Any) -> None:
        self.attributes += [(tag, name, value or "") for name, value in attributes]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: Any) -> None:
        self.attributes += [(tag, name, value or "") for name, value in attributes]

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] not in (["style"], ["script"]):
            self.said += data


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == []
    return reader


@pytest.mark.parametrize("other", [None, after()])
def test_a_page_is_whole_and_the_same_each_time(other: Result | None) -> None:
    page = html.render(before(), other, TWO)
    assert page == html.render(before(), other, TWO)
    reader = read(page)
    rows = {value for _, name, value in reader.attributes if name == "data-wall"}
    assert rows == set(opened(page))
    for word in ("init_ucounts", "sysctl_lock", "synchronize_rcu", "isolated", "false sharing"):
        assert word in reader.said
    ids = [value for _, name, value in reader.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    links = {value[1:] for tag, name, value in reader.attributes if (tag, name) == ("a", "href")}
    assert links <= set(ids)


def test_a_page_refers_to_nothing_outside_of_it() -> None:
    page = html.render(before(), after(), TWO)
    page += "".join(opened(page).values())
    reader = read(page)
    for _, name, value in reader.attributes:
        if name in ("src", "href", "xlink:href", "srcset", "action", "data"):
            assert value.startswith("#"), value
    assert not re.search(r"@import|url\((?!#)", page)


def test_names_out_of_a_guest_do_nothing_in_a_page() -> None:
    walls = [builders.named_wall(EVIL)]
    one = builders.workload("signal", walls).model_copy(
        update={
            "operation": EVIL,
            "variant": EVIL,
            "locks": [builders.lock(EVIL, 50, field=EVIL)],
            "waits": [CallCount(function=EVIL, per_op=1)],
            "calls": [CallCount(function=EVIL, per_op=1)],
        }
    )
    found = builders.result(one)
    kernel = found.kernel.model_copy(update={"release": EVIL, "source": EVIL, "version": EVIL})
    named = found.model_copy(update={"kernel": kernel})
    page = html.render(named, named, TWO)
    page += "".join(opened(page).values())
    assert "<script>alert" not in page
    assert "\x1b" not in page
    assert not [name for _, name, _ in read(page).attributes if name == "onload"]


def test_a_result_without_workloads_is_a_page_too() -> None:
    assert "What walls cost" in read(html.render(builders.result(), None, TWO)).said


def test_all_that_the_result_has_is_in_the_page() -> None:
    inside = builders.false_sharing().walls
    groups = [Passing(name="kmalloc-1k", lines=7, transfers=20.0)]
    late = builders.put_off(builders.signal().walls, rest=1.5)
    pair = PairOfLines(
        address="0x80", first="one lock", second=None, apart=1.0, least=3.25, most=4.5
    )
    pairs = PairsOfLines(apart=5.0, least=7.25, most=9.0, worse=3, listed=[pair])
    more = {"inside": inside, "passing": groups, "deferred": late, "pairs": pairs}
    one = builders.many_walls(200).model_copy(update=more)
    died = Failure(title="fork 8x1", operation="one fork", why="the guest's kernel crashed")
    whole = builders.result(builders.signal(), one).model_copy(
        update={"failed": [died], "lacks": ["sharers"], "measured_with": "partywall.result/2"}
    )
    page = html.render(whole, None, TWO)
    said = read(page).said + " ".join(opened(page).values())
    assert "fork 8x1: the guest's kernel crashed" in said
    assert "sharers: saved as partywall.result/2" in said
    assert "7.25 to 9.00 transfers/op for 5.00" in said
    assert "one lock | nothing that counts" in said
    assert "And 2 pairs more." in said
    every = [*one.walls, *one.inside, *late.walls, *builders.signal().background]
    for line in every:
        assert line.object.address in said
        for site in line.code:
            assert f"{site.function}+{site.offset:#x}" in said
    for word in ("kmalloc-1k", "jiffies_64", "handed over", "background", "between CPUs of one"):
        assert word in said
    assert "on top: 6.03 transfers/op on 2 walls, 1.50 shared too seldom for a wall" in said
    assert "7.53 more in deferred work" in said


def test_of_a_line_that_both_kinds_of_work_use_both_are_shown_apart() -> None:
    late = builders.put_off([builders.both_kinds()])
    page = html.render(builders.result(builders.workload("udp", [], deferred=late)), None, TWO)
    (detail,) = opened(page).values()
    before, after = detail.split("in system calls:")
    assert "in deferred work:" in before
    assert ("tasklet+0x10" in before, "tasklet+0x10" in after) == (True, False)
    assert ("ioctl+0x20" in before, "ioctl+0x20" in after) == (False, True)


def test_what_costs_most_may_be_deferred() -> None:
    late = builders.put_off(builders.signal().walls)
    quiet = builders.workload("udp", [], deferred=late)
    said = " ".join(read(html.render(builders.result(quiet), None, TWO)).said.split())
    assert re.search(r"\d+% lost ?init_ucounts of deferred work", said)


def test_what_costs_most_stands_on_top_with_what_mends_it() -> None:
    said = read(html.render(before(), None, TWO)).said
    top = said[: said.index("Search")]
    assert "init_ucounts" in top
    assert "series ucounts/0001" in top
    assert "Transfer: a cache line" in " ".join(top.split())


def test_a_page_of_many_walls_is_small() -> None:
    pages = html.render(builders.result(*[builders.many_walls(600)] * 3), None, TWO)
    assert len(pages) < 1_500_000


def test_a_browser_opens_a_wall(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(html.render(before(), None, TWO))
    done = subprocess.run(
        [
            *("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"),
            f"--user-data-dir={tmp_path / 'profile'}",
            *("--virtual-time-budget=20000", "--dump-dom", f"{page.as_uri()}#w0bw1"),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    shown = done.stdout[: done.stdout.index('id="packed"')]
    assert "dec_rlimit_put_ucounts+0x41" not in html.render(before(), None, TWO)
    assert "dec_rlimit_put_ucounts+0x41" in shown


def test_the_drawing_puts_fields_where_they_are() -> None:
    (wall,) = builders.false_sharing().walls
    drawn = drawing.draw(wall)
    for box, use in zip(drawn.fields, sorted(wall.fields, key=lambda use: use.offset), strict=True):
        assert box.left == pytest.approx(100 * use.offset / 64)
        assert box.left + box.width <= 100
        assert use.path in box.told
    assert {user.name for user in drawn.users} == {site.function for site in wall.code}


def browsed(page: Path, width: int, folder: Path) -> tuple[str, list[str]]:
    """What a browser's console said, and the addresses it asked the network for."""
    log = folder / f"net-{width}.json"
    done = subprocess.run(
        [
            *("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
            *("--disable-background-networking", "--disable-component-update", "--no-first-run"),
            *("--disable-sync", "--disable-default-apps", "--disable-extensions"),
            f"--user-data-dir={folder / 'profile'}",
            f"--window-size={width},1200",
            f"--screenshot={folder / 'page.png'}",
            f"--log-net-log={log}",
            *("--enable-logging=stderr", "--log-level=0"),
            page.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    events = json.loads(log.read_text())["events"]
    asked = {event["params"]["url"] for event in events if "url" in event.get("params", {})}
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return "\n".join(console), sorted(url for url in asked if not url.startswith("file:"))


@pytest.mark.parametrize("width", [1400, 400])
def test_a_browser_has_no_complaint_and_asks_for_nothing(tmp_path: Path, width: int) -> None:
    page = tmp_path / "page.html"
    page.write_text(html.render(before(), after(), TWO))
    console, asked = browsed(page, width, tmp_path)
    assert console == ""
    assert [url for url in asked if "partywall" in url or url.startswith("data:")] == []
    assert (tmp_path / "page.png").stat().st_size > 10_000


def test_a_browser_would_say_what_is_wrong(tmp_path: Path) -> None:
    page = tmp_path / "bad.html"
    page.write_text('<script>nonesuch()</script><img src="http://partywall.invalid/x.png">')
    console, asked = browsed(page, 400, tmp_path)
    assert "nonesuch" in console
    assert "http://partywall.invalid/x.png" in asked


def test_memory_that_stays_and_waits_have_a_picture_each() -> None:
    names = Grown(kind="slab", what="dentry", objects=2, bytes=384, charged=1, more=[512, 1536])
    lists = Grown(kind="slab", what="kmalloc-192", objects=0.1, bytes=18, charged=0, more=[26, 78])
    rises = Unsettled(kind="slab", what="kmalloc-64", charged=False, bytes=64, more=[0, 512])
    memory = Memory(operations=256, least=0.02, grown=[names, lists], unsettled=[rises])
    one = builders.signal().model_copy(update={"memory": memory, "held": builders.held()})
    page = html.render(builders.result(one), None, TWO)
    assert "dentry: 384 bytes/op, charged to a container" in page
    assert "kmalloc-192: 18.0 bytes/op, charged to nobody" in page
    assert "kmalloc-64: not settled, at most 64.0 bytes/op, charged to nobody" in page
    assert "held 3.00 ms an operation, 2.00 ms of that asleep; others sleep 7.00 ms for it" in page
    # Of the longest bar, for which others sleep.
    assert '<b class="read" style="left:0;width:14.29%">' in page
    assert '<b class="atomic" style="left:14.29%;width:28.57%">' in page
    assert '<b class="write" style="left:0;width:100.00%">' in page
    said = " ".join(read(page).said.split())
    assert "18.0 growth" in said
    assert "13.2 ms" in said
    both = html.render(builders.result(one), builders.result(one), TWO)
    assert both.count("dentry: 384 bytes/op") == 2


def test_without_either_there_is_no_picture_and_it_is_said_what_is_known() -> None:
    page = html.render(before(), None, TWO)
    assert "Waits behind somebody" not in page
    assert "stays in memory" not in page
    none = builders.signal().model_copy(
        update={"memory": Memory(operations=256, least=0.02, grown=[])}
    )
    assert "Nothing stays in memory that is more than 81.9 bytes an operation, or 0.020 obj" in (
        html.render(builders.result(none), None, TWO)
    )
    rises = Unsettled(kind="slab", what="kmalloc-64", charged=False, bytes=64, more=[0, 512])
    memory = Memory(operations=256, least=0.02, grown=[], unsettled=[rises])
    some = builders.signal().model_copy(update={"memory": memory})
    assert "Nothing stays in memory" not in html.render(builders.result(some), None, TWO)
