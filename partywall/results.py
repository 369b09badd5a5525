# SPDX-License-Identifier: GPL-2.0-or-later
"""The results folder: one file a check, never written over."""

from __future__ import annotations

import itertools
import os
import re
import threading
from pathlib import Path

from partywall.core import cache
from partywall.core.errors import UsageProblem
from partywall.report import ReportError, json_
from partywall.result import Result

FOLDER = Path("results")


def save(result: Result, folder: Path) -> Path:
    """Writes the result whole under a name of its own; returns its path."""
    release = re.sub(r"[^\w.+~-]", "_", result.kernel.release)
    stem = f"{re.sub('[^0-9A-Z]', '', result.created)}-{release}"
    text = json_.dump(result)
    # Written under a name that nobody else has, then given the first free one:
    # a link, unlike a rename, never takes the place of another file.
    draft = folder / f".{stem}.{os.getpid()}.{threading.get_ident()}"
    cache.write_whole(draft, text)
    try:
        for number in itertools.count(1):
            path = folder / (f"{stem}.json" if number == 1 else f"{stem}-{number}.json")
            try:
                path.hardlink_to(draft)
            except FileExistsError:
                continue
            return path
    finally:
        draft.unlink()
    raise AssertionError("numbers do not end")


def newest(folder: Path) -> Path:
    """The result saved last; UsageProblem if there is none."""
    there = [path for path in folder.glob("*.json") if path.exists()]
    found = sorted(there, key=lambda path: (path.stat().st_mtime_ns, path.name))
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
