# SPDX-License-Identifier: GPL-2.0-or-later
"""The note that a guest's kernel leaves is taken apart, or refused."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partywall.analyse.names.memory import parse_note
from partywall.core.errors import EnvironmentProblem

TEXT = b"OSRELEASE=6.12.117\nBUILD-ID=9d3c\nPAGESIZE=4096\n"


def note(text: bytes = TEXT, name: bytes = b"VMCOREINFO\0") -> bytes:
    """An ELF note."""
    return struct.pack("<3I", len(name), len(text), 0) + name + bytes(-len(name) % 4) + text


def test_the_text_of_a_note_is_found() -> None:
    assert parse_note(note()) == TEXT


@pytest.mark.parametrize("name", [b"VMCOREINFO", b"VMCOREINFO\0", b"VMCOREINFO\0\0"])
def test_the_name_may_end_in_zeroes(name: bytes) -> None:
    assert parse_note(note(name=name)) == TEXT


def test_what_stands_behind_the_note_is_not_its_text() -> None:
    assert parse_note(note() + bytes(4096)) == TEXT
    assert parse_note(note() + b"MORE=1\n") == TEXT


@pytest.mark.parametrize(
    "data",
    [
        b"",
        note()[:11],
        note()[:12],
        note()[:20],
        note()[:24],
        bytes(4096),
        b"\xff" * 4096,
        note(name=b"CORE\0"),
        note(name=b"VMCOREINF\0"),
        note(name=b"VMCOREINFOX\0"),
        note(name=b""),
        note(text=b""),
        note()[:4] + bytes(4) + note()[8:],
        TEXT,
    ],
)
def test_what_is_no_note_is_refused(data: bytes) -> None:
    with pytest.raises(EnvironmentProblem, match="vmcoreinfo"):
        parse_note(data)


@pytest.mark.parametrize("name", [0, 1, 2**31, 2**32 - 1, 2**32 - 4])
def test_a_name_of_another_length_is_refused(name: int) -> None:
    data = struct.pack("<3I", name, len(TEXT), 0) + note()[12:]
    with pytest.raises(EnvironmentProblem):
        parse_note(data)


@pytest.mark.parametrize("length", [2**31, 2**32 - 1])
def test_a_text_that_claims_more_than_there_is_gets_no_more(length: int) -> None:
    data = note()[:4] + struct.pack("<I", length) + note()[8:]
    assert parse_note(data) == TEXT


@given(st.binary(max_size=80), st.booleans())
def test_no_bytes_break_the_reader(data: bytes, named: bool) -> None:
    whole = note()[:24] + data if named else data
    try:
        text = parse_note(whole)
    except EnvironmentProblem:
        return
    assert text
    assert text in whole
    assert b"VMCOREINFO" in whole
