# SPDX-License-Identifier: GPL-2.0-or-later
"""A comment says what changed, and nothing else, whatever things are called."""

from __future__ import annotations

import doctest
import re
from html import unescape

import builders
import pytest
from markdown_it import MarkdownIt
from rendered import cells

from partywall.report import markdown, marked
from partywall.results.diff import Difference, Tolerance, diff
from partywall.results.result import Result

WALLED = builders.result(builders.signal(), builders.isolated())
FREE = builders.result(builders.signal().model_copy(update={"walls": []}), builders.isolated())


def found(before: Result, after: Result) -> Difference:
    return diff(before, after, Tolerance())


def test_the_docstrings_are_true() -> None:
    assert doctest.testmod(marked).failed == 0


def test_what_is_worse_is_told_first() -> None:
    text = markdown.render(found(FREE, WALLED))
    assert re.match(r"### Walls: \d+ regressions?\n", text)
    head, first, *_ = cells(text)
    assert head == ["worse", "per operation", "of what", "workload"]
    assert first[0] == "appeared"
    assert any(row[2] == "transfers init_ucounts" for row in cells(text))
    assert "<details>" not in text


def test_what_is_better_can_be_opened() -> None:
    text = markdown.render(found(WALLED, FREE))
    assert re.match(r"### Walls: \d+ figures? better, none worse\n", text)
    assert text.count("<details>") == text.count("</details>") == 1
    assert {row[0] for row in cells(text)[1:]} == {"went"}


def test_no_change_is_said() -> None:
    text = markdown.render(found(WALLED, WALLED))
    assert text.startswith("### Walls: nothing changed by more than chance does\n")
    assert cells(text) == []


@pytest.mark.parametrize(
    "name",
    [
        "a|b",
        "[x](http://evil)",
        "<img src=x>",
        "a`b",
        "``",
        "@everyone",
        "x\n\n# y",
        "`|`",
        "a\\|b",
        "\\\\|<b>@x",
        "a\\",
    ],
)
def test_a_name_is_no_markup(name: str) -> None:
    one = found(FREE, WALLED)
    finding = one.findings[0].model_copy(update={"name": name, "workload": name})
    text = markdown.render(one.model_copy(update={"findings": [finding], "alone": [name]}))
    html = MarkdownIt("commonmark").enable("table").render(text)
    # Of tags there are those of the table alone.
    tags = {"h3", "p", "table", "thead", "tbody", "tr", "th", "td", "code"}
    assert set(re.findall(r"<(\w+)", html)) <= tags
    assert [len(row) for row in cells(text)] == [4, 4]
    assert "@" not in re.sub(r"<code>.*?</code>", "", html)
    # GitHub takes a backslash with whatever stands behind it, as markdown-it does not.
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert [len(re.findall(r"(?:\\.|[^|\\])+", row)) for row in rows] == [4, 4, 4]


@pytest.mark.parametrize("name", ["a|b", "a\\|b", "\\\\|", "a`\\|b", "|\\"])
def test_a_name_is_read_as_it_is(name: str) -> None:
    one = found(FREE, WALLED)
    finding = one.findings[0].model_copy(update={"name": name})
    text = markdown.render(one.model_copy(update={"findings": [finding]}))
    (_, row) = cells(text)
    assert unescape(row[2]) == f"transfers {name}"


def test_a_long_list_is_cut_and_says_so() -> None:
    one = found(FREE, WALLED)
    many = [one.findings[0]] * (markdown.ROWS + 3)
    text = markdown.render(one.model_copy(update={"findings": many}))
    assert len(cells(text)) == markdown.ROWS + 2
    assert "| 3 more |" in text
