# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernel series: an ordered list of patches, applied to a tree and exported from it.

``series/linux-VERSION/series`` names the patches in order, ``TOPIC/NNNN-title.patch``
each. In a tree, a trailer in each commit says which topic it belongs to.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from partywall.core.cache import file_errors, write_whole
from partywall.core.errors import UsageProblem
from partywall.kernels.git import PLAIN, GitProblem, git
from partywall.kernels.series import bases

FOLDER = bases.get().folder
BASE = "partywall-base"
"""Tag of the commit that a series starts from."""
TOPIC = "Partywall-topic"


@dataclass(frozen=True)
class Patch:
    """One patch of a series: its topic, its file, its text."""

    topic: str
    path: Path
    text: str

    @property
    def name(self) -> str:
        """``TOPIC/FILE``, as the series lists it."""
        return f"{self.topic}/{self.path.name}"

    @property
    def files(self) -> list[str]:
        """Files of the kernel's tree that it changes or makes."""
        return re.findall(r"^diff --git a/\S+ b/(\S+)$", self.text, re.MULTILINE)


def read(folder: Path = FOLDER) -> list[Patch]:
    """The patches of a series in order.

    UsageProblem if one is missing, listed twice, or lies there unlisted.
    """
    listing = folder / "series"
    try:
        lines = listing.read_text().splitlines()
    except OSError as error:
        raise UsageProblem(
            f"{listing}: {error.strerror}", "a series starts with that file"
        ) from error
    patches: list[Patch] = []
    for number, line in enumerate(lines, start=1):
        name = line.split("#", 1)[0].strip()
        if not name:
            continue
        if not re.fullmatch(r"[\w-]+/[\w.+-]+\.patch", name):
            raise UsageProblem(f"{listing}:{number}: '{name}' is not TOPIC/NAME.patch")
        if any(patch.name == name for patch in patches):
            raise UsageProblem(f"{listing}:{number}: {name} is listed twice")
        path = folder / name
        try:
            text = path.read_text(errors="surrogateescape")
        except OSError as error:
            raise UsageProblem(f"{listing}:{number}: {path}: {error.strerror}") from error
        patches.append(Patch(path.parent.name, path, text))
    listed = {patch.path for patch in patches}
    for path in sorted(folder.glob("*/*.patch")):
        if path not in listed:
            raise UsageProblem(f"{path} is not listed in {listing}", "list it there or remove it")
    return patches


def digest(patches: list[Patch]) -> str:
    """Hash of order and changes, hex. Words, names and selftests change no kernel."""
    total = hashlib.sha256()
    for patch in patches:
        if patch.files and all(file.startswith("tools/testing/") for file in patch.files):
            continue
        changes = patch.text[max(patch.text.find("\ndiff --git "), 0) :]
        data = changes.encode(errors="surrogateescape")
        total.update(f"{len(data)}\n".encode() + data)
    return total.hexdigest()


def _hunk(patch: Patch, said: str) -> str:
    """Where a patch failed, from what git said: file, number and header of the hunk."""
    failed = re.search(r"^error: patch failed: (.+):(\d+)$", said, re.MULTILINE)
    if failed is None:
        other = re.search(r"^error: (.+)$", said, re.MULTILINE)
        return other[1] if other else said.strip().splitlines()[-1] if said.strip() else "no reason"
    path, line = failed[1], failed[2]
    part = re.split(r"^diff --git ", patch.text, flags=re.MULTILINE)
    for section in part[1:]:
        if f" b/{path}\n" not in section.split("@@", 1)[0] + "\n":
            continue
        hunks = re.findall(r"^@@ -(\d+)[^@]*@@.*$", section, re.MULTILINE)
        if line in hunks:
            return f"{path}, hunk {hunks.index(line) + 1} of {len(hunks)}, at line {line}"
    return f"{path}, at line {line}"


def apply_plain(tree: Path, patch: Patch, *, own: bool = True) -> None:
    """Commits a patch on top of a tree, as it is. UsageProblem that names the hunk that fails.

    The tree is left as it was before the patch.
    """
    with tempfile.TemporaryDirectory(prefix="partywall-") as folder:
        mail = Path(folder) / patch.path.name
        mail.write_text(patch.text, errors="surrogateescape")
        try:
            git(tree, "am", "--quiet", "--keep-cr", str(mail), own=own)
        except GitProblem as error:
            try:
                git(tree, "am", "--abort", own=own)
            except GitProblem:
                git(tree, "reset", "--hard", own=own)
            raise UsageProblem(
                f"{patch.name} does not apply: {_hunk(patch, error.said)}",
                "rebase the series in partywall kernel-tree, then partywall series refresh",
            ) from error


def apply(tree: Path, patch: Patch, *, own: bool = True) -> None:
    """Commits a patch as `apply_plain` does, with its topic for `refresh` in the message."""
    apply_plain(tree, patch, own=own)
    message = git(tree, "log", "-1", "--format=%B")
    trailed = git(tree, "interpret-trailers", "--trailer", f"{TOPIC}: {patch.topic}", text=message)
    git(tree, "commit", "--quiet", "--amend", "--no-verify", "--file=-", own=own, text=trailed)


def _commits(tree: Path) -> list[str]:
    return git(tree, "rev-list", "--reverse", f"{BASE}..HEAD", own=False).split()


def _topic(tree: Path, commit: str) -> str | None:
    form = f"--format=%(trailers:key={TOPIC},valueonly)"
    topics = git(tree, "log", "-1", form, commit, own=False).split()
    return topics[-1] if topics else None


def _exported(tree: Path, commits: list[str]) -> Iterator[tuple[str, str, str]]:
    """Topic, title and text of each commit. One without a topic goes with the one before it."""
    topics = [_topic(tree, commit) for commit in commits]
    topic = next((name for name in topics if name), None)
    if topic is None:
        raise UsageProblem(
            f"no commit in {tree} says which topic it belongs to",
            f"add a line '{TOPIC}: NAME' to the end of the first one's message",
        )
    for commit, own in zip(commits, topics, strict=True):
        topic = own or topic
        if not re.fullmatch(r"[\w-]+", topic):
            raise UsageProblem(f"commit {commit[:12]} names a topic '{topic}'", "use a plain word")
        if "\n---\n" in git(tree, "log", "-1", "--format=%B", commit, own=False):
            raise UsageProblem(
                f"the message of commit {commit[:12]} has a line '---'",
                "a patch's message ends there: reword it",
            )
        text = git(
            tree,
            *("format-patch", "-1", "--stdout", "--zero-commit", "--no-signature"),
            *("--no-numbered", "--no-color", "--abbrev=12", "--subject-prefix=PATCH"),
            *(*PLAIN, commit),
        )
        head, separator, rest = text.partition("\n---\n")
        head = re.sub(rf"^{TOPIC}: .*\n?", "", head + "\n", flags=re.MULTILINE).rstrip("\n")
        title = git(tree, "log", "-1", "--format=%f", commit, own=False).strip()
        yield topic, title, head + separator + rest


def refresh(tree: Path, folder: Path | None = None) -> list[str]:
    """Writes the commits of a tree above its base as the series; returns its patches' names.

    ``folder``: that of the series, which is that of the tree's release if not given.
    UsageProblem if the tree is not one of ours, or has changes that are no commit; or
    if the series is the installed program's, which the next installation overwrites.
    """
    base = bases.of_tree(tree)
    if folder is None:
        folder = base.folder if base else FOLDER
    elif base and folder != base.folder:
        raise UsageProblem(f"{tree} is Linux {base.version}", f"its series is {base.folder}")
    if bases.load(folder).installed:
        raise UsageProblem(
            "this program is installed, and its series with it", "refresh that of a checkout"
        )
    try:
        git(tree, "rev-parse", "--verify", "--quiet", f"{BASE}^{{commit}}", own=False)
    except GitProblem as error:
        raise UsageProblem(
            f"{tree} has no tag {BASE}", "make a tree with partywall kernel-tree DIR"
        ) from error
    if git(tree, "status", "--porcelain", "--untracked-files=no", own=False).strip():
        raise UsageProblem(f"{tree} has changes that are no commit", "commit or stash them")
    commits = _commits(tree)
    if not commits:
        raise UsageProblem(f"{tree} has no commits above {BASE}", "there is nothing to export")
    names: list[str] = []
    with file_errors("exporting the series", folder):
        new = Path(tempfile.mkdtemp(prefix=".series-", dir=folder.parent))
        try:
            counts: dict[str, int] = {}
            for topic, title, text in _exported(tree, commits):
                counts[topic] = counts.get(topic, 0) + 1
                name = f"{topic}/{counts[topic]:04}-{title[:52].rstrip('-.')}.patch"
                (new / topic).mkdir(exist_ok=True)
                (new / name).write_text(text, errors="surrogateescape")
                names.append(name)
            _swap(new, folder, set(counts))
        finally:
            shutil.rmtree(new, ignore_errors=True)
    # REUSE-IgnoreStart
    head = "# SPDX-License-Identifier: GPL-2.0-only\n# Applied in this order.\n"
    # REUSE-IgnoreEnd
    write_whole(folder / "series", head + "".join(f"{name}\n" for name in names))
    return names


def _swap(new: Path, folder: Path, topics: set[str]) -> None:
    """Puts new patches in the place of old ones; other files of a topic stay."""
    for old in folder.glob("*/*.patch"):
        old.unlink()
    for topic in topics:
        (folder / topic).mkdir(exist_ok=True)
        for path in (new / topic).iterdir():
            path.rename(folder / topic / path.name)
    for left in folder.iterdir():
        if left.is_dir() and not any(left.iterdir()):
            left.rmdir()
