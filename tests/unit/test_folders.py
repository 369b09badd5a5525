# SPDX-License-Identifier: GPL-2.0-or-later
"""Folders of a live process stay, whatever its number; those of a dead one go."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from partywall import guest
from partywall.core import folders

# A number that no process here has, as those of another PID namespace mostly are.
_FOREIGN = 1 << 30
_HOLD = f"""
import os, sys
os.getpid = lambda: {_FOREIGN}
from partywall.core.folders import Folder
folder = Folder(sys.argv[1])
print(folder.path, flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files go, for this process and its children."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@contextmanager
def held(kind: str) -> Iterator[Path]:
    """A folder that another process holds; that process is killed in the end."""
    with subprocess.Popen(
        [sys.executable, "-c", _HOLD, kind],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        try:
            assert other.stdout is not None
            yield Path(other.stdout.readline().strip())
        finally:
            other.kill()


def test_a_live_process_of_another_namespace_keeps_its_guest() -> None:
    with held("guest") as path:
        assert str(_FOREIGN) in path.name
        (path / "console").write_text("alive")
        guest.clean_up()
        assert (path / "console").exists()


def test_a_killed_process_leaves_nothing_for_long() -> None:
    with held("guest") as path:
        (path / "console").write_text("dead soon")
    assert path.exists()
    guest.clean_up()
    assert not path.exists()


def test_only_the_kind_that_is_asked_for_is_removed(place: Path) -> None:
    for name in ("partywall-guest-1-a", "partywall-bench-1-a", "partywall-other"):
        (place / name).mkdir()
    folders.clean_up("bench")
    left = sorted(path.name for path in place.iterdir())
    assert left == ["partywall-guest-1-a", "partywall-other"]


def test_a_link_is_not_followed(place: Path) -> None:
    aim = place / "precious"
    aim.mkdir()
    (aim / "file").touch()
    (place / "partywall-guest-1-a").symlink_to(aim)
    folders.clean_up("guest")
    assert (aim / "file").exists()


def test_a_folder_can_be_removed_twice() -> None:
    folder = folders.Folder("guest")
    assert folder.path.is_dir()
    folder.remove()
    folder.remove()
    assert not folder.path.exists()


def test_what_is_let_go_of_is_left_to_others() -> None:
    folder = folders.Folder("guest")
    folders.clean_up("guest")
    assert folder.path.exists()
    folder.let_go()
    folders.clean_up("guest")
    assert not folder.path.exists()


@pytest.mark.parametrize("moment", ["mkdtemp", "open"])
def test_who_cleans_up_before_a_folder_is_held_does_no_harm(
    moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = tempfile if moment == "mkdtemp" else os
    real = getattr(module, moment)
    rounds = []

    def with_a_visitor(*arguments: object, **more: object) -> object:
        made = real(*arguments, **more)
        rounds.append(made)
        if len(rounds) == 1:
            with monkeypatch.context() as alone:
                alone.setattr(module, moment, real)
                folders.clean_up("guest")
        return made

    monkeypatch.setattr(module, moment, with_a_visitor)
    folder = folders.Folder("guest")
    assert folder.path.is_dir()
    assert len(rounds) == 2
    folder.remove()
