# SPDX-License-Identifier: GPL-2.0-or-later
"""Remedies: what one action brings, be that one mend or many."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from partywall.advice import mends
from partywall.advice.mends import Advice, Mend, Option
from partywall.advice.without import number
from partywall.results.result import Result, WorkloadResult

Kind = Literal["series", "topic", "release", "option"]
"""All our patches, those of one topic, a release of Linux, or how containers are started."""

Fitting = Mapping[int, list[Mend]]
"""By the number of a line, the mends that are for it."""


@dataclass(frozen=True)
class Action:
    """One thing to do. ``fitting``: the mends that it brings, by the number of a line."""

    kind: Kind
    name: str
    fitting: Fitting
    release: str | None = None
    option: Option | None = None

    @property
    def mends(self) -> list[Mend]:
        """The mends, each once."""
        found: dict[str, Mend] = {}
        for mend in (mend for several in self.fitting.values() for mend in several):
            found.setdefault(f"{mend.object} {mend.words}", mend)
        return list(found.values())


def fitting(result: Result, workload: WorkloadResult) -> dict[int, list[Mend]]:
    """Return the mends for each line of a workload's walls, by its number."""
    advice = Advice(result)
    found: dict[int, list[Mend]] = {}
    for line in workload.every_line:
        several = found.setdefault(number(line.address), [])
        there = [*advice.on([line], workload), *advice.saves([line], workload)]
        several += [mend for mend in there if mend not in several]
    return found


def chosen(every: Fitting, wanted: Callable[[Mend], bool]) -> dict[int, list[Mend]]:
    """Return the mends that are wanted, of lines that have any."""
    found = {line: [mend for mend in several if wanted(mend)] for line, several in every.items()}
    return {line: several for line, several in found.items() if several}


def together(actions: Iterable[Action]) -> dict[int, list[Mend]]:
    """Return all that several actions bring."""
    found: dict[int, list[Mend]] = {}
    for action in actions:
        for line, several in action.fitting.items():
            there = found.setdefault(line, [])
            there += [mend for mend in several if mend not in there]
    return found


def less(every: Fitting, gone: Fitting) -> dict[int, list[Mend]]:
    """Return mends but for those that are gone."""
    return {
        line: left
        for line, several in every.items()
        if (left := [mend for mend in several if mend not in gone.get(line, ())])
    }


def actions(every: Fitting) -> list[Action]:
    """Return all that can be done, the smaller before what contains it."""
    known = [mend for several in every.values() for mend in several]
    return [*_of_series(every, known), *_releases(every, known), *_options(every, known)]


def topic(mend: Mend) -> str:
    """Return the topic of our series that a mend is of; others of its patches are needed too."""
    return mend.patches[0].partition("/")[0]


def _of_topic(mend: Mend, name: str) -> bool:
    """Whether it is one topic that brings a mend. What several save together none does alone."""
    if mend.by != "series" or topic(mend) != name:
        return False
    return mend.saved is None or len({one.partition("/")[0] for one in mend.patches}) == 1


def _of_series(every: Fitting, known: list[Mend]) -> list[Action]:
    patches = [mend.patches if mend.saved else mend.patches[:1] for mend in known]
    topics = dict.fromkeys(one.partition("/")[0] for several in patches for one in several)
    found = [
        Action(
            "topic",
            f"series {one}",
            chosen(every, lambda mend, one=one: _of_topic(mend, one)),  # type: ignore[misc]
        )
        for one in topics
    ]
    found = [one for one in found if one.fitting]
    if len(topics) > 1:
        whole = chosen(every, lambda mend: mend.by == "series")
        found.append(Action("series", "the whole series", whole))
    return found


def up_to(every: Fitting, release: str) -> dict[int, list[Mend]]:
    """Return the mends that a release of Linux has, those of earlier ones too."""
    most = mends.version(release)
    return chosen(
        every, lambda mend: mend.release is not None and mends.version(mend.release) <= most
    )


def _releases(every: Fitting, known: list[Mend]) -> list[Action]:
    releases = sorted({mend.release for mend in known if mend.release}, key=mends.version)
    return [Action("release", f"Linux {one}", up_to(every, one), release=one) for one in releases]


def _options(every: Fitting, known: list[Mend]) -> list[Action]:
    options = dict.fromkeys(mend.option for mend in known if mend.option)
    return [
        Action(
            "option",
            mends.OPTIONS[one],
            chosen(every, lambda mend, one=one: mend.option == one),  # type: ignore[misc]
            option=one,
        )
        for one in options
    ]
