# SPDX-License-Identifier: GPL-2.0-or-later
"""How kernels are configured, and what is said of a build that fails."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partywall.core.errors import EnvironmentProblem, UsageProblem
from partywall.core.progress import Quiet
from partywall.kernels import Request, bisect, build, kept
from partywall.kernels.git import git
from partywall.kernels.make import Make, first_error
from partywall.kernels.sources import built
from partywall.results.bisect import Commit

CONFIG = """\
CONFIG_USER_NS=y
CONFIG_EXT4_FS=m
CONFIG_OVERLAY_FS=m
CONFIG_E1000=m
# CONFIG_FOO is not set
CONFIG_NAME="m"
CONFIG_MODULE=m"""


def test_modules_that_no_guest_loads_are_not_built() -> None:
    lines = build.configuration(CONFIG, "").splitlines()
    assert "# CONFIG_E1000 is not set" in lines
    assert "# CONFIG_MODULE is not set" in lines
    for line in ("CONFIG_USER_NS=y", "CONFIG_EXT4_FS=m", "CONFIG_OVERLAY_FS=m", 'CONFIG_NAME="m"'):
        assert line in lines


def test_what_is_laid_over_comes_last() -> None:
    lines = build.configuration(CONFIG, "CONFIG_FOO=y\n").splitlines()
    assert lines.index("CONFIG_FOO=y") > lines.index("# CONFIG_FOO is not set")


def test_a_variant_adds_its_fragment_behind_the_guests() -> None:
    plain = build.fragments(build.Variant())
    debug = build.fragments(build.Variant(("lean", "debug")))
    assert debug.startswith(plain)
    assert "CONFIG_KASAN=y" in debug
    assert "CONFIG_KASAN=y" not in plain


def test_an_unknown_variant_names_those_there_are() -> None:
    with pytest.raises(UsageProblem, match="no variant 'fast'") as caught:
        build.fragments(build.Variant(("fast",)))
    assert "kcsan" in (caught.value.hint or "")
    assert "guest" not in (caught.value.hint or "")


def test_every_fragment_can_be_named() -> None:
    assert {"debug", "kcsan", "lean"} <= set(build.variants())
    for name in build.variants():
        build.fragments(build.Variant((name,)))


def test_an_option_that_did_not_come_true_is_named() -> None:
    got = "CONFIG_A=y\nCONFIG_B=m\nCONFIG_D=y\n"
    wanted = "CONFIG_A=y\nCONFIG_B=y\nCONFIG_C=y\n# CONFIG_D is not set\n# CONFIG_E is not set\n"
    assert build.unmet(wanted, got) == ["CONFIG_B=y", "CONFIG_C=y", "no CONFIG_D"]


def test_the_last_word_on_an_option_counts() -> None:
    assert build.unmet("# CONFIG_A is not set\nCONFIG_A=y\n", "CONFIG_A=y\n") == []
    assert build.unmet("CONFIG_A=y\n# CONFIG_A is not set\n", "CONFIG_A=y\n") == ["no CONFIG_A"]
    assert build.unmet('CONFIG_A=""\n', 'CONFIG_A=""\n') == []
    assert build.unmet("CONFIG_A=n\n", "# CONFIG_A is not set\n") == []
    assert build.unmet("CONFIG_A=n\n", "CONFIG_A=m\n") == ["no CONFIG_A"]


LOG = """\
  CC      kernel/a.o
kernel/a.c: In function 'f':
kernel/a.c:12:3: warning: unused variable 'x' [-Wunused-variable]
kernel/a.c:13:3: error: 'y' undeclared (first use in this function)
make[2]: *** [scripts/Makefile.build:229: kernel/a.o] Error 1
make: *** [Makefile:240: __sub-make] Error 2
"""


@pytest.mark.parametrize(
    ("log", "said"),
    [
        (LOG, "kernel/a.c:13:3: error: 'y' undeclared (first use in this function)"),
        ("ld: a.o: in function `f':\na.c:(.text+0x1): undefined reference to `g'\n", "reference"),
        ("/bin/sh: flex: not found\nmake: *** [x] Error 127\n", "*** [x] Error 127"),
        ("  CC a.o\nKilled\n", "Killed"),
        ("", "nothing"),
    ],
)
def test_the_first_error_of_a_log_is_found(log: str, said: str) -> None:
    assert said in first_error(log)


@pytest.mark.parametrize(
    ("lines", "named"),
    [
        ("CONFIG_DEBUG_INFO=y\n# CONFIG_DEBUG_INFO_NONE is not set\nCONFIG_X=y", True),
        ("CONFIG_DEBUG_INFO=y\nCONFIG_DEBUG_INFO_REDUCED=y", False),
        ("CONFIG_DEBUG_INFO_NONE=y", False),
    ],
)
def test_where_objects_are_named_it_is_compiled_where_local_variables_are(
    tmp_path: Path, lines: str, named: bool
) -> None:
    assert build._named(lines) is named
    flags = " ".join(Make(tmp_path, tmp_path / "log", named=named)._words)
    assert ("-fno-var-tracking" not in flags) is named


def test_kernels_are_built_anew_if_they_are_compiled_where_local_variables_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    configs = ("CONFIG_DEBUG_INFO=y", "CONFIG_DEBUG_INFO_NONE=y")
    whole, lean = (build._key(config, "source") for config in configs)
    monkeypatch.setattr(build, "_named", lambda config: False)
    assert build._key(configs[0], "source") != whole
    assert build._key(configs[1], "source") == lean


@given(st.text())
def test_any_log_gives_one_line(log: str) -> None:
    found = first_error(log)
    assert found.splitlines() in ([], [found])
    assert len(found) <= 200


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own, and a make that does what ``tools/script`` says."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    program = tmp_path / "make"
    program.write_text(f'#!/bin/sh\n. "{tmp_path}/script"\n')
    program.chmod(0o755)
    return tmp_path


def test_a_failing_make_says_what_is_wrong_and_where_the_log_is(tools: Path) -> None:
    (tools / "script").write_text(f"cat <<'END'\n{LOG}END\nexit 2\n")
    log = tools / "log"
    log.write_bytes(b"")
    with pytest.raises(EnvironmentProblem, match=r"kernel/a\.c:13:3: error") as caught:
        Make(tools, log)("bzImage")
    assert str(log) in (caught.value.hint or "")
    assert log.read_text() == LOG


class Ended(BaseException):
    """As a signal raises it, in whatever line the program is."""


def test_a_build_that_is_ended_leaves_no_process_behind(tools: Path) -> None:
    (tools / "script").write_text(f"sleep 1234 & echo $! >{tools}/pid; echo begun; wait\n")
    log = tools / "log"
    log.write_bytes(b"")

    def told(lines: int) -> None:
        if lines:
            raise Ended

    with pytest.raises(Ended):
        Make(tools, log)("bzImage", told=told)
    child = int((tools / "pid").read_text())
    stat = Path(f"/proc/{child}/stat")
    for _ in range(100):
        # Gone, or dead and waiting to be reaped by whoever adopted it.
        if not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.05)
    pytest.fail("the compiler still runs")


def test_what_a_calling_make_wants_is_not_passed_on(
    tools: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAKEFLAGS", "n --jobserver-auth=3,4")
    (tools / "script").write_text('echo "flags=$MAKEFLAGS date=$KBUILD_BUILD_TIMESTAMP"\n')
    log = tools / "log"
    log.write_bytes(b"")
    told: list[int] = []
    Make(tools, log)("bzImage", told=told.append)
    assert "flags= date=Thu Jan  1 00:00:00 UTC 2026" in log.read_text()


@pytest.mark.parametrize("name", ["stock", "partywall", "stock+debug", "partywall+lean+kcsan"])
def test_names_of_kernels_that_are_built(name: str) -> None:
    assert built.understands(Request(name))


@pytest.mark.parametrize("name", ["debian", "stocks", "", "stock-debug", "./stock"])
def test_other_names_are_not_built(name: str) -> None:
    assert not built.understands(Request(name))


def test_files_and_built_kernels_exclude_each_other() -> None:
    with pytest.raises(UsageProblem, match="--vmlinux"):
        built.get(Request("stock", vmlinux=Path("vmlinux")), Quiet())


def test_a_folder_that_is_no_kernels_tree_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="no tree of Linux") as caught:
        built.get(Request("debian", tree=tmp_path), Quiet())
    assert "kernel-tree" in (caught.value.hint or "")


def test_a_tree_that_was_built_in_says_how_to_clean_it(tmp_path: Path) -> None:
    (tmp_path / "kernel").mkdir()
    (tmp_path / "Kbuild").touch()
    (tmp_path / ".config").touch()
    # By the option, and by its name alone.
    for request in (Request("debian", tree=tmp_path), Request(str(tmp_path))):
        assert built.understands(request)
        with pytest.raises(UsageProblem, match="was built in") as caught:
            built.get(request, Quiet())
        assert "mrproper" in (caught.value.hint or "")
        assert str(tmp_path / "arch/x86/boot/bzImage") in (caught.value.hint or "")


def test_a_tree_is_known_without_a_slash_in_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = tmp_path / "linux"
    (tree / "kernel").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert not built.understands(Request("linux"))
    (tree / "Kbuild").touch()
    assert built.understands(Request("linux"))
    monkeypatch.chdir(tree)
    assert built.understands(Request("."))
    # Whatever is there: what is meant if nothing is said.
    tree.rename(tmp_path / "debian")
    monkeypatch.chdir(tmp_path)
    assert not built.understands(Request("debian"))
    assert built.understands(Request("./debian"))


MAKE = r"""
for word; do case $word in
    INSTALL_MOD_PATH=*) mkdir -p "${word#*=}/lib/modules/6.0-bisect" ;;
    bzImage)
        ! grep -q broken says || { echo "a.c:1:1: error: broken"; exit 2; }
        mkdir -p arch/x86/boot
        cp says arch/x86/boot/bzImage
        echo >>vmlinux
        ;;
esac; done
"""


@pytest.fixture
def linux(tools: Path, monkeypatch: pytest.MonkeyPatch) -> list[Commit]:
    """Commits in ``tools/linux``, which its make builds: of a word, broken, of another word."""
    (tools / "script").write_text(MAKE)
    monkeypatch.setattr(build, "debian_config", lambda progress, base=None: "")
    monkeypatch.setattr(build, "fragments", lambda variant, base=None, own=False: "")
    tree = tools / "linux"
    (tree / "kernel").mkdir(parents=True)
    (tree / "kernel" / "fork.c").touch()
    (tree / "Kbuild").touch()
    (tree / ".gitignore").write_text("vmlinux\n")
    git(tree, "init", "--quiet")
    made = []
    for says in ("one", "broken", "two"):
        (tree / "says").write_text(says)
        git(tree, "add", "--all")
        git(tree, "commit", "--quiet", f"--message={says}")
        made.append(bisect.commit(tree, "HEAD"))
    return made


def test_commits_are_built_in_one_tree_that_goes_afterwards(
    tools: Path, linux: list[Commit]
) -> None:
    tree = tools / "linux"
    before = git(tree, "worktree", "list")
    # The clone that other builds are made in.
    clone = tools / "cache" / "partywall" / "build" / "linux"
    clone.mkdir(parents=True)
    git(clone, "init", "--quiet")
    (clone / "ours").touch()
    with build.commits(tree, linux[0], Quiet()) as steps:
        place = steps.make.tree
        assert steps.kernel("the first").image.read_text() == "one"
        bisect.checkout(place, linux[1])
        with pytest.raises(EnvironmentProblem, match=r"a\.c:1:1: error: broken"):
            steps.kernel("the second")
        bisect.checkout(place, linux[2])
        kernel = steps.kernel("the third")
        assert kernel.image.read_text() == "two"
        assert (kernel.source, kernel.release) == ("the third", "6.0-bisect")
        # What the first build left is what the next one goes on from.
        assert kernel.vmlinux.read_text() == "\n\n"
    assert place == clone
    assert sorted(path.name for path in clone.iterdir()) == [".git", "ours"]
    assert git(tree, "worktree", "list") == before
    assert git(tree, "status", "--porcelain") == ""


def test_a_build_of_a_commit_that_is_ended_leaves_nothing(tools: Path, linux: list[Commit]) -> None:
    tree = tools / "linux"
    (tools / "script").write_text(f"{MAKE}case $* in *bzImage*) sleep 1234;; esac\n")

    class Impatient(Quiet):
        def step(self, name: str, expected: float | None = None) -> Any:
            if name.startswith("building"):
                raise Ended
            return super().step(name, expected)

    with pytest.raises(Ended), build.commits(tree, linux[0], Impatient()) as steps:
        steps.kernel("the first")
    assert git(tree, "worktree", "list").count("\n") == 1
    assert [path.name for path in (tools / "cache" / "partywall" / "build").iterdir()] == ["lock"]


def test_a_commit_of_something_else_is_no_tree_of_linux(tools: Path, linux: list[Commit]) -> None:
    tree = tools / "linux"
    git(tree, "rm", "--quiet", "Kbuild")
    git(tree, "commit", "--quiet", "--message=something else")
    at = bisect.commit(tree, "HEAD")
    with (
        pytest.raises(UsageProblem, match=f"{at.short} of .* is no tree of Linux"),
        build.commits(tree, at, Quiet()),
    ):
        pytest.fail("it went on")
    assert git(tree, "worktree", "list").count("\n") == 1


@pytest.mark.parametrize("changed", [None, "content", "more", "fewer"])
def test_a_kernel_that_is_built_again_has_a_place_of_its_own(
    tmp_path: Path, changed: str | None
) -> None:
    """Another job may be measuring the one before, which stays as it was for a day."""

    def made() -> Path:
        new = tmp_path / "new"
        (new / "lib").mkdir(parents=True)
        (new / "bzImage").write_text("image")
        (new / "lib" / "one.ko").write_text("module")
        return new

    first = kept.put(made(), tmp_path)
    new = made()
    if changed == "content":
        (new / "lib" / "one.ko").write_text("MODULE")
    elif changed == "more":
        (new / "lib" / "two.ko").write_text("module")
    elif changed == "fewer":
        (new / "lib" / "one.ko").unlink()
    wanted = {path.relative_to(new): path.is_file() and path.read_text() for path in new.rglob("*")}
    second = kept.put(new, tmp_path)
    assert (first == second) == (changed is None)
    assert not new.exists()
    there = {
        path.relative_to(second): path.is_file() and path.read_text() for path in second.rglob("*")
    }
    assert there == wanted
    assert (first / "lib" / "one.ko").read_text() == "module"
    # What nobody used for a day goes with the next one.
    os.utime(first, (0, 0))
    os.utime(second, (0, 0))
    third = kept.put(made(), tmp_path)
    assert third.exists()
    assert second.exists() == (changed is None)


PROGRAM = """
from partywall.cli import main
from partywall.kernels import build

build.debian_config = lambda progress, base=None: ""
build.fragments = lambda variant, base=None, own=False: ""
main()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_bisection_that_is_interrupted_leaves_nothing(
    tools: Path, linux: list[Commit], number: signal.Signals
) -> None:
    tree = tools / "linux"
    begun = tools / "begun"
    waits = f"echo $$ >{begun}.new; mv {begun}.new {begun}; sleep 1234"
    (tools / "script").write_text(f"{MAKE}case $* in *bzImage*) {waits};; esac\n")
    words = ["bisect", linux[0].id, linux[2].id, "--tree", str(tree)]
    words += ["-w", "signal", "--object", "init_ucounts"]
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *words], stderr=subprocess.PIPE, text=True, cwd=tools
    )
    for _ in range(4000):
        if begun.exists() or process.poll() is not None:
            break
        time.sleep(0.05)
    assert git(tree, "worktree", "list").count("\n") == 2
    process.send_signal(number)
    said = process.communicate(timeout=200)[1]
    assert process.returncode == 130, said
    assert "interrupted" in said
    assert git(tree, "worktree", "list").count("\n") == 1
    assert git(tree, "status", "--porcelain") == ""
    assert [path.name for path in (tools / "cache" / "partywall" / "build").iterdir()] == ["lock"]
    assert not Path("/proc", begun.read_text().strip()).exists()
