# SPDX-License-Identifier: GPL-2.0-or-later
"""How Sphinx makes a site of the pages as they lie in the checkout: ``make site``.

Pages are ordered as docs/README.md orders them, a caption for each reader. A file of
the program that a page links to comes along; a folder of it is named and no link.
"""

from __future__ import annotations

import posixpath
import re
import shutil
from pathlib import Path

from sphinx.application import Sphinx

CHECKOUT = Path(__file__).resolve().parents[2]
INDEX = "docs/README"
GALLERY = {
    "report-debian-6.12.html": "the walls of Debian's Linux 6.12",
    "compare.html": "a signal on Debian's Linux 6.12, without the series and with it",
}

project = "Partywall"
author = "The Partywall authors"
project_copyright = "2026 The Partywall authors"
version = release = re.findall(
    r'__version__ = "(.+)"', (CHECKOUT / "partywall/__init__.py").read_text()
)[0]

extensions = ["myst_parser"]
root_doc = "README"
include_patterns = ["*.md", "docs/*.md", "workflow/*.md", "series/*/README.md"]
exclude_patterns = [".*", "dist", "results", "partywall", "tests", "scripts", "container"]
myst_heading_anchors = 4
# Blocks that are no language's: what a terminal shows.
highlight_language = "none"

html_theme = "furo"
html_title = f"Partywall {version}"
html_extra_path = [
    str(path) for path in (CHECKOUT / "docs" / name for name in GALLERY) if path.exists()
]
html_show_sphinx = False

_LINK = re.compile(r"\[([^\]]*)\]\(([^)#\s:]+)\)")


def _folders_are_no_links(page: str, text: str) -> str:
    """The text without links to folders, whose names stay."""
    here = (CHECKOUT / page).parent

    def named(found: re.Match[str]) -> str:
        if not (here / found[2]).is_dir():
            return found[0]
        place = (here / found[2]).resolve().relative_to(CHECKOUT)
        return found[1] if found[1] == str(place) else f"{found[1]} (`{place}`)"

    return _LINK.sub(named, text)


def _tree(caption: str, pages: list[str]) -> str:
    head = ["```{toctree}", ":hidden:", *([f":caption: {caption}"] if caption else []), ""]
    return "\n".join([*head, *pages, "```", ""])


def _trees() -> str:
    """The column beside each page: what docs/README.md has for each reader."""
    text = (CHECKOUT / f"{INDEX}.md").read_text()
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)[1:]
    trees = [_tree("", [INDEX, "NEWS"])]
    for reader, part in zip(parts[::2], parts[1::2], strict=True):
        links = re.findall(r"\]\(([^)]+)\.md\)", part)
        trees.append(_tree(reader, [posixpath.normpath(f"docs/{link}") for link in links]))
    return "\n".join(trees)


def _gallery() -> str:
    there = [Path(path).name for path in html_extra_path]
    if not there:
        return ""
    pages = [f'- <a href="../{name}">{GALLERY[name]}</a>' for name in there]
    return "\n".join(["## Pages that `--html` writes", "", *pages, ""])


def _read(app: Sphinx, name: str, content: list[str]) -> None:
    text = _folders_are_no_links(f"{name}.md", content[0])
    if name == INDEX:
        text += "\n" + _gallery()
    if name == root_doc:
        text += "\n" + _trees()
    content[0] = text


def _index(app: Sphinx, error: Exception | None) -> None:
    # What a server shows of a folder; all links of the README are relative to the same one.
    if error is None:
        shutil.copyfile(app.outdir / f"{root_doc}.html", app.outdir / "index.html")


def setup(app: Sphinx) -> None:
    """Has pages changed as they are read; Sphinx calls this."""
    app.connect("source-read", _read)
    app.connect("build-finished", _index)
