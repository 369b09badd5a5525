# SPDX-License-Identifier: GPL-2.0-or-later
"""Which lines of the kernel's source the series added or moved."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from partywall.core.progress import Progress
from partywall.kernels import series
from partywall.kernels.git import git
from partywall.kernels.series import source

_HUNK = re.compile(r"@@ -\d+(?:,\d+)? \+(\d+)(?:,(\d+))? @@")


@dataclass(frozen=True)
class Copied:
    """A statement of the series' that does what the same one of stock's does.

    What of stock's races with the one races with the other. ``why``: which one of stock's.
    """

    file: str
    words: str
    why: str


@dataclass(frozen=True)
class Added:
    """By file and number the lines of the patched source that stock's lacks, or has elsewhere.

    ``copies``: those of them that are `Copied`.
    """

    lines: Mapping[str, Mapping[int, str]]
    copies: frozenset[tuple[str, int]] = frozenset()

    def has(self, file: str, line: int) -> bool:
        """Whether the series added or moved this line."""
        return line in self.lines.get(file, {})

    def marked(self, copied: Iterable[Copied], base: Mapping[str, str]) -> Added:
        """With copies of statements that the files ``base`` of stock's still have."""
        found = set()
        for one in copied:
            if one.words in map(str.strip, base.get(one.file, "").splitlines()):
                lines = self.lines.get(one.file, {})
                found |= {(one.file, n) for n, text in lines.items() if text.strip() == one.words}
        return Added(self.lines, frozenset(found))


def parse(diff: str) -> Added:
    """Added lines from what ``git diff -U0 --no-renames`` prints."""
    lines: dict[str, dict[int, str]] = {}
    file: str | None = None
    number = left = 0
    # Not splitlines(): a line of the source may have a form feed in it.
    for line in diff.split("\n"):
        if left and line.startswith("+"):
            if file is not None:
                lines.setdefault(file, {})[number] = line[1:]
            number += 1
            left -= 1
        elif line.startswith("diff --git "):
            file = None
        elif line.startswith("+++ b/"):
            file = line[6:].rstrip("\t")
        elif found := _HUNK.match(line):
            number, left = int(found[1]), int(found[2] or 1)
    return Added(lines)


def between(tree: Path, base: str, *, cached: bool = False) -> Added:
    """What a commit of a tree, or with ``cached`` its index, has more than ``base``."""
    form = ("-U0", "--no-renames", "--no-color", "--no-ext-diff", "--src-prefix=a/")
    ends = ("--cached", base) if cached else (base, "HEAD")
    return parse(git(tree, "diff", *form, "--dst-prefix=b/", *ends))


def of_series(base: series.Base, copied: Iterable[Copied], progress: Progress) -> Added:
    """What a base's series has more than it; no file of the source is checked out for it."""
    origin, patches = source.get(progress, base), series.read(base.folder)
    copied = list(copied)
    with (
        progress.step("which lines the series adds", 10),
        tempfile.TemporaryDirectory(prefix="partywall-") as folder,
    ):
        tree = Path(folder) / "linux"
        arguments = ("clone", "--quiet", "--shared", "--no-checkout")
        git(origin.repository, *arguments, str(origin.repository), str(tree))
        git(tree, "read-tree", series.BASE)
        for patch in patches:
            git(tree, "apply", "--cached", str(patch.path))
        before = {
            file: git(tree, "show", f"{series.BASE}:{file}")
            for file in {one.file for one in copied}
        }
        return between(tree, series.BASE, cached=True).marked(copied, before)
