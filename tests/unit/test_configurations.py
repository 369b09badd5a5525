# SPDX-License-Identifier: GPL-2.0-or-later
"""How others configure kernels, and what compilers say of it."""

from __future__ import annotations

import contextlib
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import ClassVar, cast

import pytest

from partywall.core.errors import EnvironmentProblem, UsageProblem
from partywall.core.progress import Quiet
from partywall.kernels import build, series
from partywall.kernels.make import Make
from partywall.kernels.series import bases, configurations, source


def test_each_configuration_can_be_read_and_has_something_of_its_own() -> None:
    found = configurations.load()
    assert {"default", "rt", "i386", "arm64", "clang", "allmod"} <= {one.name for one in found}
    options = [re.findall(r"^(?:# )?CONFIG_.*", one.options, re.MULTILINE) for one in found]
    differs = [
        (one.base, one.compiler, one.words, options[number]) for number, one in enumerate(found)
    ]
    assert all(differs.count(one) == 1 for one in differs)


def test_what_is_no_option_is_read(tmp_path: Path) -> None:
    (tmp_path / "far.config").write_text(
        "#: make ARCH=arm64 CROSS_COMPILE=far-\n#: base defconfig\n"
        "#: compiler far-gcc (gcc-far)\n#: sparse\nCONFIG_FAR=y\n"
    )
    (one,) = configurations.load(("far",), tmp_path)
    assert (one.base, one.compiler, one.package) == ("defconfig", "far-gcc", "gcc-far")
    assert one.words == ("ARCH=arm64", "CROSS_COMPILE=far-")
    assert one.sparse
    assert build.unmet(one.options, "") == ["CONFIG_FAR=y"]


@pytest.mark.parametrize("line", ["#: bass defconfig", "#: compiler clang"])
def test_a_line_that_means_nothing_is_refused(line: str) -> None:
    with pytest.raises(UsageProblem, match="can't be understood"):
        configurations.parse("odd", f"{line}\n")


def test_a_name_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="no configuration 'rtt'"):
        configurations.load(("rtt",))


def test_a_compiler_that_is_not_installed_is_named_with_its_package() -> None:
    one = configurations.parse("far", "#: compiler far-gcc (gcc-far)\n")
    with pytest.raises(EnvironmentProblem, match="wants far-gcc") as caught:
        configurations._key(one)
    assert caught.value.hint == "apt-get install gcc-far"


SAID = """\
/tree/fs/a.c:12:9: warning: stack of 1040 bytes [-Wframe-larger-than=]
fs/a.c:40:1: warning: stack of 1048 bytes [-Wframe-larger-than=]
./include/x.h:3: warning: Function parameter 'a' not described
fs/a.c:41:1: note: no place
"""


def test_warnings_are_counted_without_their_numbers() -> None:
    assert configurations.warnings(SAID, Path("/tree")) == {
        "fs/a.c: warning: stack of N bytes [-Wframe-larger-than=]": 2,
        "include/x.h: warning: Function parameter 'a' not described": 1,
    }


def test_what_is_said_of_a_functions_body_is_not_new_where_that_got_a_name_of_its_own() -> None:
    stock = Counter({"fs/a.c: warning: imbalance in 'shrink'": 1, "fs/a.c: warning: '__kill'": 1})
    ours = Counter({"fs/a.c: warning: imbalance in '__shrink'": 1, "fs/a.c: warning: '__kill'": 1})
    assert not configurations.added(stock, ours)
    ours["fs/a.c: warning: imbalance in 'shrink'"] = 1
    assert configurations.added(stock, ours).total() == 1
    assert configurations.added(stock, Counter({"fs/b.c: warning: imbalance in 'shrink'": 1}))


def test_what_a_header_says_to_one_more_file_is_no_new_warning() -> None:
    stock = Counter({"include/a.h: warning: old": 7, "fs/a.c: warning: old": 1})
    assert not configurations.added(stock, stock + Counter({"include/a.h: warning: old": 2}))
    assert configurations.added(stock, stock + Counter({"include/a.h: warning: other": 1}))
    assert configurations.added(stock, stock + Counter({"fs/a.c: warning: old": 1}))


MAKEFILE = """\
%.o: %.c
\t$(CC) -Wall -c -o $@ $<
"""


def make(folder: Path) -> Make:
    (folder / "Makefile").write_text(MAKEFILE)
    (folder / "log").write_bytes(b"old.c:1:1: warning: of what was before\n")
    return Make(folder, folder / "log")


def test_what_a_configuration_does_not_have_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text("int f(void) { int unused; return 0; }\n")
    found = configurations.compiled(make(tmp_path), ["a.o", "b.o"])
    assert found.objects == ("a.o",)
    assert any("unused" in one for one in found.said)
    assert all(one.startswith("a.c: ") for one in found.said)


def test_what_does_not_compile_is_no_missing_target(tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text("int f(void) { return g; }\n")
    with pytest.raises(EnvironmentProblem, match="undeclared"):
        configurations.compiled(make(tmp_path), ["a.o", "b.o"])
    with pytest.raises(EnvironmentProblem, match="undeclared"):
        configurations.compiled(make(tmp_path), ["a.o"])


class _Fake:
    """A make that makes an empty configuration."""

    def __init__(self, output: Path) -> None:
        self.output = output

    def __call__(self, target: str) -> None:
        if target == "tinyconfig":
            (self.output / ".config").write_text("")


def test_what_the_series_turns_on_is_asked_of_stock_too(tmp_path: Path) -> None:
    """Else a file of stock's that only the series compiles has stock's warnings as new ones."""
    make = _Fake(tmp_path / "obj")
    one = configurations.parse("tiny", "#: base tinyconfig\n")
    configurations._configure(one, cast(Make, make), bases.get(), Quiet())
    assert "CONFIG_SYSCTL_KUNIT_TEST=y" in (make.output / ".config").read_text()


class _Proofs:
    """A series of three files, and configurations that each have some of them."""

    has: ClassVar[dict[str, tuple[str, ...]]] = {"one": ("a.o",), "two": ("a.o", "b.o")}

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[str] = []
        tree = folder / "tree"
        tree.mkdir()
        for name, text in (("a.c", ""), ("b.c", '#include "in.c"\n'), ("in.c", ""), ("c.c", "")):
            (tree / name).write_text(text)
        patch = series.Patch("x", folder / "x.patch", "".join(f"+++ b/{n}\n" for n in FILES))
        monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        origin = source.Source(tree, "1", "key", bases.get())
        monkeypatch.setattr(source, "get", lambda *of: origin)
        monkeypatch.setattr(series, "read", lambda *of: [patch])
        monkeypatch.setattr(build, "debian_config", lambda *of: "")
        monkeypatch.setattr(build, "working_tree", lambda *of: contextlib.nullcontext(tree))
        monkeypatch.setattr(configurations, "load", self.load)
        monkeypatch.setattr(configurations, "_stock", lambda *of: Counter())
        monkeypatch.setattr(configurations, "_compiled", self.compiled)

    def load(self, names: tuple[str, ...] = ()) -> list[configurations.Configuration]:
        return [configurations.parse(name, "CONFIG_X=y\n") for name in names or self.has]

    def compiled(
        self, one: configurations.Configuration, tree: Path, wanted: list[str], *_: object
    ) -> configurations.Compiled:
        assert wanted == ["a.o", "c.o", "b.o"]
        self.asked.append(one.name)
        return configurations.Compiled(self.has[one.name], Counter())


FILES = ("a.c", "c.c", "in.c")


def test_a_file_that_is_compiled_in_no_configuration_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proofs = _Proofs(tmp_path, monkeypatch)
    told = list(configurations.prove_configured(Quiet(), ("one",)))
    assert told == [
        "one: 1 of 3 files are in it and compile",
        "c.c: compiled in none of these configurations",
        "in.c: compiled in none of these configurations",
    ]
    # All of them, of which one was proven: a file that another includes comes with that.
    for proven in (False, True):
        lines = configurations.prove_configured(Quiet())
        assert next(lines) == "one: proven before"
        assert next(lines).startswith("two: proven" if proven else "two: 2 of 3 files")
        assert next(lines) == "c.c: compiled in none of all configurations"
        with pytest.raises(EnvironmentProblem, match=r"no configuration has 1 .*: c\.c") as caught:
            next(lines)
        assert "config/prove" in (caught.value.hint or "")
    assert proofs.asked == ["one", "two"]


def test_where_each_file_is_in_some_configuration_nothing_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_Proofs, "has", {"one": ("c.o",), "two": ("a.o", "b.o")})
    _Proofs(tmp_path, monkeypatch)
    assert list(configurations.prove_configured(Quiet())) == [
        "one: 1 of 3 files are in it and compile",
        "two: 2 of 3 files are in it and compile",
    ]


def test_a_proof_that_is_removed_meanwhile_is_no_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_Proofs, "has", {"one": ("c.o",), "two": ("a.o", "b.o")})
    proofs = _Proofs(tmp_path, monkeypatch)
    lines = configurations.prove_configured(Quiet())
    assert [next(lines)[:4], next(lines)[:4]] == ["one:", "two:"]
    shutil.rmtree(tmp_path / "cache/partywall/proof")
    with pytest.raises(EnvironmentProblem, match="was removed in the meantime"):
        next(lines)
    # It is made again, and is none that was proven before.
    assert next(configurations.prove_configured(Quiet())).startswith("one: 1 of 3 files")
    assert proofs.asked == ["one", "two", "one"]
    # One that an earlier version left without its files is told, and where it is.
    for path in (tmp_path / "cache/partywall/proof").glob("*/files.json"):
        path.unlink()
    with pytest.raises(EnvironmentProblem, match=r"reading what was proven in .*: No such file"):
        list(configurations.prove_configured(Quiet(), ("one",)))
