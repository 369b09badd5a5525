# SPDX-License-Identifier: GPL-2.0-or-later
"""Results of KUnit and kselftests out of a console's text."""

from __future__ import annotations

import re

_LINE = re.compile(
    r"^(?:\[ *\d+\.\d+\](?:\[[^]]*\])? )?(?P<indent> *)(?:# )?(?P<not>not )?ok \d+ -? ?"
    r"(?P<name>.*?)(?: # (?P<directive>SKIP|TODO|XFAIL)\b.*)?$",
    re.IGNORECASE,
)


def add(found: dict[str, str], name: str, state: str) -> None:
    """Adds a result; a name that comes again gets its number behind it, so none is lost."""
    key, again = name, 1
    while key in found:
        again += 1
        key = f"{name} ({again})"
    found[key] = state


def results(text: str) -> dict[str, str]:
    """``pass``, ``fail`` or ``skip`` by the name of each result line, in order."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        match = _LINE.match(line)
        if match is None:
            continue
        name = re.sub(r"\b(0x)?[0-9a-f]{8,}\b", "ADDRESS", match["name"].strip())
        state = "fail" if match["not"] else "pass"
        if match["directive"]:
            state = "skip"
        add(found, name, state)
    return found
