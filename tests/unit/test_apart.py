# SPDX-License-Identifier: GPL-2.0-or-later
"""What is called in a process of its own comes back, fails and ends as if it were not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from partywall.core import apart as module
from partywall.core.apart import Apart
from partywall.core.errors import EnvironmentProblem, UsageProblem
from partywall.core.progress import Progress, Quiet, Step


class Heard:
    """A `Progress` that keeps what it is told."""

    def __init__(self) -> None:
        self.said: list[tuple[object, ...]] = []

    @contextmanager
    def step(self, name: str, expected: float | None = None) -> Iterator[Step]:
        self.said.append(("begin", name, expected))
        try:
            yield Step()
        except BaseException:
            self.said.append(("failed", name))
            raise
        self.said.append(("end", name))

    def note(self, text: str) -> None:
        self.said.append(("note", text))

    def ahead(self, text: str) -> None:
        self.said.append(("ahead", text))


def double(number: int, progress: Progress) -> tuple[int, int]:
    with progress.step("outer", 5.0), progress.step("inner"):
        progress.note("halfway")
        progress.ahead("long")
    return 2 * number, os.getpid()


def refuse(progress: Progress) -> None:
    with progress.step("outer"):
        raise UsageProblem("that can't be", "ask for this")


def stumble(progress: Progress) -> None:
    raise ZeroDivisionError("a defect")


def die(progress: Progress) -> None:
    with progress.step("outer"):
        os.kill(os.getpid(), signal.SIGKILL)


def linger(folder: Path, progress: Progress) -> None:
    """Until it is ended; what cleans up is seen."""
    mine = folder / str(os.getpid())
    mine.touch()
    try:
        time.sleep(600)
    finally:
        mine.unlink()


def until(condition: object) -> None:
    deadline = time.monotonic() + 300
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_the_value_comes_back_from_another_process() -> None:
    heard = Heard()
    value, process = Apart(heard).call(double, 21)
    assert value == 42
    assert process != os.getpid()
    assert heard.said == [
        *(
            ("begin", "outer", 5.0),
            ("begin", "inner", None),
            ("note", "halfway"),
            ("ahead", "long"),
        ),
        *(("end", "inner"), ("end", "outer")),
    ]


def test_an_error_comes_back_with_its_hint_and_the_step_has_failed() -> None:
    heard = Heard()
    with pytest.raises(UsageProblem, match="that can't be") as caught:
        Apart(heard).call(refuse)
    assert caught.value.hint == "ask for this"
    assert heard.said == [("begin", "outer", None), ("failed", "outer")]


def test_a_defect_says_where_it_is() -> None:
    with pytest.raises(ZeroDivisionError, match="a defect") as caught:
        Apart(Quiet()).call(stumble)
    assert "in stumble" in "".join(caught.value.__notes__)


def test_a_process_that_is_killed_is_an_error_in_words() -> None:
    heard = Heard()
    with pytest.raises(EnvironmentProblem, match="died") as caught:
        Apart(heard).call(die)
    assert "--jobs" in (caught.value.hint or "")
    assert heard.said[-1] == ("failed", "outer")


def test_what_is_ended_cleans_up_and_nothing_new_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Who has had his time is killed, which a busy machine may make of anybody.
    monkeypatch.setattr(module, "_PATIENCE", 300)
    apart = Apart(Quiet())
    failures: list[BaseException] = []

    def begin() -> None:
        try:
            apart.call(linger, tmp_path)
        except EnvironmentProblem as error:
            failures.append(error)

    threads = [threading.Thread(target=begin) for _ in range(2)]
    for thread in threads:
        thread.start()
    until(lambda: len(list(tmp_path.iterdir())) == 2)
    apart.end()
    for thread in threads:
        thread.join(300)
    assert list(tmp_path.iterdir()) == []
    assert len(failures) == 2
    with pytest.raises(EnvironmentProblem, match="stopped"):
        apart.call(double, 1)


_PARENT = """
import sys
from pathlib import Path
from partywall.core.apart import Apart
from partywall.core.progress import Quiet
from test_apart import linger
Apart(Quiet()).call(linger, Path(sys.argv[1]))
"""


def test_a_killed_parent_takes_its_processes_along(tmp_path: Path) -> None:
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    parent = subprocess.Popen(
        [sys.executable, "-c", _PARENT, str(tmp_path)], env=os.environ | {"PYTHONPATH": path}
    )
    until(lambda: list(tmp_path.iterdir()))
    (child,) = [int(path.name) for path in tmp_path.iterdir()]
    parent.kill()
    parent.wait()
    until(lambda: _dead(child))


def _dead(process: int) -> bool:
    try:
        said = Path(f"/proc/{process}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True
    return said.rpartition(") ")[2].startswith(("Z", "X"))
