# SPDX-License-Identifier: GPL-2.0-or-later
"""Every page is found by its reader, and no link between pages leads nowhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
DOCS = CHECKOUT / "docs"
READERS = ["Platform engineer", "Kernel engineer", "Contributor"]
PAGES = sorted(
    path
    for part in ("*.md", "docs/*.md", "workflow/*.md", "series/*/*.md")
    for path in CHECKOUT.glob(part)
)

_LINK = re.compile(r"\]\(([^)\s]+)\)")
_BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`\n]+`")


def links(text: str) -> list[str]:
    """Where the links of a page lead to, as they stand there."""
    return _LINK.findall(_CODE.sub("", _BLOCK.sub("", text)))


def anchors(page: Path) -> set[str]:
    """What a link to a part of a page may name: its headings, as GitHub makes anchors of them."""
    heads = re.findall(r"^#+ (.+)$", _BLOCK.sub("", page.read_text()), re.MULTILINE)
    plain = [re.sub(r"[^\w\- ]", "", head.lower()) for head in heads]
    return {head.strip().replace(" ", "-") for head in plain}


def test_every_page_has_one_reader() -> None:
    text = (DOCS / "README.md").read_text()
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)[1:]
    assert parts[::2] == READERS
    listed = [link for part in parts[1::2] for link in links(part) if "/" not in link]
    assert sorted(listed) == sorted(
        page.name for page in DOCS.glob("*.md") if page.stem != "README"
    )


def test_the_readme_leads_there() -> None:
    assert "docs/README.md" in links((CHECKOUT / "README.md").read_text())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_no_link_leads_nowhere(page: Path) -> None:
    for link in links(page.read_text()):
        if re.match(r"\w+:", link):
            continue
        name, _, part = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), f"{link}: there is no such file"
        if part:
            assert part in anchors(target), f"{link}: there is no such heading"


def test_what_is_no_page_of_ours_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "a.md"
    page.write_text("# A `b`, c\n\n[x](b.md#c) `[no](link)`\n\n```\n# no head\n[no](d.md)\n```\n")
    assert links(page.read_text()) == ["b.md#c"]
    assert anchors(page) == {"a-b-c"}
