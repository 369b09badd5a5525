# SPDX-License-Identifier: GPL-2.0-or-later
"""What was asked for and could not be measured: it stays in the result, and every view tells it."""

from __future__ import annotations

import io
from math import inf
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import builders
import pytest
from click.testing import CliRunner
from rich.console import Console

from partywall import workloads
from partywall.cli import commands
from partywall.cli.limits import Limits
from partywall.core.errors import EnvironmentProblem, UsageProblem
from partywall.core.progress import Quiet
from partywall.guest import qemu
from partywall.measure import run
from partywall.measure.plan import Measured
from partywall.model import profiles
from partywall.record import hooks
from partywall.report import ktap, terminal
from partywall.results import store
from partywall.results.failures import Failure
from partywall.results.result import Result

DIED = Failure(title="fork 8x1", operation="one fork", why="the guest's kernel crashed")
BARE = Failure(title="server", operation="one request", why="/no-such-place is no directory")
TWO = profiles.load("ice-lake-2x32")
WHOLE = builders.result(builders.isolated())
PART = WHOLE.model_copy(update={"failed": [DIED]})


def shown(result: Result) -> str:
    file = io.StringIO()
    terminal.render(result, Console(file=file, width=80), TWO)
    return file.getvalue()


def test_a_check_of_which_a_guest_died_says_so_in_its_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = SimpleNamespace(version="7.2.22", plugin_abi=1)
    kernel: Any = SimpleNamespace(
        source="a kernel",
        release="6.12.1",
        build_id="a" * 40,
        image_sha256="b" * 64,
        config_sha256=None,
        vmlinux=None,
    )
    wanted = run.Wanted(
        kernel=kernel, workloads=workloads.select(["signal", "fork"]), rootless=[BARE]
    )

    def became(calls: list[run.Call[Any]], *_: object) -> list[Any]:
        good = Measured(builders.signal(), "Linux 6.12.1")
        return [good if "signal" in call.title else EnvironmentProblem(DIED.why) for call in calls]

    monkeypatch.setattr(qemu, "find", lambda: machine)
    monkeypatch.setattr(hooks, "require", lambda *_: None)
    monkeypatch.setattr("partywall.measure.plan.Plan.check", lambda *_: None)
    monkeypatch.setattr(run, "recorder", lambda *_: None)
    monkeypatch.setattr(run, "side_by_side", became)
    outcome = run.check(wanted, Quiet())
    assert outcome.result is not None
    told = {one.title: one.why for one in outcome.result.failed}
    assert told == {"server": BARE.why, "fork 8x1": DIED.why}
    assert outcome.failures.keys() == {"fork 8 x 1"}


def test_a_report_names_it_on_top() -> None:
    top, _, _ = shown(PART).partition("predicted at")
    assert "fork 8x1: the guest's kernel crashed" in " ".join(top.split())
    assert "failed" not in shown(WHOLE)


def test_ktap_has_it_as_a_test_that_failed() -> None:
    text = ktap.render(PART, 100.0)
    assert "\n1..2\n" in text
    assert "# fork 8x1: could not be measured: the guest's kernel crashed\n" in text
    assert text.endswith("\nnot ok 2 fork 8x1\n")
    assert "not ok" not in ktap.render(WHOLE, 100.0)


@pytest.mark.parametrize("limits", [Limits(100.0), Limits(inf, held=5.0), Limits(inf, growth=17.0)])
def test_nothing_that_is_not_known_is_under_a_limit(limits: Limits) -> None:
    with pytest.raises(UsageProblem, match="fork 8x1 could not be measured"):
        limits.check_whole(PART)
    limits.check_whole(WHOLE)
    Limits(inf).check_whole(PART)


@pytest.mark.parametrize(("result", "status"), [(WHOLE, 0), (PART, 2)])
@pytest.mark.parametrize("command", [["report"], ["compare"]])
def test_a_saved_result_passes_no_limit_for_it(
    tmp_path: Path, result: Result, status: int, command: list[str]
) -> None:
    file = str(store.save(result, tmp_path))
    files = [file] * (2 if command == ["compare"] else 1)
    words = [*command, *files, "--fail-above", "100"]
    done = CliRunner().invoke(commands, words, standalone_mode=False)
    found = done.exception.exit_code if isinstance(done.exception, UsageProblem) else 0
    assert found == status
    assert not CliRunner().invoke(commands, [*command, *files], standalone_mode=False).exception
