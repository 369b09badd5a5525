# SPDX-License-Identifier: GPL-2.0-or-later
"""Results are kept side by side, and come back or are refused in one line."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import re
import threading
from pathlib import Path

import builders
import pytest
from commands import run

from partywall.core import cache
from partywall.core.errors import EnvironmentProblem, UsageProblem
from partywall.results import document, store, upgrade
from partywall.results.result import Result

RESULT = builders.result(builders.signal())
OTHER = builders.result(builders.isolated())


def test_a_saved_result_comes_back(tmp_path: Path) -> None:
    path = store.save(RESULT, tmp_path / "new" / "results")
    assert path.parent == tmp_path / "new" / "results"
    assert store.load(path) == RESULT


def test_what_a_checkout_of_0_1_saved_is_read() -> None:
    # Saved by the program as it was on 25 November 2026, when waits and memory were not measured.
    read = store.load(Path(__file__).parent / "saved" / "0.1.0-signal.json.gz")
    assert read.environment.partywall == "0.1.0"
    (signal,) = read.workloads
    assert (signal.held, signal.memory) == (None, None)
    assert {one.name for one in signal.objects} == {
        "init_ucounts",
        "kmalloc-512: struct aa_profile",
    }
    # What it lacks has defaults, with which it is a document of this version.
    assert store.parse(document.dump(read)) == read


def test_what_0_2_0_saved_is_read_and_has_no_field_more_without_a_new_version() -> None:
    # By the program as it was released: check -n 2 -w signal -w netns.
    packed = Path(__file__).parent / "saved" / "0.2.0-signal+netns.json.gz"
    saved = json.loads(gzip.decompress(packed.read_bytes()))
    read = store.load(packed)
    assert read.environment.partywall == "0.2.0"
    signal, netns = read.workloads
    assert {"init_ucounts", "kmalloc-512: struct aa_profile"} <= {
        one.name for one in signal.objects
    }
    assert signal.memory is not None
    assert netns.held is not None
    assert any(lock.spans for lock in netns.held.locks)
    # A field that is added, taken away or means something else makes a new version.
    same = saved["schema"] == upgrade.CURRENT
    assert (json.loads(document.dump(read)) == saved) == same


def test_what_0_3_0_saved_is_read_and_has_no_field_more_without_a_new_version() -> None:
    # By the program as it was released: check -n 2 -w signal -w netns -w redis.
    packed = Path(__file__).parent / "saved" / "0.3.0-signal+netns+redis.json.gz"
    saved = json.loads(gzip.decompress(packed.read_bytes()))
    read = store.load(packed)
    assert read.environment.partywall == "0.3.0"
    signal, netns, redis = read.workloads
    assert redis.counted
    assert redis.deferred is not None
    assert signal.locks is not None
    assert netns.held is not None
    same = saved["schema"] == upgrade.CURRENT
    assert (json.loads(document.dump(read)) == saved) == same


def test_what_0_4_0_saved_is_read_and_has_no_field_more_without_a_new_version() -> None:
    # By the program as it was released: check -n 3 -w signal -w netns -w redis.
    packed = Path(__file__).parent / "saved" / "0.4.0-signal+netns+redis.json.gz"
    saved = json.loads(gzip.decompress(packed.read_bytes()))
    read = store.load(packed)
    assert read.environment.partywall == "0.4.0"
    assert all(one.in_turn is not None for one in read.workloads)
    same = saved["schema"] == upgrade.CURRENT
    assert (json.loads(document.dump(read)) == saved) == same


def test_the_name_tells_when_which_kernel_and_which_workloads(tmp_path: Path) -> None:
    name = store.save(RESULT, tmp_path).name
    assert name == "20260301T120000Z-6.12.117+deb12-cloud-amd64-signal.json.gz"
    both = builders.result(builders.signal(), builders.isolated(), builders.false_sharing())
    assert store.save(both, tmp_path).name.endswith("-signal+overlay.json.gz")
    many = builders.result(*(builders.workload(f"workload-{n}", []) for n in range(40)))
    assert store.save(many, tmp_path).name.endswith("-40-workloads.json.gz")


def test_a_name_is_never_too_long_for_a_file(tmp_path: Path) -> None:
    long = builders.result(builders.workload("w" * 300, []))
    kernel = long.kernel.model_copy(update={"release": "r" * 300})
    path = store.save(long.model_copy(update={"kernel": kernel}), tmp_path)
    assert len(path.name) < 255


def test_a_saved_result_is_small_and_the_same_each_time(tmp_path: Path) -> None:
    result = builders.result(builders.many_walls(200))
    first, second = store.save(result, tmp_path / "a"), store.save(result, tmp_path / "b")
    assert first.read_bytes() == second.read_bytes()
    assert first.stat().st_size < len(document.dump(result)) / 10
    assert gzip.decompress(first.read_bytes()).decode() == document.dump(result)


@pytest.mark.parametrize("name", ["old.json", "old.json.gz"])
@pytest.mark.parametrize("packed", [False, True])
def test_a_file_is_read_whatever_its_name(tmp_path: Path, name: str, packed: bool) -> None:
    data = document.dump(RESULT).encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if packed else data)
    assert store.load(tmp_path / name) == RESULT
    assert store.newest(tmp_path) == tmp_path / name


def test_a_link_whose_answer_was_lost_is_one_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = Path.hardlink_to

    def lost(self: Path, target: Path) -> None:
        link(self, target)
        raise FileExistsError

    monkeypatch.setattr(Path, "hardlink_to", lost)
    path = store.save(RESULT, tmp_path)
    assert store.load(path) == RESULT
    assert list(tmp_path.iterdir()) == [path]


def test_processes_of_the_same_number_on_two_machines_share_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getpid", lambda: 7)
    monkeypatch.setattr(threading, "get_ident", lambda: 7)
    results = iter((RESULT,))
    write = cache.write_whole

    def written(path: Path, content: str | bytes) -> None:
        write(path, content)
        for other in results:
            store.save(other, tmp_path)

    monkeypatch.setattr(cache, "write_whole", written)
    path = store.save(RESULT, tmp_path)
    assert store.load(path) == RESULT
    assert len(list(tmp_path.iterdir())) == 2


def test_what_is_saved_is_listed_with_what_it_holds(tmp_path: Path) -> None:
    path = store.save(RESULT, tmp_path)
    os.utime(path, (9, 9))
    (tmp_path / "broken.json").write_text("garbage")
    os.utime(tmp_path / "broken.json", (5, 5))
    broken, good = store.entries(tmp_path)
    assert (good.path, good.problem) == (path, None)
    assert (good.created, good.release) == (RESULT.created, RESULT.kernel.release)
    assert good.workloads == ("signal",)
    assert broken.path.name == "broken.json"
    assert "not JSON" in (broken.problem or "")


def test_a_folder_without_results_has_no_list(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="no result is saved"):
        store.entries(tmp_path)


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

    def slowly(path: Path, text: str | bytes) -> None:
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
    saved = [store.load(path) for path in tmp_path.glob("*.json.gz")]
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


def test_what_is_no_result_is_not_the_newest(tmp_path: Path) -> None:
    path = store.save(RESULT, tmp_path)
    os.utime(path, (10, 10))
    for name in ("growth.json", "packed.json.gz", "broken.json.gz", "empty.json"):
        text = b'{"schema": "partywall.growth/1"}'
        packed = {"packed.json.gz": gzip.compress(text), "broken.json.gz": b"\x1f\x8bnot"}
        (tmp_path / name).write_bytes(b"" if name == "empty.json" else packed.get(name, text))
    assert store.newest(tmp_path) == path
    # Whatever order its keys are in.
    ordered = tmp_path / "ordered.json"
    ordered.write_text(json.dumps(json.loads(document.dump(RESULT)), sort_keys=True))
    os.utime(ordered, (2e9, 2e9))
    assert store.newest(tmp_path) == ordered
    # One that was cut short is told of, and not passed over.
    whole = path.read_bytes()
    for n, data in enumerate((document.dump(RESULT)[:1000].encode(), whole[:-20], whole[:300])):
        cut = tmp_path / f"cut-{n}.json"
        cut.write_bytes(data)
        os.utime(cut, (2e9 + 1 + n, 2e9 + 1 + n))
        assert store.newest(tmp_path) == cut


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


def test_the_folder_without_results_is_named_in_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageProblem, match=re.escape(f"{tmp_path}/results")):
        store.newest(Path("results"))


def test_a_link_to_nowhere_is_passed_over(tmp_path: Path) -> None:
    path = store.save(RESULT, tmp_path)
    (tmp_path / "gone.json").symlink_to(tmp_path / "nowhere")
    assert store.newest(tmp_path) == path


GOOD = document.dump(RESULT).encode()
PACKED = gzip.compress(GOOD, mtime=0)


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
        PACKED[:-1],
        PACKED[: len(PACKED) // 2],
        PACKED[:40] + b"xxxx" + PACKED[44:],
        PACKED + b"x",
        gzip.compress(b"garbage", mtime=0),
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


@pytest.mark.parametrize(
    "name",
    [
        "0.1.0-signal.json.gz",
        "0.2.0-signal+netns.json.gz",
        "0.3.0-signal+netns+redis.json.gz",
        "0.4.0-signal+netns+redis.json.gz",
    ],
)
@pytest.mark.parametrize(
    "words",
    [
        ["report"],
        ["report", "--json"],
        ["compare", "SAVED"],
        ["predict"],
        ["explain"],
    ],
)
def test_what_former_versions_saved_is_told_compared_and_predicted(
    name: str, words: list[str]
) -> None:
    saved = Path(__file__).resolve().parent / "saved" / name
    command, *more = [str(saved) if word == "SAVED" else word for word in words]
    status, out, complaint = run(command, *more, saved)
    assert (status, complaint) == (0, "")
    assert "signal" in out


@pytest.mark.parametrize(("name", "words"), [("growth", "dentry"), ("caps", "hold/inotify")])
def test_growth_and_caps_of_a_former_version_are_shown(name: str, words: str) -> None:
    path = Path(__file__).parent / "saved" / f"0.3.0-{name}.json.gz"
    assert f"partywall.{name}/1" in gzip.decompress(path.read_bytes()).decode()
    status, out, complaint = run(name, path)
    assert (status, complaint) == (0, "")
    assert words in out
    assert f'"schema": "partywall.{name}/2"' in run(name, path, "--json")[1]
