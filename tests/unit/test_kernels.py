# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernels are found, proven to be whole, and refused in words that help."""

from __future__ import annotations

import gzip
import itertools
import lzma
import os
import shutil
import struct
import subprocess
import sys
import threading
from pathlib import Path

import programs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partywall.core import elf
from partywall.core.errors import EnvironmentProblem, UsageProblem
from partywall.core.progress import Quiet
from partywall.kernels import Kernel, Request, module_closure, require, resolve
from partywall.kernels.apt import Package, download, parse_show
from partywall.kernels.kernel import embedded_config
from partywall.kernels.modules import release_of
from partywall.kernels.sources import debian, files

FUZZ = settings(max_examples=150, deadline=None)
RELEASE = "6.1.0-test"
VERSION = f"{RELEASE} (me@here) #1 SMP Mon Jan 5 00:00:00 UTC 2026"
BANNER = f"Linux version {RELEASE} (me@here) (gcc 12.2.0) #1 SMP Mon Jan 5 00:00:00 UTC 2026"


def image_bytes(version: str = VERSION, *, offset: int = 0x100, length: int = 0x4000) -> bytes:
    """The start of a bzImage."""
    data = bytearray(length)
    data[0x202:0x206] = b"HdrS"
    data[0x20E:0x210] = struct.pack("<H", offset)
    text = version.encode() + b"\0"
    data[0x200 + offset : 0x200 + offset + len(text)] = text
    return bytes(data)


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / "bzImage"
    path.write_bytes(image_bytes())
    return path


def vmlinux(directory: Path, banner: str = BANNER) -> Path:
    source = f'const char linux_banner[] = "{banner}\\n";\nvoid _start(void) {{}}\n'
    return programs.compiled(directory, "vmlinux", source, *programs.BARE)


def asked(kernel: str | Path, **more: Path) -> Kernel:
    return resolve(Request(str(kernel), **more), Quiet())


# Images.


def test_the_version_of_an_image_is_read(image: Path) -> None:
    assert files.image_version(image) == VERSION


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"x",
        bytes(0x206),
        image_bytes()[:0x206],
        image_bytes()[:0x20F],
        image_bytes().replace(b"HdrS", b"HdrT"),
        b"\x7fELF" + bytes(0x1000),
        b"# a text\n" * 1000,
    ],
)
def test_what_is_no_image_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "image"
    path.write_bytes(data)
    with pytest.raises(UsageProblem, match="no x86 bzImage") as caught:
        files.image_version(path)
    assert str(path) in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("offset", [0, 0x3E00, 0xFFFF])
def test_a_version_outside_the_image_is_empty(tmp_path: Path, offset: int) -> None:
    data = bytearray(image_bytes())
    data[0x20E:0x210] = struct.pack("<H", offset)
    path = tmp_path / "image"
    path.write_bytes(data)
    assert files.image_version(path) == ""


@FUZZ
@given(st.binary(max_size=64), st.integers(0, 0x60) | st.integers(0, 0xFFFF))
def test_no_image_breaks_the_reader(
    tmp_path_factory: pytest.TempPathFactory, tail: bytes, offset: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "hostile-image"
    path.write_bytes(image_bytes()[:0x20E] + struct.pack("<H", offset) + tail)
    expected = tail[offset - 0x10 :].split(b"\0")[0] if offset >= 0x10 else None
    found = files.image_version(path)
    assert "\0" not in found
    assert expected is None or found == expected.decode(errors="replace")


def test_an_image_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    for path in (tmp_path / "missing", tmp_path):
        with pytest.raises(UsageProblem) as caught:
            files.image_version(path)
        assert str(path) in caught.value.message


@pytest.mark.parametrize(
    ("version", "banner", "same"),
    [
        (VERSION, BANNER, True),
        (VERSION, BANNER.replace("gcc 12.2.0", "gcc (Debian 12) 12.2.0, GNU ld (x) 2.40"), True),
        (VERSION.replace("#1", "#2"), BANNER, False),
        (VERSION.replace("2026", "2025"), BANNER, False),
        (VERSION.replace("me@here", "you@here"), BANNER, False),
        (VERSION.replace(RELEASE, "6.1.0"), BANNER, False),
        (VERSION, BANNER.replace(RELEASE, f"{RELEASE}-more"), False),
        ("", BANNER, False),
        (VERSION, "", False),
        ("", "", False),
        (RELEASE, BANNER, False),
        ("( (", BANNER, False),
    ],
)
def test_image_and_vmlinux_are_of_one_build(version: str, banner: str, same: bool) -> None:
    assert files.same_build(version, banner) is same


def test_a_kernel_of_files(tmp_path: Path, image: Path) -> None:
    debug = vmlinux(tmp_path)
    (tmp_path / ".config").write_text("CONFIG_NET_NS=y\n")
    found = asked(image, vmlinux=debug)
    assert (found.release, found.image, found.vmlinux) == (RELEASE, image, debug)
    assert found.config == "CONFIG_NET_NS=y\n"
    assert found.modules is None


@pytest.mark.parametrize("place", ["arch/x86/boot", "."])
def test_the_vmlinux_of_a_build_is_found(tmp_path: Path, place: str) -> None:
    debug = vmlinux(tmp_path)
    (tmp_path / place).mkdir(parents=True, exist_ok=True)
    image = tmp_path / place / "bzImage"
    image.write_bytes(image_bytes())
    (tmp_path / ".config").write_text("CONFIG_NET_NS=y\n")
    found = asked(image)
    assert (found.vmlinux, found.config) == (debug, "CONFIG_NET_NS=y\n")
    # As arch/x86_64/boot/bzImage is one of each build.
    link = tmp_path / "link"
    link.symlink_to(image)
    assert asked(link).vmlinux == debug
    (tmp_path / "other").mkdir()
    assert asked(image, vmlinux=debug.rename(tmp_path / "other" / "vmlinux")).release == RELEASE


def test_the_vmlinux_of_a_release_is_found(tmp_path: Path, image: Path) -> None:
    debug = vmlinux(tmp_path).rename(tmp_path / f"vmlinux-{RELEASE}")
    assert asked(image).vmlinux == debug


def test_an_image_without_vmlinux_is_refused(image: Path) -> None:
    with pytest.raises(UsageProblem) as caught:
        asked(image)
    assert "--vmlinux" in (caught.value.hint or "")


def test_a_vmlinux_of_another_kernel_is_refused(tmp_path: Path, image: Path) -> None:
    other = vmlinux(tmp_path / "other", BANNER.replace(RELEASE, "6.6.6"))
    with pytest.raises(UsageProblem, match=rf"6\.6\.6 and {RELEASE}"):
        asked(image, vmlinux=other)
    again = vmlinux(tmp_path / "again", BANNER.replace("#1", "#2"))
    with pytest.raises(UsageProblem, match=f"two builds of {RELEASE}"):
        asked(image, vmlinux=again)


def test_a_vmlinux_that_is_none_is_refused(tmp_path: Path, image: Path) -> None:
    other = programs.compiled(tmp_path, "other", "void _start(void) {}", *programs.BARE)
    with pytest.raises(UsageProblem, match="no linux_banner"):
        asked(image, vmlinux=other)
    with pytest.raises(UsageProblem, match="ELF"):
        asked(image, vmlinux=image)
    with pytest.raises(UsageProblem, match="missing"):
        asked(image, vmlinux=tmp_path / "missing")


def test_modules_have_to_be_of_the_images_build(tmp_path: Path, image: Path) -> None:
    debug = vmlinux(tmp_path)
    inner = tmp_path / "root" / "lib" / "modules" / RELEASE
    programs.module(inner / "kernel", "good", vermagic=f"{RELEASE} SMP mod_unload")
    for given_ in (inner, tmp_path / "root"):
        assert asked(image, vmlinux=debug, modules=given_).modules == inner
    programs.module(tmp_path / "old", "bad", vermagic="5.10.0 SMP")
    for folder, words in ((tmp_path / "old", r"5\.10\.0"), (tmp_path / "none", "no folder")):
        with pytest.raises(UsageProblem, match=words) as caught:
            asked(image, vmlinux=debug, modules=folder)
        assert "--modules" in (caught.value.hint or "")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageProblem, match="no kernel"):
        asked(image, vmlinux=debug, modules=tmp_path / "empty")


# What --kernel may say.


@pytest.mark.parametrize("name", ["foo", "", "Debian", "6.12", "debian-6.1", ".", "partywalls"])
def test_an_unknown_kernel_is_refused_with_what_is_known(name: str) -> None:
    with pytest.raises(UsageProblem) as caught:
        asked(name)
    assert f"'{name}'" in caught.value.message
    assert "debian" in (caught.value.hint or "")
    assert "bzImage" in (caught.value.hint or "")


@pytest.mark.parametrize(
    "name",
    [
        "debian:nonsense",
        "debian:6",
        "debian:6.12.",
        "debian:6.12 ",
        "debian::",
        "debian:-o=x",
        "debian:6.1*",
        "debian:../6.1",
        "debian:bash",
    ],
)
def test_an_unknown_debian_kernel_is_refused(name: str) -> None:
    with pytest.raises(UsageProblem) as caught:
        asked(name)
    assert f"'{name}'" in caught.value.message
    assert "debian:VERSION" in (caught.value.hint or "")


def test_debian_brings_its_own_files(tmp_path: Path) -> None:
    for more in ({"vmlinux": tmp_path}, {"modules": tmp_path}):
        with pytest.raises(UsageProblem, match="--vmlinux and --modules"):
            asked("debian", **more)


def test_a_folder_that_is_no_tree_is_no_kernel(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem) as caught:
        asked(tmp_path)
    assert str(tmp_path) in caught.value.message


def test_a_name_too_long_for_a_file_is_no_kernel() -> None:
    with pytest.raises(UsageProblem):
        asked("k" * 300)


# Debian's packages.


@pytest.mark.parametrize(
    ("names", "version", "newest"),
    [
        (["6.12.9+deb12", "6.12.117+deb12", "6.12.57+deb12"], "6.12", "6.12.117+deb12"),
        (["6.1.0-9", "6.1.0-10"], "6.1", "6.1.0-10"),
        (["6.1.0-9", "6.12.9+deb12"], "6.1", "6.1.0-9"),
        (["6.12.9+deb12", "6.12.90+deb12"], "6.12.9", "6.12.9+deb12"),
        (["6.12.9"], "6.1", None),
        (["6x12.9"], "6.12", None),
        ([], "6.12", None),
    ],
)
def test_the_newest_kernel_is_that_of_the_highest_numbers(
    names: list[str], version: str, newest: str | None
) -> None:
    images = [f"linux-image-{name}-cloud-amd64" for name in names]
    expected = None if newest is None else f"linux-image-{newest}-cloud-amd64"
    for order in itertools.permutations(images):
        known = [*order, *(f"{name}-dbg" for name in order)]
        assert debian.newest(known, version) == expected


@pytest.mark.parametrize(
    "name",
    [
        "linux-image-6.12.117+deb12-cloud-amd64-unsigned",
        "linux-image-6.12.117+deb12-rt-amd64",
        "linux-image-6.12.117+deb12-amd64",
        "linux-image-6.12.117+deb12-cloud-arm64",
        "linux-headers-6.12.117+deb12-cloud-amd64",
        "xlinux-image-6.12.117+deb12-cloud-amd64",
    ],
)
def test_other_packages_are_left_alone(name: str) -> None:
    good = "linux-image-6.12.9+deb12-cloud-amd64"
    assert debian.newest([name, f"{name}-dbg"], "6.12") is None
    assert debian.newest([name, f"{name}-dbg", good, f"{good}-dbg"], "6.12") == good


def test_a_kernel_without_a_debug_package_is_left_alone() -> None:
    old, new = (f"linux-image-6.12.{n}+deb12-cloud-amd64" for n in (9, 117))
    assert debian.newest([new, old, f"{old}-dbg"], "6.12") == old
    assert debian.newest([new, old], "6.12") is None


SHOWN = """\
Package: linux-image-6.12.9-cloud-amd64
Source: linux-signed-amd64 (6.12.9+1)
Version: 6.12.9-1
Installed-Size: 1
Description: Linux 6.12
 Version: of the description
Size: 1234
SHA256: {sum}
""".format(sum="ab" * 32)


def test_what_apt_shows_is_read() -> None:
    (package,) = parse_show(SHOWN)
    assert package == Package("linux-image-6.12.9-cloud-amd64", "6.12.9-1", 1234, "ab" * 32)
    second = SHOWN.replace("6.12.9-1", "6.12.9-2")
    assert [one.version for one in parse_show(f"{second}\n{SHOWN}\n\n")] == [
        "6.12.9-2",
        "6.12.9-1",
    ]


@pytest.mark.parametrize("key", ["Package", "Version", "Size", "SHA256"])
def test_a_package_without_one_of_its_facts_is_none(key: str) -> None:
    assert parse_show(SHOWN.replace(f"\n{key}: ", f"\nX-{key}: ", 1)) == [] or (
        key == "Package" and parse_show(SHOWN.replace("Package", "X", 1)) == []
    )


@pytest.mark.parametrize("text", ["", "\n\n\n", "N: Unable to locate package\n", "Size: x\n" * 9])
def test_what_shows_no_package_has_none(text: str) -> None:
    assert parse_show(text) == []


@pytest.mark.parametrize("size", ["-1", "1e9", "", " 7 7", "0x10", "NaN"])
def test_a_size_that_is_no_number_is_none(size: str) -> None:
    assert parse_show(SHOWN.replace("Size: 1234", f"Size: {size}")) == []


def test_a_size_in_superscript_is_none() -> None:
    assert parse_show(SHOWN.replace("Size: 1234", "Size: \u00b2")) == []


Line = st.sampled_from(SHOWN.splitlines()) | st.just("") | st.text("abc: \t\r\x00é", max_size=9)


@FUZZ
@given(st.lists(Line, max_size=20))
def test_no_text_breaks_the_reader(lines: list[str]) -> None:
    for package in parse_show("\n".join(lines)):
        assert package.name == "linux-image-6.12.9-cloud-amd64"
        assert package.size == 1234


@pytest.fixture
def apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An apt-cache that prints what lies in this folder as pkgnames or by a package's name."""
    folder = tmp_path / "apt"
    folder.mkdir()
    program = folder / "apt-cache"
    program.write_text(f'#!/bin/sh\ncat "{folder}/$1-$2" 2>/dev/null\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


NAME = "linux-image-6.12.9-cloud-amd64"


def test_a_package_that_apt_does_not_know_is_named(apt: Path) -> None:
    with pytest.raises(UsageProblem, match=NAME) as caught:
        asked(f"debian:{NAME}")
    assert "apt-get update" in (caught.value.hint or "")


class Told(Quiet):
    """Keeps the notes."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        """One more."""
        self.notes.append(text)


def test_a_first_run_says_before_it_begins_what_it_downloads(
    apt: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what is here already is not in the sum."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (apt / "apt-get").write_text("#!/bin/sh\nexit 100\n")
    (apt / "apt-get").chmod(0o755)
    image = SHOWN.replace("Size: 1234", "Size: 100000000")
    (apt / f"show-{NAME}").write_text(image)
    (apt / f"show-{NAME}-dbg").write_text(
        SHOWN.replace("Size: 1234", "Size: 300000000").replace(NAME, f"{NAME}-dbg")
    )

    def said() -> list[str]:
        told = Told()
        with pytest.raises(EnvironmentProblem, match="downloading"):
            resolve(Request(f"debian:{NAME}"), told)
        return told.notes

    (note,) = said()
    assert f"{NAME}: 400 MB" in note
    assert "64 s at 50 Mbit/s" in note
    kept = tmp_path / "cache" / "partywall" / "debian" / f"{NAME}-{'ab' * 8}"
    kept.mkdir(parents=True)
    (kept / ".complete").touch()
    (note,) = said()
    assert "300 MB" in note


def test_a_version_that_apt_does_not_know_is_named(apt: Path) -> None:
    with pytest.raises(EnvironmentProblem, match=r"Linux 6\.12 with a debug package") as caught:
        asked("debian:6.12")
    # Not "run make setup", which is what just said this.
    assert "-security" in (caught.value.hint or "")


def test_a_package_without_its_debug_package_is_refused(apt: Path) -> None:
    (apt / f"show-{NAME}").write_text(SHOWN)
    with pytest.raises(UsageProblem, match="no -dbg package"):
        debian.pair(NAME)
    older = SHOWN.replace("6.12.9-1", "6.12.9-0").replace(NAME, f"{NAME}-dbg")
    (apt / f"show-{NAME}-dbg").write_text(older)
    with pytest.raises(UsageProblem, match="no -dbg package"):
        debian.pair(NAME)


def test_image_and_debug_package_are_of_one_version(apt: Path) -> None:
    second = SHOWN.replace("6.12.9-1", "6.12.9-2")
    (apt / f"show-{NAME}").write_text(f"{second}\n{SHOWN}")
    (apt / f"show-{NAME}-dbg").write_text(SHOWN.replace(NAME, f"{NAME}-dbg"))
    found, debug = debian.pair(NAME)
    assert (found.name, found.version) == (NAME, "6.12.9-1")
    assert (debug.name, debug.version) == (f"{NAME}-dbg", "6.12.9-1")


def test_the_newest_name_comes_from_apt(apt: Path) -> None:
    names = [
        f"linux-image-6.12.{n}+deb12-cloud-amd64{dbg}" for n in (9, 117) for dbg in ("", "-dbg")
    ]
    (apt / "pkgnames-linux-image-6.12").write_text("\n".join(names))
    assert debian.newest_name("6.12") == "linux-image-6.12.117+deb12-cloud-amd64"


def test_lists_that_are_being_fetched_are_waited_for(
    apt: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, names = tmp_path / "lock", apt / "pkgnames-linux-image-6.12"
    lock.touch()
    monkeypatch.setattr("partywall.kernels.apt.LISTS", lock)
    # apt-get update takes the old ones away before the new ones are there.
    update = (
        "import fcntl, sys; lock = open(sys.argv[1], 'r+'); fcntl.lockf(lock, fcntl.LOCK_EX);"
        "print('fetching', flush=True); sys.stdin.read();"
        f"open(sys.argv[2], 'w').write('{NAME}\\n{NAME}-dbg\\n')"
    )
    fetching = subprocess.Popen(
        [sys.executable, "-c", update, lock, names],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with fetching:
        assert fetching.stdin is not None and fetching.stdout is not None
        assert fetching.stdout.readline() == "fetching\n"
        threading.Timer(0.5, fetching.stdin.close).start()
        assert debian.newest_name("6.12") == NAME


def test_a_machine_without_apt_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentProblem, match="no Debian") as caught:
        asked("debian")
    assert "--vmlinux" in (caught.value.hint or "")


# What a kernel was built with.


def kernel(config: str | None = None, modules: Path | None = None) -> Kernel:
    return Kernel("test", RELEASE, Path("image"), Path("vmlinux"), modules=modules, config=config)


CONFIG = """\
CONFIG_USER_NS=y
CONFIG_OVERLAY_FS=m
# CONFIG_NET_NS is not set
CONFIG_NR_CPUS=8
CONFIG_FLAVOUR=mild
CONFIG_LAST=y"""


def test_what_is_built_in_suffices() -> None:
    require(kernel(CONFIG), ["CONFIG_USER_NS", "CONFIG_LAST"], "workload fork")
    require(kernel(CONFIG), [], "workload fork")


@pytest.mark.parametrize(
    "option",
    [
        "CONFIG_NET_NS",
        "CONFIG_NR_CPUS",
        "CONFIG_FLAVOUR",
        "CONFIG_USER",
        "USER_NS",
        "CONFIG_.*",
        "CONFIG_LA",
        "NS=y",
    ],
)
def test_a_missing_option_is_named_with_who_needs_it(option: str) -> None:
    with pytest.raises(UsageProblem) as caught:
        require(kernel(CONFIG), ["CONFIG_USER_NS", option], "workload netns")
    assert option in caught.value.message
    assert "CONFIG_USER_NS" not in caught.value.message.replace(option, "")
    assert "workload netns" in caught.value.message
    assert RELEASE in caught.value.message


def test_every_missing_option_is_named() -> None:
    with pytest.raises(UsageProblem, match="CONFIG_A, CONFIG_B"):
        require(kernel(CONFIG), iter(["CONFIG_A", "CONFIG_USER_NS", "CONFIG_B"]), "it")


def test_a_module_needs_the_folder_of_modules(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="CONFIG_OVERLAY_FS") as caught:
        require(kernel(CONFIG), ["CONFIG_USER_NS", "CONFIG_OVERLAY_FS"], "workload overlay")
    assert "--modules" in (caught.value.hint or "")
    assert "CONFIG_USER_NS" not in caught.value.message
    require(kernel(CONFIG, tmp_path), ["CONFIG_OVERLAY_FS"], "workload overlay")


def test_an_unknown_configuration_passes() -> None:
    require(kernel(None), ["CONFIG_NO_SUCH_THING"], "workload fork")


def test_an_empty_configuration_has_nothing() -> None:
    with pytest.raises(UsageProblem, match="CONFIG_USER_NS"):
        require(kernel(""), ["CONFIG_USER_NS"], "workload fork")


def embedded(tmp_path: Path, data: bytes) -> str | None:
    path = tmp_path / "vmlinux"
    path.write_bytes(data)
    return embedded_config(path)


PACKED = gzip.compress(CONFIG.encode(), mtime=0)


def test_a_kernel_may_carry_its_configuration(tmp_path: Path) -> None:
    data = b"\x7fELF IKCFG_ST is a word" + bytes(99) + b"IKCFG_ST" + PACKED + b"IKCFG_ED" + b"x" * 9
    assert embedded(tmp_path, data) == CONFIG


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"IKCFG_STIKCFG_ED",
        b"IKCFG_ST" + PACKED,
        PACKED + b"IKCFG_ED",
        b"IKCFG_ST" + PACKED[:10] + b"IKCFG_ED",
        b"IKCFG_ST" + PACKED[:-9] + b"IKCFG_ED",
        b"IKCFG_ST" + PACKED[:-8] + bytes(8) + b"IKCFG_ED",
        b"IKCFG_ST\x1f\x8bIKCFG_ED",
        b"IKCFG_ST\x1f\x8b\x07" + PACKED[3:] + b"IKCFG_ED",
        b"IKCFG_ST" + gzip.compress(b"\xff\xfe", mtime=0) + b"IKCFG_ED",
    ],
)
def test_a_damaged_configuration_is_none(tmp_path: Path, data: bytes) -> None:
    assert embedded(tmp_path, data) is None


def test_a_configuration_with_a_damaged_stream_is_none(tmp_path: Path) -> None:
    damaged = PACKED[:10] + b"\xff" * 20 + PACKED[30:]
    assert embedded(tmp_path, b"IKCFG_ST" + damaged + b"IKCFG_ED") is None


# Modules.


def names(modules: Path, wanted: list[str], optional: list[str] | None = None) -> list[str]:
    return [one.name for one in module_closure(kernel(None, modules), wanted, optional or [])]


def packed(path: Path, suffix: str) -> None:
    """Replaces a module by its compressed file."""
    data = path.read_bytes()
    path.unlink()
    out = path.with_name(path.name + suffix)
    if suffix == ".zst":
        subprocess.run(["zstd", "-q", "-", "-o", str(out)], input=data, check=True)
    else:
        out.write_bytes((lzma if suffix == ".xz" else gzip).compress(data))


def test_modules_come_behind_what_they_need(tmp_path: Path) -> None:
    programs.module(tmp_path / "fs", "top", "left,right")
    programs.module(tmp_path / "fs", "left", "base")
    programs.module(tmp_path / "fs", "right", "base")
    programs.module(tmp_path / "lib", "base")
    programs.module(tmp_path / "lib", "other")
    assert names(tmp_path, ["top"]) == ["base", "left", "right", "top"]
    assert names(tmp_path, ["base", "top", "base"]) == ["base", "left", "right", "top"]
    assert names(tmp_path, []) == []


@pytest.mark.parametrize("suffix", ["", ".xz", ".gz", ".zst"])
def test_a_module_is_unpacked(tmp_path: Path, suffix: str) -> None:
    if suffix == ".zst" and shutil.which("zstd") is None:
        pytest.skip("zstd is not installed")
    plain = programs.module(tmp_path, "one", "two")
    data = plain.read_bytes()
    programs.module(tmp_path, "two")
    if suffix:
        packed(plain, suffix)
    found = module_closure(kernel(None, tmp_path), ["one"])
    assert [module.name for module in found] == ["two", "one"]
    assert found[1].data == data


def test_dashes_and_underscores_are_the_same(tmp_path: Path) -> None:
    programs.module(tmp_path, "with-dash", "under_score")
    programs.module(tmp_path, "under-score")
    for spelt in ("with-dash", "with_dash"):
        assert names(tmp_path, [spelt]) == ["under_score", "with_dash"]


def test_what_is_built_in_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "modules.builtin").write_text("kernel/lib/crc-16.ko\nkernel/fs/ext4/ext4.ko\n")
    programs.module(tmp_path, "overlay", "crc_16")
    assert names(tmp_path, ["ext4", "overlay"], ["ext4"]) == ["overlay"]


def test_a_kernel_without_modules_needs_none() -> None:
    assert module_closure(kernel(), ["ext4", "overlay"]) == []


def test_a_missing_module_is_named_with_who_needs_it(tmp_path: Path) -> None:
    programs.module(tmp_path, "overlay", "missing")
    with pytest.raises(UsageProblem, match="the guest needs the module ext4"):
        names(tmp_path, ["ext4"])
    with pytest.raises(UsageProblem, match="overlay needs the module missing") as caught:
        names(tmp_path, ["overlay"])
    assert str(tmp_path) in caught.value.message


def test_an_optional_module_may_be_missing(tmp_path: Path) -> None:
    programs.module(tmp_path, "brd")
    assert names(tmp_path, [], ["zram", "brd"]) == ["brd"]


@pytest.mark.parametrize("depends", ["ring_a", "ring_b"])
def test_modules_that_need_each_other_are_refused_or_given(tmp_path: Path, depends: str) -> None:
    programs.module(tmp_path, "ring_a", depends)
    programs.module(tmp_path, "ring_b", "ring_a")
    try:
        assert names(tmp_path, ["ring_a"])[-1] == "ring_a"
    except UsageProblem as error:
        assert "ring_a" in error.message


def test_a_module_without_facts_needs_nothing(tmp_path: Path) -> None:
    programs.compiled(tmp_path, "bare.ko", "int x;", "-c")
    assert names(tmp_path, ["bare"]) == ["bare"]


@pytest.mark.parametrize("suffix", ["", ".xz", ".gz"])
def test_a_damaged_module_is_refused(tmp_path: Path, suffix: str) -> None:
    (tmp_path / f"bad.ko{suffix}").write_bytes(b"no module" * 9)
    with pytest.raises(UsageProblem):
        names(tmp_path, ["bad"])


def test_a_damaged_module_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad.ko").write_bytes(b"no module" * 9)
    with pytest.raises(UsageProblem, match="bad"):
        names(tmp_path, ["bad"])


@pytest.mark.parametrize("suffix", [".xz", ".gz", ".zst"])
def test_a_module_cut_short_is_named(tmp_path: Path, suffix: str) -> None:
    if suffix == ".zst" and shutil.which("zstd") is None:
        pytest.skip("zstd is not installed")
    packed(programs.module(tmp_path, "bad"), suffix)
    path = tmp_path / f"bad.ko{suffix}"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(UsageProblem, match="can't be unpacked") as caught:
        names(tmp_path, ["bad"])
    assert str(path) in caught.value.message


def test_a_module_with_a_damaged_stream_is_named(tmp_path: Path) -> None:
    packed(programs.module(tmp_path, "bad"), ".gz")
    path = tmp_path / "bad.ko.gz"
    data = path.read_bytes()
    path.write_bytes(data[:40] + b"\xff" * 20 + data[60:])
    with pytest.raises(UsageProblem, match="can't be unpacked"):
        names(tmp_path, ["bad"])


def test_a_module_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "gone.ko").symlink_to(tmp_path / "nowhere")
    with pytest.raises(UsageProblem, match="gone"):
        names(tmp_path, ["gone"])


@FUZZ
@given(st.data())
def test_a_module_cut_anywhere_is_refused_or_read(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.getbasetemp() / "cut" / "mod.ko"
    if not path.exists():
        programs.module(path.parent, "mod", "a,b")
    whole = path.read_bytes()
    length = data.draw(st.integers(0, len(whole)))
    try:
        assert elf.module_depends(whole[:length]) in ([], ["a", "b"])
    except UsageProblem as error:
        assert length < len(whole)
        assert error.message


def test_the_release_of_modules_is_found(tmp_path: Path) -> None:
    assert release_of(tmp_path) is None
    programs.module(tmp_path / "a", "first")
    assert release_of(tmp_path) is None
    packed(programs.module(tmp_path / "b", "second", vermagic=f"{RELEASE} SMP"), ".xz")
    assert release_of(tmp_path) == RELEASE


# Suites that this machine's apt does not use, and kernels in several packages.

SPLIT = SHOWN.replace("6.12.9-cloud", "7.3.4+deb13-cloud").replace("6.12.9-1", "7.3.4-1")
SPLIT_RELEASE = "7.3.4+deb13-cloud-amd64"


def test_what_a_package_needs_of_its_own_version_is_read() -> None:
    depends = (
        f"kmod, linux-binary-{SPLIT_RELEASE} (= 7.3.4-1), linux-base (>= 4.17~), linux-doc (= 1)"
    )
    (package,) = parse_show(SPLIT.replace("\nSize:", f"\nDepends: {depends}\nSize:"), "sid")
    assert package.depends == (f"linux-binary-{SPLIT_RELEASE}",)
    assert package.suite == "sid"


def split_image(*names: str) -> Package:
    return Package(f"linux-image-{SPLIT_RELEASE}", "7.3.4-1", 1, "ab" * 32, names)


def test_a_kernel_is_found_in_the_packages_it_is_split_over(apt: Path) -> None:
    for kind, version in (("binary", "7.3.4-1"), ("modules", "7.3.4-2\n"), ("base", "7.3.4-1")):
        name = f"linux-{kind}-{SPLIT_RELEASE}"
        text = SPLIT.replace(f"linux-image-{SPLIT_RELEASE}", name)
        newer = text.replace("7.3.4-1", "7.3.4-2")
        (apt / f"show-{name}").write_text(f"{newer}\n{text}" if "\n" in version else text)
    names = [f"linux-{kind}-{SPLIT_RELEASE}" for kind in ("binary", "modules", "base")]
    found = debian.parts(split_image(*names, "linux-perf-7.3.4", "dracut"))
    assert [(one.name, one.version) for one in found] == [(name, "7.3.4-1") for name in names]
    assert debian.parts(split_image()) == []


def test_a_part_that_apt_lacks_is_named(apt: Path) -> None:
    with pytest.raises(UsageProblem, match="needs linux-modules-7"):
        debian.parts(split_image(f"linux-modules-{SPLIT_RELEASE}"))


def test_any_version_is_the_newest_of_all() -> None:
    names = [f"linux-image-{n}+deb13-cloud-amd64" for n in ("6.12.117", "7.3.4", "7.2.13")]
    known = [name + dbg for name in [*names, "linux-image-7.4-cloud-amd64"] for dbg in ("", "-dbg")]
    assert debian.newest(known, "") == names[1]


@pytest.mark.parametrize("name", ["debian@", "debian@SID", "debian:7.3@../x", "debian@a b"])
def test_what_is_no_suite_is_refused(name: str, apt: Path) -> None:
    with pytest.raises(UsageProblem, match="no suite"):
        asked(name)


@pytest.fixture
def suite(apt: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own, and an apt-get that notes what it is asked."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    program = apt / "apt-get"
    program.write_text(f'#!/bin/sh\necho "$@" >> "{apt}/asked"\n[ ! -e "{apt}/broken" ]\n')
    program.chmod(0o755)
    return tmp_path / "partywall" / "apt" / "sid"


def test_lists_of_a_suite_are_its_own_and_fetched_once(apt: Path, suite: Path) -> None:
    (apt / "pkgnames-linux-image-").write_text(f"{NAME}\n{NAME}-dbg")
    for _ in range(2):
        assert debian.newest_name("", "sid") == NAME
    (asked_for,) = (apt / "asked").read_text().splitlines()
    assert "update" in asked_for
    assert f"Dir::Etc::sourcelist={suite}/sources.list" in asked_for
    assert f"Dir::State::lists={suite}/lists" in asked_for
    assert (suite / "sources.list").read_text().endswith(" sid main\n")


def test_old_lists_are_fetched_again_and_do_where_that_fails(apt: Path, suite: Path) -> None:
    (apt / "pkgnames-linux-image-").write_text(f"{NAME}\n{NAME}-dbg")
    debian.newest_name("", "sid")
    os.utime(suite / "fetched", (0, 0))
    (apt / "broken").touch()
    assert debian.newest_name("", "sid") == NAME
    assert len((apt / "asked").read_text().splitlines()) == 2


def test_a_suite_without_lists_is_named(apt: Path, suite: Path) -> None:
    (apt / "broken").touch()
    with pytest.raises(EnvironmentProblem, match="no lists of sid"):
        debian.newest_name("", "sid")


def test_lists_that_promise_what_is_gone_are_fetched_again(
    apt: Path, suite: Path, tmp_path: Path
) -> None:
    (apt / "pkgnames-linux-image-").write_text(f"{NAME}\n{NAME}-dbg")
    debian.newest_name("", "sid")
    (apt / "broken").touch()
    gone = Package(NAME, "6.12.9-1", 1, "0" * 64, suite="sid")
    with pytest.raises(EnvironmentProblem, match="failed"):
        download(gone, tmp_path, Quiet())
    (apt / "broken").unlink()
    debian.newest_name("", "sid")
    updates = [line for line in (apt / "asked").read_text().splitlines() if " update " in line]
    assert len(updates) == 2
