# SPDX-License-Identifier: GPL-2.0-or-later
"""A topic becomes mails that a list takes, and that apply where they say."""

from __future__ import annotations

import email
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from partywall.core.errors import UsageProblem
from partywall.kernels import series
from partywall.kernels.git import git
from partywall.kernels.series.export import change_id, export

TEXT = "".join(f"line {number}\n" for number in range(1, 41))
# Says whom it was asked for, and by which options.
SCRIPT = """\
my $people = grep({$_ eq "--nol"} @ARGV);
print($people ? "Main Tainer <main\\@example.org>\\n" : "list\\@example.org\\n");
print("Re Viewer <re\\@example.org>\\n");
die "old\\n" unless grep({$_ eq "--nogit-fallback"} @ARGV);
"""


@dataclass(frozen=True)
class Trees:
    """A tree of Linux to post against, and a series for it: fixes, then alpha and beta."""

    linux: Path
    folder: Path
    mails: Path

    def export(self, topic: str, **more: int | str | Path) -> list[Path]:
        return export(topic, self.linux, self.mails, folder=self.folder, **more)  # type: ignore[arg-type]


def change(tree: Path, line: int, topic: str, name: str = "b.c", *, stable: bool = False) -> None:
    path = tree / name
    path.write_text(path.read_text().replace(f"line {line}\n", f"line {line} by {topic}\n"))
    marked = "Cc: stable@vger.kernel.org\n" if stable else ""
    message = f"{topic}: line {line}\n\n{marked}{series.TOPIC}: {topic}"
    git(tree, "commit", "--quiet", "--all", f"--message={message}")


@pytest.fixture
def trees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trees:
    for key in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{key}_NAME", "Some One")
        monkeypatch.setenv(f"GIT_{key}_EMAIL", "some@one.example")
    monkeypatch.setenv("HOME", str(tmp_path))
    linux, folder = tmp_path / "linux", tmp_path / "series" / "linux"
    (linux / "scripts").mkdir(parents=True)
    folder.mkdir(parents=True)
    (linux / "scripts" / "get_maintainer.pl").write_text(SCRIPT)
    for name in ("a.c", "b.c", "c.c"):
        (linux / name).write_text(TEXT)
    git(linux, "init", "--quiet")
    git(linux, "add", "--all")
    git(linux, "commit", "--quiet", "--message=base")
    git(linux, "tag", series.BASE)
    change(linux, 3, "fixes", "a.c")
    change(linux, 20, "fixes")
    change(linux, 21, "alpha")
    change(linux, 30, "alpha")
    change(linux, 10, "beta", "c.c", stable=True)
    change(linux, 12, "gamma", "c.c")
    change(linux, 30, "gamma", "c.c", stable=True)
    series.refresh(linux, folder)
    git(linux, "reset", "--quiet", "--hard", series.BASE)
    return Trees(linux, folder, tmp_path / "mails")


def test_what_a_users_git_makes_of_patches_is_in_none(trees: Trees, tmp_path: Path) -> None:
    """Neither in mails nor in the series: none of it would apply."""
    (tmp_path / ".gitconfig").write_text(
        "[diff]\nnoprefix = true\ncontext = 0\n"
        "[format]\nsuffix = .txt\nattach = yes\nsignOff = true\nnumbered = no\n"
    )
    mails = trees.export("alpha")
    assert [mail.suffix for mail in mails] == [".patch"] * 3
    for number, mail in enumerate(mails[1:], 1):
        text = mail.read_text()
        assert f"Subject: [PATCH {number}/2] " in text
        assert "diff --git a/b.c b/b.c" in text
        assert "Signed-off-by" not in text
    before = [patch.text for patch in series.read(trees.folder)]
    for patch in series.read(trees.folder):
        series.apply(trees.linux, patch, own=False)
    series.refresh(trees.linux, trees.folder)
    after = [patch.text for patch in series.read(trees.folder)]
    assert [text.partition("\ndiff")[2] for text in after] == [
        text.partition("\ndiff")[2] for text in before
    ]


def test_a_set_has_a_cover_a_base_an_id_and_recipients(trees: Trees) -> None:
    cover, patch = map(email.message_from_bytes, map(Path.read_bytes, trees.export("beta")))
    assert cover["Subject"] == "[PATCH 0/1] EDITME: cover title for beta"
    assert patch["Subject"] == "[PATCH 1/1] beta: line 10"
    for mail in (cover, patch):
        to = "Main Tainer <main@example.org>,\n    Re Viewer <re@example.org>"
        assert (mail["To"], mail["Cc"]) == (to, "list@example.org")
    assert patch["In-Reply-To"] == cover["Message-Id"]
    told = str(cover.get_payload())
    base = git(trees.linux, "rev-parse", "HEAD").strip()
    assert re.search(rf"^base-commit: {base}\nchange-id: \d{{8}}-beta-[0-9a-f]{{12}}$", told, re.M)
    assert "prerequisite" not in told
    assert series.TOPIC not in str(patch)


def test_what_needs_the_patches_before_it_says_which(trees: Trees) -> None:
    cover, *patches = trees.export("alpha")
    assert len(patches) == 2
    # The fix beside it in the same file, and not that of another one.
    assert cover.read_text().count("prerequisite-patch-id: ") == 1


def test_mails_apply_to_what_they_stand_on(trees: Trees) -> None:
    _, *patches = trees.export("alpha")
    fix = trees.folder / "fixes" / "0002-fixes-line-20.patch"
    git(trees.linux, "am", "--quiet", str(fix), *map(str, patches))
    assert (trees.linux / "b.c").read_text().count(" by alpha") == 2


def test_the_tree_stays_as_it_was(trees: Trees) -> None:
    before = git(trees.linux, "for-each-ref") + git(trees.linux, "worktree", "list")
    trees.export("alpha")
    assert git(trees.linux, "for-each-ref") + git(trees.linux, "worktree", "list") == before
    assert git(trees.linux, "status", "--porcelain") == ""


def test_a_later_revision_keeps_the_id_and_asks_for_changes(trees: Trees) -> None:
    cover, patch = trees.export("beta", revision=2)
    assert patch.name.startswith("v2-0001-")
    told = cover.read_text()
    assert "Subject: [PATCH v2 0/1]" in told
    assert "Changes since v1:" in told
    patches = [one for one in series.read(trees.folder) if one.topic == "beta"]
    assert f"\nchange-id: {change_id(patches)}\n" in told


def test_the_words_of_the_cover_come_from_the_topics_own_file(trees: Trees, tmp_path: Path) -> None:
    (trees.folder / "beta" / "cover").write_text("beta: kept with it\n\nIt was 4.00, it is 0.\n")
    told = trees.export("beta")[0].read_text()
    assert "Subject: [PATCH 0/1] beta: kept with it\n" in told
    assert "\n\nIt was 4.00, it is 0.\n" in told
    assert "EDITME" not in told
    words = tmp_path / "words"
    words.write_text("beta: of another file\n\nText.\n")
    shutil.rmtree(trees.mails)
    assert "beta: of another file" in trees.export("beta", cover=words)[0].read_text()


def test_the_words_of_the_cover_come_from_a_file(trees: Trees, tmp_path: Path) -> None:
    words = tmp_path / "cover"
    words.write_text("beta: no wall at 10\n\nIt was 4.00, it is 0.\n")
    told = trees.export("beta", cover=words)[0].read_text()
    assert "Subject: [PATCH 0/1] beta: no wall at 10\n" in told
    assert "\n\nIt was 4.00, it is 0.\n\n" in told
    assert "EDITME" not in told


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("no topic", "known: fixes, alpha, beta, gamma"),
        ("no tree", "name a tree"),
        ("no script", "checked out"),
        ("does not apply", "does not apply"),
        ("files there", "name another folder"),
    ],
)
def test_what_can_not_be_exported_leaves_nothing(trees: Trees, state: str, words: str) -> None:
    topic, linux = "beta", trees.linux
    if state == "no topic":
        topic = "delta"
    elif state == "no tree":
        linux = trees.folder
    elif state == "no script":
        (linux / "scripts" / "get_maintainer.pl").unlink()
    elif state == "does not apply":
        (linux / "c.c").write_text("other\n")
        git(linux, "commit", "--quiet", "--all", "--message=other")
    else:
        trees.mails.mkdir()
        (trees.mails / "mine").touch()
    with pytest.raises(UsageProblem) as caught:
        export(topic, linux, trees.mails, folder=trees.folder)
    assert words in f"{caught.value.message} {caught.value.hint}"
    there = [path.name for path in trees.mails.glob("*")]
    assert there == (["mine"] if state == "files there" else [])


def test_a_stable_release_or_a_tree_stands_in_each_subject(trees: Trees) -> None:
    with pytest.raises(UsageProblem, match="no patch of alpha is for stable releases"):
        trees.export("alpha", prefix="6.12.y")
    # Of a topic that has both those alone that are marked, with a cover letter of their own.
    (trees.folder / "gamma" / "cover").write_text("gamma: both\n\nText.\n")
    (trees.folder / "gamma" / "cover.stable").write_text("gamma: one\n\nText.\n")
    mails = trees.export("gamma", prefix="6.12.y")
    assert [email.message_from_bytes(mail.read_bytes())["Subject"] for mail in mails] == [
        "[PATCH 6.12.y 0/1] gamma: one",
        "[PATCH 6.12.y 1/1] gamma: line 30",
    ]
    for mail in mails:
        mail.unlink()
    mails = trees.export("beta", prefix="6.12.y", revision=2)
    cover, patch = map(email.message_from_bytes, map(Path.read_bytes, mails))
    assert cover["Subject"].startswith("[PATCH 6.12.y v2 0/1] ")
    assert patch["Subject"] == "[PATCH 6.12.y v2 1/1] beta: line 10"
    assert patch["Cc"].split(",")[-1].strip() == "stable@vger.kernel.org"
