# SPDX-License-Identifier: GPL-2.0-or-later
"""Documents: what commands print with ``--json``, keep, and send to others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, BeforeValidator, ConfigDict
from pydantic.json_schema import GenerateJsonSchema

_GIVEN: dict[frozenset[str], set[str]] = {}


class Model(BaseModel):
    """Immutable, and strict about unknown keys so that typos surface."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def model_post_init(self, _context: Any, /) -> None:
        """Share the set of fields that were given with all that were given the same.

        It is half of what a small model takes, and a map holds a million of these.
        """
        given = self.__pydantic_fields_set__
        shared = _GIVEN.setdefault(frozenset(given), given)
        object.__setattr__(self, "__pydantic_fields_set__", shared)


def reads(former: str, now: str) -> BeforeValidator:
    """Return what takes a document of the former version for one of now's.

    For versions between which keys were added alone, all of them with defaults.
    """
    return BeforeValidator(lambda version: now if version == former else version)


class Document(Model):
    """What a command prints with ``--json``: a model whose ``schema_`` says which."""

    model_config = ConfigDict(populate_by_name=True)

    def written(self) -> dict[str, Any]:
        """Return what is written of it, as JSON has it."""
        return {
            key: list(value) if isinstance(value, Iterator) else value
            for key, value in self.parts()
        }

    def parts(self) -> Iterator[tuple[str, Any]]:
        """Yield the keys of what is written and their values, an iterator for a long list.

        That has to be at its end before the next key is asked for.
        """
        yield from self.model_dump(by_alias=True).items()

    @classmethod
    def described(cls) -> dict[str, Any]:
        """Return the JSON schema of what is written."""
        return described(cls)


class _AsWritten(GenerateJsonSchema):
    """`dump` leaves out no key, not even one that has its default."""

    def field_is_required(self, field: Any, total: bool) -> bool:
        return True


class DocumentError(ValueError):
    """A document cannot be written or used; the message is one line for the user."""


def dump(document: Document) -> str:
    """Return the document as JSON; equal ones give equal text.

    Keys stand in the order in which their model declares them. DocumentError if it
    holds a number that JSON has not.
    """
    try:
        return encode(document)
    except ValueError as error:
        raise DocumentError(f"this result cannot be saved: {error}") from error


def schema(kind: type[Document]) -> dict[str, Any]:
    """Return the JSON schema of what `dump` writes of a kind of document."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": kind.model_fields["schema_"].default,
        **kind.described(),
    }


def described(kind: type[Model]) -> dict[str, Any]:
    """Return the JSON schema of a model in which no key is left out."""
    return kind.model_json_schema(schema_generator=_AsWritten, mode="serialization")


def encode(document: Document) -> str:
    """Return the document as JSON. ValueError if it holds a number that JSON has not."""
    return "".join(_pieces(document))


def _pieces(document: Document) -> Iterator[str]:
    """Yield what `json.dumps` makes of what is written, with an indent of 1.

    An entry of a long list at a time: a map of hundreds of operations would be gigabytes
    of dictionaries.
    """
    before = "{"
    for key, value in document.parts():
        yield f"{before}\n {json.dumps(key)}: "
        before = ","
        if isinstance(value, Iterator):
            opened = "["
            for entry in value:
                yield f"{opened}\n  {_indented(entry, 2)}"
                opened = ","
            yield "[]" if opened == "[" else "\n ]"
        else:
            yield _indented(value, 1)
    yield "\n}\n"


def _indented(value: Any, depth: int) -> str:
    # No string in it has an end of line.
    return json.dumps(value, indent=1, allow_nan=False).replace("\n", "\n" + " " * depth)
