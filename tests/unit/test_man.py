# SPDX-License-Identifier: GPL-2.0-or-later
"""Man pages say what the commands say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from partywall.cli import commands, series

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "man.py"


@pytest.fixture(scope="module")
def manual(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("man")
    subprocess.run([sys.executable, SCRIPT, folder], check=True)
    return folder


def test_every_command_has_a_page(manual: Path) -> None:
    names = {f"partywall-{name}.1" for name in commands.commands}
    names |= {f"partywall-series-{name}.1" for name in series.series_group.commands}
    assert {path.name for path in manual.glob("*.1")} == names | {"partywall.1"}


def test_a_page_has_options_examples_and_statuses(manual: Path) -> None:
    page = (manual / "partywall-check.1").read_text()
    assert "check \\- find the walls of a kernel" in page
    assert "\\-\\-fail\\-above X" in page
    assert ".nf\npartywall check \\-w signal\n" in page
    assert ".SH EXIT STATUS" in page
    assert "partywall\\-series\\-prove(1)" in (manual / "partywall-series.1").read_text()
    assert "350 MB" in (manual / "partywall.1").read_text()


def test_no_words_become_requests_of_troff(manual: Path) -> None:
    for path in manual.glob("*.1"):
        for line in path.read_text().splitlines():
            assert not line.startswith("'"), path
            if line.startswith("."):
                assert re.match(r"\.(TH|SH|TP|PP|nf|fi)\b", line), path
            # A hyphen of its own would be typeset as one, and could not be pasted.
            assert not re.search(r"(?<!\\)-", line), path


def test_completions_begin_as_each_shell_asks(manual: Path) -> None:
    assert (manual / "zsh" / "_partywall").read_text().startswith("#compdef partywall\n")
    assert "complete -o nosort -F" in (manual / "bash" / "partywall").read_text()
    assert (
        "complete --no-files --command partywall"
        in (manual / "fish" / "partywall.fish").read_text()
    )
