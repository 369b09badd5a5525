# SPDX-License-Identifier: GPL-2.0-or-later
"""The results folder: one file a check, never written over."""

from __future__ import annotations

import itertools
import os
import re
import threading
from pathlib import Path

from pydantic import ValidationError

from partywall.core import cache
from partywall.core.errors import UsageProblem
from partywall.results.document import DocumentError, dump, encode
from partywall.results.result import SCHEMA, Result

FOLDER = Path("results")


def save(result: Result, folder: Path) -> Path:
    """Writes the result whole under a name of its own; returns its path."""
    release = re.sub(r"[^\w.+~-]", "_", result.kernel.release)
    stem = f"{re.sub('[^0-9A-Z]', '', result.created)}-{release}"
    text = dump(result)
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
        return parse(path.read_text())
    except OSError as error:
        raise UsageProblem(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageProblem(f"{path}: not a saved result: it is no text") from error
    except DocumentError as error:
        raise UsageProblem(f"{path}: {error}") from error


def parse(text: str) -> Result:
    """Return the result that `dump` wrote; DocumentError for any other text.

    Strict: a number in quotes or a key unknown to this version is an error,
    not a guess.
    """
    try:
        result = Result.model_validate_json(text, strict=True)
    except ValidationError as error:
        raise DocumentError(_one_line(error)) from error
    if "schema_" not in result.model_fields_set:
        raise DocumentError(f"not a saved result: it has no schema; expected {SCHEMA}")
    try:
        # NaN and 1e999 pass for numbers when read, but cannot be written again.
        encode(result)
    except ValueError as error:
        raise DocumentError(f"not a saved result: {error}") from error
    return result


def _one_line(error: ValidationError) -> str:
    """The cause that says most: no JSON, then another schema, then the first."""
    problems = error.errors(include_url=False)
    first = problems[0]
    if first["type"] == "json_invalid":
        return f"not JSON, or cut short: {_clean(first['ctx']['error'])}"
    for problem in problems:
        # Another version may well differ everywhere; its number is the reason.
        if problem["loc"] == ("schema",):
            found = _clean(repr(problem["input"]))
            return f"schema is {found}, but this version reads {SCHEMA!r}"
    where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
    place = f"{_clean(where.lstrip('.'))}: " if where else ""
    return f"not a saved result: {place}{_clean(first['msg'])}"


def _clean(words: object) -> str:
    """On one line, of bearable length, in characters that any terminal takes."""
    line = " ".join(str(words).split()).encode("ascii", "backslashreplace").decode("ascii")
    line = "".join(c if c.isprintable() else "?" for c in line)
    return line if len(line) <= 160 else line[:157] + "..."
