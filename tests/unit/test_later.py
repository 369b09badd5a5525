# SPDX-License-Identifier: GPL-2.0-or-later
"""What was left for later, as a recording has it."""

from __future__ import annotations

import dataclasses

import numpy as np
from recordings import access, party, recording

from partywall.analyse import later
from partywall.analyse.sharing import Uses
from partywall.record import recording as reader

WORK, CALLBACK, OTHER = reader.WORK, reader.CALLBACK, reader.SCHEDULER


def test_how_much_was_left_and_done_is_told_of_each_call() -> None:
    rows = [
        (reader.WORKED + 3, 0x10, 0, 8, 2, 2),
        (reader.WORKED + 3, 0x11, 0, 4, 4, 1),
        (reader.WORKED + 3, 0x20, 1, 4, 4, 2**64 - 1),
        (reader.WORKED + 4, 0x10, 0, 0, 0, 0),
        (reader.CALLED_BACK + 3, 0x10, 0, 0, 1, 1),
    ]
    whole = dataclasses.replace(recording(party(0)), left=np.array(rows, reader.LEFT))
    names = {"context": hex, "function": lambda address: f"f{address >> 4}"}
    ran = {"operations": 4, "containers": 8}
    found = later.left(whole, **names, **ran)
    assert found is not None
    # What one call of a function leaves may be done, and nothing of another one's.
    assert [(one.context, one.by, one.late, one.times, one.done) for one in found] == [
        ("0x5003", "f1", False, 2.0, 0.5),
        ("0x5003", "f1", False, 1.0, 1.0),
        ("0x5003", "f2", True, 1.0, 1.0),
        ("0x6003", "f1", False, 0.0, 0.25),
    ]
    assert [one.containers for one in found] == [2, 1, 8, 1]
    assert [one.later for one in found] == [1.5, 0, 0, 0]
    older = dataclasses.replace(whole, left=None)
    assert later.left(older, **names, **ran) is None


def test_of_deferred_work_what_was_left_is_told_from_softirqs() -> None:
    line = 64
    one = party(
        0,
        accesses=[
            access(5 * line, reads=99, context=reader.DEFERRED + 3),
            access(5 * line, writes=1, context=reader.WORKED + 3),
            access(6 * line, writes=1, context=reader.CALLED_BACK + 3),
            access(7 * line, writes=1, context=reader.DEFERRED + 3),
            access(7 * line, writes=1),
        ],
    )
    assert later.softirqs(Uses(recording(one), reader.Kind.DEFERRED)).tolist() == [7]
    assert later.softirqs(Uses(recording(), reader.Kind.DEFERRED)).tolist() == []


def test_lines_that_nobodys_work_uses_most_are_told_from_those_that_it_uses() -> None:
    line = 64
    one = party(
        0,
        accesses=[
            access(5 * line, reads=2, context=WORK),
            access(5 * line + 8, writes=3, context=CALLBACK),
            access(6 * line, reads=9, context=WORK),
            access(7 * line, reads=9, context=WORK),
        ],
    )
    # An atomic instruction reads and writes, and is one use.
    two = party(
        1,
        accesses=[
            access(5 * line, reads=4, writes=4, context=OTHER, flags=reader.ATOMIC),
            access(5 * line, writes=99),
            access(6 * line, reads=9, context=OTHER),
            access(8 * line, reads=9, context=OTHER),
        ],
    )
    assert later.unseen(Uses(recording(one, two), reader.Kind.BACKGROUND)).tolist() == [5, 7]
    assert later.unseen(Uses(recording(), reader.Kind.BACKGROUND)).tolist() == []
