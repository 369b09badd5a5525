# SPDX-License-Identifier: GPL-2.0-or-later
"""A map that is interrupted goes on where it was, and finds what it would have found."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from checks import PARTYWALL, differences

from partywall.core import cache
from partywall.measure import unfinished

# Confined differently, so that each has a guest of its own.
MAP = ("map", "-w", "signal", "-w", "mount/bind", "-n", "2", "-j", "1")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A cache with all that is in the usual one, but for what other maps leave."""
    mine = tmp_path / "cache" / "partywall"
    mine.mkdir(parents=True)
    cache.root().mkdir(parents=True, exist_ok=True)
    for one in cache.root().iterdir():
        if one.name != unfinished.KIND:
            (mine / one.name).symlink_to(one)
    return os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")}


def whole_entries(place: Path) -> list[Path]:
    """The guests that are kept there."""
    return [one for one in place.glob("*") if cache.has(str(place), one.name)]


def test_a_map_that_is_interrupted_goes_on(tmp_path: Path, environment: dict[str, str]) -> None:
    def whole(name: str) -> tuple[str, dict[str, object]]:
        """What is said, and found, by a map that is let end."""
        place = tmp_path / name
        done = subprocess.run(
            [PARTYWALL, *MAP, "--output", place],
            capture_output=True,
            text=True,
            check=False,
            timeout=900,
            env=environment,
        )
        assert done.returncode == 0, done.stderr
        return done.stderr, json.loads(place.read_text())

    kept = tmp_path / "cache" / "partywall" / unfinished.KIND
    process = subprocess.Popen(
        [PARTYWALL, *MAP, "--output", tmp_path / "first.json"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    # Not a draft of it: an entry has a stamp when it is whole.
    while process.poll() is None and not whole_entries(kept):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=120)
    assert process.returncode == 130, error
    assert not (tmp_path / "first.json").exists()

    said, second = whole("second.json")
    assert "1 of 2 guests were done" in said
    assert not whole_entries(kept)
    said, third = whole("third.json")
    assert "were done" not in said
    assert [*differences(second, third)] == [f".created: {second['created']} != {third['created']}"]
