# SPDX-License-Identifier: GPL-2.0-or-later
"""Saved results: one file a check in a folder, never written over, or a file of one's own."""

from __future__ import annotations

import gzip
import itertools
import re
import uuid
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import from_json

from partywall.core import cache
from partywall.core.errors import UsageProblem
from partywall.results.document import Document, DocumentError, dump
from partywall.results.reading import read
from partywall.results.result import Result

D = TypeVar("D", bound=Document)

FOLDER = Path("results")

ENDING = ".json.gz"

BEGINNING = 1 << 20
"""Bytes in which a result says what it is, in whatever order its keys are."""


def save(result: Result, folder: Path) -> Path:
    """Write the result whole under a name of its own; return its path."""
    stem = _stem(result)
    data = cache.packed(dump(result))
    # Written under a name that nobody else has, then given the first free one:
    # a link, unlike a rename, never takes the place of another file.
    draft = folder / f".{uuid.uuid4().hex}"
    cache.write_whole(draft, data)
    try:
        for number in itertools.count(1):
            path = folder / (f"{stem}{ENDING}" if number == 1 else f"{stem}-{number}{ENDING}")
            try:
                path.hardlink_to(draft)
            except FileExistsError:
                # An NFS server whose answer was lost is asked again, and finds what it has made.
                if draft.stat().st_nlink == 1:
                    continue
            return path
    finally:
        draft.unlink()
    raise AssertionError("numbers do not end")


def write(found: Document, path: Path) -> None:
    """Write a document whole at this path, in place of what was there; packed if it ends in .gz."""
    text = dump(found)
    cache.write_whole(path, cache.packed(text) if path.name.endswith(".gz") else text)


def check_path(path: Path) -> None:
    """See that a result can be written at a path, whose folder is made.

    UsageProblem if its ending is none of a result's, or a folder is in its place;
    EnvironmentProblem if its folder can't be made or written.
    """
    with cache.file_errors("writing a result", path.parent):
        if not is_name(path.name) or path.is_dir():
            raise UsageProblem(
                f"{path} is no name for a result", f"take one that ends in .json or {ENDING}"
            )
    cache.check_place(path, "writing a result")


def is_name(text: str) -> bool:
    """Whether a name is that of a saved result, and no kernel's."""
    return text.endswith((".json", ENDING))


def saved(folder: Path) -> list[Path]:
    """Return what is saved in a folder, the newest last."""
    there = [path for path in folder.glob("*.json*") if is_name(path.name) and path.exists()]
    return sorted(there, key=lambda path: (path.stat().st_mtime_ns, path.name))


def newest(folder: Path) -> Path:
    """The result saved last, whatever else is in the folder; UsageProblem if there is none."""
    found = saved(folder)
    for path in reversed(found):
        if begins_as(path, "partywall.result/"):
            return path
    if not found:
        raise UsageProblem(
            f"no result is saved in {folder.absolute()}",
            "run partywall check first, or name a file or its folder (--results)",
        )
    return found[-1]


def begins_as(path: Path, schema: str) -> bool:
    """Whether a file begins as a document of this schema does, whole or cut short."""
    try:
        with path.open("rb") as file:
            data = file.read(BEGINNING)
        if data.startswith(b"\x1f\x8b"):
            # Of what is cut short as much as there is.
            data = zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(data, BEGINNING)
    except (OSError, zlib.error):
        return False
    return f'"{schema}'.encode() in data


def load(path: Path) -> Result:
    """A saved result, brought up to date; UsageProblem if the file is none."""
    try:
        return parse(_read(path))
    except DocumentError as error:
        raise UsageProblem(f"{path}: {error}") from error


def parse(text: str | bytes) -> Result:
    """Return the result that `dump` wrote, now or in an older version.

    DocumentError for any other text. Strict: a number in quotes or a key unknown
    to this version is an error, not a guess.
    """
    data = _json(text)
    try:
        result = read(data)
    except ValidationError as error:
        raise DocumentError(_one_line(error)) from error
    except DocumentError as error:
        raise DocumentError(_clean(error)) from error
    except ValueError as error:
        raise DocumentError(f"not a saved result: {_clean(error)}") from error
    return result


def load_as(path: Path, kind: type[D]) -> D:
    """Return a document of another kind, as a command printed it with --json.

    UsageProblem if the file holds none.
    """
    try:
        return kind.model_validate_json(_read(path), strict=True)
    except ValidationError as error:
        raise UsageProblem(f"{path}: {_one_line(error)}") from error
    except DocumentError as error:
        raise UsageProblem(f"{path}: {error}") from error


@dataclass(frozen=True)
class Entry:
    """What a saved file holds, in short. ``problem``: why it is no result, if it is none."""

    path: Path
    created: str = ""
    release: str = ""
    workloads: tuple[str, ...] = ()
    problem: str | None = None


def entries(folder: Path) -> list[Entry]:
    """Return what is saved in a folder, in short, the newest last.

    UsageProblem if nothing is.
    """
    newest(folder)
    found = []
    for path in saved(folder):
        try:
            result = load(path)
        except UsageProblem as problem:
            found.append(Entry(path, problem=problem.message.removeprefix(f"{path}: ")))
            continue
        titles = tuple(dict.fromkeys(workload.title for workload in result.workloads))
        found.append(Entry(path, result.created, result.kernel.release, titles))
    return found


def _stem(result: Result) -> str:
    """When, which kernel, which workloads: no longer than a file's name may be."""
    names = list(dict.fromkeys(workload.workload for workload in result.workloads))
    shown = names if len("+".join(names)) <= 60 else [f"{len(names)}-workloads"]
    made = (re.sub("[^0-9A-Z]", "", result.created), result.kernel.release, "+".join(shown))
    return "-".join(re.sub(r"[^\w.+~-]", "_", part)[:80] for part in made if part)


def _read(path: Path) -> bytes:
    """What a file holds, unpacked if it is compressed, whatever its name."""
    try:
        data = path.read_bytes()
        return gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DocumentError(
            f"not a saved result: damaged, or cut short: {_clean(error)}"
        ) from error
    except OSError as error:
        raise UsageProblem(f"{path}: {error.strerror}") from error


def _json(text: str | bytes) -> Any:
    try:
        data = text.encode() if isinstance(text, str) else text
        data.decode()
    except UnicodeError as error:
        raise DocumentError("not a saved result: it is no text") from error
    try:
        return from_json(data, allow_inf_nan=False)
    except ValueError as error:
        raise DocumentError(f"not JSON, or cut short: {_clean(error)}") from error


def _one_line(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
    place = f"{_clean(where.lstrip('.'))}: " if where else ""
    return f"not a saved result: {place}{_clean(first['msg'])}"


def _clean(words: object) -> str:
    """On one line, of bearable length, in characters that any terminal takes."""
    line = " ".join(str(words).split()).encode("ascii", "backslashreplace").decode("ascii")
    line = "".join(c if c.isprintable() else "?" for c in line)
    return line if len(line) <= 160 else line[:157] + "..."
