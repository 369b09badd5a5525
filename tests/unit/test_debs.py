# SPDX-License-Identifier: GPL-2.0-or-later
"""What the kernel's packages are called, say and need, and what refuses to be built."""

from __future__ import annotations

import itertools
import os
import subprocess
from pathlib import Path

import pytest
from commands import run

from partywall.core import packages
from partywall.core.errors import EnvironmentProblem, UsageProblem
from partywall.core.progress import Quiet
from partywall.kernels import series
from partywall.kernels.debs import build, headers, image, words

PATCHES = series.read()
NEEDS = ["gcc-12", "make", "libelf1t64 (>= 0.142)"]
BOOKWORM, TRIXIE = "6.12.117-1~deb12u1", "6.12.117-1"
CONTROL = """\
Source: linux-partywall
Section: kernel
Maintainer: partywall <partywall@partywall>
Build-Depends: debhelper-compat (= 12)

Package: linux-image-6.12.117+partywall1-cloud-amd64
Architecture: amd64
Description: Linux kernel, version 6.12.117+partywall1-cloud-amd64
 This package contains the Linux kernel.

Package: linux-libc-dev
Architecture: amd64
Description: Linux support headers for userspace development
 These headers are used by glibc.

Package: linux-headers-6.12.117+partywall1-cloud-amd64
Architecture: amd64
Description: Linux kernel headers
 This package provides kernel header files.

Package: linux-image-6.12.117+partywall1-cloud-amd64-dbg
Architecture: amd64
Description: Linux kernel debugging symbols
 All the necessary debug symbols.
"""


def sorts(one: str, than: str, other: str) -> bool:
    """Whether dpkg says so."""
    asked = ["dpkg", "--compare-versions", one, than, other]
    return subprocess.run(asked, check=False).returncode == 0


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [(BOOKWORM, BOOKWORM), (TRIXIE, TRIXIE), (TRIXIE, BOOKWORM), (TRIXIE, "6.12.116-9")],
)
def test_the_version_is_above_debians_of_the_same_source(ours: str, theirs: str) -> None:
    assert sorts(words.version(ours, 1), "gt", theirs)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (BOOKWORM, "6.12.117-1~deb12u2"),
        (BOOKWORM, TRIXIE),
        (BOOKWORM, "6.12.118-1~deb12u1"),
        (TRIXIE, "6.12.117-1+b1"),
        (TRIXIE, "6.12.117-1+deb13u1"),
        (TRIXIE, "6.12.117-1.1"),
        (TRIXIE, "6.12.117-2"),
        (TRIXIE, "6.12.118-1"),
    ],
)
def test_the_version_is_below_debians_next(ours: str, theirs: str) -> None:
    assert sorts(words.version(ours, 99), "lt", theirs)


def test_revisions_follow_each_other() -> None:
    assert sorts(words.version(TRIXIE, 10), "gt", words.version(TRIXIE, 9))


@pytest.mark.parametrize("source", ["", "6.12.117", "6.12.117-1 x", "6.12-1\nEvil: yes"])
def test_what_is_no_version_of_debians_is_refused(source: str) -> None:
    with pytest.raises(UsageProblem, match="no version"):
        words.version(source, 1)


def test_boot_loaders_sort_the_release_between_debians() -> None:
    ours = words.release(BOOKWORM, 1, "cloud-amd64")
    assert ours == "6.12.117+partywall1-cloud-amd64"
    assert sorts(ours, "gt", "6.12.117+deb12-cloud-amd64")
    assert sorts(ours, "gt", "6.12.117+deb13-cloud-amd64")
    assert sorts(ours, "lt", "6.12.118+deb12-cloud-amd64")
    # As long as a name of the kernel's may be.
    assert len(ours) < 64


def parsed(tmp_path: Path, field: str) -> str:
    path = tmp_path / "changelog"
    path.write_text(words.changelog(BOOKWORM, 2, "cloud-amd64", PATCHES))
    return subprocess.run(
        ["dpkg-parsechangelog", "--file", path, "--show-field", field],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()


@pytest.mark.skipif(
    packages.program("dpkg-parsechangelog") is None, reason="dpkg-dev is not installed"
)
def test_dpkg_reads_the_changelog(tmp_path: Path) -> None:
    assert parsed(tmp_path, "Source") == "linux-partywall"
    assert parsed(tmp_path, "Version") == words.version(BOOKWORM, 2)
    # The time of a build is that of the newest patch, whenever it is built.
    assert parsed(tmp_path, "Timestamp") == f"{words.newest(PATCHES).timestamp():.0f}"


def test_the_changelog_has_each_patch_below_its_topic() -> None:
    lines = words.changelog(BOOKWORM, 1, "cloud-amd64", PATCHES).splitlines()
    topics = [line.strip(" *:") for line in lines if line.startswith("  * ")][1:]
    # In their order: a topic may come twice.
    assert topics == [topic for topic, _ in itertools.groupby(p.topic for p in PATCHES)]
    assert len([line for line in lines if line.startswith("    - ")]) == len(PATCHES)
    start = lines.index("  * ucounts:")
    assert lines[start + 1].startswith("    - ucounts: charge within limits in one call")


def test_a_series_without_a_date_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="date"):
        words.newest([series.Patch("fixes", tmp_path / "a.patch", "Subject: a\n")])


def test_no_package_takes_the_place_of_one_of_debians() -> None:
    text = words.control(CONTROL, PATCHES, NEEDS)
    names = [line.split()[1] for line in text.splitlines() if line.startswith("Package: ")]
    release = "6.12.117+partywall1-cloud-amd64"
    assert names == [
        f"linux-image-{release}",
        f"linux-headers-{release}",
        f"linux-image-{release}-dbg",
    ]


def test_packages_say_what_they_need_and_what_is_in_them() -> None:
    source, image, headers, debug = words.control(CONTROL, PATCHES, NEEDS).split("\n\n")
    assert words.MAINTAINER in source
    assert "Depends: initramfs-tools | linux-initramfs-tool, kmod\n" in image
    assert all(f" {patch.topic}" in image for patch in PATCHES)
    assert "not signed" in image
    assert max(map(len, image.splitlines())) <= 80
    log = words.changelog("6.12.117-1~deb12u1", 1, "cloud-amd64", PATCHES).splitlines()
    assert max(len(line) for line in log if not line.startswith(" -- ")) <= 80
    assert "Depends: gcc-12, libelf1t64 (>= 0.142), make\n" in headers
    assert "Depends" not in debug


def test_the_maintainer_is_that_of_the_program() -> None:
    control = Path(__file__).parents[2] / "debian" / "control"
    assert f"Maintainer: {words.MAINTAINER}\n" in control.read_text()


def test_dpkg_finds_the_source_of_control_in_the_changelog(tmp_path: Path) -> None:
    # Of another one than mkdebian's control names dpkg-gencontrol makes nothing.
    found = build.settings(tmp_path, "6.12.117-1", PATCHES)
    changelog = words.changelog(BOOKWORM, 1, "cloud-amd64", PATCHES)
    assert changelog.startswith(f"{found['KDEB_SOURCENAME']} (")


SOURCE = 'const char *where = __FILE__; const char *when = __DATE__ " " __TIME__;\n'


def test_neither_place_nor_time_gets_into_what_is_compiled(tmp_path: Path) -> None:
    def compiled(name: str, *flags: str, **environment: str) -> bytes:
        tree = tmp_path / name
        tree.mkdir(exist_ok=True)
        (tree / "a.c").write_text(SOURCE)
        command = ["gcc", "-g", *flags, "-c", "-o", tree / "a.o", tree / "a.c"]
        subprocess.run(command, cwd=tree, env=os.environ | environment, check=True)
        return (tree / "a.o").read_bytes()

    assert compiled("one") != compiled("another")
    made = []
    for name in ("one", "another"):
        found = build.settings(tmp_path / name, "6.12.117-1", PATCHES)
        assert found["KCFLAGS"] == found["KAFLAGS"] == found["HOSTCFLAGS"]
        made.append(compiled(name, *found["KCFLAGS"].split(), **found))
    assert made[0] == made[1]
    newest = words.newest(PATCHES)
    assert f"{newest:%b %e %Y %H:%M:%S}".encode() in made[0]
    assert found["KBUILD_BUILD_TIMESTAMP"] == f"{newest:%a %b %e %H:%M:%S} UTC {newest.year}"


EXTMOD = 'destdir=${1}\nmkdir -p "${destdir}"\ncp Makefile "${destdir}/Makefile"\n'


def test_headers_have_the_configuration_that_modules_look_at(tmp_path: Path) -> None:
    script = tmp_path / "scripts/package/install-extmod-build"
    script.parent.mkdir(parents=True)
    script.write_text(EXTMOD)
    (tmp_path / ".config").write_text("CONFIG_A=y\n")
    (tmp_path / "Makefile").write_text(
        "HOSTCC\t= $(LLVM_PREFIX)clang\nHOSTCC\t= gcc\nHOSTCXX\t= g++\n"
        "CPP\t\t= $(CC) -E\nCC\t\t= $(CROSS_COMPILE)gcc\n"
    )
    (tmp_path / "a.c").write_text("int main(void) { return 0; }\n")
    there = tmp_path / "to/scripts"
    there.mkdir(parents=True)
    for name in ("modpost", "one.o"):
        more = ["-c"] if name.endswith(".o") else []
        command = ["gcc", "-g", *more, "-o", there / name, tmp_path / "a.c"]
        subprocess.run(command, check=True)
    (there / "a.sh").write_text("#!/bin/sh\n")
    (there / "a.sh").chmod(0o755)
    (there / ".gitignore").write_text("modpost\n")
    kept = (there / "one.o").read_bytes(), (there / "a.sh").read_bytes()
    for _ in range(2):
        headers.complete(tmp_path, "gcc-12")
        subprocess.run(["sh", "-eu", script, "to"], cwd=tmp_path, check=True)
    # What lintian calls an error: a program with data for a debugger.
    assert b".debug_info" not in (there / "modpost").read_bytes()
    assert subprocess.run([there / "modpost"], check=False).returncode == 0
    assert ((there / "one.o").read_bytes(), (there / "a.sh").read_bytes()) == kept
    assert not (there / ".gitignore").exists()
    # As Linux has it, where clang is another branch.
    assert (tmp_path / "to/Makefile").read_text() == (
        "HOSTCC\t= $(LLVM_PREFIX)clang\nHOSTCC\t= gcc-12\nHOSTCXX\t= g++\n"
        "CPP\t\t= $(CC) -E\nCC\t\t= $(CROSS_COMPILE)gcc-12\n"
    )
    assert (tmp_path / "to/.config").read_text() == "CONFIG_A=y\n"
    assert script.read_text().count("cp .config") == 1


@pytest.mark.parametrize("text", [None, "exit 0\n"])
def test_another_script_for_headers_is_told(tmp_path: Path, text: str | None) -> None:
    script = tmp_path / "scripts/package/install-extmod-build"
    script.parent.mkdir(parents=True)
    if text is not None:
        script.write_text(text)
    with pytest.raises(EnvironmentProblem, match="install-extmod-build"):
        headers.complete(tmp_path, "gcc-12")


BUILDDEB = """
for script in postinst postrm; do
		mkdir -p "${pdir}/DEBIAN"
		cat <<-EOF > "${pdir}/DEBIAN/${script}"
		#!/bin/sh
		set -e
		echo ${script} \\$1
		exit 0
		EOF
		chmod 755 "${pdir}/DEBIAN/${script}"
done
"""


def test_a_kernel_that_is_removed_takes_what_depmod_wrote_since(tmp_path: Path) -> None:
    script = tmp_path / "scripts/package/builddeb"
    script.parent.mkdir(parents=True)
    script.write_text(BUILDDEB)
    modules = tmp_path / "modules"
    for _ in range(2):
        image.complete(tmp_path)
    # Where the scripts look is a place of the test's own.
    script.write_text(script.read_text().replace("/lib/modules/", f"{modules}/"))
    made = {"KERNELRELEASE": "6.12.1", "pdir": str(tmp_path / "image"), "PATH": os.environ["PATH"]}
    subprocess.run(["sh", "-eu", script], env=made, check=True)

    def told(script: str, how: str) -> tuple[str, list[str]]:
        command = [tmp_path / "image/DEBIAN" / script, how]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        there = sorted(str(path.relative_to(modules)) for path in modules.rglob("*"))
        return done.stdout, there

    (modules / "6.12.1").mkdir(parents=True)
    (modules / "6.12.1/modules.weakdep").touch()
    there = ["6.12.1", "6.12.1/modules.weakdep"]
    assert told("postinst", "configure") == ("postinst configure\n", there)
    assert told("postrm", "upgrade") == ("postrm upgrade\n", there)
    # Another package's, such as the link to the headers.
    (modules / "6.12.1/build").touch()
    assert told("postrm", "remove") == ("postrm remove\n", ["6.12.1", "6.12.1/build"])
    (modules / "6.12.1/build").unlink()
    assert told("postrm", "remove") == ("postrm remove\n", [])
    assert told("postrm", "purge") == ("postrm purge\n", [])


EARLY = BUILDDEB.replace("		echo ", "		test -n none || exit 0\n		echo ")


@pytest.mark.parametrize("text", [None, "exit 0\n", EARLY])
def test_another_script_for_packages_is_told(tmp_path: Path, text: str | None) -> None:
    script = tmp_path / "scripts/package/builddeb"
    script.parent.mkdir(parents=True)
    if text is not None:
        script.write_text(text)
    with pytest.raises(EnvironmentProblem, match="builddeb"):
        image.complete(tmp_path)


@pytest.mark.skipif(packages.program("dpkg-shlibdeps") is None, reason="dpkg-dev is not installed")
def test_headers_need_what_their_programs_are_linked_with(tmp_path: Path) -> None:
    (tmp_path / "debian").mkdir()
    (tmp_path / "debian/control").write_text(CONTROL)
    (tmp_path / "scripts/mod").mkdir(parents=True)
    (tmp_path / "tools/objtool").mkdir(parents=True)
    (tmp_path / "scripts/a.sh").write_text("#!/bin/sh\n")
    (tmp_path / "scripts/link").symlink_to("/bin/true")
    (tmp_path / "a.c").write_text("int gelf_getclass(void *); int main(void) { return 0; }\n")
    (tmp_path / "b.c").write_text(
        "int gelf_getclass(void *); int main(void) { return gelf_getclass(0); }\n"
    )
    for source, made in (("a.c", "scripts/mod/modpost"), ("b.c", "tools/objtool/objtool")):
        command = ["gcc", "-Wl,--as-needed", "-o", made, source, "-lelf"]
        subprocess.run(command, cwd=tmp_path, check=True)
    subprocess.run(["gcc", "-c", "-o", "scripts/a.o", "a.c"], cwd=tmp_path, check=True)
    found = [path.name for path in headers.programs(tmp_path)]
    assert found == ["modpost", "objtool"]
    needs = [one.split()[0] for one in headers.libraries(tmp_path)]
    assert "libc6" in needs
    assert any(one in needs for one in ("libelf1", "libelf1t64"))
    (tmp_path / "tools/objtool/objtool").unlink()
    assert [one.split()[0] for one in headers.libraries(tmp_path)] == ["libc6"]


def test_a_tree_without_programs_is_told(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentProblem, match="has no programs"):
        headers.libraries(tmp_path)


def test_a_build_is_refused_where_there_is_no_room(tmp_path: Path) -> None:
    build.require_room(tmp_path, 0)
    with pytest.raises(EnvironmentProblem, match="takes 1000000 GB") as caught:
        build.require_room(tmp_path, 1000000)
    assert "XDG_CACHE_HOME" in (caught.value.hint or "")


def test_a_build_is_refused_where_a_program_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("apt-get", "gcc"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setattr(packages, "program", lambda name: Path("/x") if name == "apt-get" else None)
    with pytest.raises(EnvironmentProblem, match="pahole"):
        build.package(tmp_path / "debs", build.Wanted(), Quiet())
    assert not (tmp_path / "debs").exists()


def test_a_list_of_modules_is_what_lsmod_prints(tmp_path: Path) -> None:
    path = tmp_path / "lsmod"
    path.write_text("Module                  Size  Used by\next4   999424  1\nveth 4096 0\n")
    assert build.modules_of(path) == ["ext4", "veth"]


@pytest.mark.parametrize("text", ["", "ext4 1 2\n", "\xff"])
def test_another_file_is_refused_as_a_list_of_modules(tmp_path: Path, text: str) -> None:
    path = tmp_path / "lsmod"
    path.write_bytes(text.encode("latin-1"))
    code, out, err = run("series", "package", tmp_path / "debs", "--lsmod", path)
    assert (code, out) == (2, "")
    assert str(path) in err
    assert len(err.splitlines()) == 2


def test_options_are_lines_of_a_configuration(tmp_path: Path) -> None:
    path = tmp_path / "over"
    path.write_text('# why\nCONFIG_A=y\n# CONFIG_B is not set\n\nCONFIG_C="a b"\n')
    assert "CONFIG_A=y\n" in build.options_of(path)
    path.write_text("CONFIG_A=y\nCONFIG_B\n")
    with pytest.raises(UsageProblem, match=r"over:2: 'CONFIG_B' is no option"):
        build.options_of(path)


def test_options_that_a_machine_can_not_have_are_told() -> None:
    config = 'CONFIG_CC_VERSION_TEXT="gcc 12"\nCONFIG_DEBUG_INFO_BTF=y\nCONFIG_EXT4_FS=m\n'
    got = 'CONFIG_CC_VERSION_TEXT="gcc 14"\n# CONFIG_DEBUG_INFO_BTF is not set\nCONFIG_EXT4_FS=m\n'
    assert build.lost(config, got) == ["CONFIG_DEBUG_INFO_BTF=y"]


def test_a_file_is_no_folder_for_packages(tmp_path: Path) -> None:
    path = tmp_path / "debs"
    path.touch()
    code, _, err = run("series", "package", path)
    assert code == 2
    assert "is a file" in err
