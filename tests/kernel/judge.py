# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether a kernel's report is of the series' doing.

A race that KCSAN reports is ours if one of its two accesses is in a line that the series
added or moved, be it in a function that was inlined there. Where no line is known it is
ours until somebody looks. All else that a kernel of ours says is ours, unless stock's
says the same under the same load.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache

import added
import places
from added import Added, Copied
from places import Place
from reports import KCSAN, Frame, Report

from partywall.core.progress import Progress, Quiet
from partywall.kernels import Kernel
from partywall.kernels.series import bases

Lines = Mapping[Frame, Sequence[Place]]

# Each is checked to be in stock's file word for word, or counts as ours again; and it does
# where two of them meet.
COPIED = (
    Copied(
        "fs/dcache.c",
        "dentry->d_flags &= ~DCACHE_REFERENCED;",
        "dentry_lru_isolate() takes an entry's mark that it was asked for away under its lock, "
        "and who walks a path reads the entry's flags without",
    ),
)


def race(report: Report, of_series: Added, lines: Lines) -> str | None:
    """Why a report of KCSAN's is ours, in a few words; None if it is of stock's code."""
    unknown = None if report.accesses else "it names no access"
    ours: list[Place] = []
    copies: list[Place] = []
    for frame in report.accesses:
        if frame is None:
            unknown = "an access has no frame"
            continue
        found = lines.get(frame, ())
        if not found:
            unknown = f"no line is known of {frame}"
        own = [place for place in found if of_series.has(place.file, place.line)]
        copied = [place for place in own if (place.file, place.line) in of_series.copies]
        ours += [place for place in own if place not in copied]
        # One for each access: two of them are the series' own.
        copies += copied[:1]
    if ours:
        return f"{ours[0]} is the series'"
    # What stock has too is excused where it meets with what is stock's, and is known to.
    if copies and (len(copies) > 1 or len(report.accesses) < 2):
        return f"{copies[0]} is the series'"
    return unknown


def ours(
    reports: Iterable[Report],
    stock: Collection[str],
    races: Callable[[Report], str | None],
) -> list[tuple[Report, str | None]]:
    """With each report why it is ours, or None. ``stock``: signatures of stock's reports."""
    judged: list[tuple[Report, str | None]] = []
    for report in reports:
        if report.kind == KCSAN:
            judged.append((report, races(report)))
        elif report.signature in stock:
            judged.append((report, None))
        else:
            judged.append((report, "stock says no such thing"))
    return judged


@cache
def _of_series(version: str) -> Added:
    base = bases.get(version)
    return added.of_series(base, COPIED if base == bases.get() else (), Quiet())


def races_of(
    kernel: Kernel, reports: Iterable[Report], progress: Progress | None = None
) -> Callable[[Report], str | None]:
    """Judges reports of KCSAN's on a kernel of the series; all of them are looked up at once."""
    frames = {
        frame
        for report in reports
        if report.kind == KCSAN
        for frame in report.accesses
        if frame is not None
    }
    if not frames:
        return lambda report: race(report, Added({}), {})
    with (progress or Quiet()).step(f"lines of {len(frames)} accesses", 20):
        version = ".".join(kernel.release.split(".")[:2])
        of_series, lines = _of_series(version), places.of(kernel, frames)
    return lambda report: race(report, of_series, lines)


def alarms(kernel: Kernel, reports: Sequence[Report]) -> list[str]:
    """What a kernel of the series said that is ours, each with its reason if it is a race."""
    judged = ours(reports, (), races_of(kernel, reports))
    return [
        f"{report.text}\n{why}" if report.kind == KCSAN else report.text
        for report, why in judged
        if why is not None
    ]
