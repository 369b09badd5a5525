# SPDX-License-Identifier: GPL-2.0-or-later
"""What the cache gives is whole, whatever happened while it was made."""

from __future__ import annotations

import errno
import fcntl
import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import pytest

from partywall.core import cache
from partywall.core.errors import EnvironmentProblem, UsageProblem
from partywall.core.progress import Quiet, Step


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "partywall"


class Filler:
    """Fills an entry, and counts how often."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.calls = 0
        self.error = error

    def __call__(self, directory: Path) -> None:
        self.calls += 1
        (directory / "inner").mkdir()
        (directory / "inner" / "file").write_text(f"made {self.calls}")
        if self.error is not None:
            raise self.error


def entry(fill: Filler, key: str = "key") -> Path:
    return cache.entry("kind", key, fill, Quiet())


def files(root: Path) -> set[str]:
    """All there is but locks."""
    paths = (path for path in root.rglob("*") if path.is_file() and path.suffix != ".lock")
    return {str(path.relative_to(root)) for path in paths}


def test_the_cache_lies_where_it_is_told(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache.root() == root
    for unset in ("", None):
        monkeypatch.setenv("HOME", "/home/somebody")
        if unset is None:
            monkeypatch.delenv("XDG_CACHE_HOME")
        else:
            monkeypatch.setenv("XDG_CACHE_HOME", unset)
        assert cache.root() == Path("/home/somebody/.cache/partywall")


def test_an_entry_is_made_once(root: Path) -> None:
    fill = Filler()
    place = entry(fill)
    assert entry(fill) == place
    assert fill.calls == 1
    assert (place / "inner" / "file").read_text() == "made 1"
    assert place.is_relative_to(root)


def test_an_entry_is_there_once_it_is_made() -> None:
    assert not cache.has("kind", "key")
    entry(Filler())
    assert cache.has("kind", "key")
    assert not cache.has("kind", "other")
    assert not cache.has("other", "key")


def test_entries_of_other_keys_are_others() -> None:
    first, second = Filler(), Filler()
    assert entry(first, "a") != entry(second, "b")
    assert (first.calls, second.calls) == (1, 1)


def test_another_users_programs_can_read_an_entry() -> None:
    assert entry(Filler()).stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize(
    "error", [UsageProblem("no"), ValueError("no"), KeyboardInterrupt(), SystemExit(1)]
)
def test_a_failure_leaves_nothing_and_the_next_call_works(root: Path, error: BaseException) -> None:
    with pytest.raises(type(error)) as caught:
        entry(Filler(error))
    assert caught.value is error
    assert not cache.has("kind", "key")
    assert files(root) == set()
    place = entry(Filler())
    assert (place / "inner" / "file").read_text() == "made 1"


def test_a_full_disk_is_said_with_what_to_do(root: Path) -> None:
    with pytest.raises(EnvironmentProblem) as caught:
        entry(Filler(OSError(errno.ENOSPC, "No space left on device")))
    assert "No space left on device" in caught.value.message
    assert "free space" in (caught.value.hint or "")
    assert str(root) in (caught.value.hint or "")
    assert files(root) == set()
    entry(Filler())


def test_what_must_not_be_written_is_said_with_what_to_do(root: Path) -> None:
    with pytest.raises(EnvironmentProblem) as caught:
        entry(Filler(PermissionError(errno.EACCES, "Permission denied")))
    assert "XDG_CACHE_HOME" in (caught.value.hint or "")


def test_a_file_in_place_of_the_cache_is_said(root: Path) -> None:
    root.write_text("in the way")
    with pytest.raises(EnvironmentProblem) as caught:
        entry(Filler())
    assert str(root) in caught.value.message


def test_what_a_killed_run_left_is_removed(root: Path) -> None:
    left = root / "kind" / f"key.new-{cache._here()}-abcdef"
    (left / "inner").mkdir(parents=True)
    (left / "inner" / "file").write_text("half")
    other = root / "kind" / f"other.new-{cache._here()}-abcdef"
    other.mkdir()
    entry(Filler())
    assert not left.exists()
    assert other.exists()
    assert files(root) == {"kind/key/inner/file", "kind/key/.complete"}


def test_an_entry_without_its_stamp_is_made_anew(root: Path) -> None:
    half = root / "kind" / "key"
    half.mkdir(parents=True)
    (half / "stale").write_text("half")
    assert not cache.has("kind", "key")
    fill = Filler()
    place = entry(fill)
    assert fill.calls == 1
    assert not (place / "stale").exists()
    assert cache.has("kind", "key")


def test_a_failure_does_not_take_away_what_others_made(root: Path) -> None:
    place = entry(Filler(), "good")
    with pytest.raises(ValueError, match="no"):
        entry(Filler(ValueError("no")), "bad")
    assert (place / "inner" / "file").exists()


def test_nobody_sees_an_entry_that_is_being_made(root: Path) -> None:
    def fill(directory: Path) -> None:
        (directory / "file").write_text("half")
        assert not cache.has("kind", "key")
        assert not (root / "kind" / "key").exists()

    assert cache.has("kind", "key") is False
    cache.entry("kind", "key", fill, Quiet())
    assert cache.has("kind", "key")


def _make(log: str) -> None:
    def fill(directory: Path) -> None:
        with Path(log).open("a") as out:
            out.write("filled\n")
        time.sleep(0.2)
        (directory / "file").write_text("whole")

    place = cache.entry("kind", "key", fill, Quiet())
    assert (place / "file").read_text() == "whole"


def test_two_processes_make_an_entry_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    fork = multiprocessing.get_context("fork")
    both = [fork.Process(target=_make, args=(str(log),)) for _ in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join(timeout=20)
    assert [process.exitcode for process in both] == [0, 0]
    assert log.read_text() == "filled\n"


def test_two_threads_make_an_entry_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    both = [threading.Thread(target=_make, args=(str(log),)) for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join(timeout=20)
    assert log.read_text() == "filled\n"


def _killed_while_making() -> None:
    def fill(directory: Path) -> None:
        (directory / "file").write_text("half")
        os._exit(9)

    cache.entry("kind", "key", fill, Quiet())


def test_a_killed_process_holds_nobody_up(root: Path) -> None:
    process = multiprocessing.get_context("fork").Process(target=_killed_while_making)
    process.start()
    process.join(timeout=20)
    assert process.exitcode == 9
    assert not cache.has("kind", "key")
    entry(Filler())
    assert files(root) == {"kind/key/inner/file", "kind/key/.complete"}


# Several machines, whose locks may not reach each other


def no_lock(error: int | None) -> Callable[[object, int], None]:
    """As on a file system without locks, or with locks that reach nobody else."""

    def flock(file: object, how: int) -> None:
        if error is not None:
            raise OSError(error, os.strerror(error))

    return flock


@pytest.mark.parametrize("error", [None, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK])
def test_without_locks_all_get_the_entry_that_stays(
    root: Path, monkeypatch: pytest.MonkeyPatch, error: int | None
) -> None:
    monkeypatch.setattr(cache.fcntl, "flock", no_lock(error))
    fork = multiprocessing.get_context("fork")
    together, told = fork.Barrier(6), fork.SimpleQueue()

    def make(number: int) -> None:
        # Each is a machine of its own.
        monkeypatch.setattr(cache, "_here", lambda: f"machine-{number}")

        def fill(directory: Path) -> None:
            together.wait(20)
            for part in range(50):
                (directory / f"part-{part}").write_text(str(number))

        place = cache.entry("kind", "key", fill, Quiet())
        texts = {(place / f"part-{part}").read_text() for part in range(50)}
        together.wait(20)
        # What was read is still there once all have finished.
        assert texts == {(place / f"part-{part}").read_text() for part in range(50)}
        told.put(texts.pop() if len(texts) == 1 else "mixed")

    makers = [fork.Process(target=make, args=(number,)) for number in range(6)]
    for maker in makers:
        maker.start()
    for maker in makers:
        maker.join(timeout=30)
    assert [maker.exitcode for maker in makers] == [0] * 6
    assert len({told.get() for _ in makers}) == 1
    assert {path.name for path in (root / "kind").iterdir()} == {"key", "key.lock"}


def test_another_machines_draft_is_left_alone_until_it_is_old(root: Path) -> None:
    drafts = [root / "kind" / f"key.new-another-{name}" for name in ("young", "old")]
    for draft in drafts:
        draft.mkdir(parents=True)
    os.utime(drafts[1], (time.time() - 3 * 24 * 3600,) * 2)
    entry(Filler())
    assert [draft.exists() for draft in drafts] == [True, False]


def test_an_entry_that_another_made_meanwhile_stays(root: Path) -> None:
    def fill(directory: Path) -> None:
        (directory / "file").write_text("ours")
        there = root / "kind" / "key"
        there.mkdir()
        (there / "file").write_text("theirs")
        (there / ".complete").touch()

    place = cache.entry("kind", "key", fill, Quiet())
    assert (place / "file").read_text() == "theirs"
    assert files(root) == {"kind/key/file", "kind/key/.complete"}


def test_what_only_one_may_do_is_not_done_without_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache.fcntl, "flock", no_lock(errno.ENOSYS))
    with (
        pytest.raises(EnvironmentProblem, match="has no locks"),
        cache.locked(tmp_path / "lock", "a kernel", Quiet()),
    ):
        raise AssertionError


def test_a_file_is_written_whole(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "file"
    cache.write_whole(path, "text\n")
    assert path.read_text() == "text\n"
    cache.write_whole(path, "other\n")
    assert path.read_text() == "other\n"
    assert [one.name for one in path.parent.iterdir()] == ["file"]
    assert path.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("existing", [True, False])
@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_an_interruption_leaves_the_old_file_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, existing: bool, step: str
) -> None:
    path = tmp_path / "file"
    if existing:
        path.write_text("old")

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, step, interrupt)
    with pytest.raises(KeyboardInterrupt):
        cache.write_whole(path, "new" * 10000)
    assert [one.name for one in tmp_path.iterdir()] == (["file"] if existing else [])
    if existing:
        assert path.read_text() == "old"


def test_a_text_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="surrogates"):
        cache.write_whole(tmp_path / "file", "x" * 10000 + "\udc80")
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(EnvironmentProblem) as caught:
        cache.write_whole(tmp_path / "file" / "inner", "text")
    assert str(tmp_path / "file") in caught.value.message


def kept(key: str, size: int, used: int) -> Path:
    """An entry of so many bytes, last used at a second."""

    def fill(directory: Path) -> None:
        (directory / "inner").mkdir()
        (directory / "inner" / "file").write_bytes(bytes(size))

    place = cache.entry("kind", key, fill, Quiet())
    os.utime(place / ".complete", (used, used))
    return place


def test_what_nobody_used_for_longest_makes_room(root: Path) -> None:
    old, new, middle = kept("old", 100, 10), kept("new", 100, 30), kept("middle", 100, 20)
    cache.trim("kind", 300)
    assert old.exists()
    cache.trim("kind", 299)
    assert not old.exists()
    assert files(root) == {f"kind/{one}/{name}" for one in ("new", "middle") for name in NAMES}
    cache.use(middle)
    cache.trim("kind", 150)
    assert middle.exists()
    assert not new.exists()


NAMES = (".complete", "inner/file")


def test_what_was_used_last_stays_however_large(root: Path) -> None:
    kept("one", 100, 10)
    kept("two", 100, 20)
    cache.trim("kind", 9)
    assert files(root) == {f"kind/two/{name}" for name in NAMES}


def test_what_is_being_made_does_not_make_room(root: Path) -> None:
    draft = root / "kind" / "key.new-boot-x"
    draft.mkdir(parents=True)
    for name in (".complete", "file"):
        (draft / name).write_text("almost")
    cache.trim("kind", 0)
    assert (draft / "file").exists()
    os.utime(draft, (10, 10))
    cache.trim("kind", 0)
    assert not draft.exists()


def test_what_was_dropped_is_made_again(root: Path) -> None:
    fill = Filler()
    cache.drop(entry(fill))
    assert files(root) == set()
    cache.drop(root / "kind" / "key")
    assert (entry(fill) / "inner" / "file").read_text() == "made 2"
    cache.use(root / "kind" / "none")


def test_who_waits_is_told_for_what(root: Path) -> None:
    class Says(Quiet):
        said: ClassVar[list[str]] = []

        @contextmanager
        def step(self, name: str, expected: float | None = None) -> Iterator[Step]:
            self.said.append(name)
            yield Step()

    place = root / "kind"
    place.mkdir(parents=True)
    with (place / "key.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        thread = threading.Thread(
            target=lambda: cache.entry("kind", "key", Filler(), Says(), "a guest")
        )
        thread.start()
        while not Says.said:
            time.sleep(0.01)
    thread.join()
    assert Says.said == ["waiting for another process to make a guest"]
