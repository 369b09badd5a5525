# SPDX-License-Identifier: GPL-2.0-or-later
"""What is asked of an ELF file is answered right, or refused; nothing else."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import programs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partywall.core import elf
from partywall.core.errors import UsageProblem

SOURCE = """
const char words[16] = "partywall";
long table[4] = { 1, 2, 3, 0x1122334455667788 };
long zeroes[4];
static int same(int x) { return x + 1; }
int visible(int x) { return same(x) * 2; }
extern int nowhere(void) __attribute__((weak));
void _start(void) { visible(nowhere ? nowhere() : 0); }
"""
ID = "00112233445566778899aabbccddeeff"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("elf")
    flags = [*programs.BARE, "-O0", f"-Wl,--build-id=0x{ID}"]
    return programs.compiled(directory, "program", SOURCE, *flags)


def refused_or_not(path: Path, ask: Callable[[Path], object]) -> object:
    """The answer; None if the file was refused, and as promised."""
    elf.load_symbols.cache_clear()
    try:
        return ask(path)
    except UsageProblem as error:
        assert str(path) in error.message
        assert "\n" not in error.message
        return None


def test_symbols_have_addresses_and_sizes(program: Path) -> None:
    symbols = elf.load_symbols(program)
    (table,) = symbols.by_name("table")
    assert table.size == 32
    said = subprocess.run(["nm", str(program)], capture_output=True, text=True, check=True).stdout
    for line in said.splitlines():
        if line.startswith(" "):
            continue
        address, _, name = line.split()
        assert [hex(found.address) for found in symbols.by_name(name)] == [hex(int(address, 16))]


def test_symbols_that_are_not_defined_are_none(program: Path) -> None:
    assert elf.load_symbols(program).by_name("nowhere") == []
    assert elf.load_symbols(program).by_name("") == []
    assert elf.load_symbols(program).by_name("tabl") == []


def test_symbols_match_from_the_start_of_their_name(program: Path) -> None:
    symbols = elf.load_symbols(program)
    assert [found.name for found in symbols.matching(re.compile("tab"))] == ["table"]
    assert symbols.matching(re.compile("able")) == []
    assert set(symbols.matching(re.compile(""))) == set(symbols)


def test_symbols_that_share_a_name_are_all_there(tmp_path: Path) -> None:
    first = programs.compiled(
        tmp_path, "a.o", "static int twin = 1; int *a(void) { return &twin; }", "-c"
    )
    second = programs.compiled(
        tmp_path, "b.o", "static int twin = 2; void _start(void) { twin = 3; }", "-c"
    )
    both = tmp_path / "both"
    subprocess.run(["ld", "-o", str(both), str(first), str(second)], check=True)
    assert len({found.address for found in elf.load_symbols(both).by_name("twin")}) == 2


def test_memory_is_read_at_its_address(program: Path) -> None:
    symbols = elf.load_symbols(program)
    (words,), (table,) = symbols.by_name("words"), symbols.by_name("table")
    assert elf.read_memory(program, words.address, words.size) == b"partywall" + bytes(7)
    last = elf.read_memory(program, table.address + 24, 8)
    assert int.from_bytes(last, "little") == 0x1122334455667788
    assert elf.read_memory(program, words.address + 5, 4) == b"wall"


def test_memory_without_contents_is_empty(program: Path) -> None:
    (zeroes,) = elf.load_symbols(program).by_name("zeroes")
    assert elf.read_memory(program, zeroes.address, zeroes.size) == b""
    for address in (0, 2**63, 2**64 - 8):
        assert elf.read_memory(program, address, 8) == b""
    assert elf.read_memory(program, 0x400000, 1 << 30) == b""


def test_the_build_id_is_read(program: Path) -> None:
    assert elf.build_id(program) == ID


def test_a_file_without_build_id_is_refused(tmp_path: Path) -> None:
    path = programs.compiled(tmp_path, "bare", SOURCE, *programs.BARE, "-Wl,--build-id=none")
    with pytest.raises(UsageProblem, match="no build ID"):
        elf.build_id(path)


def test_a_stripped_file_is_refused_with_what_to_give(program: Path, tmp_path: Path) -> None:
    path = tmp_path / "stripped"
    subprocess.run(["strip", "-o", str(path), str(program)], check=True)
    with pytest.raises(UsageProblem, match="no symbols") as caught:
        elf.load_symbols(path)
    assert str(path) in caught.value.message
    assert "vmlinux" in (caught.value.hint or "")
    assert elf.build_id(path) == ID


QUESTIONS: dict[str, Callable[[Path], object]] = {
    "symbols": elf.load_symbols,
    "build ID": elf.build_id,
    "memory": lambda path: elf.read_memory(path, 0x400000, 64),
}
asked = pytest.mark.parametrize("ask", QUESTIONS.values(), ids=QUESTIONS.keys())


@asked
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x7f",
        b"\x7fELF",
        b"\x7fELF" + bytes(60),
        b"\x7fELF\2\1\1" + bytes(57),
        b"text\n" * 99,
    ],
)
def test_what_is_no_elf_file_is_refused(
    tmp_path: Path, ask: Callable[[Path], object], data: bytes
) -> None:
    path = tmp_path / "file"
    path.write_bytes(data)
    assert refused_or_not(path, ask) in (None, b"")


@asked
def test_what_cannot_be_read_is_named(tmp_path: Path, ask: Callable[[Path], object]) -> None:
    for path in (tmp_path / "missing", tmp_path):
        assert refused_or_not(path, ask) is None


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_file_cut_anywhere_is_refused(program: Path, data: st.DataObject) -> None:
    whole = program.read_bytes()
    cut = program.with_name("cut")
    cut.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
    # The section headers come last, so they are never whole.
    assert refused_or_not(cut, elf.load_symbols) is None
    assert refused_or_not(cut, elf.build_id) is None


def test_memory_that_a_cut_file_lacks_is_refused_or_empty(program: Path) -> None:
    (words,) = elf.load_symbols(program).by_name("words")
    whole = program.read_bytes()
    cut = program.with_name("cut-memory")
    cut.write_bytes(whole[: whole.index(b"partywall") + 5])
    found = refused_or_not(cut, lambda path: elf.read_memory(path, words.address, words.size))
    assert found in (None, b"")


def field(program: Path, section: str, offset: int) -> int:
    """Where in the file a section's header has the field at ``offset``."""
    said = subprocess.run(
        ["readelf", "-SW", str(program)], capture_output=True, text=True, check=True
    ).stdout
    found = re.search(rf"\[ *(\d+)\] {re.escape(section)} ", said)
    assert found is not None
    headers = int.from_bytes(program.read_bytes()[40:48], "little")
    return headers + 64 * int(found[1]) + offset


@pytest.mark.parametrize(
    ("section", "size"), [(".symtab", 24 << 58), (".strtab", 2**62), (".strtab", 2**64 - 1)]
)
def test_a_section_of_absurd_size_is_refused(program: Path, section: str, size: int) -> None:
    damaged = bytearray(program.read_bytes())
    at = field(program, section, 32)
    damaged[at : at + 8] = size.to_bytes(8, "little")
    path = program.with_name("absurd")
    path.write_bytes(damaged)
    assert refused_or_not(path, elf.load_symbols) is None


def test_a_table_that_ends_within_a_symbol_is_refused(program: Path) -> None:
    damaged = bytearray(program.read_bytes())
    for offset, value in ((32, 25), (56, 1)):  # its size, that of an entry
        at = field(program, ".symtab", offset)
        damaged[at : at + 8] = value.to_bytes(8, "little")
    path = program.with_name("odd")
    path.write_bytes(damaged)
    assert refused_or_not(path, elf.load_symbols) is None


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_damaged_file_is_refused_or_answered(program: Path, data: st.DataObject) -> None:
    damaged = bytearray(program.read_bytes())
    sections = int.from_bytes(damaged[40:48], "little")
    places = [*range(0x200), *range(sections, len(damaged))]
    # Sizes have a test of their own.
    places = [at for at in places if at < sections or not 32 <= (at - sections) % 64 < 40]
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.sampled_from(places))] = data.draw(st.sampled_from([0, 1, 0x80, 0xFF]))
    path = program.with_name("damaged")
    path.write_bytes(damaged)
    for ask in QUESTIONS.values():
        refused_or_not(path, ask)
