# SPDX-License-Identifier: GPL-2.0-or-later
"""All topics' loads at once, under each sanitizer, on stock's kernel and ours side by side.

    .venv/bin/python tests/kernel/soak.py [--minutes M] [--sanitizer NAME]... [--kernel NAME]...
                                          [--seed N] [--cpus N] [--json FILE]
                                          [--pack DIR | --packed DIR]

Prints a table: what each topic's load did, and what the kernel said meanwhile. Exit
status 1 if ours said what stock's code cannot have, its guest did not come to its end, or
a load found a fault. docs/soak.md says how to read it.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import NoReturn

import click
import judge
import loads
import packed
import reports
from machine import Job, run
from reports import Report
from rich.console import Console
from soaked import Soaked, Told, as_json, findings, markdown

from partywall import guest, kernels
from partywall.core.cache import file_errors, write_whole
from partywall.core.errors import PartywallError
from partywall.core.progress import Progress, Terminal, duration
from partywall.guest import image
from partywall.kernels import Kernel, Request

# What is laid over a kernel for each; "none" is for trying the loads.
SANITIZERS = {
    "kasan": "+lean+net+debug",
    "kcsan": "+lean+net+kcsan",
    "kmemleak": "+lean+net+leak",
    "rt": "+lean+net+debug+rt",
    "none": "",
}
TITLES = {
    "kasan": "KASAN, lockdep",
    "kcsan": "KCSAN",
    "kmemleak": "kmemleak",
    "rt": "PREEMPT_RT, KASAN, lockdep",
    "none": "none",
}
KERNELS = ("stock", "partywall")

CPUS = 4
MEMORY = 4096
"""MiB of a guest at least; a GiB for each CPU."""

# Seconds that a guest takes besides: to boot, and to let things settle.
_BESIDES = 180
_INTERRUPTED = 130


def job(seconds: int, seed: int, cpus: int = CPUS) -> Job:
    """The guest that all loads run in."""
    files = loads.files(seed) | {"/soak/policy": image.apparmor_policy()}
    files |= image.with_libraries(image.tool("mke2fs"), "/sbin/mke2fs")
    files |= image.with_libraries(image.tool("setpriv"), "/sbin/setpriv")
    return Job(
        {"soak": loads.script(seconds)},
        loads.PROGRAMS,
        files=files,
        modules=["brd", "ext4", "overlay"],
        cpus=cpus,
        memory=max(MEMORY, cpus << 10),
        timeout=seconds + loads.PATIENCE + 1800,
    )


def folder(sanitizer: str, name: str) -> str:
    """Where a guest is among those that run elsewhere."""
    return f"{name}-{sanitizer}"


class Soak:
    """Runs guests, and remembers what stock's kernel said under each sanitizer."""

    def __init__(self, what: Job, progress: Progress, packed: Path | None = None) -> None:
        self.what, self.progress, self.packed = what, progress, packed
        self._stock: dict[str, frozenset[str]] = {}

    def __call__(self, sanitizer: str, name: str, kernel: Kernel, expected: float) -> Soaked:
        """All loads on a kernel, and what it said, judged by what stock's said before."""
        title = f"{TITLES[sanitizer]}, {name}"
        begun = time.monotonic()
        with self.progress.step(title, expected):
            if self.packed is not None:
                ran = packed.read(self.packed, folder(sanitizer, name), kernel, self.what)
            else:
                ran = run(kernel, self.what)
        spent = time.monotonic() - begun
        done = loads.done(ran.output("soak"))
        ended = ran.ended and ran.status("soak") is not None
        if not ended:
            self.progress.note(f"{title}: the last words were\n{ran.end[-600:]}")
        return Soaked(
            TITLES[sanitizer],
            name,
            kernel.release,
            kernel.build_id,
            round(spent, 1),
            ended,
            done.operations,
            self._told(sanitizer, name, kernel, ran.reports() + reports.of_kmemleak(done.leaks)),
            done.wrong,
        )

    def _told(self, sanitizer: str, name: str, kernel: Kernel, said: list[Report]) -> list[Told]:
        if name == "stock":
            self._stock[sanitizer] = frozenset(one.signature for one in said)
            return [Told.of(one, None) for one in said]
        races = judge.races_of(kernel, said, self.progress)
        judged = judge.ours(said, self._stock.get(sanitizer, frozenset()), races)
        return [Told.of(one, why) for one, why in judged]


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    # Once is enough: cleaning up must not be interrupted in turn.
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, signal.SIG_IGN)
    raise KeyboardInterrupt


def _keep(path: Path | None, runs: list[Soaked], minutes: float, seed: int) -> None:
    """After each run, so that nothing of an hour's work is lost."""
    if path is None:
        return
    with file_errors("writing the result", path):
        write_whole(path, json.dumps(as_json(runs, minutes=minutes, seed=seed), indent=1) + "\n")


@dataclass(frozen=True)
class Asked:
    """What is asked for.

    ``pack``: a folder that guests are written to, to be run elsewhere; ``packed``: one in which
    they ran.
    """

    minutes: float
    sanitizers: tuple[str, ...]
    names: tuple[str, ...]
    seed: int
    cpus: int
    path: Path | None
    pack: Path | None
    packed: Path | None

    @property
    def wanted(self) -> list[tuple[str, str]]:
        """Sanitizer and kernel of each guest, stock's first."""
        return [(one, name) for one in self.sanitizers for name in KERNELS if name in self.names]


def _soaks(runs: list[Soaked], asked: Asked, progress: Progress) -> None:
    expected = 0.0 if asked.packed or asked.pack else asked.minutes * 60 + _BESIDES
    wanted = asked.wanted
    whole = f"{duration(expected * len(wanted))} in all" if expected else "run elsewhere"
    progress.note(f"guests: {len(wanted)}, {whole}; kernels are built first; seed {asked.seed}")
    # At once, where there is no room or no right to write.
    _keep(asked.path, runs, asked.minutes, asked.seed)
    what = job(int(asked.minutes * 60), asked.seed, asked.cpus)
    soak = Soak(what, progress, asked.packed)
    built = {
        one: kernels.resolve(Request(f"{one[1]}{SANITIZERS[one[0]]}"), progress) for one in wanted
    }
    if asked.pack is not None:
        packed.write(asked.pack, [(folder(*one), built[one]) for one in wanted], what)
        progress.note(f"take {asked.pack.resolve()} there, sh its run, and bring it back")
        return
    for number, (sanitizer, name) in enumerate(wanted, start=1):
        title = f"{number} of {len(wanted)}: {TITLES[sanitizer]}, {name}"
        if expected:
            until = time.strftime("%H:%M", time.localtime(time.time() + expected))
            progress.note(f"{title}: about {duration(expected)}, until {until}")
        runs.append(soak(sanitizer, name, built[sanitizer, name], expected))
        _keep(asked.path, runs, asked.minutes, asked.seed)


@click.command()
@click.option(
    "--minutes",
    default=20.0,
    show_default=True,
    type=click.FloatRange(min=0.5),
    help="How long the loads of each guest work.",
)
@click.option(
    "--sanitizer",
    "sanitizers",
    type=click.Choice(list(SANITIZERS)),
    multiple=True,
    help="This one, and no others; none: plain kernels.",
)
@click.option(
    "--kernel", "names", type=click.Choice(KERNELS), multiple=True, help="This one alone."
)
@click.option("--seed", default=1, show_default=True, help="Of the order of what loads do.")
@click.option(
    "--cpus",
    default=CPUS,
    show_default=True,
    type=click.IntRange(1, 64),
    help="Of each guest, with a GiB for each, and 4 at least.",
)
@click.option(
    "--pack",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write the guests there, to be run on another machine, and run none.",
)
@click.option(
    "--packed",
    "packed_in",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Judge what guests of --pack said there.",
)
@click.option(
    "--json",
    "path",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where all of it goes, reports with their whole text.",
)
def main(
    minutes: float,
    sanitizers: tuple[str, ...],
    names: tuple[str, ...],
    seed: int,
    cpus: int,
    pack: Path | None,
    packed_in: Path | None,
    path: Path | None,
) -> None:
    """Run all topics' loads at once, under each sanitizer, on stock's kernel and ours."""
    if pack is not None and (packed_in is not None or path is not None):
        raise click.UsageError("--pack runs nothing: leave out --packed and --json")
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, _stop)
    guest.clean_up()
    runs: list[Soaked] = []
    status = 0
    try:
        with Terminal(Console(stderr=True)) as progress:
            usual = tuple(one for one in SANITIZERS if one != "none")
            asked = Asked(
                minutes=minutes,
                sanitizers=sanitizers or usual,
                names=names or KERNELS,
                seed=seed,
                cpus=cpus,
                path=path,
                pack=pack,
                packed=packed_in,
            )
            _soaks(runs, asked, progress)
    except PartywallError as error:
        click.echo(f"soak: {error.message}", err=True)
        if error.hint:
            click.echo(f"  {error.hint}", err=True)
        status = error.exit_code
    except KeyboardInterrupt:
        click.echo("soak: interrupted; guests and temporary files are gone", err=True)
        status = _INTERRUPTED
    if runs:
        click.echo(markdown(runs))
        for finding in findings(runs):
            click.echo(finding)
    sys.exit(status or int(any(one.failed for one in runs)))


if __name__ == "__main__":
    main()
