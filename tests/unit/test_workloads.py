# SPDX-License-Identifier: GPL-2.0-or-later
"""Which workloads are chosen, which files and programs are refused, and in what words."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import programs
import pytest

from partywall import workloads
from partywall.core.errors import UsageProblem
from partywall.core.progress import Quiet
from partywall.guest import image
from partywall.kernels import Kernel
from partywall.workloads import Workload, from_command, from_iterations, load, select

GOOD = """\
summary = "a test"
operation = "one"
warmup = 0
window = 1
"""
VARIANTS = """
default = ["fast", "slow"]
[variants]
fast = "one fast"
slow = "one slow"
odd = "one odd"
"""
HARNESS = workloads.DIRECTORY / "harness"


def write(directory: Path, name: str, text: str) -> Path:
    """A workload's file; returns the folder of all workloads."""
    (directory / name).mkdir()
    (directory / name / "workload.toml").write_text(text)
    return directory


@pytest.fixture
def some(tmp_path: Path) -> Path:
    """One workload without variants, and one with three of which two are usual."""
    write(tmp_path, "plain", GOOD)
    return write(tmp_path, "many", GOOD + VARIANTS)


def titles(patterns: list[str], directory: Path) -> list[str]:
    return [workload.title for workload in select(patterns, directory)]


def test_the_usual_variants_are_chosen_if_nothing_is_asked_for(some: Path) -> None:
    assert titles([], some) == ["many/fast", "many/slow", "plain"]


@pytest.mark.parametrize(
    ("pattern", "chosen"),
    [
        ("plain", ["plain"]),
        ("many", ["many/fast", "many/slow"]),
        ("many/odd", ["many/odd"]),
        ("many/*", ["many/fast", "many/slow", "many/odd"]),
        ("many/*o*", ["many/slow", "many/odd"]),
        ("*/fast", ["many/fast"]),
        ("p*", ["plain"]),
        ("[mp]*", ["many/fast", "many/slow", "many/odd", "plain"]),
    ],
)
def test_a_pattern_chooses(some: Path, pattern: str, chosen: list[str]) -> None:
    assert titles([pattern], some) == chosen


def test_a_family_without_usual_variants_is_all_of_them(tmp_path: Path) -> None:
    write(tmp_path, "plain", GOOD)
    write(tmp_path, "family", GOOD + VARIANTS.replace('default = ["fast", "slow"]\n', ""))
    assert titles(["family"], tmp_path) == ["family/fast", "family/slow", "family/odd"]
    assert titles([], tmp_path) == ["plain"]


def test_workloads_come_in_the_order_asked_for_and_once(some: Path) -> None:
    assert titles(["plain", "many/odd", "many/*", "plain"], some) == [
        "plain",
        "many/odd",
        "many/fast",
        "many/slow",
    ]


@pytest.mark.parametrize(
    ("pattern", "told"),
    [
        ("", "known: many, plain"),
        ("nothing", "known: many, plain"),
        ("Plain", "near: plain"),
        ("many/", "near: many/odd, many/slow, many/fast"),
        ("/", "known: many, plain"),
        ("many/fas", "near: many/fast"),
        ("[", "known: many, plain"),
        ("../plain", "near: plain"),
    ],
)
def test_an_unknown_workload_is_named_with_what_comes_near(
    some: Path, pattern: str, told: str
) -> None:
    with pytest.raises(UsageProblem) as caught:
        select(["plain", pattern], some)
    assert f"'{pattern}'" in caught.value.message
    hint = caught.value.hint or ""
    assert hint.startswith(told)
    assert hint.endswith("partywall workloads shows all")


def test_a_variant_may_differ_in_more_than_its_words(tmp_path: Path) -> None:
    (tmp_path / "many").mkdir()
    path = tmp_path / "many" / "workload.toml"
    path.write_text(
        'summary = "s"\noperation = "o"\nwarmup = 2\nwindow = 20\n[variants]\nplain = "p"\n'
        '[variants.few]\noperation = "f"\nwindow = 3\ncounted = true\nlower_files = 5\n'
    )
    plain, few = (workload for workload, _ in load(tmp_path))
    assert (plain.operation, plain.window, plain.counted, plain.lower_files) == ("p", 20, False, 0)
    assert (few.operation, few.window, few.counted, few.lower_files) == ("f", 3, True, 5)
    assert few.warmup == 2
    path.write_text(path.read_text().replace("window = 3", "window = 0"))
    with pytest.raises(UsageProblem, match=r"variants\.few\.window"):
        load(tmp_path)
    path.write_text(path.read_text().replace('operation = "f"\n', ""))
    with pytest.raises(UsageProblem, match=r"variants\.few\.operation"):
        load(tmp_path)


def test_variants_differ_in_name_and_operation_alone(some: Path) -> None:
    fast, slow = select(["many"], some)
    assert (fast.operation, slow.operation) == ("one fast", "one slow")
    assert fast.model_copy(update={"variant": "slow", "operation": "one slow"}) == slow
    assert fast.source == some / "many"


def test_a_folder_without_workloads_has_none(tmp_path: Path) -> None:
    (tmp_path / "harness").mkdir()
    assert load(tmp_path) == []


BROKEN = {
    "syntax": "summary = ",
    "cut short": GOOD[:20],
    "empty": "",
    "key twice": GOOD + "window = 2\n",
    "unknown key": GOOD + "colour = 1\n",
    "unknown table": GOOD + "[colour]\nred = 1\n",
    "missing key": GOOD.replace('summary = "a test"\n', ""),
    "negative window": GOOD.replace("window = 1", "window = -1"),
    "no window": GOOD.replace("window = 1", "window = 0"),
    "negative warm-up": GOOD.replace("warmup = 0", "warmup = -1"),
    "window in words": GOOD.replace("window = 1", 'window = "many"'),
    "window in halves": GOOD.replace("window = 1", "window = 1.5"),
    "window without end": GOOD.replace("window = 1", "window = inf"),
    "text for a list": GOOD + 'count = "f"\n',
    "number in a list": GOOD + "count = [1]\n",
    "unknown confinement": GOOD + 'apparmor = "off"\n',
    "unknown topology": GOOD + 'topologies = ["beside"]\n',
    "no topology": GOOD + "topologies = []\n",
    "unknown default": GOOD + VARIANTS.replace('"slow"]', '"sluggish"]'),
    "variant without words": GOOD + "[variants]\nfast = 1\n",
    "variants as a list": GOOD + 'variants = ["fast"]\n',
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_file_is_named(some: Path, text: str) -> None:
    write(some, "broken", text)
    with pytest.raises(UsageProblem) as caught:
        select(["plain"], some)
    assert str(some / "broken" / "workload.toml") in caught.value.message
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        ("unknown key", "colour"),
        ("missing key", "summary"),
        ("negative window", "window"),
        ("unknown default", "sluggish"),
        ("variant without words", "variants.fast"),
    ],
)
def test_what_is_wrong_in_a_broken_file_is_named(some: Path, broken: str, words: str) -> None:
    write(some, "broken", BROKEN[broken])
    with pytest.raises(UsageProblem, match=words):
        load(some)


def test_a_default_without_any_variants_is_refused(some: Path) -> None:
    write(some, "broken", GOOD + 'default = ["fast"]\n')
    with pytest.raises(UsageProblem, match="fast"):
        load(some)


def test_a_file_that_is_no_text_is_named(some: Path) -> None:
    write(some, "broken", "")
    path = some / "broken" / "workload.toml"
    path.write_bytes(b'summary = "\xff\xfe"\n')
    with pytest.raises(UsageProblem) as caught:
        load(some)
    assert str(path) in caught.value.message


def test_a_folder_in_place_of_a_file_is_named(some: Path) -> None:
    path = some / "broken" / "workload.toml"
    path.mkdir(parents=True)
    with pytest.raises(UsageProblem) as caught:
        load(some)
    assert str(path) in caught.value.message


OURS = load()


@pytest.mark.parametrize("workload", [one for one, _ in OURS], ids=lambda one: str(one.title))
def test_our_workloads_have_what_they_need(workload: Workload) -> None:
    assert workload.source is not None
    code = (workload.source / f"{workload.name}.c").read_text()
    assert "const struct workload workload" in code or "FAMILY(" in code
    assert all(name.startswith("CONFIG_") for name in workload.options)
    assert all(name.startswith("CAP_") for name in workload.capabilities)


FAMILIES = sorted(
    path for path in workloads.DIRECTORY.glob("*/*.c") if "FAMILY(" in path.read_text()
)


@pytest.mark.parametrize("source", FAMILIES, ids=lambda path: str(path.stem))
def test_a_family_does_the_operations_that_it_describes(source: Path) -> None:
    # Preprocessed: a macro may write an operation's name, in parts.
    command = ("gcc", "-E", "-P", f"-I{HARNESS}", str(source))
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    table = text.split("struct operation operations[] =")[1].split("};")[0]
    names = re.findall(r'\{\s*((?:"[^"]*"\s*)+),', table)
    done = ["".join(re.findall(r'"([^"]*)"', name)) for name in names]
    described = [one.variant for one, _ in OURS if one.source == source.parent]
    assert sorted(done) == sorted(described)


def test_five_of_our_workloads_run_by_default_and_all_are_named_once() -> None:
    assert len({one.title for one, _ in OURS}) == len(OURS)
    usual = {one.name for one, usual in OURS if usual}
    assert usual == {"fork", "negative", "netns", "overlay", "signal"}


TESTCASE = """
char *testcase_description = "some work";
void testcase(unsigned long long *iterations, unsigned long nr) { for (;;) (*iterations)++; }
"""


def test_a_file_with_will_it_scales_interface_is_a_workload(tmp_path: Path) -> None:
    (tmp_path / "some1.c").write_text(TESTCASE)
    one = from_iterations(tmp_path / "some1.c", threads=False, window=None)
    assert (one.title, one.operation) == ("some1", "one iteration of some work")
    assert one.warmup > 0
    assert one.window > 0
    other = from_iterations(tmp_path / "some1.c", threads=True, window=7)
    assert (other.title, other.window) == ("some1/threads", 7)


@pytest.mark.parametrize("text", ["", "int main(void) { return 0; }", "void mytestcase(int n) {}"])
def test_a_file_without_a_testcase_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "none.c").write_text(text)
    with pytest.raises(UsageProblem) as caught:
        from_iterations(tmp_path / "none.c", threads=False, window=None)
    assert "testcase()" in caught.value.message


NOTHING = "void _start(void) { for (;;) ; }\n"
MARKED = '#include "partywall.h"\nvoid _start(void) { partywall_start(); partywall_stop(); }\n'
HALF = '#include "partywall.h"\nvoid _start(void) { partywall_start(); for (;;) ; }\n'


def program(directory: Path, source: str, *flags: str) -> Path:
    return programs.compiled(directory, "mine", source, f"-I{HARNESS}", *(flags or programs.BARE))


def made(path: Path, *, marked: bool | None = None, window: int = 1) -> Workload:
    return from_command([str(path), "-x", "y z"], marked=marked, window=window)


def test_a_static_program_without_markers(tmp_path: Path) -> None:
    workload = made(program(tmp_path, NOTHING), window=7)
    assert not workload.marked
    assert workload.name == "mine"
    assert workload.window == 7
    assert workload.warmup == 0
    assert workload.command == (str(tmp_path / "mine"), "-x", "y z")


def test_a_static_program_with_markers(tmp_path: Path) -> None:
    assert made(program(tmp_path, MARKED)).marked


def test_one_marker_alone_is_none(tmp_path: Path) -> None:
    assert not made(program(tmp_path, HALF)).marked


@pytest.mark.parametrize("marked", [True, False])
def test_who_says_whether_it_is_marked_is_believed(tmp_path: Path, marked: bool) -> None:
    assert made(program(tmp_path, NOTHING), marked=marked).marked is marked
    assert made(program(tmp_path, MARKED), marked=marked).marked is marked


def test_a_static_program_with_a_library_in_it(tmp_path: Path) -> None:
    source = '#include <stdio.h>\nint main(void) { return puts("x") < 0; }\n'
    assert not made(program(tmp_path, source, "-static")).marked


def test_a_static_program_that_speaks_of_the_loader(tmp_path: Path) -> None:
    # As ldconfig(8) does, which is static.
    words = 'const char *loader = "/lib64/ld-linux-x86-64.so.2";\n'
    assert made(program(tmp_path, words + NOTHING)).name == "mine"


def test_a_dynamic_program_is_refused_with_what_to_do(tmp_path: Path) -> None:
    path = program(tmp_path, "int main(void) { return 0; }\n", "-no-pie")
    with pytest.raises(UsageProblem, match="dynamically linked") as caught:
        made(path)
    assert str(path) in caught.value.message
    assert "-static" in (caught.value.hint or "")


def test_a_missing_program_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem) as caught:
        made(tmp_path / "missing")
    assert str(tmp_path / "missing") in caught.value.message


def test_a_folder_is_no_program(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem) as caught:
        made(tmp_path)
    assert str(tmp_path) in caught.value.message


@pytest.mark.parametrize("data", [b"", b"\x7f", b"#!/bin/sh\nexit 0\n", b"MZ" + bytes(100)])
def test_what_is_no_elf_program_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "script"
    path.write_bytes(data)
    with pytest.raises(UsageProblem, match="not an ELF program") as caught:
        made(path)
    assert str(path) in caught.value.message


@pytest.mark.parametrize("kind", ["object", "foreign", "cut"])
def test_what_cannot_run_in_the_guest_is_refused(tmp_path: Path, kind: str) -> None:
    path = program(tmp_path, NOTHING, *(["-c"] if kind == "object" else programs.BARE))
    data = bytearray(path.read_bytes())
    if kind == "foreign":
        data[18:20] = (183).to_bytes(2, "little")  # EM_AARCH64
    path.write_bytes(data[:20] if kind == "cut" else data)
    with pytest.raises(UsageProblem):
        made(path)


def test_a_program_may_be_named_as_ours_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = program(tmp_path, NOTHING).rename(tmp_path / "launch")
    kernel = Kernel("test", "6.1", Path("image"), Path("vmlinux"))
    archive = image.base(kernel, made(path), Quiet())
    assert path.read_bytes() in archive
    assert workloads.build_workload(None, Quiet()).read_bytes() in archive
