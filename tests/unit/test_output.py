# SPDX-License-Identifier: GPL-2.0-or-later
"""A result at the path that was asked for, as a workflow of files needs it."""

from __future__ import annotations

import gzip
import os
import stat
import subprocess
import sys
from pathlib import Path

import builders
import pytest
from click.testing import CliRunner, Result

from partywall.cli import check, commands, map
from partywall.core import cache
from partywall.core.errors import EnvironmentProblem, PartywallError, UsageProblem
from partywall.kernels import Kernel
from partywall.measure import run, sweep
from partywall.measure.sitting import Found
from partywall.measure.unfinished import Keeping, Unfinished
from partywall.results import document, store

FOUND = builders.result(builders.signal(), builders.isolated())
COMMANDS = ("check", "map")


class Measuring:
    """In place of guests: says what was asked for, and finds `FOUND` unless told otherwise."""

    def __init__(self) -> None:
        self.asked: list[run.Wanted] = []
        self.outcome = run.Outcome(FOUND, {})
        self.before: list[str] = []

    def __call__(
        self, wanted: run.Wanted, progress: object, kept: Unfinished | None = None
    ) -> run.Outcome:
        self.asked.append(wanted)
        if kept is not None:
            # As a guest that was measured, and one that had been before.
            self.before.append("was kept" if kept.found("0123") else "nothing")
            found: Found[str] = Found("version")
            found.add("what it found")
            Keeping(lambda *_: found, "0123")(*[None] * 4)  # type: ignore[arg-type]
        return self.outcome


@pytest.fixture
def measuring(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Measuring:
    fake = Measuring()
    kernel = Kernel("a kernel", "6.12.1", tmp_path, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", f"{tmp_path}-cache")
    monkeypatch.setattr(run, "check", fake)
    monkeypatch.setattr(sweep, "sweep", fake)
    for module in (check, map):
        monkeypatch.setattr(module, "resolve", lambda *_: kernel)
    return fake


def partywall(*words: str | Path) -> Result:
    return CliRunner().invoke(commands, [str(word) for word in words], standalone_mode=False)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", ["one.json", "new/folder/one.json.gz"])
def test_a_result_is_written_where_it_was_asked_for(
    measuring: Measuring, tmp_path: Path, command: str, name: str
) -> None:
    done = partywall(command, "-w", "signal", "--output", name)
    assert done.return_value == 0, done.exception
    data = (tmp_path / name).read_bytes()
    text = gzip.decompress(data) if name.endswith(".gz") else data
    assert text.decode() == document.dump(FOUND)
    assert not (tmp_path / "results").exists()
    assert [path.name for path in (tmp_path / name).parent.iterdir()] == [Path(name).name]


@pytest.mark.parametrize("how", [[], ["--html", "page.html"], ["--json"]])
def test_guests_of_a_map_are_kept_until_its_result_is_written(
    measuring: Measuring, how: list[str]
) -> None:
    words = ("map", "-w", "signal", "--output", "one.json")
    measuring.outcome = run.Outcome(None, {"signal": EnvironmentProblem("it broke")})
    assert partywall(*words).return_value == 3
    measuring.outcome = run.Outcome(FOUND, {})
    assert partywall(*words, *how).return_value == 0
    assert measuring.before == ["nothing", "was kept"]
    assert partywall(*words, *how).return_value == 0
    assert measuring.before[2:] == ["nothing"]


def test_guests_of_a_map_are_kept_if_its_result_can_not_be_written(
    measuring: Measuring, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> Path:
        raise EnvironmentProblem("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(map, "keep", full)
        assert partywall("map", "-w", "signal").return_value == 3
    assert partywall("map", "-w", "signal").return_value == 0
    assert measuring.before == ["nothing", "was kept"]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_wall_that_was_found_is_no_failure(measuring: Measuring, command: str) -> None:
    assert FOUND.worst > 1
    assert partywall(command, "-w", "signal", "--output", "one.json").return_value == 0


@pytest.mark.parametrize("command", COMMANDS)
def test_what_was_there_is_replaced_by_a_result_and_by_nothing_else(
    measuring: Measuring, tmp_path: Path, command: str
) -> None:
    file = tmp_path / "one.json"
    file.write_text("old")
    measuring.outcome = run.Outcome(None, {"signal": EnvironmentProblem("it broke")})
    assert partywall(command, "-w", "signal", "--output", file).return_value == 3
    assert file.read_text() == "old"
    measuring.outcome = run.Outcome(FOUND, {})
    assert partywall(command, "-w", "signal", "--output", file).return_value == 0
    assert store.load(file) == FOUND


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("path", "said", "kind"),
    [
        ("one.txt", "ends in .json or .json.gz", UsageProblem),
        ("one", "ends in .json or .json.gz", UsageProblem),
        ("file/one.json", "in file: File exists", EnvironmentProblem),
        ("x" * 300 + ".json", "File name too long", EnvironmentProblem),
    ],
)
def test_a_wrong_path_is_said_before_anything_boots(
    measuring: Measuring, tmp_path: Path, command: str, path: str, said: str, kind: type
) -> None:
    (tmp_path / "file").write_text("in the way")
    done = partywall(command, "-w", "signal", "--output", path)
    assert isinstance(done.exception, PartywallError)
    assert isinstance(done.exception, kind)
    assert said in f"{done.exception.message}\n{done.exception.hint}"
    assert "XDG_CACHE_HOME" not in (done.exception.hint or "")
    assert measuring.asked == []


@pytest.mark.parametrize("command", COMMANDS)
def test_a_folder_is_no_file(measuring: Measuring, tmp_path: Path, command: str) -> None:
    (tmp_path / "one.json").mkdir()
    done = partywall(command, "-w", "signal", "--output", "one.json")
    assert "is a directory" in str(done.exception)
    assert measuring.asked == []


@pytest.mark.parametrize("words", [["saved.json"], ["--kernel", "stock"]])
def test_one_file_is_for_one_kernel(measuring: Measuring, tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "saved.json").write_text(document.dump(FOUND))
    done = partywall("map", "--kernel", "debian", *words, "--output", "one.json")
    assert isinstance(done.exception, UsageProblem)
    assert "--output is for what is measured of one kernel" in done.exception.message
    assert measuring.asked == []
    assert not (tmp_path / "one.json").exists()


@pytest.mark.parametrize("name", ["one.json", "x" * 245 + ".json.gz"])
def test_a_file_is_written_as_others_are(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    store.check_path(path)
    assert list(tmp_path.iterdir()) == []
    store.write(FOUND, path)
    assert store.load(path) == FOUND
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_what_is_no_file_is_written_to_and_stays(tmp_path: Path) -> None:
    """A device, a pipe, or what a link points to."""
    pipe, link, target = tmp_path / "pipe", tmp_path / "link", tmp_path / "target"
    os.mkfifo(pipe)
    link.symlink_to(target)
    # Open for both, so that who writes need not wait for who reads.
    reader = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    try:
        cache.check_place(pipe, "writing a page")
        cache.write_whole(pipe, "text")
        assert os.read(reader, 10) == b"text"
    finally:
        os.close(reader)
    assert pipe.is_fifo()
    cache.write_whole(link, "text")
    assert link.is_symlink()
    assert target.read_text() == "text"


@pytest.mark.parametrize(
    ("words", "streams", "status"),
    [
        ("workloads", ">&-", 3),
        ("report no-such-file", "2>/dev/full", 2),
        ("report no-such-file", "2>&-", 2),
    ],
)
def test_where_nothing_can_be_said_the_status_says_it(
    words: str, streams: str, status: int
) -> None:
    program = "from partywall.cli import main; main()"
    done = subprocess.run(
        ["sh", "-c", f'exec "$0" -c "$1" {words} {streams}', sys.executable, program],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "Traceback" in done.stderr) == (status, False)
