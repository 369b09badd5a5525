# SPDX-License-Identifier: GPL-2.0-or-later
"""Predictions as people and programs get them."""

from __future__ import annotations

import io
import json
import re

import builders
import jsonschema
import pytest
from rich.cells import cell_len
from rich.console import Console

from partywall.cli.predict import parse_counts
from partywall.core.errors import UsageProblem
from partywall.core.topology import Topology
from partywall.model import profiles, signal
from partywall.model.predict import Outlook, Trial, outlook, trial
from partywall.model.queues import usual_counts
from partywall.report import predict as view
from partywall.results import document
from partywall.results.counts import CallCount
from partywall.results.result import Result

TWO = profiles.load("ice-lake-2x32")
BEFORE = builders.result(builders.signal(), builders.isolated(), builders.many_walls())
AFTER = builders.result(builders.signal().model_copy(update={"walls": [], "between": 0.0}))


def shown(before: Result, after: Result | None = None, width: int = 80) -> str:
    file = io.StringIO()
    found = outlook(before, after, TWO)
    view.render(found, Console(file=file, width=width))
    return file.getvalue()


@pytest.mark.parametrize("width", [60, 80, 200])
def test_every_number_of_containers_has_a_row(width: int) -> None:
    text = shown(BEFORE, width=width)
    for count in (1, 2, 4, 8, 16, 32, 64):
        assert len(re.findall(rf"^ +{count} +[\d,.]+ ", text, re.MULTILINE)) == 3
    # What comes of sharing cores is not shown unless asked for.
    assert re.search(r"^ +128 ", text, re.MULTILINE) is None
    assert "which they share" not in text
    assert all(cell_len(line) <= width for line in text.splitlines())


@pytest.mark.parametrize("after", [None, AFTER])
def test_sharing_cores_is_told_from_walls(after: Result | None) -> None:
    file = io.StringIO()
    found = outlook(BEFORE, after, TWO, [64, 256])
    view.render(found, Console(file=file, width=80))
    text = file.getvalue()
    assert re.search(r"^ +64 .* 100%$", text, re.MULTILINE)
    assert re.search(r"^ +256 .* 25%$", text, re.MULTILINE)
    assert "more than the machine's 64 cores, which they share; that\nis no wall" in text


def test_the_usual_numbers_end_at_the_cores() -> None:
    assert usual_counts(profiles.load("cascade-lake-2x24")) == [1, 2, 4, 8, 16, 32, 48]
    assert usual_counts(TWO)[-2:] == [32, 64]
    assert usual_counts(TWO, 4) == [1, 2, 4, 8, 16]
    assert usual_counts(TWO, 100) == [1]
    four = builders.signal().model_copy(update={"topology": Topology(containers=8, cpus=4)})
    (pair,) = outlook(builders.result(four), None, TWO).workloads
    assert [point.core for point in pair.before.points] == [1.0] * 5
    (over,) = outlook(builders.result(four), None, TWO, [32]).workloads[0].before.points
    assert over.core == 0.5


def test_what_is_not_known_may_make_it_less() -> None:
    waits = [CallCount(function="synchronize_rcu", per_op=1)]
    one = builders.signal().model_copy(update={"waits": waits})
    text = " ".join(shown(builders.result(one), width=200).split())
    assert "all op/s may be less; not known: how long synchronize_rcu takes (1 per op)" in text


def test_lines_of_one_name_are_one() -> None:
    page = builders.many_walls(3).walls[0].object
    walls = [
        builders.line(page.model_copy(update={"name": "struct page of x", "line": n}), 10.0)
        for n in range(31)
    ]
    other = [
        builders.line(page.model_copy(update={"name": f"other {n}"}), 9.0 - n) for n in range(6)
    ]
    text = shown(builders.result(builders.workload("fork", walls + other)), width=200)
    assert text.count("struct page of x") == 1
    assert "310 on struct page of x (31 lines), 9.00 on other 0, 8.00 on other 1" in text
    assert "15.0 on 3 lines more" in text


def test_what_deferred_work_adds_is_told() -> None:
    late = builders.put_off(builders.signal().walls)
    one = builders.signal().model_copy(update={"deferred": late})
    text = " ".join(shown(builders.result(one), width=200).split())
    said = "8.06 on init_ucounts (2 lines), 4.00 on kmalloc-256: struct aa_label"
    assert f"that are queued for: {said}; 6.03 of these in deferred work" in text
    assert "may be less" not in text
    assert "deferred work" not in shown(builders.result(builders.signal()))


def test_two_results_stand_side_by_side() -> None:
    text = shown(BEFORE, AFTER)
    assert "before" in text
    assert re.search(r"^ +64 .* \d\.\d\d +\d+% -> 100%$", text, re.MULTILINE)
    assert "after: transfers/op that are queued for: no line" in text


def test_json_is_what_the_schema_says_and_the_same_each_time() -> None:
    found = outlook(BEFORE, AFTER, TWO)
    text = document.dump(found)
    jsonschema.validate(json.loads(text), document.schema(Outlook))
    assert text == document.dump(outlook(BEFORE, AFTER, TWO))
    assert Outlook.model_validate_json(text) == found


def test_the_published_figures_are_laid_beside() -> None:
    file = io.StringIO()
    found = trial([TWO, profiles.load("cascade-lake-2x24")], signal.stored())
    view.render_trial(found, Console(file=file, width=80))
    text = file.getvalue()
    assert "partywall check -w signal" in text
    # One container alone is no row.
    assert "380,068" not in text
    assert len(re.findall(r"^ +64[* ] +129,152 +34% ", text, re.MULTILINE)) == 2
    assert text.count("* more than the machine's 48 cores") == 1
    assert "given" in text
    assert max(map(cell_len, text.splitlines())) <= 80


def test_the_trial_as_json_is_what_its_schema_says() -> None:
    found = trial([TWO], signal.stored())
    jsonschema.validate(json.loads(document.dump(found)), document.schema(Trial))
    assert Trial.model_validate_json(document.dump(found)) == found


def test_numbers_of_containers_are_read() -> None:
    assert parse_counts("64,1, 8,8") == [1, 8, 64]


@pytest.mark.parametrize("text", ["", "0", "-1", "a", "1,,2", "5000", "1.5", "\u00b2"])
def test_what_is_no_list_of_numbers_is_refused(text: str) -> None:
    with pytest.raises(UsageProblem):
        parse_counts(text)
