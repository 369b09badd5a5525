# SPDX-License-Identifier: GPL-2.0-or-later
"""Documents as JSON, and a result back: what is kept, compared and sent to others."""

from __future__ import annotations

import json
from typing import Any

from pydantic import ValidationError
from pydantic.json_schema import GenerateJsonSchema

from partywall.result import SCHEMA, Document, Result


class _AsWritten(GenerateJsonSchema):
    """`dump` leaves out no key, not even one that has its default."""

    def field_is_required(self, field: Any, total: bool) -> bool:
        return True


class ReportError(ValueError):
    """A saved result cannot be used; the message is one line for the user."""


def dump(document: Document) -> str:
    """The document as JSON; equal ones give equal text.

    Keys stand in the order in which their model declares them.
    """
    try:
        return _encode(document)
    except ValueError as error:
        raise ReportError(f"this result cannot be saved: {error}") from error


def load(text: str) -> Result:
    """The result that `dump` wrote; `ReportError` for any other text.

    Strict: a number in quotes or a key unknown to this version is an error,
    not a guess.
    """
    try:
        result = Result.model_validate_json(text, strict=True)
    except ValidationError as error:
        raise ReportError(_one_line(error)) from error
    if "schema_" not in result.model_fields_set:
        raise ReportError(f"not a saved result: it has no schema; expected {SCHEMA}")
    try:
        # NaN and 1e999 pass for numbers when read, but cannot be written again.
        _encode(result)
    except ValueError as error:
        raise ReportError(f"not a saved result: {error}") from error
    return result


def schema(kind: type[Document] = Result) -> dict[str, Any]:
    """The JSON schema of what `dump` writes of a kind of document."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": kind.model_fields["schema_"].default,
        **kind.model_json_schema(schema_generator=_AsWritten, mode="serialization"),
    }


def _encode(document: Document) -> str:
    return json.dumps(document.model_dump(by_alias=True), indent=1, allow_nan=False) + "\n"


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
