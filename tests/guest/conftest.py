# SPDX-License-Identifier: GPL-2.0-or-later
"""Real kernels in real guests. Each distinct check runs once a session."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from checks import PARTYWALL, Checked

from partywall import kernels, workloads
from partywall.core import progress
from partywall.kernels import Kernel, Request
from partywall.results import store


@pytest.fixture(scope="session")
def kernel() -> Kernel:
    """Debian's own kernel, downloaded if need be."""
    return kernels.resolve(Request("debian"), progress.Quiet())


@pytest.fixture(scope="session")
def check(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Checked]:
    """Runs ``partywall check``; the same arguments twice give the first run's result.

    ``again`` tells runs of the same arguments apart.
    """
    known: dict[tuple[tuple[str, ...], int], Checked] = {}

    def run(*arguments: str, again: int = 0) -> Checked:
        key = (arguments, again)
        if key not in known:
            folder = tmp_path_factory.mktemp("results")
            done = subprocess.run(
                [PARTYWALL, "check", "--json", "--results", folder, *arguments],
                capture_output=True,
                text=True,
                check=False,
                timeout=600,
            )
            assert done.returncode == 0, done.stderr
            known[key] = Checked(store.parse(done.stdout), done.stdout, folder)
        return known[key]

    return run


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str], Path]:
    """Compiles a static C program with our markers at hand."""

    def build(source: str) -> Path:
        text, out = tmp_path / "program.c", tmp_path / "program"
        text.write_text(source)
        include = workloads.DIRECTORY / "harness"
        subprocess.run(
            ["gcc", "-O2", "-static", f"-I{include}", "-o", out, text], check=True, timeout=60
        )
        return out

    return build


def guests_with(mark: str) -> list[str]:
    """The command lines of guests whose environment has ``mark``, whoever started them."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().decode(errors="replace")
            marked = mark.encode() in (process / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if marked and "partywall-guest-" in command:
            found.append(command.replace("\0", " "))
    return found


@pytest.fixture(autouse=True)
def no_guest_is_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every test ends its guests, whatever it does to them."""
    # Files of tests run side by side, and a guest is some child's child.
    mark = f"PARTYWALL_TEST_OF={os.getpid()}"
    monkeypatch.setenv(*mark.split("="))
    yield
    assert guests_with(mark) == []
