# SPDX-License-Identifier: GPL-2.0-or-later
"""A recording comes back as it was written, or is refused whole."""

from __future__ import annotations

import dataclasses
import struct
import tracemalloc
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recordings import access, header, party, pattern, recording, sealed, visits, written

from partywall.core.errors import EnvironmentProblem
from partywall.record import recording as reader
from partywall.record.reading import MAGIC, RecordingError, load, parse
from partywall.record.recording import ATOMIC, LOCK, Kind, Recording, Slices

FUZZ = settings(max_examples=300, deadline=None)

SMALL = recording(
    party(
        0,
        [visits(0x40, 1, 2), visits(0x41, 0, 9, kind=Kind.BACKGROUND)],
        [access(0x1008, 4, reads=3), access(0x1010, writes=7, site=1, flags=ATOMIC)],
        [pattern(0x40, 1, read=2), pattern(0x40, 2, read=2, written=0x84)],
        calls=(11, 12),
    ),
    party(1, [visits(0x40, 0, 2**32 - 1)], calls=(21, 2**64 - 1), windows=2),
    party(1, thread=0xFF11000004000000, windows=0, calls=(0, 0)),
    sites=((0xFFFFFFFF81000010, 0), (0xFFFFFFFF81000020, 0xFFFFFFFF81000FF0)),
)
DATA = written(SMALL)
BODY_13 = written(SMALL, version=13)[:-12]


def parsed_or_refused(data: bytes) -> Recording | None:
    """The recording; None if it was refused, and as promised."""
    try:
        return parse(data)
    except RecordingError as error:
        assert error.message
        assert "\n" not in error.message
        return None


def test_a_recording_comes_back() -> None:
    read = parse(DATA)
    assert read.visit_distance == 8
    assert read.sites.tolist() == SMALL.sites.tolist()
    assert [one.cpu for one in read.parties] == [0, 1, 1]
    first, second, third = read.parties
    assert first.lines.tolist() == SMALL.parties[0].lines.tolist()
    assert first.accesses.tolist() == SMALL.parties[0].accesses.tolist()
    assert first.patterns.tolist() == SMALL.parties[0].patterns.tolist()
    assert first.lines["turns"].tolist() == [3, 9]
    assert first.calls == (11, 12)
    assert (first.kernel_instructions, first.spinning_instructions) == (1000, 50)
    assert first.user_instructions == 100
    assert (first.background_instructions, first.still_lines) == (10, 3)
    assert first.deferred_instructions == 4
    assert (first.foreground_accesses, first.background_accesses) == (300, 30)
    assert second.windows == 2
    assert second.lines["writes"].tolist() == [2**32 - 1]
    assert second.calls == (21, 2**64 - 1)
    assert third.thread == 0xFF11000004000000
    assert len(third.lines) == len(third.accesses) == 0
    assert written(read) == DATA


def test_stacks_and_locks_come_back() -> None:
    stacks = np.array([0xFF11000004000000, 2**64 - 1], np.uint64)
    locks = np.array([(0xFF11000004000040, 1, 2, 3, 4, 5, 2**64 - 1)], LOCK)
    whole = Recording(4, np.zeros((0, 2), np.uint64), stacks, locks, (party(0),))
    read = parse(written(whole))
    assert read.stacks.tolist() == stacks.tolist()
    assert read.locks.tolist() == locks.tolist()
    assert read.visit_distance == 4


def test_times_come_back() -> None:
    """How long locks are held, what their holders sleep for, and functions that wait."""
    taker = 0xFFFFFFFF81000010
    who = (0xFF11000004000040, taker, 1)
    whole = Recording(
        4,
        np.zeros((0, 2), np.uint64),
        np.zeros(0, np.uint64),
        np.zeros(0, LOCK),
        (party(0),),
        instruction_ns=2,
        holds=np.array([(*who, *range(4, 16), 2**64 - 1)], reader.HOLD),
        sleeps=np.array([(*who, reader.NOWHERE, 0, 4, 2**64 - 1)], reader.SLEEP),
        waits=np.array([(7, taker, 2, *range(3, 11))] * 2, reader.WAIT),
    )
    read = parse(written(whole))
    assert read.instruction_ns == 2
    assert read.holds.tolist() == whole.holds.tolist()
    assert read.sleeps.tolist() == whole.sleeps.tolist()
    assert read.waits.tolist() == whole.waits.tolist()


LOCKS = (0xFF11000004000040, 0xFF11000004000080)


def under(*rows: tuple[int, int, int], sets: tuple[tuple[int, ...], ...]) -> Recording:
    """A recording of visits under these sets of locks."""
    return replace(recording(party(0)), sets=sets, under=np.array(list(rows), reader.UNDER))


def test_visits_under_locks_come_back() -> None:
    whole = under((0x81, 0, 7), (0x81, 1, 2**64 - 1), sets=(LOCKS, LOCKS[1:]))
    read = parse(written(whole))
    assert read.sets == whole.sets
    assert read.under.tolist() == whole.under.tolist()


def test_locks_that_a_recording_does_not_hold_are_refused() -> None:
    with pytest.raises(RecordingError, match="locks"):
        parse(written(under((0x81, 1, 7), sets=(LOCKS,))))
    with pytest.raises(RecordingError, match="more locks than it holds"):
        parse(sealed(header(sets=1 << 31)))


Counts = st.integers(0, 2**32 - 1)
Words = st.integers(0, 2**64 - 1)


@FUZZ
@given(
    st.lists(
        st.tuples(
            st.lists(st.tuples(Words, *[Counts] * 6), max_size=4),
            st.lists(
                st.builds(
                    access, Words, st.integers(1, 64), reads=Counts, writes=Counts, site=st.just(0)
                ),
                max_size=4,
            ),
        ),
        max_size=4,
    )
)
def test_any_recording_comes_back(parties: list[Any]) -> None:
    whole = recording(*(party(n, lines, uses) for n, (lines, uses) in enumerate(parties)))
    assert written(parse(written(whole))) == written(whole)


def test_an_empty_recording_comes_back() -> None:
    assert parse(sealed(header())).parties == ()


def test_every_truncation_is_refused() -> None:
    whole = [length for length in range(len(DATA)) if parsed_or_refused(DATA[:length])]
    assert whole == []


def test_a_shorter_body_is_refused_even_with_a_right_checksum() -> None:
    lengths = range(len(DATA) - 12)
    assert [length for length in lengths if parsed_or_refused(sealed(DATA[:length]))] == []


@FUZZ
@given(st.integers(0, len(DATA) - 1), st.integers(0, 255))
def test_any_changed_byte_is_noticed(at: int, value: int) -> None:
    damaged = DATA[:at] + bytes([value]) + DATA[at + 1 :]
    read = parsed_or_refused(damaged)
    assert (read is None) == (damaged != DATA)


@FUZZ
@given(
    st.integers(0, len(DATA) - 13),
    st.integers(0, 255) | st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]),
)
def test_a_changed_byte_with_a_right_checksum_is_refused_or_read(at: int, value: int) -> None:
    damaged = sealed(DATA[:at] + bytes([value]) + DATA[at + 1 : -12])
    read = parsed_or_refused(damaged)
    (version,) = struct.unpack("<I", damaged[8:12])
    # One that says to be older is read as that, and would be written as one of today.
    if read is not None and version == reader.VERSION:
        assert written(read) == damaged


@FUZZ
@given(st.binary(max_size=200))
def test_no_bytes_break_the_reader(data: bytes) -> None:
    assert parsed_or_refused(data) is None
    assert parsed_or_refused(MAGIC + data) is None
    read = parsed_or_refused(sealed(header() + data))
    assert (read is not None) == (not data)


@pytest.mark.parametrize("data", [b"", b"PWALLREX" + DATA[8:], b"\x7fELF" + bytes(100)])
def test_another_file_is_no_recording(data: bytes) -> None:
    with pytest.raises(RecordingError, match="no recording"):
        parse(data)


@pytest.mark.parametrize("version", [0, 1, 2**32 - 1])
def test_another_version_is_named_with_what_to_do(version: int) -> None:
    with pytest.raises(RecordingError, match=f"version {version}") as caught:
        parse(sealed(header(version=version)))
    assert caught.value.hint


def older(body: bytes, version: int) -> bytes:
    """A recording without its end as before version 8, whose head had no times."""
    return body[:8] + struct.pack("<I", version) + body[12:36] + body[68:]


def test_a_recording_of_version_7_has_no_times() -> None:
    read = parse(sealed(older(BODY_13, 7)))
    assert read.instruction_ns == len(read.holds) == len(read.sleeps) == len(read.waits) == 0
    assert [one.lines.tolist() for one in read.parties] == [
        one.lines.tolist() for one in SMALL.parties
    ]


def test_times_of_version_8_are_passed_over() -> None:
    """They were too short on busy machines, and in other columns."""
    body = header(version=8, holds=2, sleeps=1, waits=3, instruction_ns=2)
    read = parse(sealed(body[:52] + bytes(2 * 88 + 56 + 3 * 48)))
    assert read.instruction_ns == 0
    assert [len(one) for one in (read.holds, read.sleeps, read.waits)] == [0, 0, 0]


def test_of_version_9_no_visits_are_known_to_be_under_locks() -> None:
    body = BODY_13
    read = parse(sealed(body[:8] + struct.pack("<I", 9) + body[12:52] + body[68:]))
    assert (read.sets, len(read.under)) == ((), 0)
    assert len(read.parties) == len(SMALL.parties)


def test_spans_are_read_as_they_were_written() -> None:
    spans = np.array([(0x1000, 0x77, reader.WANTED, 1, 5, 7, reader.NOWHERE, 0)], reader.SPAN)
    read = parse(written(dataclasses.replace(SMALL, spans=spans)))
    assert read.spans.tolist() == spans.tolist()
    names = ("address", "taker", "kind", "cpu", "from_ns", "to_ns", "function", "at")
    assert read.spans.dtype.names == names


def test_of_version_10_nobody_knows_when_a_lock_was_had() -> None:
    body = BODY_13
    read = parse(sealed(body[:8] + struct.pack("<I", 10) + body[12:60] + body[68:]))
    assert len(read.spans) == 0
    assert len(read.parties) == len(SMALL.parties)


def test_a_recording_of_version_11_is_read_as_one_of_this_version() -> None:
    read = parse(sealed(BODY_13[:8] + struct.pack("<I", 11) + BODY_13[12:64] + BODY_13[68:]))
    assert len(read.parties) == len(SMALL.parties)


def test_of_version_12_nobody_knows_what_was_left_and_not_done() -> None:
    read = parse(sealed(BODY_13[:8] + struct.pack("<I", 12) + BODY_13[12:64] + BODY_13[68:]))
    assert read.left is None
    assert len(read.parties) == len(SMALL.parties)


def test_which_visits_lie_in_one_hold_comes_back_and_version_13_has_none() -> None:
    rows = [(0x81, 7, 2**32 - 1), (0x82, 0, 1)]
    first = replace(SMALL.parties[0], repeated=np.array(rows, reader.REPEATED))
    whole = replace(SMALL, parties=(first, *SMALL.parties[1:]))
    read = parse(written(whole))
    assert [one.repeated.tolist() for one in read.parties] == [rows, [], []]
    assert written(read) == written(whole)
    old = parse(sealed(BODY_13[:8] + struct.pack("<I", 13) + BODY_13[12:]))
    assert [one.lines.tolist() for one in old.parties] == [
        one.lines.tolist() for one in SMALL.parties
    ]
    assert not any(len(one.repeated) for one in old.parties)


def test_what_was_left_is_read_as_it_was_written() -> None:
    rows = [(reader.WORKED + 3, 0x77, 0, 9, 2, 1), (reader.CALLED_BACK + 3, 0x78, 1, 4, 0, 0)]
    left = np.array(rows, reader.LEFT)
    read = parse(written(dataclasses.replace(SMALL, left=left)))
    assert read.left is not None
    assert read.left.tolist() == left.tolist()
    assert read.left.dtype.names == ("context", "site", "late", "times", "done", "containers")


def test_what_was_left_for_later_is_deferred_work_and_background_where_nobody_knows_by_whom() -> (
    None
):
    late = [reader.DEFERRED + 44, reader.WORKED + 3, reader.CALLED_BACK + reader.OTHER]
    assert set(reader.kind_in(np.array(late))) == {reader.Kind.DEFERRED}
    unknown = [reader.WORK, reader.CALLBACK, reader.TASK]
    assert set(reader.kind_in(np.array(unknown))) == {reader.Kind.BACKGROUND}


def test_of_version_6_all_returns_may_be_after_another_container() -> None:
    made = [
        party(cpu, [visits(5, 1, 9, returns=7, crossings=3, slices=8)], [access(320, writes=9)])
        for cpu in range(2)
    ]
    data = written(recording(*made), version=13)
    row = np.array([visits(5, 1, 9, returns=7, crossings=3, slices=8)], reader.LINE)
    # Words of 4 bytes: two of the key, then reads, writes, turns, returns.
    old = np.delete(np.frombuffer(row.tobytes(), "<u4"), 6)
    body = data[:-12].replace(row.tobytes(), old.tobytes())
    assert len(data) - 12 - len(body) == 2 * 4
    whole = parse(sealed(older(body, 6)))
    assert whole.instruction_ns == len(whole.holds) == len(whole.waits) == 0
    for found, one in zip(whole.parties, made, strict=True):
        assert found.lines["crossings"].tolist() == found.lines["returns"].tolist() == [7]
        assert found.lines["slices"].tolist() == [8]
        assert found.accesses.tolist() == one.accesses.tolist()


@pytest.mark.parametrize(
    "field", ["parties", "sites", "stacks", "counts", "holds", "waits", "left"]
)
@pytest.mark.parametrize("count", [1, 2**16, 2**31, 2**32 - 1])
def test_a_count_that_the_file_cannot_hold_is_refused_without_eating_memory(
    field: str, count: int
) -> None:
    claims = {"parties": 1, field: count}
    data = sealed(header(**claims) + bytes(67 if field == "parties" else 68))
    tracemalloc.start()
    try:
        assert parsed_or_refused(data) is None
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("field", [2, 3])
def test_a_party_with_too_many_lines_or_accesses_is_refused(field: int) -> None:
    numbers = [0, 1, 0, 0, 0]
    numbers[field] = 2**32 - 1
    data = sealed(header(parties=1) + struct.pack("<5I", *numbers) + bytes(48))
    assert parsed_or_refused(data) is None


def test_before_version_15_nobody_counted_slices() -> None:
    numbers = Slices(9, 5, 4)
    whole = recording(party(0, slices=numbers))
    assert parse(written(whole)).parties[0].slices == numbers
    body = written(whole, version=14)
    old = parse(sealed(body[:8] + struct.pack("<I", 14) + body[12:-12]))
    assert old.parties[0].slices is None


@pytest.mark.parametrize("site", [2, 3, 2**32 - 1])
def test_a_site_that_is_not_listed_is_refused(site: int) -> None:
    whole = recording(
        party(0, accesses=[access(0x1000, reads=1, site=site)]),
        sites=((0xFFFFFFFF81000010, 0), (0xFFFFFFFF81000020, 0)),
    )
    with pytest.raises(RecordingError, match="names code"):
        parse(written(whole))


@pytest.mark.parametrize("more", [b"\0", b"x" * 68, DATA])
def test_bytes_behind_the_parties_are_refused(more: bytes) -> None:
    assert parsed_or_refused(DATA + more) is None
    assert parsed_or_refused(sealed(DATA[:-12] + more)) is None


def test_a_party_too_few_is_refused() -> None:
    body = bytearray(DATA[:-12])
    body[12:16] = struct.pack("<I", 2)
    assert parsed_or_refused(sealed(bytes(body))) is None


@pytest.mark.parametrize("length", [0, len(DATA) - 13, len(DATA) - 11, 2**64 - 1])
def test_another_length_is_refused_even_with_a_right_checksum(length: int) -> None:
    body = DATA[:-12] + struct.pack("<Q", length)
    assert parsed_or_refused(body + struct.pack("<I", zlib.crc32(body))) is None


def test_a_file_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "recording"
    path.write_bytes(DATA)
    assert written(load(path)) == DATA


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    for path in (tmp_path / "missing", tmp_path):
        with pytest.raises(RecordingError) as caught:
            load(path)
        assert str(path) in caught.value.message
        assert isinstance(caught.value, EnvironmentProblem)


def test_the_documentation_has_the_numbers_of_this_version() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "recording.md").read_text()
    text = " ".join(text.split())
    names = (reader.CHARGED, reader.SYSCALL, reader.WORKED, reader.CALLED_BACK, reader.TASK)
    assert f"The recording, version {reader.VERSION} " in text
    assert all(f"{number:#x} + n " in text for number in names)
    words = {
        reader.USER: "entry",
        reader.IRQ: "interrupt",
        reader.SOFTIRQ: "softirq",
        reader.EXCEPTION: "exception",
        reader.NEW_TASK: "a task that has never run",
        reader.SYSCALL_UNKNOWN: "system call not yet known",
        reader.SCHEDULER: "scheduler",
    }
    assert all(f"{number} {word}" in text for number, word in words.items())
