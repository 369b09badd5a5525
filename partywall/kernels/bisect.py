# SPDX-License-Identifier: GPL-2.0-or-later
"""git's own bisection, in a working tree of its own of somebody's repository.

What git keeps of a bisection it keeps for each working tree. So neither the checkout
of the user nor a bisection that runs there is touched, and all is gone with the tree.
"""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from partywall.core.errors import UsageProblem
from partywall.kernels.git import GitProblem, git
from partywall.results.bisect import Commit

Side = Literal["old", "new"]
"""git's own words for what is as before a change, and as after it."""

# Hooks of the user's are for checkouts of the user's.
_OURS = ("-c", "core.hooksPath=/dev/null", "-c", "advice.detachedHead=false")
_FORM = "%H%x00%P%x00%an <%ae>%x00%aI%x00%s"
_FIRST = re.compile(r"^([0-9a-f]{40,64}) is the first new commit", re.MULTILINE)
_LEFT = re.compile(r"roughly (\d+) steps?\)")
_ONE_OF = "There are only 'skip'ped commits left to test."
_NONE = "No testable commit found."
_BASE = re.compile(r"The merge base ([0-9a-f]{40,64}) is new")


def commit(tree: Path, name: str) -> Commit:
    """Return the commit of a name; UsageProblem if there is none."""
    try:
        asked = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        found = git(tree, *asked, own=False).strip()
    except GitProblem as error:
        raise UsageProblem(
            f"{tree} has no commit '{name}'", f"git -C {tree} log --oneline shows those it has"
        ) from error
    said = git(tree, "log", "--no-show-signature", "-1", f"--format={_FORM}", found, own=False)
    # What some wrote before all was UTF-8 can be shown, but not as they meant it.
    readable = said.encode("utf-8", "replace").decode()
    full, parents, author, date, subject = readable.rstrip("\n").split("\0")
    return Commit(id=full, parents=parents.split(), author=author, date=date, subject=subject)


def files(tree: Path, of: Commit) -> list[str]:
    """Return the files that a commit changes, against its first parent."""
    asked = ("diff-tree", "--root", "-r", "-m", "--first-parent", "--no-commit-id", "--name-only")
    return git(tree, *asked, of.id, own=False).splitlines()


def repository(tree: Path) -> Path:
    """Return where a repository is; UsageProblem if that is none."""
    try:
        git(tree, "rev-parse", "--git-dir", own=False)
    except GitProblem as error:
        raise UsageProblem(
            f"{tree} is no git repository", "partywall kernel-tree DIR makes one of Linux"
        ) from error
    return tree.resolve()


def ancestor(tree: Path, first: Commit, second: Commit) -> bool:
    """Tell whether ``first`` is an ancestor of ``second``."""
    try:
        git(tree, "merge-base", "--is-ancestor", first.id, second.id, own=False)
    except GitProblem as error:
        if error.said:
            raise
        return False
    return True


def checkout(tree: Path, at: Commit) -> None:
    """Check a commit out in a working tree that is for nothing else."""
    git(tree, *_OURS, "checkout", "--quiet", "--force", "--detach", at.id, own=False)


@contextlib.contextmanager
def worktree(tree: Path, at: Commit, place: Path) -> Iterator[Path]:
    """A working tree of a repository's at ``place``, and nothing of it left afterwards.

    What is there before goes.
    """
    shutil.rmtree(place, ignore_errors=True)
    # Twice --force: also where one was that was killed before it could clean up.
    add = ("worktree", "add", "--quiet", "--force", "--force", "--detach", str(place), at.id)
    try:
        git(tree, *_OURS, *add, own=False)
        yield place
    finally:
        # Not pruned: that would forget trees of the user's that are on no disk just now.
        with contextlib.suppress(GitProblem):
            git(tree, "worktree", "remove", "--force", "--force", str(place), own=False)
        shutil.rmtree(place, ignore_errors=True)


class Search:
    """A bisection in a working tree that is for nothing else.

    ``at``: the commit that is checked out and to be judged, None once the search is
    over; ``found``: then the commits of which one is the first new one; ``left``: about
    how many more are to be judged, as git thinks. ``paths``: only commits that change
    one of these files or folders.
    """

    def __init__(self, tree: Path, old: Commit, new: Commit, paths: Sequence[str] = ()) -> None:
        self.tree = tree
        self.at: Commit | None = None
        self.found: list[Commit] = []
        self.left = 0
        self._next("start", "--term-old=old", "--term-new=new", new.id, old.id, "--", *paths)

    def judge(self, side: Side | None) -> None:
        """Say on which side ``at`` is, None if it can't be told; go on to the next."""
        self._next(side or "skip")

    def _next(self, *arguments: str) -> None:
        try:
            said = git(self.tree, *_OURS, "bisect", *arguments, own=False)
        except GitProblem as error:
            base = _BASE.search(error.said)
            if base:
                raise UsageProblem(
                    f"their merge base {base[1][:12]} is as the new one already: what differs "
                    "was changed on the old one's side",
                    f"bisect from {base[1][:12]} to the old one",
                ) from error
            if _NONE in error.said:
                raise UsageProblem(
                    "no commit between them changes these files", "name others, or none"
                ) from error
            if _ONE_OF not in error.said:
                raise
            names = re.findall(r"^[0-9a-f]{40,64}$", error.said, re.MULTILINE)
            self.at, self.found = None, [commit(self.tree, name) for name in names]
            return
        first = _FIRST.search(said)
        if first:
            self.at, self.found = None, [commit(self.tree, first[1])]
            return
        left = _LEFT.search(said)
        self.left = int(left[1]) if left else 0
        self.at = commit(self.tree, "HEAD")
