# SPDX-License-Identifier: GPL-2.0-or-later
"""Series are read as they are listed, applied with a clear word on what fails, and exported."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from partywall.core.errors import UsageProblem
from partywall.kernels import build, series
from partywall.kernels.git import GitProblem, git
from partywall.kernels.series import bases, source

TEXT = "".join(f"line {number}\n" for number in range(1, 41))


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small tree with the tag that a series starts from."""
    for key in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{key}_NAME", "Some One")
        monkeypatch.setenv(f"GIT_{key}_EMAIL", "some@one.example")
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / "tree"
    (folder / "kernel").mkdir(parents=True)
    (folder / "kernel" / "a.c").write_text(TEXT)
    (folder / "b.c").write_text(TEXT)
    git(folder, "init", "--quiet")
    git(folder, "config", "user.name", "Some One")
    git(folder, "config", "user.email", "some@one.example")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message=base")
    git(folder, "tag", series.BASE)
    return folder


def change(
    tree: Path, line: int, message: str, topic: str | None = None, name: str = "b.c"
) -> None:
    path = tree / name
    path.write_text(path.read_text().replace(f"line {line}\n", f"line {line} changed\n"))
    if topic is not None:
        message += f"\n\n{series.TOPIC}: {topic}"
    git(tree, "commit", "--quiet", "--all", f"--message={message}")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "series" / "linux"
    folder.mkdir(parents=True)
    return folder


def test_what_is_exported_is_what_is_read_and_applies_to_the_base(tree: Path, folder: Path) -> None:
    change(tree, 3, "first: one", "alpha")
    change(tree, 20, "first: two")
    change(tree, 30, "second: three\n\nWith a body.", "beta", "kernel/a.c")
    names = series.refresh(tree, folder)
    assert names == [
        "alpha/0001-first-one.patch",
        "alpha/0002-first-two.patch",
        "beta/0001-second-three.patch",
    ]
    patches = series.read(folder)
    assert [patch.name for patch in patches] == names
    for patch in patches:
        assert series.TOPIC not in patch.text
        assert "From 0000000000000000000000000000000000000000" in patch.text
    wanted = git(tree, "rev-parse", "HEAD^{tree}")
    git(tree, "reset", "--quiet", "--hard", series.BASE)
    for patch in patches:
        series.apply(tree, patch)
    assert git(tree, "rev-parse", "HEAD^{tree}") == wanted
    assert series.refresh(tree, folder) == names
    assert [patch.text for patch in series.read(folder)] == [patch.text for patch in patches]


def test_refreshing_removes_patches_that_are_gone_and_keeps_other_files(
    tree: Path, folder: Path
) -> None:
    change(tree, 3, "one", "alpha")
    change(tree, 20, "two", "beta")
    series.refresh(tree, folder)
    (folder / "alpha" / "note").write_text("mine\n")
    git(tree, "reset", "--quiet", "--hard", series.BASE)
    change(tree, 3, "another", "alpha")
    assert series.refresh(tree, folder) == ["alpha/0001-another.patch"]
    assert (folder / "alpha" / "note").exists()
    assert not (folder / "beta").exists()
    assert len(series.read(folder)) == 1


@pytest.mark.parametrize("state", ["no base", "dirty", "nothing", "no topic", "ruler"])
def test_a_tree_that_cannot_be_exported_leaves_the_series_as_it_is(
    tree: Path, folder: Path, state: str
) -> None:
    change(tree, 3, "one", "alpha")
    series.refresh(tree, folder)
    before = {path: path.read_text() for path in folder.rglob("*") if path.is_file()}
    if state == "no base":
        git(tree, "tag", "--delete", series.BASE)
    elif state == "dirty":
        (tree / "b.c").write_text("changed")
    else:
        git(tree, "reset", "--quiet", "--hard", series.BASE)
    if state == "no topic":
        change(tree, 5, "without")
    if state == "ruler":
        change(tree, 5, "title\n\nbody\n---\nwhich a mail would lose", "alpha")
    with pytest.raises(UsageProblem) as caught:
        series.refresh(tree, folder)
    assert caught.value.hint
    assert {path: path.read_text() for path in folder.rglob("*") if path.is_file()} == before
    assert not list(folder.parent.glob(".series-*"))


def test_a_patch_that_does_not_apply_is_named_with_its_hunk(tree: Path, folder: Path) -> None:
    path = tree / "kernel" / "a.c"
    path.write_text(
        path.read_text().replace("line 3\n", "three\n").replace("line 30\n", "thirty\n")
    )
    git(tree, "commit", "--quiet", "--all", f"--message=both\n\n{series.TOPIC}: alpha")
    series.refresh(tree, folder)
    (patch,) = series.read(folder)
    git(tree, "reset", "--quiet", "--hard", series.BASE)
    change(tree, 30, "in the way", name="kernel/a.c")
    before = git(tree, "rev-parse", "HEAD")
    with pytest.raises(UsageProblem) as caught:
        series.apply(tree, patch)
    assert "alpha/0001-both.patch does not apply" in caught.value.message
    assert "kernel/a.c, hunk 2 of 2, at line 27" in caught.value.message
    assert "kernel-tree" in (caught.value.hint or "")
    # The tree is as it was, and takes the next command.
    assert git(tree, "rev-parse", "HEAD") == before
    assert not git(tree, "status", "--porcelain")
    change(tree, 5, "goes on")


def test_a_patch_of_a_file_that_is_not_there_says_so(tree: Path, folder: Path) -> None:
    change(tree, 3, "one", "alpha")
    series.refresh(tree, folder)
    (patch,) = series.read(folder)
    git(tree, "reset", "--quiet", "--hard", series.BASE)
    git(tree, "rm", "--quiet", "b.c")
    git(tree, "commit", "--quiet", "--message=gone")
    with pytest.raises(UsageProblem, match=r"b\.c"):
        series.apply(tree, patch)


def write(folder: Path, listing: str, *patches: str) -> None:
    (folder / "series").write_text(listing)
    for name in patches:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(f"patch {name}\n")


def test_a_listing_may_have_comments_and_empty_lines(folder: Path) -> None:
    write(folder, "# first\n\na/1.patch # why\n  b/2.patch\n", "a/1.patch", "b/2.patch")
    assert [patch.name for patch in series.read(folder)] == ["a/1.patch", "b/2.patch"]


@pytest.mark.parametrize(
    ("listing", "patches", "said"),
    [
        ("a/1.patch\n", (), "a/1.patch"),
        ("a/1.patch\na/1.patch\n", ("a/1.patch",), "twice"),
        ("", ("a/1.patch",), "not listed"),
        ("../a/1.patch\n", (), "TOPIC/NAME.patch"),
        ("a/b/1.patch\n", (), "TOPIC/NAME.patch"),
        ("1.patch\n", (), "TOPIC/NAME.patch"),
    ],
)
def test_a_listing_that_is_wrong_is_refused(
    folder: Path, listing: str, patches: tuple[str, ...], said: str
) -> None:
    write(folder, listing, *patches)
    with pytest.raises(UsageProblem, match=said):
        series.read(folder)


def test_no_listing_is_an_error(folder: Path) -> None:
    with pytest.raises(UsageProblem, match="series"):
        series.read(folder)


def test_the_hash_changes_with_order_and_changes_and_not_with_words(folder: Path) -> None:
    write(folder, "a/1.patch\nb/2.patch\n", "a/1.patch", "b/2.patch")
    diff = "\ndiff --git a/x b/x\n@@ -1 +1 @@\n-a\n+b\n"
    (folder / "a/1.patch").write_text(f"Subject: one\n---\n{diff}")
    (folder / "b/2.patch").write_text(f"Subject: two\n---\n{diff.replace('x', 'y')}")
    first = series.read(folder)
    assert series.digest(first) == series.digest(series.read(folder))
    assert series.digest(first) != series.digest(first[::-1])
    assert series.digest([]) != series.digest(first[:1])
    tested = series.Patch(
        "one", Path("9.patch"), "s\n\ndiff --git a/tools/testing/a b/tools/testing/a\n+\n"
    )
    assert tested.files == ["tools/testing/a"]
    assert series.digest([*first, tested]) == series.digest(first)
    (folder / "a/1.patch").write_text(f"Subject: one, in other words\n---\n{diff}")
    assert series.digest(first) == series.digest(series.read(folder))
    (folder / "a/1.patch").write_text(f"Subject: one\n---\n{diff.replace('+b', '+c')}")
    assert series.digest(first) != series.digest(series.read(folder))


def test_our_own_series_is_in_order() -> None:
    patches = series.read()
    assert {"ucounts", "sigqueue", "apparmor"} <= {patch.topic for patch in patches}
    for patch in patches:
        assert "\nSigned-off-by: " in patch.text, patch.name
        assert series.TOPIC not in patch.text


def test_git_says_why_it_failed(tmp_path: Path) -> None:
    with pytest.raises(GitProblem, match="git rev-parse: fatal: ") as caught:
        git(tmp_path, "rev-parse", "HEAD")
    assert "not a git repository" in caught.value.said


def test_the_users_git_configuration_does_not_matter_for_our_trees(
    tree: Path, tmp_path: Path
) -> None:
    (tmp_path / ".gitconfig").write_text("[core]\n\tautocrlf = true\n[commit]\n\tgpgsign = true\n")
    change(tree, 7, "still works")
    assert git(tree, "log", "-1", "--format=%an").strip() == "Partywall"


@pytest.mark.parametrize("left", ["index.lock", "HEAD.lock", "rebase-apply/patch"])
def test_a_tree_that_git_was_killed_in_is_made_anew(
    tree: Path, folder: Path, tmp_path: Path, left: str
) -> None:
    change(tree, 3, "first: one", "alpha")
    wanted = git(tree, "rev-parse", "HEAD^{tree}")
    series.refresh(tree, folder)
    git(tree, "reset", "--quiet", "--hard", series.BASE)
    origin = source.Source(tree, "1", "key")
    working = build.checkout(origin, [], tmp_path)
    place = working / ".git" / left
    place.parent.mkdir(exist_ok=True)
    place.touch()
    assert build.checkout(origin, series.read(folder), tmp_path) == working
    assert git(working, "rev-parse", "HEAD^{tree}") == wanted


def test_trees_of_two_releases_are_beside_each_other(tree: Path, tmp_path: Path) -> None:
    other = source.Source(tree, "1", "key", series.Base("9.9", tmp_path))
    assert build.checkout(other, [], tmp_path) == tmp_path / "linux-9.9"
    assert build.checkout(source.Source(tree, "1", "key"), [], tmp_path) == tmp_path / "linux"


def listed(cell: str) -> list[str]:
    """Patches of a table's cell: ``topic/0001``, and ``0003`` to ``0005`` of the same topic."""
    found: list[str] = []
    topic = ""
    for to, name, number in re.findall(r"(to )?`(?:([\w-]+)/)?(\d{4})`", cell):
        topic = name or topic
        first = int(found[-1][-4:]) + 1 if to else int(number)
        found += [f"{topic}/{n:04}" for n in range(first, int(number) + 1)]
    return found


@pytest.mark.parametrize("version", bases.known())
def test_each_patch_has_a_line_of_the_table(version: str) -> None:
    folder = bases.get(version).folder
    text = (folder / "README.md").read_text().partition("## Patch by patch")[2]
    cells = re.findall(r"^\| (`.*?) \|", text, re.MULTILINE)
    named = [name for cell in cells for name in listed(cell)]
    patches = series.read(folder)
    assert sorted(named) == sorted(patch.name[: patch.name.index("-")] for patch in patches)
