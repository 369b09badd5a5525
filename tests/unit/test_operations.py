# SPDX-License-Identifier: GPL-2.0-or-later
"""The operations of families do what they say and leave nothing behind, on this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from partywall import workloads
from partywall.workloads import Workload, load
from partywall.workloads.programs import COMPILER

HARNESS = workloads.DIRECTORY / "harness"
DRIVER = Path(__file__).parent / "operations.c"
FAMILIES = sorted(
    path.stem for path in workloads.DIRECTORY.glob("*/*.c") if "FAMILY(" in path.read_text()
)
WARMUP, WINDOW = 5, 20

# What a machine may refuse: seccomp, an old kernel, no huge page to be had.
REFUSALS = (
    "Operation not permitted",
    "Permission denied",
    "Function not implemented",
    "Operation not supported",
    "a huge page: Cannot allocate memory",
)
# These have a file on the volume, which only a container has.
ON_VOLUME = {"memory/msync", "memory/msync-async"}
IN_A_CGROUP = ("memory-", "pids-", "cpu-stat", "cgroup-")


def family(name: str) -> list[Workload]:
    """Those of a family's operations that need no container."""
    return [one for one, _ in load() if one.name == name and not needs_container(one)]


def needs_container(one: Workload) -> bool:
    return (
        bool(one.capabilities)
        # What is made and kept is not for this machine: in a guest it ends with it.
        or one.keeps
        or "volume" in one.variant
        or one.title in ON_VOLUME
        or "CONFIG_SECURITY_APPARMOR" in one.options
        or (one.name == "virtual" and one.variant.startswith(IN_A_CGROUP))
        or (one.title == "process/setfsuid" and os.geteuid() != 0)
    )


def compiled(directory: Path, name: str, *more: str, instead: tuple[str, str] = ("", "")) -> Path:
    """The driver with a family, in which one text may stand instead of another."""
    text = (workloads.DIRECTORY / name / f"{name}.c").read_text()
    old, new = instead
    assert old in text
    source = directory / f"{name}.c"
    source.write_text(text.replace(old, new) if old else text)
    program = directory / name
    files = (str(DRIVER), str(source), *more)
    subprocess.run((*COMPILER, f"-I{HARNESS}", "-o", program, *files), check=True)
    return program


@pytest.fixture
def index() -> Iterator[int]:
    """The number of a process that no other run has, whose files are removed."""
    number = 1000 + os.getpid() % 40000
    yield number
    for place in ("/tmp", "/dev/shm"):
        for variant in {one.variant for one, _ in load()}:
            shutil.rmtree(Path(place) / f"{variant}-{number}", ignore_errors=True)


def run(
    program: Path, variant: str, index: int, apart: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    words = (*apart, program, variant, str(index), str(WARMUP), str(WINDOW))
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)


def namespace(kind: str) -> tuple[str, ...]:
    """What runs a program in a namespace of its own; nothing where there is none to be had."""
    apart = ("unshare", "--user", "--map-root-user", f"--{kind}")
    done = subprocess.run((*apart, "true"), capture_output=True, check=False)
    return () if done.returncode else apart


FREE = [name for name in FAMILIES if family(name)]


@pytest.mark.parametrize("name", FREE)
def test_operations_pass_and_leave_nothing_open(tmp_path: Path, index: int, name: str) -> None:
    program = compiled(tmp_path, name)
    # Queues and semaphores of System V outlive who made them.
    apart = namespace("ipc") if name == "ipc" else ()
    wrong, passed = {}, 0
    for one in family(name):
        done = run(program, one.variant, index, apart)
        if done.returncode == 1 and any(why in done.stderr for why in REFUSALS):
            continue
        passed += 1
        if (done.returncode, done.stdout) != (0, "0 0\n"):
            wrong[one.title] = done.returncode, done.stdout, done.stderr
    assert not wrong
    assert passed > len(family(name)) / 2


def test_a_network_of_its_own_is_left_as_it_was(tmp_path: Path, index: int) -> None:
    apart = namespace("net")
    if not apart:
        pytest.skip("no network namespace to be had")
    program = compiled(tmp_path, "link")
    for one, _ in load():
        if one.name == "link":
            done = run(program, one.variant, index, apart)
            # A module that this machine lacks can't be loaded from there.
            if "Operation not supported" not in done.stderr:
                assert (done.stdout, done.stderr) == ("0 0\n", ""), one.title


def test_one_after_the_other_in_the_same_place(tmp_path: Path, index: int) -> None:
    # In a sitting the containers stay, and with them what an operation left.
    program = compiled(tmp_path, "file")
    for variant in ("symlink", "follow", "exchange", "rename", "create", "link", "missing"):
        done = run(program, f"{variant}-tmpfs", index)
        assert done.returncode == 0, (variant, done.stderr)


def test_a_filter_of_its_own_is_what_refuses(tmp_path: Path, index: int) -> None:
    program = compiled(tmp_path, "security", instead=("\tinstall_filter();\n}", "}"))
    assert "getpgrp" in run(program, "seccomp-refused", index).stderr


def test_an_unknown_kind_of_namespace_is_none(tmp_path: Path, index: int) -> None:
    program = compiled(tmp_path, "namespace", instead=('UNSHARE("none")', 'UNSHARE("odd")'))
    assert "odd: Invalid argument" in run(program, "odd", index).stderr


BLOCKS = """
#include <stdio.h>
#include <sys/stat.h>
int __real_fallocate(int fd, int mode, long offset, long length);
int __wrap_fallocate(int fd, int mode, long offset, long length)
{
	int failed = __real_fallocate(fd, mode, offset, length);
	struct stat st;

	fstat(fd, &st);
	printf("%s %ld\\n", mode & 2 ? "hole" : "whole", (long)st.st_blocks);
	return failed;
}
"""


@pytest.mark.parametrize("place", ["overlay", "tmpfs"])
def test_a_hole_takes_no_space(tmp_path: Path, index: int, place: str) -> None:
    # ext4 frees nothing behind a file's end.
    (tmp_path / "blocks.c").write_text(BLOCKS)
    program = compiled(tmp_path, "file", str(tmp_path / "blocks.c"), "-Wl,--wrap=fallocate")
    done = run(program, f"fallocate-{place}", index)
    if any(why in done.stderr for why in REFUSALS):
        pytest.skip("no holes in files there")
    rows = [line.split() for line in done.stdout.splitlines()[:-1]]
    blocks = {kind: {int(n) for what, n in rows if what == kind} for kind in ("hole", "whole")}
    assert len(rows) == 2 * (WARMUP + WINDOW)
    assert max(blocks["hole"]) < min(blocks["whole"])


def test_no_two_operations_are_described_alike() -> None:
    words = [one.operation for one, _ in load()]
    assert len(set(words)) == len(words)
