# SPDX-License-Identifier: GPL-2.0-or-later
"""A topic of the series as mails for a list, by the conventions of b4.

A cover letter, patches that are numbered, base-commit and change-id for whoever
applies them, recipients from the tree's own get_maintainer.pl. The letter's words are
those of the topic's file ``cover``; without one, what a person has to write is marked
EDITME, which b4 refuses to send.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from email.utils import parsedate_to_datetime
from pathlib import Path

from partywall.core import packages
from partywall.core.cache import file_errors
from partywall.core.errors import EnvironmentProblem, UsageProblem
from partywall.kernels.git import PLAIN, GitProblem, git, require_identity
from partywall.kernels.series import bases
from partywall.kernels.series.patches import FOLDER, Patch, apply_plain, read

COVER = "cover"
"""A topic's file with the title and the text of its cover letter."""

STABLE_COVER = "cover.stable"
"""The same of its patches that are for a stable release."""

STABLE = "stable@vger.kernel.org"
"""Gets what is for a stable release, such as 6.12.y, which no tree's script knows."""

# As b4 asks it: nobody is written to only because he once changed the file.
_ASK = ("--nogit", "--nogit-fallback", "--nogit-chief-penguins", "--norolestats")


def change_id(patches: list[Patch]) -> str:
    """Return what stays the same from one revision of a set to the next: day, topic, a hash."""
    first = patches[0]
    dated = re.search(r"^Date: (.+)$", first.text, re.MULTILINE)
    day = f"{parsedate_to_datetime(dated[1]):%Y%m%d}" if dated else "00000000"
    named = hashlib.sha256(first.topic.encode()).hexdigest()
    return f"{day}-{first.topic}-{named[:12]}"


def _asked(tree: Path, patch: Patch, what: str) -> list[str]:
    script = tree / "scripts" / "get_maintainer.pl"
    try:
        done = subprocess.run(
            ["perl", script.absolute(), *_ASK, what, patch.path.absolute()],
            cwd=tree,
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError as error:
        raise EnvironmentProblem("perl is not installed", packages.mend("kernels")) from error
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["it says nothing"]
        raise UsageProblem(
            f"{script} fails: {lines[0][:160]}", "give a tree of Linux that is checked out"
        )
    return done.stdout.splitlines()


def _for_stable(patch: Patch) -> bool:
    message = patch.text.partition("\n---\n")[0]
    return re.search(rf"^Cc: <?{re.escape(STABLE)}", message, re.MULTILINE) is not None


def recipients(tree: Path, patches: list[Patch]) -> tuple[list[str], list[str]]:
    """Return whom the set goes to, and the lists that get a copy, as the tree's script says."""

    def all_of(what: str) -> list[str]:
        return list(dict.fromkeys(one for patch in patches for one in _asked(tree, patch, what)))

    # Reviewers are no list and no maintainer, so both answers have them.
    to = all_of("--nol")
    return to, [one for one in all_of("--nom") if one not in to]


def before(series: list[Patch], patches: list[Patch]) -> list[Patch]:
    """Return those before a topic's patches that change a file of theirs, and of these in turn."""
    files = {file for patch in patches for file in patch.files}
    found: list[Patch] = []
    for patch in reversed(series[: series.index(patches[0])]):
        if files & set(patch.files):
            files |= set(patch.files)
            found.insert(0, patch)
    return found


def _commit_all(tree: Path, series: list[Patch], patches: list[Patch], into: Path) -> str:
    """Clone the tree at its commit, with the patches above it; return where the set begins.

    Only the patches' files are checked out. Where they don't apply by themselves, they
    stand on those before them, which format-patch names as prerequisites then.
    """
    git(into.parent, "clone", "--quiet", "--shared", "--no-checkout", str(tree), str(into))
    others = before(series, patches)
    touched = sorted({f"/{file}" for patch in (*others, *patches) for file in patch.files})
    git(into, "sparse-checkout", "set", "--no-cone", *touched)
    base = git(tree, "rev-parse", "HEAD", own=False).strip()
    git(into, "checkout", "--quiet", "--detach", base)
    try:
        for patch in patches:
            apply_plain(into, patch, own=False)
    except UsageProblem:
        if not others:
            raise
        git(into, "reset", "--quiet", "--hard", base)
        for patch in others:
            apply_plain(into, patch, own=False)
        base = git(into, "rev-parse", "HEAD").strip()
        for patch in patches:
            apply_plain(into, patch, own=False)
    return base


def _cover(path: Path, title: str, body: str, change: str) -> None:
    """Put words in the place of those of git's template."""
    text = path.read_text(errors="surrogateescape")
    text = text.replace("*** SUBJECT HERE ***", title).replace("*** BLURB HERE ***", body.strip())
    text = re.sub(r"^(base-commit: \w+)$", rf"\1\nchange-id: {change}", text, flags=re.MULTILINE)
    path.write_text(text, errors="surrogateescape")


def _words(topic: str, cover: Path | None, revision: int) -> tuple[str, str]:
    """Title and text of the cover letter: a file's first line and the rest of it."""
    if cover is not None:
        try:
            title, _, body = cover.read_text().partition("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageProblem(f"{cover}: {error}", "--cover takes a text file") from error
        return title.strip(), body
    body = (
        "EDITME: what the set is for, and what it shows: tables with the commands that made\n"
        "them, such as partywall compare."
    )
    if revision > 1:
        body += f"\n\nChanges since v{revision - 1}:\n- EDITME: what changed, and who asked for it"
    return f"EDITME: cover title for {topic}", body


def export(
    topic: str,
    tree: Path,
    into: Path,
    *,
    cover: Path | None = None,
    revision: int = 1,
    prefix: str = "",
    folder: Path | None = None,
) -> list[Path]:
    """Write a topic's patches as mails into a folder, above the tree's commit; return them.

    ``prefix``: what a list asks for in subjects behind "PATCH", such as 6.12.y for a
    stable release (whose list gets a copy of the patches that are marked for it, the others
    staying out) or net-next. ``folder``: the series, that of
    the tree's release if not given, and that of 6.12 where there is none. UsageProblem if
    the topic is not known, a patch does not apply there, or the folder has files in it.
    """
    if folder is None:
        known = bases.of_tree(tree)
        folder = known.folder if known else FOLDER
    series = read(folder)
    patches = [patch for patch in series if patch.topic == topic]
    if not patches:
        topics = ", ".join(dict.fromkeys(patch.topic for patch in series))
        raise UsageProblem(f"no topic '{topic}' in the series", f"known: {topics}")
    if prefix.endswith(".y"):
        patches = [patch for patch in patches if _for_stable(patch)]
        if not patches:
            raise UsageProblem(
                f"no patch of {topic} is for stable releases",
                f"a line 'Cc: {STABLE}' in its message says that one is",
            )
    if into.exists() and (not into.is_dir() or any(into.iterdir())):
        raise UsageProblem(f"{into} is there already", "name another folder, or remove it")
    require_identity(tree)
    try:
        base = git(tree, "rev-parse", "--verify", "HEAD^{commit}", own=False).strip()
    except GitProblem as error:
        raise UsageProblem(
            f"{tree} is no git tree with a commit", "name a tree of Linux, as git clone makes one"
        ) from error
    kept = folder / topic / (STABLE_COVER if prefix.endswith(".y") else COVER)
    title, body = _words(topic, kept if cover is None and kept.is_file() else cover, revision)
    to, copies = recipients(tree, patches)
    if prefix.endswith(".y"):
        copies.append(STABLE)
    with (
        tempfile.TemporaryDirectory(prefix="partywall-") as place,
        file_errors("exporting a topic", into),
    ):
        work, drafts = Path(place, "tree"), Path(place, "mails")
        begins = _commit_all(tree.absolute(), series, patches, work)
        version = [f"--reroll-count={revision}"] if revision > 1 else []
        git(
            work,
            *(
                "format-patch",
                "--quiet",
                "--cover-letter",
                "--numbered",
                f"--base={base}",
                "--abbrev=12",
            ),
            *("--no-signature", "--no-color", "--thread=shallow", *version, *PLAIN),
            f"--subject-prefix={f'PATCH {prefix}'.strip()}",
            *_headers("to", to),
            *_headers("cc", copies),
            *(f"--output-directory={drafts}", f"{begins}..HEAD"),
            own=False,
        )
        mails = sorted(drafts.glob("*.patch"))
        _cover(mails[0], title, body, change_id(patches))
        # All of them or none: a folder with some is refused the next time.
        into.mkdir(parents=True, exist_ok=True)
        written = [into / mail.name for mail in mails]
        try:
            for mail, path in zip(mails, written, strict=True):
                shutil.copyfile(mail, path)
        except OSError:
            for path in written:
                path.unlink(missing_ok=True)
            raise
    return written


def _headers(name: str, addresses: Iterable[str]) -> list[str]:
    return [f"--{name}={address}" for address in addresses]
