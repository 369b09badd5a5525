# SPDX-License-Identifier: GPL-2.0-or-later
"""Files of variables, beside a Compose file or named by a service of it."""

from __future__ import annotations

import io
import re
from collections import ChainMap
from collections.abc import Callable, Mapping
from pathlib import Path

from dotenv.parser import parse_stream

from partywall.core.errors import UsageProblem
from partywall.workloads.compose.variables import Variables

_LONGEST = 1 << 16
_BLANKS = re.compile(r"[^\S\r\n]{1000}")
"""For as many its parser takes the square of their number."""
_LITERAL = re.compile(r"[^=]*=[^\S\n]*'")


def read(
    path: Path, named_by: Path, known: Mapping[str, str], say: Callable[[str], None]
) -> dict[str, str | None]:
    """Return what a file of variables has; None for a variable without a value.

    Variables in values are replaced but in single quotes: by ``known``, else by those above.
    ``say``: takes a line for what is left out. UsageProblem if it can't be read.
    """
    hint = f"{named_by} names it"
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(_LONGEST + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageProblem(f"{path}: {error}", hint) from error
    if len(text) > _LONGEST:
        raise UsageProblem(f"{path}: more than {_LONGEST >> 10} KiB", hint)
    if "\0" in text or _BLANKS.search(text):
        raise UsageProblem(f"{path} is no file of variables", hint)
    found: dict[str, str | None] = {}
    above: dict[str, str] = {}
    variables = Variables(ChainMap(dict(known), above), 1 << 20)
    for one in parse_stream(io.StringIO(text)):
        where = f"{path.name}:{one.original.line}"
        if one.error:
            say(f"{where} is left out: it is no variable")
        elif one.key is not None:
            value = one.value
            if value is not None and not _LITERAL.match(one.original.string):
                variables.unset.clear()
                try:
                    value = variables.expand(value.replace("\\$", "$$"))
                except ValueError as error:
                    raise UsageProblem(f"{path}:{one.original.line}: {error}", hint) from error
                for unset in variables.unset:
                    say(f"{where}: {unset} is not set, and so is empty")
            found[one.key] = value
            above.pop(one.key, None)
            if value is not None:
                above[one.key] = value
    return found
