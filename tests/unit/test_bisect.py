# SPDX-License-Identifier: GPL-2.0-or-later
"""Bisections through real histories, where a commit says in a file how it is measured."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import builders
import pytest
from click.testing import CliRunner

from partywall.cli.options import commands
from partywall.core.errors import EnvironmentProblem, PartywallError, UsageProblem
from partywall.kernels import bisect as history
from partywall.kernels import build, series
from partywall.kernels.git import git
from partywall.kernels.series import source
from partywall.measure import bisect, run
from partywall.report import bisect as view
from partywall.results import document
from partywall.results.bisect import Bisection, Commit, matches, telling, transfers, uses
from partywall.results.lines import LineObject
from partywall.results.result import Result

NAME = "kmalloc-512: struct aa_profile"


@dataclasses.dataclass
class History:
    """A repository, its commits from the first on, and a place for a working tree."""

    tree: Path
    commits: list[Commit]
    place: Path


def profile() -> LineObject:
    return LineObject(
        kind="slab", name=NAME, type="struct aa_profile", address="0xff1100", size=512, line=0
    )


def result(says: str) -> Result:
    """What a commit with this file gives: transfers of AppArmor's profile, or an error."""
    if says in ("unbuildable", "unbootable"):
        raise EnvironmentProblem(f"this commit is {says}")
    figure = float(says)
    walls = []
    if figure:
        code = [builders.site("apparmor_task_kill", 0x4C, "label.count", atomics=figure)]
        walls.append(builders.line(profile(), figure, code=code))
    return builders.result(builders.workload("signal", walls))


@pytest.fixture
def made(tmp_path: Path) -> Callable[..., History]:
    """Makes a repository in which each commit says what it is."""

    def make(*says: str) -> History:
        tree = tmp_path / "repository"
        tree.mkdir()
        git(tree, "init", "--quiet", "--initial-branch=main")
        found = []
        for number, what in enumerate(says):
            (tree / "says").write_text(what)
            (tree / "number").write_text(str(number))
            git(tree, "add", "--all")
            git(tree, "commit", "--quiet", f"--message=change {number}")
            found.append(history.commit(tree, "HEAD"))
        return History(tree, found, tmp_path / "place")

    return make


def bisected(
    there: History,
    good: int = 0,
    bad: int = -1,
    pattern: str = "aa_profile",
    measured: list[str] | None = None,
    paths: tuple[str, ...] = (),
) -> Bisection:
    """What is found between two commits of a history."""
    first, last = there.commits[good], there.commits[bad]
    older, _ = bisect.order(there.tree, first, last)

    def measure(at: Commit, where: object) -> Result:
        # Asked for is what is checked out.
        assert history.commit(there.place, "HEAD") == at
        if measured is not None:
            measured.append(at.id)
        return result((there.place / "says").read_text())

    with history.worktree(there.tree, older, there.place) as place:
        asked = bisect.Asked(there.tree, place, first, last, pattern, ("-w", "signal"), paths)
        return bisect.run(
            asked, measure, lambda result: Path("results/x.json.gz"), lambda text: None
        )


@pytest.mark.parametrize("first", range(1, 12))
def test_the_commit_that_takes_a_wall_down_is_found(
    made: Callable[..., History], first: int
) -> None:
    there = made(*["2.0"] * first, *["0"] * (12 - first))
    found = bisected(there)
    assert found.found == [there.commits[first]]
    assert found.parent == there.commits[first - 1]
    assert found.at is not None
    assert (found.at.before, found.at.after) == (2.0, 0.0)
    assert (found.ends.before, found.ends.after, found.limit) == (2.0, 0.0, 1.0)
    assert set(found.files) == {"says", "number"}
    assert [use.function for use in found.before] == ["apparmor_task_kill"]
    assert found.after == []
    assert [finding.how for finding in found.findings if finding.what == "wall"] == ["went"]


@pytest.mark.parametrize("first", range(1, 6))
def test_the_commit_that_builds_a_wall_is_found(made: Callable[..., History], first: int) -> None:
    there = made(*["0.5"] * first, *["6.0"] * (6 - first))
    found = bisected(there)
    assert found.found == [there.commits[first]]
    assert {step.commit.id: step.answer for step in found.steps}[found.found[0].id] == "bad"


def test_bad_may_be_the_older_one(made: Callable[..., History]) -> None:
    there = made("4", "4", "4", "0", "0")
    found = bisected(there, good=-1, bad=0)
    assert found.found == [there.commits[3]]
    assert (found.ends.before, found.ends.after) == (0, 4)
    # History runs from the wall to none, whatever is called good.
    assert found.at is not None
    assert (found.at.before, found.at.after) == (4, 0)
    answers = {step.commit.subject: step.answer for step in found.steps}
    assert answers["change 2"] == "bad"
    assert answers["change 3"] == "good"
    assert "that a wall is gone" in view.render(found)
    assert found.older == "bad"
    # Nor where no commit's own figures are known.
    assert "4.00 -> 0 transfers/op" in view.render(found.model_copy(update={"at": None}))


def test_a_commit_that_cannot_be_tested_is_skipped(made: Callable[..., History]) -> None:
    there = made("2", "2", "unbuildable", "2", "unbootable", "2", "0", "0", "unbuildable", "0")
    found = bisected(there)
    assert found.found == [there.commits[6]]
    skipped = [step for step in found.steps if step.answer == "skipped"]
    assert all(step.why and step.transfers is None for step in skipped)


def test_where_skipped_ones_hide_it_all_that_it_may_be_are_told(
    made: Callable[..., History],
) -> None:
    there = made("2", "2", "unbuildable", "unbootable", "0", "0")
    found = bisected(there)
    assert {one.id for one in found.found} == {one.id for one in there.commits[2:5]}
    assert found.parent is None
    said = view.render(found)
    assert "one of these commits" in said
    for one in there.commits[2:5]:
        assert f"commit: {one.id}" in said
    assert "this commit is unbootable" in said


def test_a_parent_that_cannot_be_measured_is_said(made: Callable[..., History]) -> None:
    there = made("2", "0")
    (parent, first) = there.commits
    # As after a bisection that passed it by, with ends elsewhere.
    found = bisected(there).model_copy(update={"at": None})
    assert found.found == [first]
    assert found.parent == parent
    assert "could not be measured" in view.render(found)


@pytest.mark.parametrize("ends", [("2", "2"), ("2", "2.1"), ("2", "1.9")])
def test_ends_that_do_not_differ_are_said_and_nothing_else_is_built(
    made: Callable[..., History], ends: tuple[str, str]
) -> None:
    there = made(ends[0], "0", "7", ends[1])
    measured: list[str] = []
    found = bisected(there, measured=measured)
    assert not found.differ
    assert found.found == []
    assert measured == [there.commits[0].id, there.commits[3].id]
    assert "do not differ" in view.render(found)


def test_only_what_is_needed_is_measured(made: Callable[..., History]) -> None:
    there = made(*["0"] * 20, *["3"] * 12)
    measured: list[str] = []
    bisected(there, measured=measured)
    assert len(measured) == len(set(measured))
    assert len(measured) <= 2 + 5


@pytest.mark.parametrize("end", [0, 2])
def test_an_end_that_cannot_be_tested_is_an_error_that_names_it(
    made: Callable[..., History], end: int
) -> None:
    says = ["2", "1", "0"]
    says[end] = "unbuildable"
    there = made(*says)
    which = "GOOD" if end == 0 else "BAD"
    with pytest.raises(EnvironmentProblem, match=f"^{which}, .*: this commit is unbuildable"):
        bisected(there)
    assert not there.place.exists()


def test_an_object_that_neither_end_has_is_an_error_that_names_those_there_are(
    made: Callable[..., History],
) -> None:
    with pytest.raises(UsageProblem, match="no_such") as caught:
        bisected(made("2", "1", "0"), pattern="no_such")
    assert NAME in (caught.value.hint or "")


def test_one_commit_is_no_history(made: Callable[..., History]) -> None:
    there = made("2", "0")
    with pytest.raises(UsageProblem, match="one commit"):
        bisect.order(there.tree, there.commits[0], there.commits[0])


def test_a_change_on_the_other_side_of_a_fork_is_said(made: Callable[..., History]) -> None:
    there = made("0", "0")
    git(there.tree, "checkout", "--quiet", "-b", "other", there.commits[0].id)
    (there.tree / "says").write_text("2")
    git(there.tree, "commit", "--quiet", "--all", "--message=elsewhere")
    there.commits.append(history.commit(there.tree, "HEAD"))
    with pytest.raises(UsageProblem, match="merge base"):
        bisected(there, good=2, bad=1)
    assert not there.place.exists()


def test_a_full_disk_is_no_fault_of_a_commit(
    made: Callable[..., History], monkeypatch: pytest.MonkeyPatch
) -> None:
    there = made("2", "2", "full", "0", "0")
    told = result

    def full(says: str) -> Result:
        if says == "full":
            raise EnvironmentProblem("building failed: No space left on device")
        return told(says)

    monkeypatch.setitem(globals(), "result", full)
    with pytest.raises(EnvironmentProblem, match="No space left"):
        bisected(there)
    assert not there.place.exists()


def test_only_commits_that_change_some_files_are_looked_at(made: Callable[..., History]) -> None:
    there = made(*["2"] * 10, *["0"] * 10)
    measured: list[str] = []
    found = bisected(there, measured=measured, paths=("says",))
    # Commits that only count on change another file.
    assert found.found == [there.commits[10]]
    assert len(measured) <= 4
    said = view.render(found)
    assert "--object aa_profile -- says" in said
    assert "change none of says were not looked at" in said


def test_files_that_no_commit_changes_are_an_error(made: Callable[..., History]) -> None:
    with pytest.raises(UsageProblem, match="no commit between them"):
        bisected(made("2", "1", "0"), paths=("elsewhere",))


def test_a_change_that_was_made_elsewhere_is_not_called_this_commits(
    made: Callable[..., History],
) -> None:
    there = made("2", "2", "0", "0", "0")
    # The commit that is looked at does not touch the wall; the one before it, not looked at, does.
    (there.tree / "other").touch()
    git(there.tree, "add", "--all")
    git(there.tree, "commit", "--quiet", "--message=innocent")
    there.commits.append(history.commit(there.tree, "HEAD"))
    found = bisected(there, paths=("other",))
    assert found.found == [there.commits[5]]
    assert not found.crossed
    said = view.render(found)
    assert "are on the same side" in said
    assert "This commit makes" not in said


class Interrupted(BaseException):
    """As the program raises on Ctrl-C."""


def test_an_interrupt_leaves_nothing_and_the_users_checkout_is_as_it_was(
    made: Callable[..., History],
) -> None:
    there = made("2", "2", "2", "0", "0", "0")
    tree = there.tree
    # A checkout in the middle of work, and of a bisection of its own.
    git(tree, "bisect", "start", "HEAD", there.commits[0].id)
    (tree / "says").write_text("not yet committed")
    (tree / "new").write_text("not known to git")
    hook = tree / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {tree}/hook-ran\n")
    hook.chmod(0o755)

    def state() -> list[str]:
        asked = (
            ["status", "--porcelain"],
            ["for-each-ref"],
            ["bisect", "log"],
            ["rev-parse", "HEAD"],
        )
        return [*(git(tree, *one) for one in asked), git(tree, "worktree", "list")]

    before = state()
    steps = 0

    def measure(at: Commit, where: object) -> Result:
        nonlocal steps
        steps += 1
        if steps == 4:
            raise Interrupted
        return result((there.place / "says").read_text())

    asked = bisect.Asked(tree, there.place, there.commits[0], there.commits[-1], "aa_profile")
    with pytest.raises(Interrupted), history.worktree(tree, there.commits[0], there.place):
        bisect.run(asked, measure, lambda result: Path("x"), lambda text: None)
    assert steps == 4
    assert not there.place.exists()
    assert state() == before
    assert not (tree / "hook-ran").exists()


def test_what_a_killed_bisection_left_is_no_obstacle(made: Callable[..., History]) -> None:
    there = made("2", "2", "0")
    # A tree that was never removed, once with its folder and once without.
    git(there.tree, "worktree", "add", "--quiet", "--detach", str(there.place), "HEAD")
    assert bisected(there).found == [there.commits[2]]
    git(there.tree, "worktree", "add", "--quiet", "--detach", str(there.place), "HEAD")
    (there.place / ".git").unlink()
    assert bisected(there).found == [there.commits[2]]


def test_a_working_tree_that_was_left_is_not_taken_for_a_clone(
    made: Callable[..., History],
) -> None:
    there = made("2", "0")
    git(there.tree, "tag", series.BASE)
    origin = source.Source(there.tree, "6.12", "key")
    source.clone(origin, there.place.parent / "clone")
    assert source.usable(there.place.parent / "clone", origin)
    with history.worktree(there.tree, there.commits[0], there.place) as place:
        assert not source.usable(place, origin)


@pytest.mark.parametrize(
    ("pattern", "meant"),
    [
        (NAME, True),
        ("aa_profile", True),
        ("struct aa_profile", True),
        ("*aa_*", True),
        ("profile", False),
        ("kmalloc-512:", False),
    ],
)
def test_objects_are_meant_by_name_type_or_last_word(pattern: str, meant: bool) -> None:
    (wall,) = result("2").workloads[0].found
    assert matches(pattern, wall) == meant


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("*node_data[0]", "*node_data[0]"),
        ("kmalloc-8k: struct list_head[2]", "*list_head[2]"),
        ("runqueues of CPU 3", "runqueues"),
        ("runqueues of CPU 3", "runqueues of CPU 3"),
        ("runqueues of CPU 3", "runqueues of CPU 5"),
        ("runqueues of CPU 3", "runqueues of each CPU"),
    ],
)
def test_a_name_is_taken_as_a_report_has_it(name: str, pattern: str) -> None:
    line = builders.named_wall(name)
    found = line.model_copy(
        update={"object": line.object.model_copy(update={"name": name, "type": None})}
    )
    assert matches(pattern, found)
    assert not matches("node_data", found)
    assert not matches("CPU", found)


def test_the_text_says_what_a_mail_needs(made: Callable[..., History]) -> None:
    there = made("2", "2", "0.5", "0")
    found = bisected(there)
    said = view.render(found)
    first = there.commits[2]
    for words in (
        f"Subject: [partywall] {NAME}: 2.00 -> 0.50 transfers/op of signal by {first.short}",
        "a -75% change of a wall",
        f"commit: {first.id}",
        '("change 2")',
        "Partywall <partywall@localhost>, 2026-01-01T00:00:00",
        "apparmor_task_kill",
        f"partywall bisect {found.good.short} {found.bad.short} --tree {there.tree} -w signal",
        "--object aa_profile",
        "This commit makes 1.50 of the 2.00 transfers/op",
    ):
        assert words in said
    copied = ("git -C", "partywall ", "cd ", "Subject: ", str(there.tree))
    for line in said.splitlines():
        assert len(line) <= view.WIDTH or any(word in line for word in copied)


def test_the_document_is_json_and_reads_back(made: Callable[..., History]) -> None:
    found = bisected(made("2", "unbuildable", "2", "0", "0"))
    assert Bisection.model_validate_json(document.dump(found)) == found


@pytest.fixture
def command(made: Callable[..., History], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """The command, on a history whose commits need neither be compiled nor booted."""
    there = made("2", "unbuildable", "2", "0", "0")

    @contextlib.contextmanager
    def built(tree: Path, at: Commit, progress: object) -> Iterator[Any]:
        with history.worktree(tree, at, there.place) as place:
            make = SimpleNamespace(tree=place)
            yield SimpleNamespace(make=make, kernel=lambda title: title)

    def check(wanted: run.Wanted, progress: object) -> run.Outcome:
        try:
            return run.Outcome(result((there.place / "says").read_text()), {})
        except PartywallError as error:
            return run.Outcome(None, {"signal": error})

    monkeypatch.setattr(build, "commits", built)
    monkeypatch.setattr(run, "check", check)

    def call(*arguments: str) -> Any:
        words = ["bisect", *arguments, "--tree", str(there.tree), "-w", "signal"]
        folder = there.place.parent / "results"
        words += ["--results", str(folder), "--object", "aa_profile"]
        done = CliRunner().invoke(commands, words, standalone_mode=False)
        return SimpleNamespace(there=there, done=done, results=list(folder.glob("*.gz")))

    return call


def test_the_command_prints_the_text_and_saves_all_results(command: Callable[..., Any]) -> None:
    called = command("HEAD~4", "HEAD")
    assert called.done.exception is None
    assert called.done.return_value == 0
    first = called.there.commits[3]
    assert f"commit: {first.id}" in called.done.stdout
    assert len(called.results) == 4
    assert not called.there.place.exists()


def test_the_command_prints_a_document(command: Callable[..., Any]) -> None:
    called = command("HEAD~4", "HEAD", "--json")
    found = Bisection.model_validate_json(called.done.stdout)
    assert [one.id for one in found.found] == [called.there.commits[3].id]
    # GOOD, BAD, the commit and its parent are all there.
    assert all(
        step.saved and Path(step.saved).exists() for step in found.steps if step.answer != "skipped"
    )


def test_the_command_ends_with_2_if_the_ends_do_not_differ(command: Callable[..., Any]) -> None:
    called = command("HEAD~4", "HEAD~2")
    assert called.done.return_value == 2
    assert "do not differ" in called.done.stdout


@pytest.mark.parametrize("name", ["nonsense", "HEAD~9", "", "HEAD:says", "--all"])
def test_a_name_of_no_commit_is_refused(made: Callable[..., History], name: str) -> None:
    there = made("2", "0")
    with pytest.raises(UsageProblem, match=f"has no commit '{name}'"):
        history.commit(there.tree, name)


def test_a_folder_that_is_no_repository_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="no git repository"):
        history.repository(tmp_path)


def test_walls_of_deferred_work_can_be_searched_for() -> None:
    late = builders.put_off(builders.signal().walls)
    quiet = builders.workload("udp", [], deferred=builders.put_off([]))
    loud = builders.workload("udp", [], deferred=late)
    assert transfers(loud, "init_ucounts") == late.objects[0].judged
    assert transfers(quiet, "init_ucounts") == 0
    assert uses(loud, "init_ucounts")
    good, bad = builders.result(quiet), builders.result(loud)
    assert telling(good, bad, "init_ucounts") == ("udp", loud.topology)
