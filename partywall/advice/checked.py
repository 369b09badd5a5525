# SPDX-License-Identifier: GPL-2.0-or-later
"""What a guest can run of what would help, and what came of it beside what was predicted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from partywall import guest, workloads
from partywall.advice import mends
from partywall.advice.explain import Forecast
from partywall.advice.explained import Check, Checked, Expected, Explained, Explanation
from partywall.advice.mends import NOSOCKET, Mend, Option
from partywall.advice.remedies import Fitting, chosen, fitting
from partywall.advice.without import by_mends, key, without
from partywall.analyse.verdict import AT
from partywall.core.errors import PartywallError, UsageProblem
from partywall.core.progress import Progress
from partywall.core.topology import Profiles
from partywall.guest import peers
from partywall.kernels import Kernel, Request
from partywall.measure import run
from partywall.measure.ready import resolve, with_roots
from partywall.model.profiles import Profile
from partywall.results.failures import Failure
from partywall.results.lines import Wall
from partywall.results.result import Result, WorkloadResult
from partywall.results.setting import BARE, OWN_PROFILES, VOLATILE
from partywall.workloads import Workload

NEWEST = "debian@trixie-backports"
"""Debian's newest kernel that has debug information, whatever this machine runs."""


@dataclass(frozen=True)
class Trial:
    """What is run to see what a remedy brings.

    ``kernel``: None for that of the result; ``beside``: another one, which lacks what the
    remedy brings and is built as the first is.
    """

    name: str
    kernel: str | None = None
    beside: str | None = None
    option: Option | None = None
    series: frozenset[str] = frozenset()
    """Patches that the kernel has, as mends name them."""

    def brings(self, mend: Mend, release: str) -> bool:
        """Whether it has what a mend is; ``release``: of the kernel that runs."""
        if mend.option:
            return mend.option == self.option
        if mend.by == "series":
            return set(mend.patches) <= self.series
        return mend.release is not None and mends.version(mend.release) <= mends.version(release)


def trials(result: Result, explained: Explained, known: Iterable[Mend] = ()) -> list[Trial]:
    """Return what is run to see what the remedies of a workload bring.

    ``known``: mends of the workload. Where no remedy is told, since walls hide what each
    brings, kernels that have these are run all the same: what they save in instructions is
    in no figure.
    """
    found = []
    hidden = [] if explained.remedies else list(known)
    kinds = {remedy.kind for remedy in explained.remedies}
    if kinds & {"series", "topic"} or any(mend.by == "series" for mend in hidden):
        found.append(_of_series(result))
    releases = [remedy.release for remedy in explained.remedies if remedy.release]
    releases += [mend.release for mend in hidden if mend.release]
    if releases:
        found.append(Trial(f"{NEWEST}, for Linux {max(releases, key=mends.version)}", NEWEST))
    found += [
        Trial(remedy.name, option=remedy.option)
        for remedy in explained.remedies
        if remedy.option is not None
    ]
    return found


def _of_series(result: Result) -> Trial:
    number = mends.version(result.kernel.release)
    if not mends.patches(number):
        number = mends.SERIES
    behind = "" if number == mends.SERIES else f"@{'.'.join(map(str, number))}"
    names = mends.patches(number)
    beside = (
        None if result.kernel.source.partition(" ")[0] == f"stock{behind}" else f"stock{behind}"
    )
    return Trial(f"partywall{behind}", f"partywall{behind}", beside, series=names)


def check(
    result: Result, found: Explanation, wanted: Sequence[WorkloadResult], progress: Progress
) -> tuple[Checked, int]:
    """Run what a guest can of all that would help these workloads; return an exit status, too.

    ``wanted``: those that ``found`` tells of, in its order. The status is that of the last one
    that could not be run, as of a check; 0 if all could.
    """
    status = 0
    work: dict[Trial, list[tuple[WorkloadResult, Explained]]] = {}
    for one, explained in zip(wanted, found.workloads, strict=True):
        known = [mend for several in fitting(result, one).values() for mend in several]
        for trial in trials(result, explained, known):
            work.setdefault(trial, []).append((one, explained))
    checks: list[Check] = []
    failed: list[Failure] = []
    for trial, several in work.items():
        beside = _run(result, trial.beside, None, several, progress) if trial.beside else {}
        ran = _run(result, trial.kernel, trial.option, several, progress)
        for number, (one, explained) in enumerate(several):
            after, other = ran[number], beside.get(number)
            for name, became in ((trial.beside, other), (trial.name, after)):
                if isinstance(became, PartywallError):
                    status = became.exit_code
                    failed.append(_failure(f"{one.title}, {name}", one, became))
            if isinstance(after, PartywallError):
                continue
            other = None if isinstance(other, PartywallError) else other
            checks.append(told(result, found.profile, trial, (one, explained), after, other))
    return Checked(checks=checks, failed=failed), status


def _failure(title: str, one: WorkloadResult, error: PartywallError) -> Failure:
    why = f"{error.message}; {error.hint}" if error.hint else error.message
    return Failure(title=title, operation=one.operation, why=why)


def told(
    result: Result,
    profile: Profile,
    trial: Trial,
    before: tuple[WorkloadResult, Explained],
    after: Result,
    beside: Result | None = None,
) -> Check:
    """Return what came of a trial beside what was predicted of it.

    ``after``, ``beside``: results of the one workload.
    """
    one, explained = before
    release = after.kernel.release
    fitted = fitting(result, one)
    brought: Fitting = chosen(fitted, lambda mend: trial.brings(mend, release))
    forecast = Forecast(one, profile, explained.at)
    taken = by_mends(one, brought)
    (new,) = after.workloads
    walls = {_what(wall) for wall in new.every_wall}
    stay = {_what(wall) for wall in without(one, taken).every_wall}
    had = {_what(wall) for wall in one.every_wall}
    return Check(
        title=one.title,
        topology=one.topology,
        name=trial.name,
        kernel=after.kernel,
        predicted=forecast.without(taken),
        measured=Forecast(new, profile, explained.at).now,
        beside=None if beside is None else _expected(beside, profile, explained.at),
        now=explained.now,
        instructions=new.instructions.kernel / max(1.0, one.instructions.kernel),
        still=_names(new, walls & (had - stay)),
        new=_names(new, walls - had),
    )


def _expected(result: Result, profile: Profile, at: int) -> Expected:
    (one,) = result.workloads
    return Forecast(one, profile, at).now


def _what(wall: Wall) -> tuple[str, str]:
    """Return what a wall is of on any kernel: a type lies in another slab cache where it grows."""
    kind, name = key(wall)
    type_ = name.partition(": ")[2]
    # Of arrays of numbers those of other caches are other ones.
    return kind, type_ if type_.startswith(("struct ", "union ")) else name


def _names(workload: WorkloadResult, walls: set[tuple[str, str]]) -> list[str]:
    """Names of these walls, most transfers first."""
    there = sorted(workload.every_wall, key=lambda wall: -wall.transfers)
    return list(dict.fromkeys(wall.name for wall in there if _what(wall) in walls))


def _run(
    result: Result,
    kernel: str | None,
    option: Option | None,
    several: Sequence[tuple[WorkloadResult, Explained]],
    progress: Progress,
) -> dict[int, Result | PartywallError]:
    """Return what became of each workload on a kernel, as a result of it alone."""
    try:
        ready = _same(result, progress) if kernel is None else resolve(Request(kernel), progress)
    except PartywallError as error:
        return dict.fromkeys(range(len(several)), error)
    found: dict[int, Result | PartywallError] = {}
    for number, (one, _) in enumerate(several):
        try:
            found[number] = _measured(result, ready, option, one, progress)
        except PartywallError as error:
            found[number] = error
    return found


def _same(result: Result, progress: Progress) -> Kernel:
    """Return the kernel of a result; UsageProblem if it can't be had again."""
    name = result.kernel.source.partition(" ")[0]
    hint = "check with that one by hand"
    if name == "debian":
        name = f"debian:linux-image-{result.kernel.release}"
    elif name.partition("@")[0].partition("+")[0] not in ("stock", "partywall"):
        raise UsageProblem(f"the kernel of the result is none that can be had again: {name}", hint)
    try:
        kernel = resolve(Request(name), progress)
    except UsageProblem:
        if not name.startswith("debian:"):
            raise
        kernel = resolve(Request(f"{name}@{NEWEST.partition('@')[2]}"), progress)
    if kernel.build_id != result.kernel.build_id:
        raise UsageProblem(f"the kernel of the result is another build than {name} is now", hint)
    return kernel


def _measured(
    result: Result,
    kernel: Kernel,
    option: Option | None,
    one: WorkloadResult,
    progress: Progress,
) -> Result:
    """Return a workload as it was measured, on another kernel or with an option."""
    chosen_, rootless = with_roots([workload_of(one)], progress)
    for error in rootless.values():
        raise error
    outcome = run.check(
        run.Wanted(
            kernel=kernel,
            workloads=chosen_,
            topology=peers.of_servers(chosen_[0], one.topology),
            confined=not one.confinement.startswith("unconfined"),
            threshold=one.threshold,
            at=one.at or AT,
            parameters=f"{parameters(result)} {NOSOCKET if option == 'nosocket' else ''}".strip(),
            layers=("own",) if option == "layers" else (one.layers,),
            profiles=_profiles(option, one),
            volatile=option == "volatile" or VOLATILE in one.confinement,
        ),
        progress,
    )
    for error in outcome.failures.values():
        raise error
    assert outcome.result is not None
    return outcome.result


def _profiles(option: Option | None, one: WorkloadResult) -> Profiles:
    if option == "no-apparmor" or BARE in one.confinement:
        return "none"
    return "own" if option == "profiles" or OWN_PROFILES in one.confinement else "shared"


def workload_of(one: WorkloadResult) -> Workload:
    """Return the workload that was measured; UsageProblem if it is none of ours."""
    for workload, _ in (*workloads.load(), *workloads.load_servers()):
        if (workload.name, workload.variant) == (one.workload, one.variant):
            return workload
    raise UsageProblem(
        f"{one.title} is a program of yours, which is not in the result", "check it by hand"
    )


def parameters(result: Result) -> str:
    """Return what was appended to the command line of the result's kernel."""
    # An older version's line has fewer of the usual words, not others.
    usual = guest.command_line(result.kernel.release).split()
    words = result.environment.command_line.split()
    return " ".join(word for word in words if word not in usual)
