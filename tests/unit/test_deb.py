# SPDX-License-Identifier: GPL-2.0-or-later
"""The Debian package says of itself what the program says."""

from __future__ import annotations

import re
import subprocess
from fnmatch import fnmatchcase
from pathlib import Path

from packaging.version import Version

from partywall import __version__
from partywall.core import packages

DEBIAN = Path(__file__).resolve().parents[2] / "debian"


def field(name: str) -> set[str]:
    """Packages in a field of the binary package, without their versions."""
    text = (DEBIAN / "control").read_text().partition("\nPackage: partywall\n")[2]
    found = re.search(rf"^{name}:\n((?: .*\n)+)", text, re.MULTILINE)
    assert found
    return {line.split()[0].strip(",") for line in found[1].splitlines()}


def wanted(kind: packages.Kind) -> set[str]:
    """Packages of a list, but those that every Debian has."""
    return {need.package for need in packages.needs(kind)} - {
        "dpkg",
        "libc-bin",
        "tar",
        "util-linux",
    }


def test_it_depends_on_what_a_check_needs_and_not_on_a_compiler_of_rust() -> None:
    depends = field("Depends")
    assert wanted("check") <= depends
    assert not depends & wanted("recorder")


def test_it_recommends_what_reads_images() -> None:
    assert field("Recommends") == wanted("roots")


def test_it_suggests_what_builds_kernels_and_recorders() -> None:
    # lintian warns of debhelper, which no package is to need once it is built.
    suggests = wanted("kernels") | wanted("recorder") | wanted("debs")
    assert field("Suggests") == suggests - {"debhelper"}


def test_it_names_the_licence_of_each_file_as_that_says_itself() -> None:
    """Of a patch REUSE.toml does, as of the kernel that it changes."""
    stanza = (DEBIAN / "copyright").read_text().partition("Files:\n")[2].partition("Copyright:")[0]
    patterns = stanza.split()
    listed = subprocess.run(
        ["git", "ls-files"], cwd=DEBIAN.parent, capture_output=True, text=True, check=True
    ).stdout.split()
    for name in listed:
        path = DEBIAN.parent / name
        if path.suffix not in (".c", ".h", ".patch", ".py", ".rs") and path.name != "Kbuild":
            continue
        head = path.read_text(errors="replace").partition("\n")[0]
        only = "GPL-2.0-only" in head or path.suffix == ".patch"
        assert any(fnmatchcase(name, one) for one in patterns) == only, name


def test_it_is_of_the_programs_version() -> None:
    # What is between two releases sorts below the next one, for dpkg as for pip.
    version = __version__.replace(".dev", "~dev")
    assert (DEBIAN / "changelog").read_text().startswith(f"partywall ({version}) ")


def test_news_begin_with_this_version() -> None:
    text = (DEBIAN.parent / "NEWS.md").read_text()
    released = re.findall(r"^## (\S+) \(", text, re.MULTILINE)[0]
    first = re.findall(r"^## (.*)", text, re.MULTILINE)[0]
    if Version(__version__).is_devrelease:
        assert first == f"After {released}"
        assert Version(released) < Version(__version__)
    else:
        assert released == __version__ == first.split()[0]
