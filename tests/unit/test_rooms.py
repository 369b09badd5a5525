# SPDX-License-Identifier: GPL-2.0-or-later
"""The rooms of the program: imports point down, and all that it needs lies in it."""

from __future__ import annotations

import ast
import re
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import partywall

PROGRAM = Path(partywall.__file__).parent
CHECKOUT = PROGRAM.parent

ROOMS = (
    "cli report advice model clock measure analyse record guest workloads kernels results core"
).split()
"""From top to bottom: a room imports from those behind it here, and from itself."""

MODULES = sorted(PROGRAM.rglob("*.py"))
RUST = sorted((PROGRAM / "record" / "recorder").glob("src/*.rs"))
LONGEST = 450


def name_of(path: Path) -> str:
    """The dotted name of a module."""
    parts = path.relative_to(CHECKOUT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


NAMES = {name_of(path) for path in MODULES}


def imported(path: Path, *, types: bool) -> set[str]:
    """Modules of the program that a module imports; ``types``: also for types alone."""
    tree = ast.parse(path.read_text())
    left_out: set[ast.AST] = set()
    if not types:
        for node in ast.walk(tree):
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                left_out |= set(ast.walk(node))
    found = set()
    for node in ast.walk(tree):
        if node in left_out:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: a relative import"
            assert node.module
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in NAMES else node.module)
    return {name for name in found if name in NAMES}


def room_of(name: str) -> str | None:
    """The room of a module; None for the program's own ``__init__``, which has a version."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 else None


def test_every_module_is_in_a_room() -> None:
    assert {room_of(name) for name in NAMES} == {*ROOMS, None}


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_point_down(path: Path) -> None:
    room = room_of(name_of(path))
    allowed = ROOMS[ROOMS.index(room) :] if room else []
    for name in imported(path, types=True):
        other = room_of(name)
        assert other is None or other in allowed, f"{name_of(path)} imports {name}"


def test_no_module_imports_itself_in_a_ring() -> None:
    # A room's __init__ only hands on what its modules have.
    graph = {
        name_of(path): imported(path, types=False) for path in MODULES if path.name != "__init__.py"
    }
    TopologicalSorter(graph).prepare()


def test_the_table_for_contributors_has_the_same_rooms() -> None:
    text = (CHECKOUT / "CONTRIBUTING.md").read_text()
    table = re.findall(r"^\| `(\w+)/` \|", text, re.MULTILINE)
    assert table == ROOMS


@pytest.mark.parametrize("path", [*MODULES, *RUST], ids=lambda path: str(path.relative_to(PROGRAM)))
def test_no_module_is_too_long(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= LONGEST


@pytest.mark.parametrize("path", RUST, ids=lambda path: path.name)
def test_the_recorder_compiles_with_the_compiler_of_debian_12(path: Path) -> None:
    """Rust 1.63 has no let-else, and no newer compiler warns of it: use match."""
    found = re.findall(r"\blet [^;={}]*=[^;{}]*\belse\s*\{", path.read_text())
    assert found == []


def test_nothing_is_looked_for_above_the_package() -> None:
    """The series alone, which it works on, and whether there is a set-up to run."""
    reaching = [
        name_of(path)
        for path in MODULES
        for depth in [len(path.relative_to(PROGRAM).parts)]
        for ups in [re.findall(r"parents\[(\d+)\]", path.read_text())]
        if any(int(up) >= depth for up in ups)
    ]
    assert reaching == ["partywall.core.packages", "partywall.kernels.series.bases"]
