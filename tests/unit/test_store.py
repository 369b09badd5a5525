# SPDX-License-Identifier: GPL-2.0-or-later
"""Results are kept side by side, and come back or are refused in one line."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path

import builders
import pytest

from partywall.core import cache
from partywall.core.errors import EnvironmentProblem, UsageProblem
from partywall.results import document, store
from partywall.results.result import Result

RESULT = builders.result(builders.signal())
OTHER = builders.result(builders.isolated())


def test_a_saved_result_comes_back(tmp_path: Path) -> None:
    path = store.save(RESULT, tmp_path / "new" / "results")
    assert path.parent == tmp_path / "new" / "results"
    assert store.load(path) == RESULT


def test_the_name_tells_when_and_which_kernel(tmp_path: Path) -> None:
    name = store.save(RESULT, tmp_path).name
    assert name == "20260301T120000Z-6.12.117+deb12-cloud-amd64.json"


def test_two_results_of_one_second_are_both_kept(tmp_path: Path) -> None:
    paths = [store.save(one, tmp_path) for one in (RESULT, OTHER, RESULT)]
    assert len(set(paths)) == 3
    assert [store.load(path) for path in paths] == [RESULT, OTHER, RESULT]
    assert sorted(tmp_path.iterdir()) == sorted(paths)


def test_two_checks_that_end_at_once_keep_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = threading.Barrier(2, timeout=1)
    write_whole = cache.write_whole

    def slowly(path: Path, text: str) -> None:
        # Nobody writes before both want to, unless only one can.
        with contextlib.suppress(threading.BrokenBarrierError):
            together.wait()
        write_whole(path, text)

    monkeypatch.setattr(cache, "write_whole", slowly)
    both = [threading.Thread(target=store.save, args=(one, tmp_path)) for one in (RESULT, OTHER)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    saved = [store.load(path) for path in tmp_path.glob("*.json")]
    assert len(saved) == 2
    assert RESULT in saved
    assert OTHER in saved


def test_a_release_with_a_slash_stays_in_the_folder(tmp_path: Path) -> None:
    kernel = RESULT.kernel.model_copy(update={"release": "/../../6.1"})
    folder = tmp_path / "deep" / "results"
    path = store.save(RESULT.model_copy(update={"kernel": kernel}), folder)
    assert path.resolve().parent == folder


def test_the_newest_result_is_the_one_saved_last(tmp_path: Path) -> None:
    first, second = store.save(RESULT, tmp_path), store.save(OTHER, tmp_path)
    for seconds, newest, other in ((10, first, second), (20, second, first)):
        os.utime(newest, (seconds, seconds))
        os.utime(other, (5, 5))
        assert store.newest(tmp_path) == newest


def test_of_equal_age_the_later_name_is_newest(tmp_path: Path) -> None:
    for name in ("b.json", "a.json", "c.txt"):
        (tmp_path / name).write_text("")
        os.utime(tmp_path / name, (5, 5))
    assert store.newest(tmp_path).name == "b.json"


def test_what_is_half_written_is_not_the_newest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = store.save(RESULT, tmp_path)
    newest: list[Path] = []

    def look(*_: object) -> None:
        newest.append(store.newest(tmp_path))

    monkeypatch.setattr(os, "fsync", look)
    store.save(OTHER, tmp_path)
    assert newest == [path]


@pytest.mark.parametrize("name", ["empty", "missing"])
def test_a_folder_without_results_says_so(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "notes.txt").write_text("no result")
    with pytest.raises(UsageProblem, match="no result is saved") as caught:
        store.newest(tmp_path / name)
    assert str(tmp_path / name) in caught.value.message
    assert "partywall check" in (caught.value.hint or "")


def test_a_link_to_nowhere_is_passed_over(tmp_path: Path) -> None:
    path = store.save(RESULT, tmp_path)
    (tmp_path / "gone.json").symlink_to(tmp_path / "nowhere")
    assert store.newest(tmp_path) == path


GOOD = document.dump(RESULT).encode()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"garbage",
        b"{}",
        b"\xff\xfe\0",
        GOOD[:-3],
        GOOD[: len(GOOD) // 2],
        GOOD + b"x",
        b"[" * 99999,
    ],
)
def test_what_is_no_result_is_refused_in_one_line(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "result.json"
    path.write_bytes(data)
    with pytest.raises(UsageProblem) as caught:
        store.load(path)
    assert caught.value.message.startswith(f"{path}: ")
    assert "\n" not in caught.value.message


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    for path in (tmp_path / "missing.json", tmp_path):
        with pytest.raises(UsageProblem) as caught:
            store.load(path)
        assert str(path) in caught.value.message


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(EnvironmentProblem) as caught:
        store.save(RESULT, tmp_path / "file")
    assert str(tmp_path / "file") in caught.value.message


def test_an_empty_result_is_kept_too(tmp_path: Path) -> None:
    empty: Result = builders.result()
    assert store.load(store.save(empty, tmp_path)) == empty
