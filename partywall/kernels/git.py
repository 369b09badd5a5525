# SPDX-License-Identifier: GPL-2.0-or-later
"""git, for trees of the kernel's source."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from partywall.core import packages
from partywall.core.errors import EnvironmentProblem, UsageProblem

# Commits that nobody but this program sees need an author all the same.
_NOBODY = {
    "GIT_AUTHOR_NAME": "Partywall",
    "GIT_AUTHOR_EMAIL": "partywall@localhost",
    "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z",
    "GIT_COMMITTER_NAME": "Partywall",
    "GIT_COMMITTER_EMAIL": "partywall@localhost",
    "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z",
}
_ALONE = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0"}


PLAIN = (
    *("--src-prefix=a/", "--dst-prefix=b/", "--unified=3", "--find-renames", "--suffix=.patch"),
    *("--no-attach", "--no-signoff", "--no-notes", "--no-to", "--no-cc"),
)
"""Options of git format-patch against what a user's configuration makes of patches."""


class GitProblem(EnvironmentProblem):
    """git failed. ``said``: all that it wrote to stderr and stdout."""

    def __init__(self, command: str, said: str) -> None:
        lines = [line for line in said.splitlines() if line.startswith(("fatal:", "error:"))]
        why = (lines or said.strip().splitlines() or ["no reason given"])[0]
        super().__init__(f"git {command}: {why[:200]}")
        self.said = said


def git(tree: Path, *arguments: str, own: bool = True, text: str | None = None) -> str:
    """What ``git`` prints, run in ``tree``; GitProblem if it fails.

    ``own``: a tree of this program's, where the user's configuration does not
    matter. Without it, the user's name is on the commits.
    """
    # A hook may have pointed git elsewhere, which is not where we mean.
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    environment |= {"LC_ALL": "C"}
    if own:
        environment |= _NOBODY | _ALONE
    else:
        environment |= {key: value for key, value in os.environ.items() if key.startswith("GIT_C")}
    try:
        done = subprocess.run(
            ["git", "-C", str(tree), *arguments],
            env=environment,
            input=text,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            check=False,
        )
    except FileNotFoundError as error:
        raise EnvironmentProblem("git is not installed", packages.mend("kernels")) from error
    if done.returncode:
        raise GitProblem(arguments[0], done.stderr + done.stdout)
    return done.stdout


def require_identity(tree: Path) -> None:
    """UsageProblem if git does not know whose commits in a tree, or below a folder, are."""
    folder = tree.absolute()
    while not folder.is_dir():
        folder = folder.parent
    try:
        git(folder, "var", "GIT_COMMITTER_IDENT", own=False)
    except GitProblem as error:
        raise UsageProblem(
            "git does not know who you are",
            "git config --global user.name NAME, and user.email ADDRESS",
        ) from error
