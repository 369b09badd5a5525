# SPDX-License-Identifier: GPL-2.0-or-later
"""What mends a wall: ``mends.toml``, held against the kernel at hand.

A version says little, as distributions take fixes back. So a mend is named by the
object, its fields and functions that were seen at work, as far as it says any, and only
if no code that it brings was seen anywhere in the result.
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

from pydantic import Field

from partywall.kernels import series
from partywall.kernels.series import bases
from partywall.results.document import Model
from partywall.results.lines import Line
from partywall.results.result import Result, WorkloadResult
from partywall.results.setting import NO_APPARMOR, OWN_PROFILES, VOLATILE
from partywall.results.sites import Site

SERIES = (6, 12)
"""The version of Linux that all of our series is for; other versions have parts of it."""

BARE = ("debian", "stock")
"""Kernels, by the first word of what they come from, that have none of the series."""

FILE = Path(__file__).resolve().parent / "mends.toml"


Option = Literal["profiles", "layers", "no-apparmor", "nosocket", "volatile"]
"""How a machine, or its containers, can be started: an AppArmor profile, or an image, of each one's
own; no such profile; a parameter of the kernel; an option of overlays."""

NOSOCKET = "cgroup.memory=nosocket"

OPTIONS: Mapping[Option, str] = {
    "profiles": "an AppArmor profile for each container",
    "layers": "an image for each container, of its own",
    "no-apparmor": "containers without an AppArmor profile",
    "nosocket": f"kernel parameter {NOSOCKET}",
    "volatile": "overlays mounted with volatile",
}
"""That in words."""


HOW: Mapping[Option, str] = {
    "profiles": "for each container a copy of its profile under a name of its own, loaded by "
    "apparmor_parser; docker run --security-opt apparmor=NAME, in a pod appArmorProfile: "
    "{type: Localhost, localhostProfile: NAME}",
    "layers": "for each container an image that has no layer in common with others, so each file "
    "is in memory as often",
    "no-apparmor": "docker run --security-opt apparmor=unconfined, in a pod appArmorProfile: "
    "{type: Unconfined}",
    "nosocket": "on the kernel's command line; what sockets take is charged to no container then",
    "volatile": "an option of the overlay's mount; after a crash of the machine the container's "
    "root is not to be used again",
}
"""What there is to do, and what it costs."""


class Saved(Model):
    """Instructions that patches save, as they were measured of some workloads of ours."""

    workloads: list[str] = Field(description="Titles; of any other operation it is not known.")
    kernel: float = Field(
        default=0.0, lt=1, description="Of an operation's instructions in the kernel, this share."
    )
    under: float = Field(
        default=0.0, lt=1, description="Of those run while a lock is held, this share."
    )
    lock: str = Field(default="*", description="Its field in the object.")
    apparmor: bool = Field(
        default=True, description="Whether containers had a profile where it was measured."
    )
    command: str = Field(description="What measured it: its two columns.")

    @property
    def words(self) -> str:
        """It in words."""
        shares = ((self.kernel, "an operation"), (self.under, "while it is held"))
        said = [f"{share:.0%} fewer {where}" for share, where in shares if share]
        return f"instructions {', '.join(said)}"


class Mend(Model):
    """One way to be rid of a wall, or of a part of it. Names may have ``*`` and ``?``."""

    object: str = Field(description="Name or type of the object.")
    field: str = Field(default="*", description="Path of a field that is used in the wall.")
    beside: str | None = Field(
        default=None, description="Path of another field that is used on the same line."
    )
    workloads: list[str] = Field(
        default_factory=list, description="Titles; of any other operation it is not known."
    )
    functions: list[str] = Field(
        default_factory=list,
        description="Functions that it changes: one of them uses the wall, or calls who does.",
    )
    gone: bool = Field(
        default=False, description="The object itself goes: a kernel that has it has no mend."
    )
    together: list[str] = Field(
        default_factory=list, description="One of these functions is seen in the workload."
    )
    brings: list[str] = Field(
        default_factory=list, description="Functions that only a kernel with it has."
    )
    by: Literal["series", "upstream", "option", "none"]
    option: Option | None = Field(default=None, description="Of the machine or of containers.")
    patches: list[str] = Field(default_factory=list, description="Of our series: TOPIC/NNNN.")
    release: str | None = Field(default=None, description="Of Linux, the first that has it.")
    commit: str | None = None
    part: bool = Field(default=False, description="It takes away a part of the wall.")
    most: float = Field(
        default=1.0,
        ge=0,
        le=1,
        description="Of a part: what it takes at most of what its functions do there.",
    )
    held: bool = Field(
        default=True,
        description="Of a lock, it takes time for which that is held; else alone times that it is.",
    )
    saved: Saved | None = Field(
        default=None,
        description="Instructions that its patches save together, and nothing of the wall: of "
        "patches of several topics it is the series that does. Of the kernel that it was "
        "measured of alone.",
    )
    says: str = Field(default="", description="What to do or to know, in words.")
    source: str = Field(description="Where this is from.")

    @property
    def words(self) -> str:
        """It in one line."""
        some = "a part: " if self.part else ""
        if self.saved:
            return f"{self.object}: {self.saved.words}"
        if self.by == "series":
            what = f"series {' '.join(self.patches)}"
        elif self.by == "upstream":
            commit = f" ({self.commit})" if self.commit else ""
            what = f"Linux {self.release}{commit}"
        elif self.option:
            what = OPTIONS[self.option]
        else:
            return f"{some}{self.says}"
        return f"{some}{what}: {self.says}" if self.says else f"{some}{what}"


@functools.cache
def load() -> tuple[Mend, ...]:
    """Return all mends that are known."""
    return tuple(Mend.model_validate(one) for one in tomllib.loads(FILE.read_text())["mend"])


def at_work(sites: Iterable[Site]) -> Iterator[str]:
    """Yield functions at work: those that use the line, inline ones, and who called them."""
    for site in sites:
        yield site.function.partition(".")[0]
        yield from site.inlined
        if site.caller:
            yield site.caller.partition("+")[0].partition(".")[0]


def _seen(workload: WorkloadResult) -> frozenset[str]:
    lines = (*workload.every_line, *workload.inside, *workload.background)
    return frozenset(name for line in lines for name in at_work(line.code))


def version(release: str) -> tuple[int, ...]:
    """Return the version in a release: (6, 12) of ``6.12.117+deb12-cloud-amd64``."""
    found = re.match(r"(\d+)\.(\d+)", release)
    return tuple(map(int, found.groups())) if found else ()


@functools.cache
def patches(release: tuple[int, ...]) -> frozenset[str]:
    """Return the patches that there are for a version of Linux, as mends name them."""
    base = bases.known().get(".".join(map(str, release)))
    if base is None:
        return frozenset()
    return frozenset(f"{one.topic}/{one.path.name[:4]}" for one in series.read(base.folder))


def _can(option: Option, workload: WorkloadResult, command_line: str) -> bool:
    """Whether containers of a workload, on a kernel so started, can have it, and have not yet."""
    told, between = workload.confinement, workload.scope == "between"
    if option == "layers":
        return between and workload.layers == "shared"
    if option == "nosocket":
        name, _, value = NOSOCKET.partition("=")
        given = (word.partition("=") for word in command_line.split())
        return not any(key == name and value in of.split(",") for key, _, of in given)
    if option == "volatile":
        return between and VOLATILE not in told
    confined = told.startswith("docker") and NO_APPARMOR not in told
    if option == "no-apparmor":
        return confined
    return between and confined and OWN_PROFILES not in told


def _known_of(mend: Mend, workload: WorkloadResult) -> bool:
    """Whether it is for any workload, or for this one, whatever image its containers have."""
    title = workload.model_copy(update={"layers": "shared"}).title
    return not mend.workloads or any(fnmatchcase(title, one) for one in mend.workloads)


def _usual(workload: WorkloadResult, saved: Saved) -> bool:
    """Whether it ran as what was saved was measured: in containers of one CPU, confined so."""
    told = workload.confinement
    usual = workload.scope == "between" and workload.topology.cpus == 1
    usual &= told.startswith("docker") and (NO_APPARMOR in told) != saved.apparmor
    return usual and not any(other in told for other in (OWN_PROFILES, VOLATILE))


class Advice:
    """The mends that fit a kernel, by what was seen of it."""

    def __init__(self, result: Result) -> None:
        self._release = version(result.kernel.release)
        self._command_line = result.environment.command_line
        # A kernel of a file may have any of them, and packages of ours are got as Debian's are.
        came = result.kernel.source.partition(" ")[0].partition("@")[0]
        self._bare = came in BARE and "partywall" not in result.kernel.release
        self._at_work = [(workload, _seen(workload)) for workload in result.workloads]
        self._seen = frozenset().union(*(seen for _, seen in self._at_work))

    def on(self, lines: Iterable[Line], workload: WorkloadResult) -> list[Mend]:
        """Return what mends a wall of the workload, in part at least.

        ``lines``: of like objects. A kernel as new as the release that brought a mend
        has it, and this wall all the same.
        """
        found = self._of(list(lines), workload)
        return [self._for_it(mend) for mend in found if mend.saved is None]

    def saves(self, lines: Iterable[Line], workload: WorkloadResult) -> list[Mend]:
        """Return what is known to save instructions of the workload, of these walls' mends.

        Measured of one version of Linux without any of our patches, in containers of one CPU
        that are confined as usual, of which it is said.
        """
        if self._release != SERIES or not self._bare:
            return []
        return [
            mend
            for mend in self._of(list(lines), workload)
            if mend.saved
            and workload.title in mend.saved.workloads
            and _usual(workload, mend.saved)
        ]

    def _of(self, lines: list[Line], workload: WorkloadResult) -> list[Mend]:
        seen = next((seen for one, seen in self._at_work if one is workload), frozenset())
        return [mend for mend in load() if self._fits(mend, lines, workload, seen)]

    def _for_it(self, mend: Mend) -> Mend:
        """Say of patches that are made for another kernel which one that is."""
        if mend.by != "series" or self._release == SERIES:
            return mend
        if self._release and set(mend.patches) <= patches(self._release):
            return mend
        said = f"{mend.says}; made" if mend.says else "made"
        return mend.model_copy(update={"says": f"{said} for Linux {SERIES[0]}.{SERIES[1]}"})

    def _fits(
        self, mend: Mend, lines: list[Line], workload: WorkloadResult, seen: frozenset[str]
    ) -> bool:
        if self._seen & set(mend.brings):
            return False
        if mend.together and not seen & set(mend.together):
            return False
        if mend.option and not _can(mend.option, workload, self._command_line):
            return False
        if not _known_of(mend, workload):
            return False
        if mend.release and self._release >= version(mend.release):
            return False
        return any(touches(mend, line) for line in lines)


def touches(mend: Mend, line: Line) -> bool:
    """Return whether a mend is for what was seen of a line."""
    what = line.object
    if not any(fnmatchcase(name, mend.object) for name in (what.name, what.type or "")):
        return False
    paths = [use.path for use in line.fields]
    for wanted in (mend.field, mend.beside or "*"):
        if wanted != "*" and not any(fnmatchcase(path, wanted) for path in paths):
            return False
    return not mend.functions or bool(set(at_work(line.code)) & set(mend.functions))
