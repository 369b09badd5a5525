# SPDX-License-Identifier: GPL-2.0-or-later
"""The wheel, installed by pip into an empty environment, finds walls without the checkout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from partywall.core import cache
from partywall.core.progress import Quiet
from partywall.kernels import Request, resolve

CHECKOUT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_a_check_from_an_empty_folder_finds_what_it_does_here(tmp_path: Path) -> None:
    resolve(Request("debian"), Quiet())
    # Downloads are shared; the recorder and the workloads are built from what the wheel has.
    kept = tmp_path / "cache" / "partywall"
    kept.mkdir(parents=True)
    (kept / "debian").symlink_to(cache.root() / "debian")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path],
        cwd=CHECKOUT,
        capture_output=True,
        check=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    empty = tmp_path / "empty"
    empty.mkdir()
    outside = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PW"))
    }
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    programs = tmp_path / "venv" / "bin"
    subprocess.run(
        [programs / "pip", "install", "--quiet", "--disable-pip-version-check", wheel],
        cwd=empty,
        env=outside,
        check=True,
    )

    done = subprocess.run(
        [programs / "partywall", "check", "--workload", "signal", "--json"],
        cwd=empty,
        env=outside | {"XDG_CACHE_HOME": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    (signal,) = json.loads(done.stdout)["workloads"]
    assert "init_ucounts" in {wall["object"]["name"] for wall in signal["walls"]}
    assert len(list(kept.glob("recorder/*/recorder.so"))) == 1
    assert [path.name for path in empty.iterdir()] == ["results"]
