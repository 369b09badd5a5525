# SPDX-License-Identifier: GPL-2.0-or-later
"""A variable's type is that of its own file, and the same one in every run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import drgn
import pytest

from partywall.analyse.names.objects import ObjectNamer
from partywall.core import elf

IMAGE = 0xFFFF_FFFF_8100_0000  # where the kernel's would be
FILES = 96
RUNS = 12


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Many files, each with a variable and a structure of the same name but its own size."""
    directory = tmp_path_factory.mktemp("variables")
    for number in range(FILES):
        (directory / f"part{number}.c").write_text(
            f"static struct same {{ char byte[{number + 1}]; }} same;\n"
            f"void *use{number}(void) {{ return &same; }}\n"
        )
    (directory / "main.c").write_text("void _start(void) { }\n")
    built = directory / "program"
    flags = ("-g", "-nostdlib", "-static", "-no-pie", "-fno-pic", "-mcmodel=kernel")
    where = f"-Wl,-Ttext-segment={IMAGE:#x}"
    sources = map(str, sorted(directory.glob("*.c")))
    subprocess.run(["gcc", *flags, where, "-o", str(built), *sources], check=True, timeout=120)
    return built


def test_which_of_several_of_one_name_is_found_is_not_chance(program: Path) -> None:
    code = (
        "import partywall.analyse.names, drgn, sys\n"
        "prog = drgn.Program()\n"
        "module = prog.extra_module('program', create=True)\n"
        "module.try_file(sys.argv[1], force=True)\n"
        "print(prog.variable('same').address_, prog.type('struct same').size)\n"
    )
    command = [sys.executable, "-c", code, str(program)]
    runs = [
        subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
        for _ in range(RUNS)
    ]
    assert len(set(runs)) == 1, runs


def test_the_variable_at_an_address_is_that_of_its_file(program: Path) -> None:
    symbols = elf.load_symbols(program)
    same = symbols.by_name("same")
    prog = drgn.Program()
    module = prog.extra_module("program", create=True)
    module.address_range = (IMAGE, IMAGE + (1 << 24))
    module.try_file(str(program), force=True)
    namer = ObjectNamer(prog, symbols)
    found = {symbol.file: namer.at(symbol.address).type for symbol in same}
    assert {file: type_ and type_.size for file, type_ in found.items()} == {
        f"part{number}.c": number + 1 for number in range(FILES)
    }
