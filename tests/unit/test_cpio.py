# SPDX-License-Identifier: GPL-2.0-or-later
"""Archives are what cpio(1) reads, whole, and the same bytes every time."""

from __future__ import annotations

import random
import stat
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partywall.guest.cpio import Archive, around

Names = st.text("abc-._é ", min_size=1, max_size=4).filter(lambda name: name.strip(".") != "")


def cpio(archive: bytes, *options: str, cwd: Path | None = None) -> str:
    """What busybox's cpio says of an archive."""
    done = subprocess.run(
        ["busybox", "cpio", *options], input=archive, cwd=cwd, capture_output=True, check=True
    )
    return done.stdout.decode()


def listed(archive: Archive) -> list[str]:
    return cpio(archive.pack(), "-t").splitlines()


def example() -> Archive:
    archive = Archive()
    archive.file("init", b"#!/bin/sh\n", 0o755)
    archive.directory("tmp", 0o1777)
    for size in range(9):
        archive.file(f"data/of/{size}-bytes", bytes(range(size)))
    archive.file("/rooted/file", b"x" * 5000)
    archive.symlink("bin/sh", "busybox")
    return archive


def test_every_entry_is_listed_once_and_behind_its_folder() -> None:
    names = listed(example())
    assert sorted(names) == sorted(example().entries)
    assert len(set(names)) == len(names)
    for name in names:
        parent = name.rpartition("/")[0]
        assert not parent or names.index(parent) < names.index(name)


def test_folders_above_an_entry_are_added() -> None:
    archive = Archive()
    archive.file("a/b/c", b"")
    archive.directory("d/e/f")
    archive.symlink("g/h", "c")
    assert listed(archive) == ["a", "a/b", "a/b/c", "d", "d/e", "d/e/f", "g", "g/h"]


def test_an_archive_unpacks_to_what_was_put_in(tmp_path: Path) -> None:
    archive = example()
    cpio(archive.pack(), "-id", cwd=tmp_path)
    for name, (mode, data) in archive.entries.items():
        path = tmp_path / name
        found = path.lstat().st_mode
        assert stat.S_IFMT(found) == stat.S_IFMT(mode), name
        if path.is_symlink():
            assert str(path.readlink()) == data.decode()
            continue
        assert stat.S_IMODE(found) == stat.S_IMODE(mode), name
        if path.is_file():
            assert path.read_bytes() == data
    assert len(list(tmp_path.rglob("*"))) == len(archive.entries)


@settings(max_examples=25, deadline=None)
@given(st.dictionaries(Names, st.binary(max_size=20), max_size=6))
def test_any_names_and_contents_are_listed(files: dict[str, bytes]) -> None:
    archive = Archive()
    for name, data in files.items():
        archive.file(f"folder/{name}", data)
    assert listed(archive) == (["folder"] if files else []) + sorted(f"folder/{n}" for n in files)


@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_adding_does_not_matter(seed: int) -> None:
    files = {f"{where}/{n}": bytes([n]) for where in ("a", "a-b", "a/b", "z") for n in range(5)}
    names = list(files)
    random.Random(seed).shuffle(names)
    archives = []
    for order in (names, sorted(names)):
        archive = Archive()
        for name in order:
            archive.file(name, files[name])
        archives.append(archive.pack())
    assert archives[0] == archives[1]


def test_two_archives_of_one_thing_are_the_same_bytes() -> None:
    assert example().pack() == example().pack()


def test_a_changed_byte_gives_another_archive() -> None:
    other = example()
    other.file("data/of/8-bytes", bytes(8))
    assert other.pack() != example().pack()


def test_an_archive_carries_no_time_and_no_owner() -> None:
    member = example().pack()
    for at in (22, 30, 46):  # uid, gid, mtime of the first member, eight hex digits each
        assert member[at : at + 8] == b"00000000"


def test_archives_stand_behind_each_other() -> None:
    first, second = example().pack(), example().pack()
    assert len(first) % 512 == 0
    assert cpio(first + second, "-t") == cpio(first, "-t")
    assert (first + second)[len(first) :][:6] == b"070701"


def test_an_empty_archive_is_one() -> None:
    assert listed(Archive()) == []


def test_what_is_added_twice_is_there_once_as_added_last() -> None:
    archive = Archive()
    archive.file("a/b", b"first", 0o600)
    archive.file("/a/b", b"second", 0o755)
    assert listed(archive) == ["a", "a/b"]
    assert archive.entries["a/b"] == (stat.S_IFREG | 0o755, b"second")


def test_a_folders_mode_outlives_what_is_put_into_it() -> None:
    archive = Archive()
    archive.directory("tmp", 0o1777)
    archive.file("tmp/deep/down/file", b"")
    assert archive.entries["tmp"] == (stat.S_IFDIR | 0o1777, b"")
    archive.directory("tmp/deep", 0o700)
    assert archive.entries["tmp/deep"] == (stat.S_IFDIR | 0o700, b"")


@pytest.mark.parametrize("size", [0, 1, 4, 511, 5000])
def test_what_is_around_a_file_makes_an_archive_of_it(tmp_path: Path, size: int) -> None:
    before, after = around("root.disk", size)
    data = bytes(number % 251 for number in range(size))
    whole = before + data + after
    assert len(whole) % 512 == 0
    cpio(whole, "-i", cwd=tmp_path)
    assert (tmp_path / "root.disk").read_bytes() == data
