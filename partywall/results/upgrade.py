# SPDX-License-Identifier: GPL-2.0-or-later
"""Documents of older versions, brought up to date when they are read."""

from __future__ import annotations

from typing import Any, Final

from partywall.results.document import DocumentError

CURRENT: Final = "partywall.result/5"
FIRST: Final = "partywall.result/1"
"""It has no locks and no waits, and counts spinning as work."""

_LACKS: Final[dict[str, list[str]]] = {
    FIRST: ["locks", "waits for RCU", "spinning apart from other instructions"],
    "partywall.result/2": [
        "figures for other numbers of containers",
        "who shares, and what all moves together",
        "what splitting saves",
        "sums of all that moves",
    ],
    "partywall.result/3": [
        "how much of what was left for later ran in the windows",
        "what of a file of services the guest had not",
        "visits in one hold of a lock as one",
    ],
    "partywall.result/4": [
        "whether containers worked in turn",
        "which snapshot guests went on from",
    ],
}
"""What a version lacks that the one after it has, oldest first."""

OLDER: Final = tuple(_LACKS)
WITHOUT_SITES: Final = OLDER[:2]
"""Versions in which each line holds its places in the code itself, as in memory."""


def version_of(data: Any) -> str:
    """Return the version of a document that can be read; DocumentError if there is none."""
    if not isinstance(data, dict):
        raise DocumentError("not a saved result: it is no JSON object")
    if "schema" not in data:
        raise DocumentError(f"not a saved result: it has no schema; expected {CURRENT}")
    version = data["schema"]
    if not isinstance(version, str) or version not in (*OLDER, CURRENT):
        raise DocumentError(f"schema is {version!r}, but this version reads {CURRENT!r}")
    return version


def upgrade(data: dict[str, Any]) -> dict[str, Any]:
    """Return a document of an older version as one of the current version.

    It says which version it was, and what that lacks; keys that are new take
    their defaults when it is read.
    """
    version = data["schema"]
    lacks = [what for older in OLDER[OLDER.index(version) :] for what in _LACKS[older]]
    return {**data, "schema": CURRENT, "measured_with": version, "lacks": lacks}
