# SPDX-License-Identifier: GPL-2.0-or-later
"""YAML of a stranger's, read as Compose reads it: by YAML 1.2's core schema, and bounded.

PyYAML reads YAML 1.1, in which ``no`` is false and ``22:22`` is 1342. What is a number is left
to who asks for one, so that ``1.10`` as a variable's value stays what it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from partywall.core.errors import UsageProblem

LONGEST = 1 << 20
"""Bytes of a file."""
MOST = 100_000
"""Values of a file, those of an alias each time that it stands there."""
DEEPEST = 100
"""Values within each other."""
_NO_TEXT = re.compile("[\0\ud800-\udfff]")
_TAG = "tag:yaml.org,2002:"
_SCALARS = {f"{_TAG}{name}" for name in ("str", "null", "bool")}
_TAGS = _SCALARS | {f"{_TAG}{name}" for name in ("map", "seq", "merge")}
WANTED = "a Compose file, or a manifest of Kubernetes, is what --compose takes"


class _Loader(yaml.SafeLoader):
    """Reads booleans, nothings and merges beside texts."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012


_Loader.add_implicit_resolver(
    f"{_TAG}bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)
_Loader.add_implicit_resolver(f"{_TAG}null", re.compile(r"^(?:~|null|Null|NULL|)$"), [*"~nN", ""])
_Loader.add_implicit_resolver(f"{_TAG}merge", re.compile(r"^<<$"), ["<"])


def _problem(path: Path, why: str, node: yaml.Node | None = None) -> UsageProblem:
    where = f"{path}:{node.start_mark.line + 1}" if node is not None else str(path)
    return UsageProblem(f"{where}: {why}", WANTED)


def _short(text: str) -> str:
    """Return the begin of a stranger's text, on one line."""
    return "".join(one if one.isprintable() else "?" for one in text[:60])


def _children(node: yaml.Node) -> Iterator[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield key
            yield value
    elif isinstance(node, yaml.SequenceNode):
        yield from node.value


class _Bounds:
    """Counts what a document is when each alias is what it stands for."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[int, tuple[int, int]] = {}

    def of(self, node: yaml.Node, above: frozenset[int] = frozenset()) -> tuple[int, int]:
        """Return how many values a node has, and how many within each other.

        UsageProblem if these are too many, or it has what Compose has not.
        """
        if id(node) in self._known:
            return self._known[id(node)]
        if id(node) in above:
            raise _problem(self._path, "an alias stands within what it stands for", node)
        if len(above) > DEEPEST:
            raise _problem(self._path, f"more than {DEEPEST} values within each other", node)
        if node.tag not in _TAGS:
            raise _problem(self._path, f"{_short(node.tag.replace(_TAG, '!!'))} is not read", node)
        if isinstance(node, yaml.MappingNode):
            self._keys(node)
        if isinstance(node, yaml.ScalarNode):
            self._scalar(node)
        elif node.tag in _SCALARS:
            raise _problem(self._path, f"{node.tag.replace(_TAG, '!!')} has values in it", node)
        size = depth = 1
        for child in _children(node):
            more, deep = self.of(child, above | {id(node)})
            size, depth = size + more, max(depth, deep + 1)
        if size > MOST:
            raise _problem(self._path, f"more than {MOST:,} values, with what aliases stand for")
        if depth > DEEPEST:
            raise _problem(self._path, f"more than {DEEPEST} values within each other", node)
        self._known[id(node)] = size, depth
        return size, depth

    def _scalar(self, node: yaml.ScalarNode) -> None:
        if _NO_TEXT.search(node.value):
            raise _problem(self._path, "a character that no text has", node)
        if node.tag == f"{_TAG}bool" and node.value.lower() not in {"true", "false"}:
            raise _problem(self._path, f"'{_short(node.value)}' is neither true nor false", node)

    def _keys(self, node: yaml.MappingNode) -> None:
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag not in {
                f"{_TAG}str",
                f"{_TAG}merge",
            }:
                raise _problem(self._path, "a name is no text", key)
            if key.value in seen:
                raise _problem(self._path, f"'{_short(key.value)}' stands there twice", key)
            seen.add(key.value)


def read(path: Path) -> list[Any]:
    """Return the documents of a file, of dicts, lists, texts, booleans and None.

    UsageProblem if it can't be read, or is larger than any honest one.
    """
    try:
        with path.open("rb") as data:
            text = data.read(LONGEST + 1)
    except OSError as error:
        raise UsageProblem(f"{path}: {error.strerror}", WANTED) from error
    if len(text) > LONGEST:
        raise _problem(path, f"more than {LONGEST >> 20} MiB")
    found, total = [], 0
    try:
        loader = _Loader(text)
        try:
            while loader.check_node():
                node = loader.get_node()
                if node is not None:
                    total += _Bounds(path).of(node)[0]
                    if total > MOST:
                        raise _problem(path, f"more than {MOST:,} values")
                    found.append(loader.construct_document(node))
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"{path}:{mark.line + 1}" if mark else str(path)
        raise UsageProblem(f"{where}: {_short(str(error.problem))}", WANTED) from error
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        # The last two are of numbers: of a character, or of a version of YAML.
        why = str(error).partition("\n")[0]
        raise _problem(path, f"is no YAML: {why[:120]}") from error
    except RecursionError as error:
        raise _problem(path, f"more than {DEEPEST} values within each other") from error
    return [one for one in found if one is not None]
