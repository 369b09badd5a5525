# SPDX-License-Identifier: GPL-2.0-or-later
"""Roots of several containers on one disk."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from partywall.core.errors import EnvironmentProblem
from partywall.core.progress import Quiet
from partywall.guest.roots import Disk, Start, disks, together
from partywall.guest.roots.disks import Filled, Stack

QUIET = Quiet()


def disk(folder: Path, name: str) -> Disk:
    """A kept disk with one file of this name."""

    def fill(_: Path) -> Filled:
        root = folder / name
        root.mkdir()
        (root / name).write_text(name)
        return Filled(root, Start(args=(name,)))

    return disks.kept(name * 8, fill, QUIET)


def listed(made: Disk) -> set[str]:
    done = subprocess.run(
        ["unsquashfs", "-l", "-no-progress", str(made.file)],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_each_root_has_a_folder_and_starts_its_own_programs(tmp_path: Path) -> None:
    one, two = disk(tmp_path, "one"), disk(tmp_path, "two")
    both, places = together([two, one, two], QUIET)
    files = listed(both)
    for place, name in zip(places, ("two", "one", "two"), strict=True):
        (folder,) = place.folders
        assert f"squashfs-root/{folder}/{name}" in files
        assert place.start.args == (name,)
    assert len(files) == 5
    # The same disk, whichever is named first.
    assert together([one, two], QUIET)[0] == both


def layered(folder: Path, key: str, *names: str) -> Disk:
    """A kept disk of layers, the topmost first, each with a file of its name."""

    def fill(_: Path) -> Filled:
        for name in names:
            (folder / key / name).mkdir(parents=True)
            (folder / key / name / f"of-{name}").write_text(name)
        return Filled(folder / key, Start(), Stack(folders=names, passwd="", group=""))

    return disks.kept(key * 8, fill, QUIET)


def test_layers_of_one_name_are_there_once(tmp_path: Path) -> None:
    one, two = layered(tmp_path, "one", "top", "base"), layered(tmp_path, "two", "other", "base")
    flat = disk(tmp_path, "flat")
    both, places = together([one, two, flat], QUIET)
    assert [place.folders for place in places[:2]] == [("top", "base"), ("other", "base")]
    files = listed(both)
    for name in ("top", "other", "base"):
        assert f"squashfs-root/{name}/of-{name}" in files
    (folder,) = places[2].folders
    assert f"squashfs-root/{folder}/flat" in files
    assert len(files) == 9


def test_of_one_root_it_is_its_own_disk(tmp_path: Path) -> None:
    one = disk(tmp_path, "one")
    made, places = together([one, one], QUIET)
    assert made == one
    assert [(place.folders, place.start) for place in places] == [((), one.start)] * 2


def test_a_disk_that_can_not_be_read_is_said(tmp_path: Path) -> None:
    one, two = disk(tmp_path, "one"), disk(tmp_path, "two")
    two.file.write_bytes(b"nothing")
    with pytest.raises(EnvironmentProblem, match="unsquashfs failed: "):
        together([one, two], QUIET)
