# SPDX-License-Identifier: GPL-2.0-or-later
"""Variables in a Compose file, by the Compose specification's rules of interpolation."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DEEPEST = 20


class Variables:
    """What variables stand for. ``unset``: those that were asked for and are not set."""

    def __init__(self, known: Mapping[str, str], longest: int = 16 << 20) -> None:
        """``longest``: characters that all texts with variables may become together."""
        self._known = known
        self._longest = self._left = longest
        self.unset: dict[str, None] = {}

    def within(self, value: Any) -> Any:
        """Return a value with all variables in its texts, but for names, replaced.

        ValueError says what is wrong with one.
        """
        if isinstance(value, str):
            return self.expand(value)
        if isinstance(value, list):
            return [self.within(one) for one in value]
        if isinstance(value, dict):
            return {name: self.within(one) for name, one in value.items()}
        return value

    def expand(self, text: str, depth: int = 0) -> str:
        """Return a text with its variables replaced.

        >>> Variables({"A": "x"}).expand("$A ${B:-y$A} ${A:+set} $$A")
        'x yx set $A'
        """
        if depth > _DEEPEST:
            raise ValueError(f"more than {_DEEPEST} variables within each other")
        if "$" not in text:
            return text
        found, at = [], 0
        while (dollar := text.find("$", at)) >= 0:
            found.append(text[at:dollar])
            at = dollar + 1
            if text.startswith("$", at):
                found.append("$")
                at += 1
            elif text.startswith("{", at):
                end = _end(text, at + 1)
                found.append(self._braced(text[at + 1 : end], depth))
                at = end + 1
            else:
                name = _name(text, at)
                found.append(self._value(name))
                at += len(name)
        found.append(text[at:])
        # An alias has what a variable is each time that it stands there.
        self._left -= sum(map(len, found))
        if self._left < 0:
            raise ValueError(f"variables make more than {self._longest:,} characters of it")
        return "".join(found)

    def _braced(self, inside: str, depth: int) -> str:
        name = _name(inside, 0)
        rest = inside[len(name) :]
        if not rest:
            return self._value(name)
        # A colon: what is empty counts as not set.
        colon, rest = rest.startswith(":"), rest.removeprefix(":")
        sign, word = rest[:1], rest[1:]
        value = self._known.get(name)
        there = bool(value) if colon else value is not None
        if sign == "-":
            return value or "" if there else self.expand(word, depth + 1)
        if sign == "+":
            return self.expand(word, depth + 1) if there else ""
        if sign == "?":
            if not there:
                raise ValueError(f"{name} is not set: {self.expand(word, depth + 1)}".rstrip(": "))
            return value or ""
        raise ValueError(f"'${{{inside[:60]}}}' is no variable: $$ stands for a dollar sign")

    def _value(self, name: str) -> str:
        if name not in self._known:
            self.unset[name] = None
        return self._known.get(name, "")


def _name(text: str, at: int) -> str:
    name = _NAME.match(text, at)
    if name is None:
        raise ValueError(f"'${text[at : at + 20]}' is no variable: $$ stands for a dollar sign")
    return name[0]


def _end(text: str, at: int) -> int:
    """Return where the brace is closed that was opened before ``at``."""
    open_ = 1
    for mark in re.compile(r"\$\$|\$\{|\}").finditer(text, at):
        open_ += {"$$": 0, "${": 1, "}": -1}[mark[0]]
        if not open_:
            return mark.start()
    raise ValueError(f"'${{{text[at : at + 40]}' is not closed")
