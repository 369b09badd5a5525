# SPDX-License-Identifier: GPL-2.0-or-later
"""What tests with guests share: running the program, looking things up in a result."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from partywall.results.lines import Line
from partywall.results.result import Result, WorkloadResult
from partywall.results.touches import Beside

PARTYWALL = Path(sys.executable).with_name("partywall")


@dataclass(frozen=True)
class Checked:
    """A result, the JSON it came as, and the folder where it was saved."""

    result: Result
    text: str
    folder: Path

    def of(self, title: str, containers: int = 8) -> WorkloadResult:
        """The result of one workload in one topology."""
        for one in self.result.workloads:
            if one.title == title and one.topology.containers == containers:
                return one
        raise AssertionError(f"no {title} with {containers} containers was measured")


def partywall(*arguments: object, **more: Any) -> subprocess.CompletedProcess[str]:
    """Runs the program to its end."""
    return subprocess.run(
        [PARTYWALL, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        **more,
    )


def beside(*words: object) -> Beside:
    """What two servers in one guest do to each other, by ``check`` with these words.

    Several guests, of two servers each: longer than others may take.
    """
    done = subprocess.run(
        [PARTYWALL, "check", *map(str, words), "--json", "--timeout", "900"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return Beside.model_validate_json(done.stdout)


def refused(done: subprocess.CompletedProcess[str], status: int, *words: str) -> None:
    """An error as people are to get it: status, one or two lines, what and where."""
    assert done.returncode == status, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert 1 <= len(done.stderr.strip().splitlines()) <= 2, done.stderr
    for word in words:
        assert word in done.stderr


def walls(result: WorkloadResult, name: str) -> list[Line]:
    """Walls on objects whose name holds ``name``."""
    return [wall for wall in result.walls if name in wall.object.name]


def differences(one: Any, other: Any, at: str = "") -> Iterator[str]:
    """Where two JSON documents differ, a line each: what is long is not printed whole."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted(one.keys() | other.keys()):
            yield from differences(one.get(key), other.get(key), f"{at}.{key}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, pair in enumerate(zip(one, other, strict=True)):
            yield from differences(*pair, f"{at}[{number}]")
    elif one != other:
        yield f"{at}: {str(one)[:200]} != {str(other)[:200]}"
