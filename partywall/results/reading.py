# SPDX-License-Identifier: GPL-2.0-or-later
"""Documents read: checked a workload at a time, as a map of hundreds is gigabytes at once."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError, to_json

from partywall.results import sites, upgrade
from partywall.results.result import Result, WorkloadResult
from partywall.results.sites import PLACE


def read(data: dict[str, Any]) -> Result:
    """Return the result that was `written`, or that of an older version.

    ValidationError or DocumentError if it is none. Strict about types as JSON has them.
    The list of workloads in ``data`` is emptied.
    """
    version = upgrade.version_of(data)
    places = None if version in upgrade.WITHOUT_SITES else sites.of(data)
    whole = upgrade.upgrade(data) if version in upgrade.OLDER else {**data}
    whole.pop("sites", None)
    entries = whole.get("workloads")
    if not isinstance(entries, list):
        return Result.model_validate_json(to_json(whole), strict=True)
    workloads = _workloads(entries, places)
    rest = Result.model_validate_json(to_json({**whole, "workloads": []}), strict=True)
    return rest.model_copy(update={"workloads": workloads})


def _workloads(entries: list[Any], places: list[Any] | None) -> list[WorkloadResult]:
    found: list[WorkloadResult] = []
    entries.reverse()
    while entries:
        entry = entries.pop()
        if isinstance(entry, dict):
            # It is written for others, and follows from the rest.
            entry.pop("verdict", None)
        if places is not None:
            sites.put_back(entry, places, PLACE)
        try:
            found.append(WorkloadResult.model_validate_json(to_json(entry), strict=True))
        except ValidationError as error:
            raise _in_list(error, len(found)) from error
    return found


def _in_list(error: ValidationError, number: int) -> ValidationError:
    """Return the first of the errors with its place in the whole document."""
    first = error.errors(include_url=False)[0]
    why = PydanticCustomError("workload", "{why}", {"why": first["msg"]})
    place = ("workloads", number, *first["loc"])
    line = InitErrorDetails(type=why, loc=place, input=first["input"])
    return ValidationError.from_exception_data(error.title, [line])
