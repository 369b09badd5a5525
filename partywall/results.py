# SPDX-License-Identifier: GPL-2.0-or-later
"""The results folder: one file a check, never written over."""

from __future__ import annotations

from pathlib import Path

from partywall import cache
from partywall.errors import UsageProblem
from partywall.report import ReportError, json_
from partywall.result import Result

FOLDER = Path("results")


def save(result: Result, folder: Path) -> Path:
    """Writes the result whole under a name of its own; returns its path."""
    stem = f"{result.created.replace(':', '').replace('-', '')}-{result.kernel.release}"
    path = folder / f"{stem}.json"
    number = 1
    while path.exists():
        number += 1
        path = folder / f"{stem}-{number}.json"
    cache.write_whole(path, json_.dump(result))
    return path


def newest(folder: Path) -> Path:
    """The result saved last; UsageProblem if there is none."""
    found = sorted(folder.glob("*.json"), key=lambda path: (path.stat().st_mtime_ns, path.name))
    if not found:
        raise UsageProblem(
            f"no result is saved in {folder}", "run partywall check first, or name a file"
        )
    return found[-1]


def load(path: Path) -> Result:
    """A saved result; UsageProblem if the file is none."""
    try:
        return json_.load(path.read_text())
    except OSError as error:
        raise UsageProblem(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageProblem(f"{path}: not a saved result: it is no text") from error
    except ReportError as error:
        raise UsageProblem(f"{path}: {error}") from error
