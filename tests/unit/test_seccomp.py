# SPDX-License-Identifier: GPL-2.0-or-later
"""How Docker's published seccomp profile becomes the file that the package has."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
OURS = ROOT / "partywall/guest/seccomp.toml"
MODULE = "github.com/moby/profiles/seccomp@v1.0.0"


def written(folder: Path, *rules: dict[str, Any], **more: Any) -> subprocess.CompletedProcess[str]:
    """What the script prints of a profile with these rules."""
    path = folder / "module.zip"
    profile = {"defaultAction": "SCMP_ACT_ERRNO", "defaultErrnoRet": 1, "syscalls": list(rules)}
    with zipfile.ZipFile(path, "w") as files:
        files.writestr(f"{MODULE}/default.json", json.dumps(profile | more))
        files.writestr(f"{MODULE}/LICENSE", "")
    command = [sys.executable, ROOT / "scripts/seccomp.py", "v1.0.0", path]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_rules_of_other_machines_are_left_out_and_those_of_old_kernels_hold(tmp_path: Path) -> None:
    allow = {"action": "SCMP_ACT_ALLOW"}
    condition = {"index": 0, "value": 3, "op": "SCMP_CMP_LT"}
    done = written(
        tmp_path,
        {"names": ["b", "a"], **allow, "comment": "any"},
        {"names": ["c"], **allow, "includes": {"arches": ["s390"]}},
        {"names": ["d"], **allow, "excludes": {"arches": ["amd64"]}},
        {"names": ["e"], **allow, "includes": {"arches": ["amd64"], "minKernel": "4.8"}},
        {"names": ["f"], **allow, "includes": {"minKernel": "6.10"}},
        {"names": ["i"], **allow, "excludes": {"minKernel": "4.8"}},
        {"names": ["g"], **allow, "args": [condition], "includes": {"caps": ["CAP_A"]}},
        {"names": ["h"], "action": "SCMP_ACT_ERRNO", "errnoRet": 38, "excludes": {"caps": ["B"]}},
    )
    assert done.returncode == 0, done.stderr
    found = tomllib.loads(done.stdout)
    assert found["rules"] == [
        {"names": ["a", "b"]},
        {"names": ["e"]},
        {"names": ["g"], "with": ["CAP_A"], "arguments": [[0, "LT", 3, 0]]},
        {"names": ["h"], "without": ["B"], "errno": 38},
    ]
    # As go.sum has it, of the names and digests of both files.
    assert found["sum"].startswith("h1:") and len(found["sum"]) == 47


@pytest.mark.parametrize(
    ("rule", "more"),
    [
        ({"action": "SCMP_ACT_LOG"}, {}),
        ({"action": "SCMP_ACT_ALLOW", "unheard": 1}, {}),
        ({"action": "SCMP_ACT_ALLOW"}, {"defaultAction": "SCMP_ACT_KILL"}),
        ({"action": "SCMP_ACT_ALLOW", "includes": {"unheard": 1}}, {}),
        ({"action": "SCMP_ACT_ALLOW", "excludes": {"unheard": 1}}, {}),
    ],
)
def test_what_the_script_does_not_understand_it_refuses(
    tmp_path: Path, rule: dict[str, Any], more: dict[str, Any]
) -> None:
    done = written(tmp_path, {"names": ["a"], **rule}, **more)
    assert done.returncode == 1
    assert "not known here" in done.stderr
    assert not done.stdout


def test_the_file_says_what_it_was_made_of() -> None:
    found = tomllib.loads(OURS.read_text())
    assert f"scripts/seccomp.py {found['version']}" in OURS.read_text()
    assert set(found) == {"module", "version", "sum", "rules"}
    known = {"names", "with", "without", "errno", "arguments"}
    assert all(set(rule) <= known for rule in found["rules"])
