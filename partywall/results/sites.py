# SPDX-License-Identifier: GPL-2.0-or-later
"""Places in the code, written once in a document however many lines they touch.

In memory each `Site` of a line says where it is. In a document ``sites[]`` has each
place once, and a line's ``code[]`` holds its number there beside the rates.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pydantic import Field

from partywall.results.document import DocumentError, Model
from partywall.results.fields import FieldUse

WORK_ITEM: Final = "work item"
UNSEEN: Final = (WORK_ITEM, "RCU callback")
"""Contexts of what is done later, by whom it was left not having been seen."""


class Place(Model):
    """A piece of code in one context, and what it touches. In a document each stands once."""

    function: str
    offset: int = Field(description="Of the instruction in the function.")
    module: str | None = None
    source: str | None = Field(default=None, description="file:line")
    inlined: list[str] = Field(
        default_factory=list, description="Inline functions at the instruction, innermost first."
    )
    caller: str | None = Field(
        default=None, description="function+offset that called a lock, list or copy function."
    )
    caller_source: str | None = Field(default=None, description="file:line of that call.")
    context: str = Field(description="'syscall tgkill', 'exception', 'irq', 'softirq', …")
    field: str


PLACE = tuple(Place.model_fields)
"""Keys that say where a site is."""


class Site(Place):
    """One piece of code that touches a line, and how often."""

    reads: float
    writes: float
    atomics: float


class Uses(Model):
    """What one kind of work does with a line."""

    fields: list[FieldUse]
    code: list[Site]


def is_unseen(code: list[Site]) -> bool:
    """Return whether most uses are of what is done later and nobody was seen to leave."""
    rates = {True: 0.0, False: 0.0}
    for site in code:
        rates[site.context in UNSEEN] += site.reads + site.writes + site.atomics
    return rates[True] > rates[False]


class Places:
    """The places of a document, each once, in order of first mention: ``found``."""

    def __init__(self, place: tuple[str, ...]) -> None:
        """``place``: keys that say where a site is; all its others stay in the line."""
        self._place = place
        self._numbers: dict[tuple[Any, ...], int] = {}
        self.found: list[dict[str, Any]] = []

    def taken_out(self, data: Any) -> Any:
        """Return what holds sites with their numbers instead, changed in place."""
        for code in _codes(data):
            for at, row in enumerate(code):
                known = {key: row.pop(key) for key in self._place}
                key = tuple(tuple(v) if isinstance(v, list) else v for v in known.values())
                number = self._numbers.setdefault(key, len(self.found))
                if number == len(self.found):
                    self.found.append(known)
                code[at] = {"site": number, **row}
        return data


def of(data: dict[str, Any]) -> list[Any]:
    """Return the places of a document; DocumentError if it has none."""
    sites = data.get("sites")
    if not isinstance(sites, list):
        raise DocumentError("not a saved result: sites: a list is missing")
    return sites


def put_back(data: Any, sites: list[Any], place: tuple[str, ...]) -> None:
    """Change what holds sites to what `pydantic` reads; the opposite of `Places`.

    ``sites``: from `of`; ``place``: as for `Places`. DocumentError if a line names a place
    that the document has not.
    """
    for code in _codes(data):
        for at, row in enumerate(code):
            if not isinstance(row, dict):
                continue
            number = row.pop("site", None)
            known = sites[number] if type(number) is int and 0 <= number < len(sites) else None
            if not isinstance(known, dict) or not known.keys() <= set(place):
                raise DocumentError(f"not a saved result: a line's site is no place: {number!r}")
            if row.keys() & known.keys():
                raise DocumentError(f"not a saved result: site {number} is told twice")
            code[at] = {**known, **row}


def describe(schema: dict[str, Any], place: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON schema of what `Places` gives, of that of what it takes.

    ``place``: JSON schema of a place.
    """
    site = schema["$defs"]["Site"]
    rates = {k: v for k, v in site["properties"].items() if k not in place["properties"]}
    number = {"description": "Its place, a number in sites[].", "minimum": 0, "type": "integer"}
    properties = {"site": number, **rates}
    return {
        **schema,
        "$defs": {
            **schema["$defs"],
            "Place": place,
            "Site": {**site, "properties": properties, "required": list(properties)},
        },
        "properties": {
            **schema["properties"],
            "sites": {
                "description": "Places in the code, each once.",
                "items": {"$ref": "#/$defs/Place"},
                "type": "array",
            },
        },
        "required": [*schema["required"], "sites"],
    }


def _codes(value: Any) -> Iterator[list[Any]]:
    """The ``code[]`` of every line, wherever it is."""
    if isinstance(value, list):
        for inner in value:
            yield from _codes(inner)
    elif isinstance(value, dict):
        for key, inner in value.items():
            if key == "code" and isinstance(inner, list):
                yield inner
            elif isinstance(inner, list | dict):
                yield from _codes(inner)
