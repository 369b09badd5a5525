# SPDX-License-Identifier: GPL-2.0-or-later
"""A wheel has all that the program needs, and works without the checkout."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path

import pytest

from partywall.core import packages
from partywall.kernels import series

CHECKOUT = Path(__file__).resolve().parents[2]


def tracked(*folders: str) -> set[str]:
    """Files that git knows of in these folders of the checkout, and that are there."""
    done = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", *folders],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.skip("this is no checkout")
    return {name for name in done.stdout.split() if (CHECKOUT / name).exists()}


def built(kind: str, sources: Path, folder: Path) -> Path:
    """A wheel or an sdist of these sources, in an empty folder."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", folder],
        cwd=sources,
        capture_output=True,
        check=True,
    )
    (path,) = folder.iterdir()
    return path


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built("wheel", CHECKOUT, tmp_path_factory.mktemp("wheel"))


@dataclass(frozen=True)
class Installed:
    """What a wheel's program is run with, from a folder that is empty."""

    place: Path
    folder: Path

    def __call__(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        # The wheel's comes before that of the checkout, which this Python may have as well.
        return subprocess.run(
            [sys.executable, "-P", "-c", "from partywall.cli import main; main()", *arguments],
            cwd=self.folder,
            env=os.environ | {"PYTHONPATH": str(self.place)} | environment,
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture(scope="module")
def place(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("installed")
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"),
            *("--no-compile", "--target", place, wheel),
        ],
        check=True,
    )
    return place


@pytest.fixture
def installed(place: Path, tmp_path: Path) -> Installed:
    return Installed(place, tmp_path)


def test_every_file_of_the_program_and_the_series_is_in_it(wheel: Path) -> None:
    there = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    moved = ("series/", "partywall/kernels/series/")
    wanted = tracked("partywall") | {name.replace(*moved, 1) for name in tracked("series")}
    assert there == wanted


def test_sources_that_were_packed_make_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    packed = built("sdist", CHECKOUT, tmp_path / "packed")
    with tarfile.open(packed) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    (sources,) = (tmp_path / "unpacked").iterdir()
    again = zipfile.ZipFile(built("wheel", sources, tmp_path / "again"))
    first = zipfile.ZipFile(wheel)
    assert sorted(again.namelist()) == sorted(first.namelist())
    assert [again.read(name) for name in first.namelist()] == [
        first.read(name) for name in first.namelist()
    ]


def test_its_licence_and_types_are_told(wheel: Path) -> None:
    files = zipfile.ZipFile(wheel)
    (name,) = (name for name in files.namelist() if name.endswith(".dist-info/METADATA"))
    told = HeaderParser().parsestr(files.read(name).decode())
    assert told["License-Expression"] == "GPL-2.0-or-later AND GPL-2.0-only"
    assert any(one.endswith("licenses/COPYING") for one in files.namelist())
    assert "partywall/py.typed" in files.namelist()
    # Whoever reads the old field as well would find two licences.
    assert not any("License ::" in one for one in told.get_all("Classifier"))


def test_what_was_executable_still_is(place: Path) -> None:
    assert os.access(place / "partywall" / "kernels" / "cc", os.X_OK)


@pytest.mark.parametrize("arguments", [["--help"], ["workloads"], ["schema"], ["model"]])
def test_it_runs_from_an_empty_folder(installed: Installed, arguments: list[str]) -> None:
    done = installed(*arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout
    assert not list(installed.folder.iterdir())


def test_its_series_is_the_one_of_the_checkout(installed: Installed) -> None:
    show = (
        "from partywall.kernels import series; print(series.FOLDER, series.digest(series.read()))"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", show],
        cwd=installed.folder,
        env=os.environ | {"PYTHONPATH": str(installed.place)},
        capture_output=True,
        text=True,
        check=True,
    )
    folder, digest = done.stdout.split()
    assert Path(folder).is_relative_to(installed.place)
    assert digest == series.digest(series.read())


def test_an_installed_series_is_not_written(installed: Installed) -> None:
    done = installed("series", "refresh", ".")
    assert done.returncode == 2
    assert "checkout" in done.stderr


Tools = Callable[..., str]


@pytest.fixture
def tools(tmp_path_factory: pytest.TempPathFactory) -> Tools:
    """Makes a path with these programs alone on it, which say a version and no more."""

    def make(*names: str) -> str:
        folder = tmp_path_factory.mktemp("tools")
        for name in names:
            (folder / name).write_text("#!/bin/sh\necho version 7.2\n")
            (folder / name).chmod(0o755)
        return str(folder)

    return make


def test_a_bare_machine_is_told_all_that_apt_has_to_install(
    installed: Installed, tools: Tools
) -> None:
    done = installed("check", "-w", "signal", PATH=tools("apt-get"))
    assert done.returncode == 3
    lacks, command = done.stderr.splitlines()
    assert lacks.startswith("partywall: this machine lacks ")
    for package in ("busybox-static", "cargo", "crun", "gcc", "qemu-system-x86", "rustc"):
        assert f" {package}" in command
    assert command.startswith("  apt-get install ")
    assert "make setup" not in done.stderr


def test_what_only_builds_kernels_may_be_missing(installed: Installed, tools: Tools) -> None:
    done = installed("doctor", "--json", PATH=tools("apt-get"))
    found = {one["what"]: one for one in json.loads(done.stdout)}
    assert (found["crun"]["needed"], found["ccache"]["needed"]) == (True, False)
    assert "apt-get install" in found["ccache"]["mend"]
    assert "ccache" in found["ccache"]["mend"]
    assert " gcc" not in found["ccache"]["mend"]


def test_a_compiler_that_is_missing_ends_in_two_lines(installed: Installed, tools: Tools) -> None:
    done = installed("prepare", PATH=tools("qemu-system-x86_64"))
    assert done.returncode == 3
    lacks, command = done.stderr.splitlines()
    assert "gcc" in lacks
    assert "apt-get install" in command


def test_the_document_on_installing_names_the_same_packages() -> None:
    text = (CHECKOUT / "docs" / "install.md").read_text()
    titles: dict[str, tuple[packages.Kind, ...]] = {
        "check": ("check", "recorder"),
        "roots": ("roots",),
        "kernels": ("kernels",),
        "debs": ("debs",),
    }
    for title, kinds in titles.items():
        command = rf"^apt-get install ((?:.|\\\n)*?)  # {title}$"
        (block,) = re.findall(command, text, re.MULTILINE)
        wanted = {need.package for kind in kinds for need in packages.needs(kind)}
        # These are everywhere where apt is.
        assert set(block.replace("\\", "").split()) == wanted - {"dpkg", "libc-bin", "tar"}
