# SPDX-License-Identifier: GPL-2.0-or-later
"""Commands say what is wrong in one line, with the right exit status, and no traceback."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import termios
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import builders
import click
import pytest
from commands import MAIN

from partywall import workloads
from partywall.cli import commands, series
from partywall.cli.options import Command, Commands
from partywall.cli.schema import _DOCUMENTS
from partywall.results import document, store
from partywall.results.failures import Failure
from partywall.results.named import named
from partywall.results.result import SCHEMA

RESULT = builders.result(builders.signal(), builders.isolated())
USAGE, ENVIRONMENT, OVER_LIMIT = 2, 3, 1

# Importing everything takes most of a command's time. So one process does it, and makes
# of itself a new one for each command, which ends as a program of its own would.
SERVER = """
import gc, json, os, socket, sys
from partywall.cli import main
gc.freeze()
line = socket.socket(fileno=int(sys.argv[1]))
while True:
    data, files, _, _ = socket.recv_fds(line, 1 << 16, 2)
    if not data:
        os._exit(0)
    asked = json.loads(data)
    child = os.fork()
    if not child:
        break
    for file in files:
        os.close(file)
    line.send(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])).encode())
os.dup2(files[0], 1)
os.dup2(files[1], 2)
for file in (line.detach(), *files):
    os.close(file)
os.chdir(asked["folder"])
os.environ.update(asked["environment"])
sys.argv = ["partywall", *asked["arguments"]]
main()
"""


@dataclass(frozen=True)
class Done:
    """How a command ended, and what it said."""

    status: int
    out: str
    err: str


class Partywall:
    """Runs commands, each in a process of its own and in an empty folder."""

    def __init__(self, server: socket.socket, folder: Path) -> None:
        self._server = server
        self.folder = folder

    def __call__(
        self, *arguments: str | Path, stdout: int | None = None, **environment: str
    ) -> Done:
        """``stdout``: a file to write to instead of what is returned."""
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            asked = {
                "arguments": [str(word) for word in arguments],
                "folder": str(self.folder),
                "environment": environment,
            }
            files = [out.fileno() if stdout is None else stdout, err.fileno()]
            socket.send_fds(self._server, [json.dumps(asked).encode()], files)
            status = int(self._server.recv(100))
            out.seek(0)
            err.seek(0)
            return Done(status, out.read().decode(), err.read().decode())


@pytest.fixture(scope="module")
def server() -> Iterator[socket.socket]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.settimeout(60)
    with ours:
        process = subprocess.Popen(
            [sys.executable, "-c", SERVER, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env=os.environ | {"OPENBLAS_NUM_THREADS": "1", "COLUMNS": "100"},
        )
        theirs.close()
        yield ours
    process.wait(timeout=20)


@pytest.fixture
def partywall(server: socket.socket, tmp_path: Path) -> Partywall:
    return Partywall(server, tmp_path)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A good result."""
    path = tmp_path / "saved.json"
    path.write_text(document.dump(RESULT))
    return path


def refused(done: Done, status: int, *words: str) -> None:
    """That the command ended with ``status`` and one or two lines that say these words."""
    assert done.status == status, done.err
    assert done.out == ""
    assert "Traceback" not in done.err
    lines = done.err.splitlines()
    assert 1 <= len(lines) <= 2, done.err
    assert lines[0].startswith("partywall: ")
    assert all(len(line) < 500 for line in lines)
    for word in words:
        assert word in done.err


def test_a_program_of_its_own_does_the_same() -> None:
    done = subprocess.run(
        [sys.executable, "-c", MAIN, "nonsense"], capture_output=True, text=True, check=False
    )
    refused(Done(done.returncode, done.stdout, done.stderr), USAGE, "nonsense")


def test_no_arguments_show_the_help(partywall: Partywall) -> None:
    done = partywall()
    assert done.status == USAGE
    assert "Usage: partywall" in done.out + done.err
    assert "Traceback" not in done.err


COMMANDS = (
    *("check", "report", "compare", "diff", "predict", "model", "bench", "build", "kernel-tree"),
    *("bisect", "layout", "machine", "series", "workloads", "prepare", "doctor", "schema"),
    "explain",
)


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_the_help_names_every_command(partywall: Partywall, option: str) -> None:
    done = partywall(option)
    assert (done.status, done.err) == (0, "")
    for command in COMMANDS:
        assert command in done.out


def test_the_help_groups_commands_by_reader_and_cuts_nothing(partywall: Partywall) -> None:
    said = partywall("--help").out
    platform, kernel = said.split("For kernel engineers")
    kernel, others = kernel.split("For contributors")
    assert "  check " in platform.split("For platform engineers")[1]
    assert "  series " in kernel
    assert "  schema " in others
    assert "Commands:" not in said
    assert "..." not in platform.split("For platform engineers")[1] + kernel
    assert max(map(len, said.splitlines())) <= 80


def test_the_help_says_what_a_first_run_takes(partywall: Partywall) -> None:
    told = " ".join(partywall("--help").out.split())
    assert "downloads Debian's kernel with its debug package (350 MB)" in told
    assert "two minutes more" in told


LEAVES = [*commands.commands.items(), *series.series_group.commands.items()]


@pytest.mark.parametrize(("name", "command"), LEAVES, ids=[name for name, _ in LEAVES])
def test_every_command_has_examples_that_can_be_typed(name: str, command: click.Command) -> None:
    assert isinstance(command, Command | Commands)
    assert command.examples
    for example in command.examples:
        program, *words = shlex.split(example)
        assert program == "partywall"
        context = click.Context(commands, info_name="partywall")
        found: click.Command = commands
        while isinstance(found, click.Group):
            _, inner, words = found.resolve_command(context, words)
            assert inner is not None
            found = inner
            context = click.Context(found, info_name=found.name, parent=context)
        found.parse_args(context, words)
    assert name in command.examples[0].split()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_names_of_workloads(partywall: Partywall, shell: str) -> None:
    words = "partywall check -w signal/b"
    asked = {"COMP_WORDS": words, "COMP_CWORD": "3" if shell != "fish" else "signal/b"}
    done = partywall(_PARTYWALL_COMPLETE=f"{shell}_complete", **asked)
    assert (done.status, done.err) == (0, "")
    assert "signal/burst" in done.out
    assert "signal/users" not in done.out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_full_disk_is_said_where_a_shell_completes(partywall: Partywall, shell: str) -> None:
    with Path("/dev/full").open("wb") as full:
        done = partywall(stdout=full.fileno(), _PARTYWALL_COMPLETE=f"{shell}_source")
    refused(done, ENVIRONMENT, "No space left")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(partywall: Partywall, command: str) -> None:
    done = partywall(command, "--help")
    assert (done.status, done.err) == (0, "")
    assert f"Usage: partywall {command}" in done.out


def test_the_version(partywall: Partywall) -> None:
    done = partywall("--version")
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith("partywall, version ")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nonsense"], ["nonsense"]),
        (["--nonsense"], ["--nonsense"]),
        (["check", "--nonsense"], ["--nonsense"]),
        (["schema", "more"], ["more"]),
        (["report", "one.json", "two.json"], ["two.json"]),
        (["check", "--workload"], ["--workload"]),
        (["check", "--workload", "nonsense"], ["nonsense", "signal"]),
        (["check", "-w", "signal", "-w", "signal/nonsense"], ["signal/nonsense"]),
        (["check", "-w", ""], ["''"]),
        (["check", "--containers", "0"], ["--containers"]),
        (["check", "--containers", "-8"], ["-8"]),
        (["check", "--cpus", "0"], ["--cpus"]),
        (["check", "--containers", "1000"], ["1000", "240"]),
        (["check", "--containers", "1000", "--kernel", "/nonexistent"], ["1000", "240"]),
        (["check", "--containers", "16", "--cpus", "16"], ["256"]),
        (["check", "--containers", "9" * 30], ["9" * 30]),
        (["check", "--containers", "1"], ["neighbour"]),
        (["check", "--containers", "1", "--cpus", "1"], ["neighbour"]),
        (["check", "--containers", "many"], ["many"]),
        (["check", "--threshold", "-1"], ["--threshold"]),
        (["check", "--threshold", "x"], ["--threshold"]),
        (["check", "--fail-above", "-0.5"], ["--fail-above"]),
        (["check", "--timeout", "0"], ["--timeout"]),
        (["check", "--jobs", "0"], ["--jobs"]),
        (["check", "--json", "--ktap"], ["--json", "--ktap"]),
        (["report", "--json", "--ktap"], ["--json", "--ktap"]),
        (["check", "--apparmor", "own", "--unconfined"], ["--apparmor", "--unconfined"]),
        (["check", "--ops", "5"], ["--ops"]),
        (["check", "--no-markers"], ["--markers"]),
        (["check", "--window", "signals"], ["--window", "behind --"]),
        (["check", "--window", "soon", "--", "/bin/true"], ["--window soon", "after="]),
        (
            ["check", "--window", "signals", "--no-markers", "--", "/bin/true"],
            ["--window", "--markers"],
        ),
        (["check", "--will-it-scale", "x.c", "--window", "signals"], ["--window"]),
        (
            "check --rootfs / --window signals --client a{requests} -- /bin/true".split(),
            ["--client", "--window"],
        ),
        (["check", "--charge", "cleanup_net"], ["--charge", "behind --"]),
        (["check", "-w", "signal", "--count", "x"], ["--count", "behind --"]),
        (["check", "--cap-add", "NET_ADMIN"], ["--cap-add", "behind --"]),
        (["check", "--ops", "0", "--", "/bin/true"], ["--ops"]),
        (["check", "-w", "signal", "--", "/bin/true"], ["--workload", "COMMAND"]),
        (["check", "--will-it-scale", "/nonexistent.c"], ["/nonexistent.c"]),
        (["check", "--will-it-scale", "/"], ["/"]),
        (["check", "--will-it-scale", "/etc/passwd"], ["/etc/passwd", "testcase()"]),
        (["check", "--will-it-scale", "x.c", "--", "/bin/true"], ["--will-it-scale", "COMMAND"]),
        (["check", "--will-it-scale", "x.c", "-w", "signal"], ["--workload", "--will-it-scale"]),
        (["check", "--will-it-scale", "x.c", "--no-markers"], ["--markers"]),
        (["check", "--threads"], ["--threads", "--will-it-scale"]),
        (["check", "--", "/nonexistent/program", "-x"], ["/nonexistent/program"]),
        (["check", "--", "/etc/passwd"], ["/etc/passwd", "ELF"]),
        (["check", "--", "/"], ["/"]),
        (["check", "--", ""], []),
        (["check", "--kernel", "/nonexistent"], ["/nonexistent"]),
        (["check", "--kernel", "/etc/passwd"], ["/etc/passwd", "bzImage"]),
        (["check", "--kernel", "/"], ["/"]),
        (["check", "--kernel", "nonsense"], ["nonsense", "debian"]),
        (["check", "--kernel", "debian:nonsense"], ["debian:nonsense"]),
        (["check", "--kernel", "debian", "--vmlinux", "/etc/passwd"], ["--vmlinux"]),
        (["check", "--kernel", "x/y", "--vmlinux", "/"], ["--vmlinux"]),
        (["check", "--results", "/etc/passwd"], ["/etc/passwd"]),
        (["series", "prove", "--from", "0"], ["no patch 0"]),
        (["series", "prove", "--compile-only", "--from", "0"], ["no patch 0"]),
        (["series", "prove", "--compile-only", "--from", "1000"], ["no patch 1000"]),
        (["series", "prove", "--minutes", "1"], ["--minutes", "--compile-only"]),
        (["series", "prove", "rt"], ["rt", "--configs"]),
        (["series", "prove", "--configs", "rtt"], ["no configuration 'rtt'", "known: "]),
        (["series", "prove", "--configs", "--compile-only"], ["--configs goes alone"]),
        (["report", "/nonexistent.json"], ["/nonexistent.json"]),
        (["report", "-w", "signal", "--json"], ["-w", "whole result"]),
        (["report", "--wall", "1", "--ktap"], ["--wall", "whole result"]),
        (["report", "--function", "f", "--fail-above", "1"], ["--function", "whole result"]),
        (["report", "/"], ["/"]),
        (["report", "/dev/null"], ["/dev/null"]),
        (["report", "--results", "."], ["no result is saved"]),
        (["report", "--results", "/nonexistent"], ["/nonexistent"]),
        (["report", "--fail-above", "-1"], ["--fail-above"]),
        (["report"], ["results"]),
    ],
    ids=lambda value: " ".join(value)[:60] or "empty" if isinstance(value, list) else None,
)
def test_what_cannot_be_done_is_refused(
    partywall: Partywall, arguments: list[str], words: list[str]
) -> None:
    refused(partywall(*arguments), USAGE, *words)


def test_what_is_too_long_for_a_name_is_refused(partywall: Partywall) -> None:
    refused(partywall("check", "--kernel", "/" + "k" * 300), USAGE)


def test_a_kernel_too_long_for_a_name_is_refused(partywall: Partywall) -> None:
    refused(partywall("check", "--kernel", "k" * 300), USAGE)


@pytest.mark.parametrize(
    ("option", "number"), [("--threshold", "nan"), ("--threshold", "inf"), ("--fail-above", "nan")]
)
def test_what_is_no_number_is_refused(partywall: Partywall, option: str, number: str) -> None:
    refused(partywall("check", "--kernel", "/nonexistent", option, number), USAGE, option)


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        ("check --kernel debian --kernel debian:6.1", "--kernel"),
        ("check -n 2 -w signal --containers=4", "--containers"),
        ("check --markers --no-markers -- /bin/true", "--markers"),
        ("growth --output a.json --output b.json", "--output"),
        ("map --kernel debian --kernel debian:6.1 --at 8 --at 64", "--at"),
        ("bench -w signal -w overlay", "--workload"),
        ("report --wall 1 --wall 2", "--wall"),
        ("compare a.json b.json --results a --results b", "--results"),
        ("predict -n 1 -n 2 -n 64", "--containers"),
        ("series prove --minutes 1 --minutes 2 linux-6.12", "--minutes"),
        ("series refresh --base 7.3 --base 6.12 .", "--base"),
    ],
)
def test_an_option_with_one_value_is_refused_when_it_is_given_again(
    partywall: Partywall, arguments: str, option: str
) -> None:
    words = arguments.split()
    done = partywall(*words)
    command = " ".join(words[: 2 if words[0] == "series" else 1])
    times = "3 times" if words[0] == "predict" else "twice"
    told = f"partywall: {option} is given {times}, and partywall {command} takes it once"
    assert (done.status, done.out, done.err.splitlines()[0]) == (USAGE, "", told)
    assert len(done.err.splitlines()) == 2


def test_who_wants_several_kernels_is_told_which_commands_take_them(partywall: Partywall) -> None:
    done = partywall("check", "--kernel", "debian", "--kernel", "debian:6.1")
    assert done.err.endswith("one kernel at a time, but partywall compare and map take several\n")


def test_what_says_the_same_again_is_taken(partywall: Partywall, saved: Path) -> None:
    """Flags, what takes several values, and the words of a program of one's own."""
    done = partywall("report", saved, "--all", "--all", "-w", "signal", "-w", "signal")
    assert (done.status, done.err) == (0, "")
    done = partywall("check", "--", "./mine", "--kernel", "a", "--kernel", "b")
    assert "mine: No such file" in done.err


def test_a_name_of_several_lines_is_refused_in_one(partywall: Partywall) -> None:
    refused(partywall("check", "-w", "one\ntwo\nthree"), USAGE)


@pytest.mark.parametrize(
    "data", [b"", b"garbage\n", b"\xff\0", b"{}", b"[]", document.dump(RESULT)[:-40].encode()]
)
def test_a_broken_file_is_named(partywall: Partywall, tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "broken.json"
    path.write_bytes(data)
    refused(partywall("report", path), USAGE, str(path))
    refused(partywall("report", path, "--json", "--fail-above", "1"), USAGE, str(path))


def test_a_machine_without_qemu_is_told_so(partywall: Partywall) -> None:
    done = partywall("prepare", PARTYWALL_QEMU="/nonexistent/qemu")
    refused(done, ENVIRONMENT, "/nonexistent/qemu", "make setup")


def test_a_machine_without_apt_is_told_so(partywall: Partywall, tmp_path: Path) -> None:
    refused(partywall("check", PATH=str(tmp_path)), ENVIRONMENT, "--vmlinux")


def test_a_report_is_shown(partywall: Partywall, saved: Path) -> None:
    done = partywall("report", saved)
    assert (done.status, done.err) == (0, "")
    assert "init_ucounts" in done.out
    assert "\x1b" not in done.out
    shown = partywall("report", saved, "--all").out
    assert len(shown) >= len(done.out)


def test_a_report_as_json_is_what_was_saved(partywall: Partywall, saved: Path) -> None:
    done = partywall("report", saved, "--json")
    assert (done.status, done.err) == (0, "")
    assert done.out == saved.read_text()


def test_an_option_without_its_argument_hints_at_its_command(partywall: Partywall) -> None:
    refused(partywall("check", "--html"), USAGE, "--html", "partywall check --help")
    refused(partywall("report", "--html"), USAGE, "--html", "partywall report --help")
    refused(partywall("series", "prove", "--from"), USAGE, "partywall series prove --help")


def test_saved_results_are_listed(partywall: Partywall, saved: Path, tmp_path: Path) -> None:
    store.save(RESULT, tmp_path / "results")
    (tmp_path / "results" / "broken.json").write_text("garbage")
    done = partywall("report", "--list")
    assert (done.status, done.err) == (0, "")
    said = " ".join(done.out.split())
    assert f"{RESULT.created} {RESULT.kernel.release} signal, overlay/access results/2026" in said
    assert "not JSON" in said
    for others in (["--ktap"], ["--wall", "9"], ["--fail-above", "0"], ["-w", "signal"]):
        refused(partywall("report", "--list", *others), USAGE, "--list goes alone")
    refused(partywall("report", saved, "--list"), USAGE, "--list goes alone")
    refused(partywall("report", "--list", "--results", "none"), USAGE, str(tmp_path / "none"))


def test_saved_results_are_listed_as_json(
    partywall: Partywall, saved: Path, tmp_path: Path
) -> None:
    path = store.save(RESULT, tmp_path / "results")
    (tmp_path / "results" / "broken.json").write_text("garbage")
    done = partywall("report", "--list", "--json")
    assert (done.status, done.err) == (0, "")
    found = {Path(one["path"]).name: one for one in json.loads(done.out)}
    assert "not JSON" in found["broken.json"]["problem"]
    good = found[path.name]
    assert (good["created"], good["release"]) == (RESULT.created, RESULT.kernel.release)
    assert (good["workloads"], good["problem"]) == (["signal", "overlay/access"], None)


def test_a_compressed_result_is_shown_compared_and_predicted(
    partywall: Partywall, tmp_path: Path
) -> None:
    path = store.save(RESULT, tmp_path / "results")
    assert path.name.endswith(".json.gz")
    assert partywall("report", "--json").out == document.dump(RESULT)
    for command in (["compare", path, path], ["diff", path, path], ["predict", path]):
        done = partywall(*command, "--json")
        assert (done.status, done.err) == (0, "")
        assert json.loads(done.out)["schema"]


def test_a_report_as_ktap_has_a_verdict_for_each_workload(
    partywall: Partywall, saved: Path
) -> None:
    done = partywall("report", saved, "--ktap")
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith("KTAP version 1\n1..2\n")
    assert "\nnot ok 1 signal" in done.out
    assert "\nok 2 overlay/access" in done.out


@pytest.mark.parametrize("view", [[], ["--json"], ["--ktap"]])
def test_a_limit_decides_the_exit_status(
    partywall: Partywall, saved: Path, view: list[str]
) -> None:
    worst = RESULT.worst
    for limit, status in ((0, 1), (worst - 0.001, 1), (worst, 0), (worst + 1, 0)):
        done = partywall("report", saved, *view, "--fail-above", str(limit))
        assert (done.status, done.err) == (status, "")
        assert done.out


def test_what_is_held_asleep_decides_it_too(partywall: Partywall, tmp_path: Path) -> None:
    one = builders.isolated().model_copy(update={"held": builders.held(longest=13.2e6)})
    path = tmp_path / "asleep.json"
    path.write_text(document.dump(builders.result(one)))
    assert store.load(path).workloads == [one]
    for limit, status in (("13.1", 1), ("13.3", 0)):
        done = partywall("report", path, "--fail-held", limit)
        assert (done.status, done.err) == (status, "")
    assert "not ok 1" in partywall("report", path, "--ktap", "--fail-held", "5").out
    refused(partywall("report", path, "--fail-held", "-1"), USAGE, "--fail-held")
    refused(partywall("report", path, "-w", one.title, "--fail-held", "1"), USAGE, "whole result")


def test_what_is_held_asleep_after_decides_of_a_comparison(
    partywall: Partywall, tmp_path: Path
) -> None:
    names = []
    for longest in (20e6, 13.2e6):
        one = builders.signal().model_copy(update={"held": builders.held(longest=longest)})
        names.append(str(tmp_path / f"{longest:.0f}.json"))
        Path(names[-1]).write_text(document.dump(builders.result(one)))
    for limit, status in (("13.1", 1), ("13.3", 0)):
        done = partywall("compare", *names, "--fail-held", limit)
        assert (done.status, done.err) == (status, "")
    # Before it may have been longer.
    assert partywall("compare", *reversed(names), "--fail-held", "13.3").status == 1


def test_what_is_left_behind_after_decides_of_a_comparison_if_it_is_known(
    partywall: Partywall, tmp_path: Path
) -> None:
    path = saved_walls(tmp_path)
    done = partywall("compare", path, path, "--fail-growth", "1")
    assert done.status == USAGE
    assert "leaves behind" in done.err
    words = ("compare", path, "partywall", "-w", "redis", "--fail-growth", "1")
    refused(partywall(*words), USAGE, "can't be looked at")


def test_what_was_not_measured_can_not_be_held_against_a_limit(
    partywall: Partywall, tmp_path: Path
) -> None:
    path = tmp_path / "before.json"
    path.write_text(document.dump(builders.result(builders.isolated())))
    done = partywall("report", path, "--fail-held", "5")
    assert done.status == USAGE
    assert "was not measured for" in done.err
    # More transfers than may be fail whatever else is known.
    limits = ("--fail-held", "5", "--fail-above", "0")
    assert partywall("report", saved_walls(tmp_path), *limits).status == 1


def saved_walls(folder: Path) -> Path:
    """A saved result with walls, of before held times were known."""
    path = folder / "walls.json"
    path.write_text(document.dump(RESULT))
    return path


def test_a_result_without_walls_is_below_any_limit(partywall: Partywall, tmp_path: Path) -> None:
    path = tmp_path / "isolated.json"
    path.write_text(document.dump(builders.result(builders.isolated())))
    assert partywall("report", path, "--fail-above", "0").status == 0


def test_the_newest_result_is_shown(partywall: Partywall, tmp_path: Path) -> None:
    folder = tmp_path / "results"
    folder.mkdir()
    (folder / "old.json").write_text("garbage")
    os.utime(folder / "old.json", (5, 5))
    (folder / "new.json").write_text(document.dump(RESULT))
    assert partywall("report", "--json").out == document.dump(RESULT)
    assert partywall("report", "--json", "--results", folder).out == document.dump(RESULT)


def closed_pipe() -> int:
    """The end of a pipe that nobody reads from."""
    read, write = os.pipe()
    os.close(read)
    return write


VIEWS = pytest.mark.parametrize(
    "arguments", [["report", "saved.json"], ["report", "saved.json", "--json"], ["schema"]]
)


@VIEWS
def test_a_reader_who_has_had_enough_gets_no_complaint(
    partywall: Partywall, saved: Path, arguments: list[str]
) -> None:
    pipe = closed_pipe()
    try:
        assert partywall(*arguments, stdout=pipe).err == ""
    finally:
        os.close(pipe)


@VIEWS
def test_a_reader_who_has_had_enough_is_no_wall(
    partywall: Partywall, saved: Path, arguments: list[str]
) -> None:
    pipe = closed_pipe()
    try:
        assert partywall(*arguments, stdout=pipe).status == 128 + signal.SIGPIPE
    finally:
        os.close(pipe)


def test_the_head_of_a_report_is_shown_without_a_complaint(tmp_path: Path) -> None:
    path = tmp_path / "large.json"
    path.write_text(document.dump(builders.result(builders.many_walls(2000))))
    done = subprocess.run(
        ["bash", "-c", f"'{sys.executable}' -c '{MAIN}' report '{path}' --json | head -1"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("{\n", "")


@VIEWS
def test_a_full_disk_is_said(partywall: Partywall, saved: Path, arguments: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = partywall(*arguments, stdout=full.fileno())
    refused(done, ENVIRONMENT, "No space left")


def test_the_workloads_are_listed(partywall: Partywall) -> None:
    done = partywall("workloads")
    assert (done.status, done.err) == (0, "")
    rows = {row.split()[0]: row for row in done.out.splitlines() if row.strip()}
    for workload, usual in workloads.load():
        assert (rows[workload.title].split()[1] == "yes") == usual


@pytest.mark.parametrize(
    ("words", "some", "none"),
    [
        (("overlay/c*",), "overlay/chmod", "overlay/access"),
        (("INOTIFY",), "notify/watch-tmpfs", "fork"),
        (("redis", "fork"), "redis/get", "signal"),
    ],
)
def test_workloads_are_found_by_name_and_by_what_they_do(
    partywall: Partywall, words: tuple[str, ...], some: str, none: str
) -> None:
    listed = [row.split()[0] for row in partywall("workloads", *words).out.splitlines()[1:] if row]
    assert some in listed
    assert none not in listed


def test_a_word_that_no_workload_has_is_refused(partywall: Partywall) -> None:
    refused(partywall("workloads", "nowhere-to-be-found"), USAGE, "no workload has nowhere-to")


def test_the_workloads_are_listed_from_anywhere(partywall: Partywall, tmp_path: Path) -> None:
    (tmp_path / "workloads").mkdir()
    assert "signal" in partywall("workloads").out


@pytest.mark.parametrize(
    "kind",
    [
        *("result", "compare", "diff", "predict", "model", "bench", "layout", "bisect"),
        *("machine", "explain"),
    ],
)
def test_every_schema_is_json_and_says_which_it_is(partywall: Partywall, kind: str) -> None:
    done = partywall("schema", kind)
    assert (done.status, done.err) == (0, "")
    assert json.loads(done.out)["$id"].startswith(f"partywall.{kind}/")


def test_the_schema_is_json(partywall: Partywall) -> None:
    done = partywall("schema")
    assert (done.status, done.err) == (0, "")
    schema = json.loads(done.out)
    assert schema["$id"] == SCHEMA
    assert set(schema["required"]) == set(json.loads(document.dump(RESULT)))


def test_a_saved_result_is_predicted_from(partywall: Partywall, saved: Path) -> None:
    done = partywall("predict", saved)
    assert (done.status, done.err) == (0, "")
    assert "ice-lake-2x32" in done.out
    both = partywall("predict", saved, saved, "--json", "-n", "1,8", "--profile", "milan-2x48")
    found = json.loads(both.out)
    assert found["profile"]["name"] == "milan-2x48"
    assert [point["containers"] for point in found["workloads"][0]["after"]["points"]] == [1, 8]


def test_what_would_help_is_told_of_a_saved_result(partywall: Partywall, saved: Path) -> None:
    done = partywall("explain", saved, "-w", "signal")
    assert (done.status, done.err) == (0, "")
    assert "the whole series" in done.out
    found = json.loads(partywall("explain", saved, "--json", "--at", "16").out)
    assert found["schema"] == "partywall.explain/1"
    assert [one["at"] for one in found["workloads"]] == [16, 16]
    assert found["checked"] is None
    refused(partywall("explain", saved, "-w", "fork"), USAGE, "fork", "signal")
    few = partywall("explain", saved, "--json", "--at", "512")
    assert {one["at"] for one in json.loads(few.out)["workloads"]} == {64}
    assert "has 64 cores: figures are for 64 containers" in few.err
    assert "cores" not in partywall("explain", saved, "--json", "--at", "64").err
    refused(partywall("explain", saved, "--at", "0"), USAGE, "--at")


def test_a_type_is_laid_out_from_all_that_is_saved(partywall: Partywall, saved: Path) -> None:
    (saved.parent / "broken.json").write_text("{")
    done = partywall("layout", "ucounts", "--results", saved.parent)
    assert done.status == 0
    assert "rlimit[UCOUNT_RLIMIT_SIGPENDING]  signal" in done.out
    assert "left out" in done.err
    found = json.loads(partywall("layout", "struct ucounts", saved, "--json").out)
    assert found["schema"] == "partywall.layout/1"
    refused(partywall("layout", "ucount", saved), USAGE, "did you mean struct ucounts")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["missing.json"], "missing.json"),
        (["saved.json", "-n", "none"], "no list of numbers"),
        (["saved.json", "--profile", "abacus"], "no hardware profile 'abacus'"),
        (["saved.json", "--profile", "saved.json.toml"], "no hardware profile"),
    ],
)
def test_what_cannot_be_predicted_is_refused(
    partywall: Partywall, saved: Path, arguments: list[str], says: str
) -> None:
    refused(partywall("predict", *arguments), USAGE, says)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["-w", "fork"], "how many instructions fork takes"),
        (["-w", "signal", "-n", "2"], "one container of one CPU, alone"),
        (["-w", "signal", "--kernel", "debian", "--accel", "threads"], "emulated threads"),
    ],
)
def test_what_gives_no_time_of_an_instruction_is_refused(
    partywall: Partywall, saved: Path, arguments: list[str], says: str
) -> None:
    refused(partywall("bench", "--instruction-ns", saved, *arguments), USAGE, says)


def test_the_model_is_laid_beside_what_was_published(partywall: Partywall) -> None:
    done = partywall("model", "--profile", "ice-lake-2x32")
    assert (done.status, done.err) == (0, "")
    assert "129,152" in done.out
    found = json.loads(partywall("model", "--json").out)
    names = [one["profile"]["name"] for one in found["signals"]]
    assert names == ["cascade-lake-2x24", "ice-lake-2x32", "milan-2x48"]


def test_the_model_takes_what_a_signal_costs_from_a_result(
    partywall: Partywall, saved: Path, tmp_path: Path
) -> None:
    found = json.loads(partywall("model", saved, "--json").out)
    assert found["signal"]["command"] == str(saved)
    (tmp_path / "free.json").write_text(document.dump(builders.result(builders.isolated())))
    refused(partywall("model", "free.json"), USAGE, "no signals in several containers")


def test_a_page_is_written_whole_or_not_at_all(
    partywall: Partywall, saved: Path, tmp_path: Path
) -> None:
    done = partywall("report", saved, "--html", "page.html")
    assert (done.status, done.err) == (0, "")
    assert (tmp_path / "page.html").read_text().rstrip().endswith("</html>")
    refused(partywall("report", saved, "--html", tmp_path), USAGE, "directory")
    done = partywall("report", saved, "--html", saved / "x.html")
    assert (done.status, done.err.count("\n")) == (ENVIRONMENT, 1)
    refused(partywall("report", saved, "--html", "x.html", "--profile", "abacus"), USAGE, "abacus")
    assert not (tmp_path / "x.html").exists()


def test_two_saved_results_make_one_page(partywall: Partywall, saved: Path, tmp_path: Path) -> None:
    done = partywall("compare", saved, saved, "--html", "both.html")
    assert (done.status, done.err) == (0, "")
    assert "before" in (tmp_path / "both.html").read_text()


def test_a_regression_is_an_exit_status(partywall: Partywall, saved: Path, tmp_path: Path) -> None:
    free = builders.result(builders.signal().model_copy(update={"walls": []}), builders.isolated())
    (tmp_path / "free.json").write_text(document.dump(free))
    assert partywall("diff", saved, saved).status == 0
    assert partywall("diff", saved, "free.json").status == 0
    worse = partywall("diff", "free.json", saved, "--json")
    assert (worse.status, worse.err) == (OVER_LIMIT, "")
    assert json.loads(worse.out)["findings"][0]["how"] == "appeared"
    said = partywall("diff", "free.json", saved, "--markdown")
    assert (said.status, said.out.partition(":")[0]) == (1, "### Walls")
    refused(partywall("diff", saved, saved, "--json", "--markdown"), USAGE, "--markdown")
    refused(partywall("diff", saved, "missing.json"), USAGE, "missing.json")
    refused(partywall("diff", saved), USAGE, "AFTER")
    refused(partywall("diff", saved, saved, "--least", "-1"), USAGE, "--least")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["-n", "4000"], "CPUs are needed"),
        (["-n", "none"], "no list of numbers"),
        (["-w", "abacus"], "abacus"),
        (["-w", "overlay/*"], "several workloads"),
        (["-w", "cgroup/io-stat", "-n", "1"], "not run on this machine's own kernel"),
        (["-w", "container/exec", "-n", "1"], "not run on this machine's own kernel"),
        (["-w", "traffic/udp-own", "-n", "1"], "not run on this machine's own kernel"),
        (["-w", "traffic/tcp-connect-own", "-n", "1"], "uses something up"),
        (["-c", "0"], "--cpus starts at 1"),
        (["--accel", "threads"], "--accel belongs to guests"),
        (["--seconds", "0"], "--seconds"),
        (["--beside", "missing.json"], "missing.json"),
        (["--kernel", "nonesuch", "-n", "1"], "nonesuch"),
    ],
)
def test_what_cannot_be_benched_is_refused(
    partywall: Partywall, arguments: list[str], says: str
) -> None:
    refused(partywall("bench", *arguments), USAGE, says)


def test_lines_of_128_bytes_are_shown_on_demand(partywall: Partywall, saved: Path) -> None:
    assert "lines as one" not in partywall("report", saved).out
    done = partywall("report", saved, "--line-size", "128")
    assert (done.status, done.err) == (0, "")
    assert "pairs of lines as one of 128 bytes" in done.out
    json.loads(partywall("report", saved, "--line-size", "128", "--json").out)


def test_lines_of_128_bytes_are_shown_of_the_workloads_asked_for(
    partywall: Partywall, saved: Path
) -> None:
    done = partywall("report", saved, "--line-size", "128", "-w", "signal")
    assert "signal, 8 x 1, pairs of lines as one" in done.out
    assert "overlay/access, 8 x 1, pairs of lines as one" not in done.out
    refused(partywall("report", saved, "--line-size", "128", "--wall", "1"), USAGE, "--line-size")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--wall", "1", "--function", "get_ucounts"], "--wall and --function exclude each other"),
        (["--function", ""], "--function is empty"),
        (["--fail-held", "nan"], "nan is no number that has an end"),
    ],
)
def test_what_a_report_would_pass_over_is_refused(
    partywall: Partywall, saved: Path, arguments: list[str], words: str
) -> None:
    refused(partywall("report", saved, *arguments), USAGE, words)


@pytest.mark.parametrize(
    "option", [["-n", "4"], ["-c", "2"], ["--timeout", "9"], ["--jobs", "1"]], ids=str
)
def test_saved_results_are_not_compared_as_if_measured(
    partywall: Partywall, saved: Path, option: list[str]
) -> None:
    refused(partywall("compare", saved, saved, *option), USAGE, "can't be applied to saved results")


def test_of_saved_results_those_asked_for_are_compared(partywall: Partywall, saved: Path) -> None:
    done = partywall("compare", saved, saved, "-w", "sig*")
    assert (done.status, done.err) == (0, "")
    assert "signal, 8 x 1" in done.out
    assert "overlay/access" not in done.out
    refused(partywall("compare", saved, saved, "-w", "nix"), USAGE, "nix was not measured")


def test_what_failed_and_was_not_asked_for_keeps_no_saved_results_from_passing(
    partywall: Partywall, tmp_path: Path
) -> None:
    failed = [Failure(title="overlay/access 3x1", operation="", why="the guest died")]
    whole, lacking = tmp_path / "whole.json", tmp_path / "lacking.json"
    store.write(RESULT, whole)
    store.write(RESULT.model_copy(update={"failed": failed}), lacking)
    limit = ["--fail-above", "100"]
    assert partywall("compare", whole, lacking, "-w", "signal", *limit).status == 0
    refused_after(partywall("compare", whole, lacking, *limit), "overlay/access 3x1 could not be")
    refused_after(partywall("compare", whole, lacking, "-w", "overlay/*", *limit), "overlay/access")


def refused_after(done: Done, words: str) -> None:
    """That what was compared is shown, and a limit says nothing of it."""
    assert done.status == USAGE
    assert "transfers/op" in done.out
    assert words in done.err


def test_images_of_ones_own_are_compared_by_name_with_shared_ones(
    partywall: Partywall, tmp_path: Path
) -> None:
    shared, own = tmp_path / "shared.json", tmp_path / "own.json"
    (one,) = named(RESULT, ["overlay/access"])
    store.write(builders.result(one), shared)
    store.write(builders.result(one.model_copy(update={"layers": "own"})), own)
    done = partywall("compare", shared, own, "-w", "overlay/access")
    assert (done.status, done.err) == (0, "")
    refused(partywall("compare", shared, own, "-w", "nix"), USAGE, "shared.json: workload nix")


def test_kinds_of_documents_are_told_as_they_are(partywall: Partywall) -> None:
    told = " ".join(partywall("schema", "--help").out.split())
    said = re.search(r"KIND is (.*?)\.", told)
    assert said is not None
    assert re.split(r", | or ", said[1]) == list(_DOCUMENTS)
    refused(partywall("schema", "nix"), USAGE, "nix")


def on_a_terminal(arguments: list[str], rows: int, folder: Path) -> str:
    """What a command shows on a terminal of so many rows, with a pager that says it is one."""
    primary, secondary = os.openpty()
    termios.tcsetwinsize(secondary, (rows, 80))
    pager = folder / "pager"
    pager.write_text("#!/bin/sh\necho PAGED\ncat\n")
    pager.chmod(0o755)
    # These go before the size that the terminal has.
    environment = {k: v for k, v in os.environ.items() if k not in {"LINES", "COLUMNS"}}
    done = subprocess.Popen(
        [sys.executable, "-c", MAIN, *arguments],
        stdin=secondary,
        stdout=secondary,
        stderr=secondary,
        env={**environment, "PAGER": str(pager), "TERM": "xterm"},
    )
    os.close(secondary)
    said = b""
    with contextlib.suppress(OSError):
        while data := os.read(primary, 1 << 16):
            said += data
    os.close(primary)
    assert done.wait(60) == 0
    return said.decode()


def test_what_is_longer_than_the_terminal_is_paged(saved: Path, tmp_path: Path) -> None:
    long = on_a_terminal(["report", str(saved)], 10, tmp_path)
    assert long.startswith("PAGED")
    assert "init_ucounts" in long
    short = on_a_terminal(["report", str(saved)], 500, tmp_path)
    assert "PAGED" not in short
    assert "init_ucounts" in short


def test_walls_of_a_saved_result_are_asked_for(partywall: Partywall, saved: Path) -> None:
    assert "aa_label" not in partywall("report", saved, "--wall", "1").out
    assert "aa_label" in partywall("report", saved, "--function", "apparmor_task_kill").out
    assert "init_ucounts" not in partywall("report", saved, "-w", "overlay").out
    refused(partywall("report", saved, "--wall", "9"), USAGE, "no wall 9", "1 to 2")
    refused(partywall("report", saved, "-w", "nonesuch"), USAGE, "nonesuch", "signal")
