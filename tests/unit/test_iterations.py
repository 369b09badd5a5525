# SPDX-License-Identifier: GPL-2.0-or-later
"""Files with will-it-scale's interface: how they are compiled, and how often they are run."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from partywall.core.errors import EnvironmentProblem
from partywall.core.progress import Quiet
from partywall.workloads import build_workload, programs

WARMUP, WINDOW = 3, 5
ALL = WARMUP + WINDOW
PATIENCE = 20.0

# What is printed with each operation, and counted here.
HEAD = """
#define _GNU_SOURCE
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
"""
TESTCASE = "void testcase(unsigned long long *iterations, unsigned long nr)\n"
PLAIN = HEAD + TESTCASE + '{ for (;;) { write(1, "x", 1); (*iterations)++; } }\n'


@dataclass
class Running:
    """A program between its begin and its end, which it does not reach if all is well."""

    process: subprocess.Popen[bytes]
    complaints: bytes = b""

    def said(self, size: int) -> str:
        """Return what it prints: ``size`` bytes, more if there are more, fewer if it ends."""
        assert self.process.stdout is not None
        output, until = b"", time.monotonic() + PATIENCE
        while time.monotonic() < until:
            # What is too much comes at once.
            patience = 0.3 if len(output) >= size else until - time.monotonic()
            if not select.select([self.process.stdout], [], [], max(patience, 0))[0]:
                break
            more = os.read(self.process.stdout.fileno(), 65536)
            if not more:
                break
            output += more
        return output.decode()

    def failed(self) -> str:
        """Return what it complains of; it is to end by itself, in failure."""
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            pytest.fail("it does not end")
        finally:
            self.end()
        assert self.process.returncode == 1
        return self.complaints.decode()

    def end(self) -> None:
        """Its tasks rest for ever, also when it has ended itself."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        if self.process.stderr and not self.process.stderr.closed:
            _, self.complaints = self.process.communicate()


Run = Callable[..., Running]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Starts a file's program as a container does, with this many tasks, all on one CPU."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    started: list[Running] = []

    def start(text: str, *, tasks: int = 1, threads: bool = False) -> Running:
        path, barrier = tmp_path / "some1.c", tmp_path / "barrier"
        path.write_text(text)
        barrier.write_bytes(bytes(4096))
        cpu = min(os.sched_getaffinity(0))
        environment = {
            "PW_BARRIER": str(barrier),
            "PW_CPU": "0",
            "PW_CPUS": str(tasks),
            "PW_CPU_LIST": ",".join([str(cpu)] * tasks),
            "PW_PROCS": str(tasks),
            "PW_VARIANT": "threads" if threads else "default",
            "PW_WARMUP": str(WARMUP),
            "PW_WINDOW": str(WINDOW),
        }
        process = subprocess.Popen(
            [build_workload(path, Quiet())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
        started.append(Running(process))
        return started[-1]

    yield start
    for running in started:
        running.end()


BOTH = pytest.mark.parametrize("threads", [False, True], ids=["processes", "threads"])


@BOTH
def test_each_task_does_its_operations_and_rests(run: Run, *, threads: bool) -> None:
    running = run(PLAIN, tasks=3, threads=threads)
    assert running.said(3 * ALL) == 3 * ALL * "x"
    assert running.process.poll() is None


def test_the_write_of_a_counter_calls_the_harness(run: Run, tmp_path: Path) -> None:
    run(PLAIN)
    (kept,) = (tmp_path / "cache").rglob("iterates.o")
    done = subprocess.run(["nm", "-u", kept], capture_output=True, text=True, check=True)
    assert "__asan_store8_noabort" in done.stdout.split()


@BOTH
def test_a_task_may_have_another_one_beside_it(run: Run, *, threads: bool) -> None:
    # The other one writes to the counter, too, which is not its own.
    text = HEAD + (
        "void new_task(void *(*func)(void *), void *arg);\n"
        "struct both { int there[2], back[2]; unsigned long long *counter; };\n"
        "static void *other(void *arg)\n{\n\tstruct both *both = arg; char c;\n"
        "\twhile (read(both->there[0], &c, 1) == 1) {\n"
        "\t\t(*both->counter)++;\n\t\twrite(both->back[1], &c, 1);\n\t}\n\treturn NULL;\n}\n"
        + TESTCASE
        + "{\n\tstruct both both = { .counter = iterations };\n\tchar c = 'x';\n"
        "\tassert(!pipe(both.there) && !pipe(both.back));\n\tnew_task(other, &both);\n"
        "\tfor (;;) {\n\t\tassert(write(both.there[1], &c, 1) == 1);\n"
        "\t\tassert(read(both.back[0], &c, 1) == 1);\n"
        "\t\twrite(1, &c, 1);\n\t\t(*iterations)++;\n\t}\n}\n"
    )
    assert run(text, tasks=2, threads=threads).said(2 * ALL) == 2 * ALL * "x"


@BOTH
def test_who_dies_is_told_of(run: Run, *, threads: bool) -> None:
    text = HEAD + TESTCASE + "{ if (nr) abort(); for (;;) { sleep(1); (*iterations)++; } }\n"
    complaint = run(text, tasks=2, threads=threads).failed()
    assert complaint == "partywall: workload: killed by signal 6 before the window's end\n"


@BOTH
def test_a_testcase_that_returns_is_told_so(run: Run, *, threads: bool) -> None:
    text = HEAD + TESTCASE + "{ errno = EINVAL; }\n"
    first = run(text, threads=threads).failed().splitlines()[0]
    assert first == "partywall: workload: testcase() returned: it is to go on for ever"


def test_what_is_no_task_may_end(run: Run) -> None:
    text = "void testcase_prepare(unsigned long nr_tasks) { if (!fork()) exit(0); }\n"
    running = run(PLAIN.replace(TESTCASE, text + TESTCASE), tasks=2)
    assert running.said(2 * ALL) == 2 * ALL * "x"
    assert running.process.poll() is None


def test_a_child_of_a_testcase_counts_nothing(run: Run) -> None:
    text = (
        HEAD
        + TESTCASE
        + (
            "{\n\tfor (;;) {\n\t\tif (!fork()) {\n\t\t\t(*iterations)++;\n\t\t\texit(0);\n\t\t}\n"
            '\t\twait(NULL);\n\t\twrite(1, "x", 1);\n\t\t(*iterations)++;\n\t}\n}\n'
        )
    )
    assert run(text, tasks=2).said(2 * ALL) == 2 * ALL * "x"


def maps(words: str) -> str:
    """C that prints each line of the caller's memory with these ``words``, and an end."""
    return (
        '\t\t\tFILE *maps = fopen("/proc/self/maps", "r");\n\t\t\tchar line[512];\n'
        "\t\t\twhile (fgets(line, sizeof(line), maps))\n"
        f'\t\t\t\tif (strstr(line, "{words}"))\n\t\t\t\t\twrite(1, "s", 1);\n'
        '\t\t\twrite(1, "end", 3);\n'
    )


def test_a_child_of_a_testcase_has_no_memory_of_the_harness(run: Run) -> None:
    # Each file that is mapped would be written to by a fork(), and others have it, too.
    text = (
        HEAD
        + TESTCASE
        + (
            f"{{\n\tfor (int n = 0;; n++) {{\n\t\tif (n == {WARMUP} && !fork()) {{\n"
            f"{maps('rw-s')}\t\t\texit(0);\n\t\t}}\n\t\t(*iterations)++;\n\t}}\n}}\n"
        )
    )
    assert run(text).said(3) == "end"


def test_the_barrier_is_mapped_once_for_all_threads(run: Run) -> None:
    # Who unmaps it would interrupt those whose window has begun.
    text = (
        HEAD
        + TESTCASE
        + (
            f"{{\n\tfor (int n = 0;; n++) {{\n\t\tif (n == {WARMUP} && !nr) {{\n"
            f"{maps('/barrier')}\t\t}}\n\t\t(*iterations)++;\n\t}}\n}}\n"
        )
    )
    assert run(text, tasks=3, threads=True).said(4) == "send"


def test_errno_is_the_testcases_own(run: Run) -> None:
    # A signal interrupts the harness where it waits before the window.
    text = HEAD + (
        "static void nothing(int n) { (void)n; }\n" + TESTCASE + "{\n"
        "\tstruct itimerval often = { { 0, 5000 }, { 0, 5000 } };\n"
        "\tsignal(SIGALRM, nothing);\n\tsetitimer(ITIMER_REAL, &often, NULL);\n"
        # The compiler is not to know what errno is.
        '\tfor (;;) {\n\t\terrno = 77;\n\t\t__asm__ volatile("" : : : "memory");\n'
        '\t\t(*iterations)++;\n\t\t__asm__ volatile("" : : : "memory");\n'
        '\t\twrite(1, errno == 77 ? "x" : "!", 1);\n\t}\n}\n'
    )
    # After the last one it rests.
    assert run(text).said(ALL - 1) == (ALL - 1) * "x"


def built(path: Path) -> Path:
    """The kept program of a file."""
    return build_workload(path, Quiet())


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that is compiled, in a folder with what it includes."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "tests"
    folder.mkdir()
    (folder / "more.h").write_text('#define SAID "one"\n')
    path = folder / "some1.c"
    path.write_text('#include "more.h"\n' + PLAIN.replace('"x", 1', "SAID, 3"))
    return path


def test_a_program_is_made_again_if_what_its_file_includes_has_changed(source: Path) -> None:
    first = built(source)
    assert built(source) == first
    (source.parent / "more.h").write_text('#define SAID "two"\n')
    second = built(source)
    assert b"two" in second.read_bytes()
    assert second != first


def test_a_program_is_made_again_by_another_compiler(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = built(source)
    wrapper = tmp_path / "bin" / "gcc"
    wrapper.parent.mkdir()
    wrapper.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo gcc 99 && exit\nPATH=${PATH#*:}; exec gcc "$@"\n'
    )
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{wrapper.parent}:{os.environ['PATH']}")
    programs.compiler_version.cache_clear()
    try:
        assert built(source) != first
    finally:
        programs.compiler_version.cache_clear()


@pytest.mark.parametrize("flags", ["COMPILER", "LINK"])
def test_a_program_is_made_again_with_other_flags(
    source: Path, monkeypatch: pytest.MonkeyPatch, flags: str
) -> None:
    first = built(source)
    monkeypatch.setattr(programs, flags, (*getattr(programs, flags), "-g"))
    assert built(source) != first


def test_a_file_is_c_whatever_its_name(source: Path) -> None:
    path = source.rename(source.with_suffix(".cc"))
    # As C++ does not have it.
    path.write_text(path.read_text() + "static int *class(void) { void *p = 0; return p; }\n")
    assert built(path).exists()


def test_a_file_is_c_of_the_year_that_the_harness_is(source: Path) -> None:
    source.write_text(source.read_text() + '_Static_assert(__STDC_VERSION__ == 201112L, "");\n')
    assert built(source).exists()


def test_a_header_beside_a_file_does_not_stand_for_the_systems(source: Path) -> None:
    (source.parent / "errno.h").write_text("#error not this one\n")
    assert built(source).exists()


def test_an_error_in_a_file_is_told_with_its_line(source: Path) -> None:
    source.write_text("\n\n" + TESTCASE + "{ nonsense; }\n")
    with pytest.raises(EnvironmentProblem, match=r"some1\.c:4:3: error: .nonsense"):
        built(source)
    source.write_text('#include "missing.h"\n' + PLAIN)
    with pytest.raises(EnvironmentProblem, match=r"some1\.c:1:10: fatal error: missing\.h"):
        built(source)
