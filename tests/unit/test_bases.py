# SPDX-License-Identifier: GPL-2.0-or-later
"""Each release that there is a series for has its folder, source, configuration and tree."""

from __future__ import annotations

from pathlib import Path

import pytest

from partywall.core.errors import EnvironmentProblem, UsageProblem
from partywall.core.progress import Log, Progress, Quiet
from partywall.kernels import Request, apt, build, series
from partywall.kernels.kernel import Kernel
from partywall.kernels.series import bases, export, source
from partywall.kernels.sources import built, debian

MAKEFILE = "# A Makefile\nVERSION = {}\nPATCHLEVEL = {}\nSUBLEVEL = 4\n"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folders of series for 6.12 and 7.3, empty, in the place of ours."""
    root = tmp_path / "series"
    for version in ("7.3", "6.12"):
        (root / f"linux-{version}").mkdir(parents=True)
        (root / f"linux-{version}" / "series").touch()
    (root / "linux-7.3" / "base.toml").write_text('suite = "some-backports"\n')
    monkeypatch.setattr(bases, "_BESIDE", root)
    return root


def of(folder: Path, version: str) -> Path:
    """A folder that says it is a tree of Linux of a version."""
    folder.mkdir(exist_ok=True)
    (folder / "Makefile").write_text(MAKEFILE.format(*version.split(".")))
    return folder


def test_ours_are_listed_by_number() -> None:
    assert list(bases.known()) == ["6.12", "7.3"]
    assert bases.get() == bases.get("6.12") == series.Base("6.12", series.FOLDER)
    assert bases.get("7.3").suite == "trixie-backports"


@pytest.mark.parametrize("name", ["7.3", "linux-7.3", "series/linux-7.3", "/some/where/linux-7.3/"])
def test_one_is_named_by_its_version_or_its_folder(root: Path, name: str) -> None:
    base = bases.get(name)
    assert base == series.Base("7.3", root / "linux-7.3", "some-backports")
    assert base.package == "linux-source-7.3"


def test_another_is_refused_with_those_there_are(root: Path) -> None:
    with pytest.raises(UsageProblem, match=r"no series for Linux '5\.0'") as caught:
        bases.get("5.0")
    assert caught.value.hint == "known: 6.12, 7.3"


@pytest.mark.parametrize("text", ["suit = 'x'", "suite = 7", "suite = ", "\xff"])
def test_what_can_not_be_understood_of_one_is_refused(root: Path, text: str) -> None:
    path = root / "linux-7.3" / "base.toml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(UsageProblem, match=r"base\.toml"):
        bases.get("7.3")


def test_a_tree_says_which_it_is_of(root: Path, tmp_path: Path) -> None:
    assert bases.of_tree(of(tmp_path / "a", "7.3")) == bases.get("7.3")
    assert bases.of_tree(of(tmp_path / "b", "7.30")) is None
    assert bases.of_tree(tmp_path) is None


@pytest.mark.parametrize(("version", "suite"), [("6.12", None), ("7.3", "some-backports")])
def test_the_source_comes_from_the_suite_of_the_base(
    root: Path, monkeypatch: pytest.MonkeyPatch, version: str, suite: str | None
) -> None:
    asked = []

    def ask(*command: str, suite: str | None = None) -> str:
        asked.append((command[-1], suite))
        return ""

    monkeypatch.setattr(apt, "ask", ask)
    with pytest.raises(EnvironmentProblem, match=f"no package linux-source-{version}"):
        source.get(Quiet(), bases.get(version))
    assert asked == [(f"linux-source-{version}", suite)]


def test_a_source_that_is_not_there_yet_is_told_before_it_is_downloaded(
    root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    package = apt.Package("linux-source-6.12", "6.12.1-1", 150_000_000, "0" * 64)

    def download(package: apt.Package, into: Path, progress: Progress) -> Path:
        raise EnvironmentProblem("no network")

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(source, "_newest", lambda base: package)
    monkeypatch.setattr(apt, "download", download)
    with pytest.raises(EnvironmentProblem, match="no network"):
        source.get(Log(), bases.get("6.12"))
    assert "first run with linux-source-6.12: 150 MB to download" in capsys.readouterr().err


def test_the_configuration_is_that_of_the_base(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def config(version: str, suite: str | None, progress: Progress) -> str:
        return f"{version} of {suite}"

    monkeypatch.setattr(debian, "config", config)
    assert build.debian_config(Quiet()) == "6.12 of None"
    assert build.debian_config(Quiet(), bases.get("7.3")) == "7.3 of some-backports"


def test_what_a_release_needs_is_laid_over_stock_and_what_a_series_brings_is_not(
    root: Path,
) -> None:
    (root / "linux-7.3" / "guest.config").write_text("CONFIG_OF_THE_RELEASE=y\n")
    (root / "linux-7.3" / "kunit.config").write_text("CONFIG_OF_THE_SERIES=y\n")
    variant, base = build.Variant(("kunit",)), bases.get("7.3")
    assert "CONFIG_OF_THE_RELEASE=y" in build.fragments(variant, base)
    assert "CONFIG_OF_THE_SERIES=y" not in build.fragments(variant, base)
    assert "CONFIG_OF_THE_SERIES=y" in build.fragments(variant, base, own=True)
    assert "CONFIG_OF_THE" not in build.fragments(variant)
    # It has the last word: what the release has not can be asked for by a variant of all.
    assert build.fragments(variant, base, own=True).endswith("CONFIG_OF_THE_RELEASE=y\n")


@pytest.mark.parametrize(
    ("kernel", "version", "title"),
    [
        ("stock", "6.12", "stock"),
        ("partywall+lean", "6.12", "partywall"),
        ("stock@7.3", "7.3", "stock@7.3"),
        ("partywall@7.3+lean+kunit", "7.3", "partywall@7.3"),
    ],
)
def test_a_kernel_that_is_built_says_of_which_release(
    root: Path, monkeypatch: pytest.MonkeyPatch, kernel: str, version: str, title: str
) -> None:
    asked: list[tuple[str, str, str]] = []

    def from_series(
        name: str,
        patches: list[series.Patch],
        variant: build.Variant,
        progress: Progress,
        base: series.Base,
    ) -> Kernel:
        asked.append((name, base.version, variant.suffix))
        return Kernel("", "", root, root, None, None, "")

    monkeypatch.setattr(build, "from_series", from_series)
    request = Request(kernel)
    assert built.understands(request)
    built.get(request, Quiet())
    suffix = kernel.partition("+")[1] + kernel.partition("+")[2]
    assert asked == [(title, version, suffix)]


def test_a_kernel_of_a_release_without_a_series_is_refused(root: Path) -> None:
    with pytest.raises(UsageProblem, match=r"no series for Linux '5\.0'"):
        built.get(Request("stock@5.0"), Quiet())


def test_the_commits_of_a_tree_go_to_the_series_of_its_release(root: Path, tmp_path: Path) -> None:
    tree = of(tmp_path / "tree", "7.3")
    with pytest.raises(UsageProblem, match=r"is Linux 7\.3") as caught:
        series.refresh(tree, root / "linux-6.12")
    assert "linux-7.3" in (caught.value.hint or "")
    # That it is no git tree is what is wrong with it then.
    with pytest.raises(UsageProblem, match=f"has no tag {series.BASE}"):
        series.refresh(tree, root / "linux-7.3")


def test_a_set_for_a_tree_is_of_the_series_of_its_release(root: Path, tmp_path: Path) -> None:
    patch = root / "linux-7.3" / "alpha" / "0001-one.patch"
    patch.parent.mkdir()
    patch.write_text("text\n")
    (root / "linux-7.3" / "series").write_text("alpha/0001-one.patch\n")
    with pytest.raises(UsageProblem, match="no topic 'beta'") as caught:
        export.export("beta", of(tmp_path / "tree", "7.3"), tmp_path / "mails")
    assert caught.value.hint == "known: alpha"
