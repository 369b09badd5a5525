# SPDX-License-Identifier: GPL-2.0-or-later
"""A soak's command: guests in order, what is kept, and exit statuses. No guest is booted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import packed
import pytest
import soak
from click.testing import CliRunner, Result
from machine import Job, Ran

from partywall import guest, kernels
from partywall.core.errors import EnvironmentProblem, UsageProblem
from partywall.core.progress import Progress
from partywall.kernels import Kernel, Request

PRINTED = "TASK soak begins\nleft 0\nTASK soak ends 0\nGUEST ends\n"
WARNING = "[ 1.0] WARNING: CPU: 1 PID: {} at fs/dcache.c:7 d_lru_add+0x1/0x2\n"
RACE = """\
[ 1.0] BUG: KCSAN: data-race in a+0x1/0x2
[ 1.1] race at unknown origin, with read to 0x1 of 8 bytes by task 1 on cpu 0:
"""

Says = Callable[[str], Ran]


@pytest.fixture(autouse=True)
def signals() -> Iterator[None]:
    """The command takes them for itself."""
    before = {name: signal.getsignal(name) for name in (signal.SIGINT, signal.SIGTERM)}
    hangup = signal.getsignal(signal.SIGHUP)
    yield
    for name, handler in (before | {signal.SIGHUP: hangup}).items():
        signal.signal(name, handler)


@pytest.fixture
def soaks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Result]:
    """Calls the command with kernels that say what is told by name; the rest are arguments."""
    monkeypatch.setattr(Kernel, "build_id", "ab")
    monkeypatch.setattr(soak, "job", lambda seconds, seed, cpus: Job({}, cpus=cpus))

    def resolve(request: Request, progress: Progress) -> Kernel:
        return Kernel(request.kernel, "6.12", tmp_path, tmp_path)

    monkeypatch.setattr(kernels, "resolve", resolve)
    monkeypatch.setattr(guest, "clean_up", lambda: None)

    def call(says: Says, *arguments: str) -> Result:
        monkeypatch.setattr(soak, "run", lambda kernel, job: says(kernel.source))
        return CliRunner().invoke(soak.main, [*arguments])

    return call


def test_stock_comes_first_under_each_sanitizer(soaks: Callable[..., Result]) -> None:
    order: list[str] = []

    def says(name: str) -> Ran:
        order.append(name)
        return Ran("", PRINTED)

    done = soaks(says, "--minutes", "0.5")
    assert done.exit_code == 0, done.output
    assert order == [
        f"{kernel}+lean+net+{fragment}"
        for fragment in ("debug", "kcsan", "leak", "debug+rt")
        for kernel in ("stock", "partywall")
    ]
    assert "1 of 8: KASAN, lockdep, stock: about 3:30 min, until" in done.output


def test_what_stock_says_too_is_no_fault_and_else_it_is(soaks: Callable[..., Result]) -> None:
    both = soaks(lambda name: Ran(WARNING.format(len(name)), PRINTED), "--sanitizer", "kasan")
    assert both.exit_code == 0, both.output
    words = ("--sanitizer", "kasan", "--kernel", "partywall")
    alone = soaks(lambda name: Ran(WARNING.format(1), PRINTED), *words)
    assert alone.exit_code == 1
    assert "stock says no such thing" in alone.output


def test_a_race_of_which_no_line_is_known_is_a_fault(soaks: Callable[..., Result]) -> None:
    done = soaks(lambda name: Ran(RACE, PRINTED), "--sanitizer", "kcsan")
    assert done.exit_code == 1
    assert "KCSAN, partywall: BUG: KCSAN: data-race" in done.output
    assert "KCSAN, stock" not in done.output.split("| sanitizer |")[1]


def test_a_guest_that_does_not_end_is_a_fault_of_ours(soaks: Callable[..., Result]) -> None:
    cut = Ran("[ 1.0] last words", "TASK soak begins\n")
    theirs = soaks(lambda name: cut if name == "stock" else Ran("", PRINTED), "--sanitizer", "none")
    assert theirs.exit_code == 0, theirs.output
    assert "none, stock: the guest did not come to its end" in theirs.output
    ours = soaks(lambda name: Ran("", PRINTED) if name == "stock" else cut, "--sanitizer", "none")
    assert ours.exit_code == 1
    assert "last words" in ours.output


def test_what_is_known_is_kept_when_it_is_interrupted(
    soaks: Callable[..., Result], tmp_path: Path
) -> None:
    def says(name: str) -> Ran:
        if name.startswith("partywall"):
            raise KeyboardInterrupt
        return Ran(WARNING.format(1), PRINTED)

    path = tmp_path / "kept.json"
    done = soaks(says, "--sanitizer", "kasan", "--json", str(path))
    assert done.exit_code == 130
    assert "interrupted" in done.output
    assert "| KASAN, lockdep |" in done.output
    (run,) = json.loads(path.read_text())["runs"]
    assert (run["kernel"], run["reports"][0]["kind"]) == ("stock", "WARNING")


def test_problems_are_told_in_two_lines(soaks: Callable[..., Result], tmp_path: Path) -> None:
    def says(name: str) -> Ran:
        raise EnvironmentProblem("gcc is not installed", "run make setup")

    done = soaks(says, "--sanitizer", "none")
    assert done.exit_code == 3
    assert "soak: gcc is not installed\n  run make setup\n" in done.output
    # Before any guest runs.
    nowhere = tmp_path / "file"
    nowhere.write_text("")
    done = soaks(says, "--json", str(nowhere / "kept.json"))
    assert done.exit_code == 3
    assert "kept.json" in done.output or "file" in done.output
    assert "gcc" not in done.output


SAYS = """\
#!/bin/sh
{ pwd; for word; do echo "$word"; done; } >words
grep -a -o 'echo [0-9a-f]\\{64\\}' initramfs | tail -1 | {
	read -r echo id
	printf 'TASK 0-packed begins\\r\\n%s\\r\\nTASK 0-packed ends 0\\r\\n' "$id"
} >tasks
cat "$PRINTED" >>tasks
cat "$CONSOLE" >console
"""
"""A QEMU that runs nothing: what the guest says it finds by itself."""


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Runs what was packed below ``there``, with a console that says so."""
    qemu = tmp_path / "says"
    qemu.write_text(SAYS)
    qemu.chmod(0o755)
    (tmp_path / "printed").write_text(PRINTED)

    def run(console: str) -> None:
        (tmp_path / "console").write_text(console)
        told = {"PRINTED": tmp_path / "printed", "CONSOLE": tmp_path / "console"}
        environment = {name: str(path) for name, path in told.items()}
        # Found from where it is called, not from where the guests are.
        command = ["there/run"]
        environment |= {"QEMU": "./says", "PATH": os.environ["PATH"]}
        subprocess.run(command, cwd=tmp_path, env=environment, check=True)

    return run


def test_guests_run_elsewhere_are_judged_here(
    soaks: Callable[..., Result],
    monkeypatch: pytest.MonkeyPatch,
    there: Callable[[str], None],
    tmp_path: Path,
) -> None:
    def nobody(name: str) -> Ran:
        raise AssertionError(f"{name} ran here")

    image = tmp_path / "image"
    image.write_bytes(b"a kernel")
    monkeypatch.setattr(
        kernels,
        "resolve",
        lambda request, progress: Kernel(request.kernel, "6.12", image, tmp_path),
    )
    folder = tmp_path / "there"
    words = ("--sanitizer", "kasan", "--kernel", "partywall", "--cpus", "16", "--minutes", "1")
    packs, reads = ("--pack", str(folder)), ("--packed", str(folder))
    packing = soaks(nobody, *words, *packs)
    assert packing.exit_code == 0, packing.output
    # It has not run yet.
    assert soaks(nobody, *words, *reads).exit_code == 3
    there("")
    assert soaks(nobody, *words, *reads).exit_code == 0
    place = folder / "partywall-kasan"
    where, *said = (place / "words").read_text().split("\n")
    assert where == str(place)
    assert said[said.index("-smp") + 1] == "16"
    assert said[said.index("-append") + 1].startswith("console=ttyS0 panic=-1 ")
    assert "-qmp" not in said
    named = [said[n + 1] for n, word in enumerate(said) if word in {"-kernel", "-initrd"}]
    assert named == ["kernel", "initramfs"]
    assert [word for word in said if word.startswith("file:")] == ["file:console", "file:tasks"]
    assert not any(str(tmp_path) in word for word in said)
    there(WARNING.format(7))
    done = soaks(nobody, *words, *reads)
    assert done.exit_code == 1
    assert "d_lru_add" in done.output
    # Of other options nothing is judged, nor is it written over.
    done = soaks(nobody, *words, "--cpus", "8", *reads)
    assert done.exit_code == 3
    assert "other options" in done.output
    done = soaks(nobody, *words, *packs)
    assert done.exit_code == 2
    assert "holds what a guest said" in done.output
    (place / "tasks").write_text("")
    done = soaks(nobody, *words, *reads)
    assert done.exit_code == 3
    assert "did not come to its tasks" in done.output


def test_who_packs_runs_nothing_and_keeps_nothing(
    soaks: Callable[..., Result], tmp_path: Path
) -> None:
    for more in (("--packed", str(tmp_path)), ("--json", str(tmp_path / "x.json"))):
        done = soaks(lambda name: Ran("", PRINTED), "--pack", str(tmp_path / "there"), *more)
        assert done.exit_code == 2
        assert "--pack runs nothing" in done.output


def test_nothing_is_packed_over_what_is_there(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_text("mine")
    with pytest.raises(UsageProblem, match="is not empty"):
        packed.write(tmp_path, [], Job({}))
    assert kept.read_text() == "mine"
