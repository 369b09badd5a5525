# SPDX-License-Identifier: GPL-2.0-or-later
"""Roots that somebody else made: read, or refused with nothing left behind."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from commands import run
from layouts import USUAL, layer, layout, member, zstd

from partywall import workloads
from partywall.core import cache
from partywall.core.errors import PartywallError, UsageProblem
from partywall.core.progress import Quiet
from partywall.core.topology import Topology
from partywall.guest import oci, rooted, roots
from partywall.guest.roots import debian, disks, layers
from partywall.measure import ready
from partywall.measure import run as measuring
from partywall.workloads import Root


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def made(what: object) -> roots.Disk:
    return roots.disk(Root(kind="image", what=str(what)), Quiet())


def listed(file: Path) -> str:
    done = subprocess.run(["unsquashfs", "-lln", file], capture_output=True, text=True, check=True)
    return done.stdout


def test_an_image_is_unpacked_and_says_how_it_starts(tmp_path: Path) -> None:
    place = layout(tmp_path / "image", layer(*USUAL), layer(member("etc/more", size=3)))
    found = made(f"{place}:one")
    assert found.start.args == ("/bin/server", "-v")
    assert "A=b" in found.start.env
    assert found.start.cwd == "/srv"
    assert "/bin/server" in listed(found.file)
    assert "/etc/more" in listed(found.file)
    # A second time nothing is made: it is not even looked whether skopeo is there.
    before = found.file.stat().st_mtime_ns
    assert made(f"{place}:one").file.stat().st_mtime_ns == before


@pytest.mark.parametrize("kind", ["docker-archive", "oci-archive"])
def test_archives_are_as_good_as_a_layout(tmp_path: Path, kind: str) -> None:
    place, archive = layout(tmp_path / "image", layer(*USUAL)), tmp_path / "saved.tar"
    copy = ["skopeo", "--insecure-policy", "copy", "-q", f"oci:{place}:one", f"{kind}:{archive}"]
    subprocess.run(copy, check=True, capture_output=True)
    assert made(archive).start.args == ("/bin/server", "-v")


def test_layers_may_be_of_zstd(tmp_path: Path) -> None:
    same, other = layer(member("etc/one", size=3)), layer(member("etc/two", size=3))
    place = layout(tmp_path / "image", layer(*USUAL), same, same, other, pack=zstd)
    found = listed(made(f"{place}:one").file)
    assert "/etc/one" in found
    assert "/etc/two" in found


def saved(folder: Path, tags: list[str]) -> Path:
    """An archive as Docker writes it since 25: a layout, and the list that it had before."""
    place = layout(folder, layer(*USUAL))
    index = json.loads((place / "index.json").read_text())
    manifest = json.loads(blob_of(place, index["manifests"][0]["digest"]).read_text())
    path = "blobs/sha256/{}".format
    names = [one["digest"].partition(":")[2] for one in (manifest["config"], *manifest["layers"])]
    listed = {"Config": path(names[0]), "RepoTags": tags, "Layers": [*map(path, names[1:])]}
    (place / "manifest.json").write_text(json.dumps([listed]))
    archive = folder.with_suffix(".tar")
    with tarfile.open(archive, "w") as out:
        out.add(place, ".")
    return archive


def blob_of(place: Path, digest: str) -> Path:
    return place / "blobs" / "sha256" / digest.partition(":")[2]


@pytest.mark.parametrize("tag", ["", ":redis:7", ":one", ":other"])
def test_an_archive_of_docker_has_tags_of_two_kinds(tmp_path: Path, tag: str) -> None:
    archive = saved(tmp_path / "image", ["redis:7", "other:latest"])
    assert made(f"{archive}{tag}").start.args == ("/bin/server", "-v")


@pytest.mark.parametrize("pack", [gzip.compress, zstd])
def test_a_packed_archive_is_read(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    archive = saved(tmp_path / "image", ["redis:7"])
    archive.write_bytes(pack(archive.read_bytes()))
    assert made(f"{archive}:redis:7").start.args == ("/bin/server", "-v")


def test_a_layer_may_end_without_zeroes_as_umoci_leaves_it(tmp_path: Path) -> None:
    whole = layer(member("srv", size=700))
    place = layout(tmp_path / "image", whole[: 512 + 700])
    assert "/srv" in listed(made(place).file)


def foreign(folder: Path) -> Path:
    return layout(folder, layer(*USUAL), architecture="arm64")


def climbing(folder: Path) -> Path:
    return layout(folder, layer(*USUAL, member("../../climbed", size=3)))


def removing_itself(folder: Path) -> Path:
    return layout(folder, layer(*USUAL), layer(member("bin/.wh...")))


def with_device(folder: Path) -> Path:
    return layout(folder, layer(member("srv/disk", type=tarfile.BLKTYPE, devmajor=8)))


def bomb(folder: Path) -> Path:
    return layout(folder, layer(member("zeroes", size=3 << 20)))


def bomb_of_zstd(folder: Path) -> Path:
    return layout(folder, layer(member("zeroes", size=3 << 20)), pack=zstd)


def broken_zstd(folder: Path) -> Path:
    return layout(folder, layer(*USUAL), pack=zstd_cut)


def zstd_cut(data: bytes) -> bytes:
    return zstd(data)[:-9]


def with_others(folder: Path, *others: tarfile.TarInfo) -> Path:
    """An archive with an honest image, and files that belong to none."""
    archive = saved(folder, ["redis:7"])
    with tarfile.open(archive, "a") as out:
        for one in others:
            out.addfile(one, io.BytesIO(bytes(one.size)))
    archive.write_bytes(gzip.compress(archive.read_bytes()))
    return archive


def beside(folder: Path) -> Path:
    """Each file may be, not all together."""
    return with_others(folder, *(member(f"zeroes-{number}", size=1 << 20) for number in range(3)))


def many_beside(folder: Path) -> Path:
    return with_others(folder, *(member(f"file{number}") for number in range(20)))


def linked_list(folder: Path) -> Path:
    """Its list is a link to what is not there."""
    archive = folder.with_suffix(".tar")
    archive.write_bytes(layer(member("manifest.json", type=tarfile.SYMTYPE, linkname="gone")))
    return archive


def endless(folder: Path) -> Path:
    """A file of it has less than nothing, so that the same header comes again."""
    archive = folder.with_suffix(".tar")
    head = bytearray(member("a").tobuf(tarfile.GNU_FORMAT))
    head[124:136] = b"\xff" * 10 + b"\xfe\x00"
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head[:512])
    archive.write_bytes(bytes(head) + bytes(1024))
    return archive


def odd_lists(folder: Path) -> Path:
    """What ought to be lists and objects is something else."""
    archive = folder.with_suffix(".tar")
    texts = {"manifest.json": [{"RepoTags": 7}, 8], "index.json": {"manifests": [[], {"a": 1}]}}
    with tarfile.open(archive, "w") as out:
        for name, text in texts.items():
            data = json.dumps(text).encode()
            out.addfile(member(name, size=len(data)), io.BytesIO(data))
    return archive


def climbing_beside(folder: Path) -> Path:
    return with_others(folder, member("../../climbed", size=3))


def lying(folder: Path) -> Path:
    return layout(folder, layer(*USUAL), of_layers=[f"sha256:{'0' * 64}"])


def changed(folder: Path) -> Path:
    place = layout(folder, layer(*USUAL))
    largest = max((place / "blobs" / "sha256").iterdir(), key=lambda blob: blob.stat().st_size)
    largest.write_bytes(b"something else")
    return place


def truncated(folder: Path) -> Path:
    folder.with_suffix(".tar").write_bytes(layer(*USUAL)[:700])
    return folder.with_suffix(".tar")


def noise(folder: Path) -> Path:
    folder.with_suffix(".tar").write_bytes(b"noise" * 999)
    return folder.with_suffix(".tar")


def no_image(folder: Path) -> Path:
    folder.with_suffix(".tar").write_bytes(layer(*USUAL))
    return folder.with_suffix(".tar")


def missing(folder: Path) -> Path:
    return folder


def with_header(folder: Path, text: bytes, *, times: int = 1) -> Path:
    """An image whose one file has extended headers of this text before it."""
    head = tarfile.TarInfo("header")
    head.type, head.size = tarfile.XHDTYPE, len(text)
    padded = text + bytes(-len(text) % tarfile.BLOCKSIZE)
    return layout(folder, (head.tobuf(tarfile.USTAR_FORMAT) + padded) * times + layer(*USUAL))


def endless_headers(folder: Path) -> Path:
    return with_header(folder, b"13 comment=a\n", times=1200)


def no_number(folder: Path) -> Path:
    return with_header(folder, b"20 GNU.sparse.size=q\n")


def no_length(folder: Path) -> Path:
    return with_header(folder, b"9" * 20 + b" path=a\n")


def long_header(folder: Path) -> Path:
    return with_header(folder, bytes((1 << 20) + 1))


def many_files(folder: Path) -> Path:
    return layout(folder, layer(*USUAL, *(member(f"file{number}") for number in range(20))))


HOSTILE: dict[Callable[[Path], Path], str] = {
    foreign: "linux/arm64",
    climbing: "leads out of it: ../../climbed",
    removing_itself: "removes what is no name",
    with_device: "has a device: srv/disk",
    bomb: "when it is unpacked",
    bomb_of_zstd: "when it is unpacked",
    broken_zstd: "a layer is broken",
    beside: "when it is unpacked",
    many_beside: "has more than 10 files",
    climbing_beside: "leads out of it",
    linked_list: "can't be read",
    endless: "is no archive",
    odd_lists: "can't be read",
    endless_headers: "a layer is broken",
    no_number: "a layer is broken",
    no_length: "a layer is broken",
    long_header: "a header of 1048577 bytes",
    many_files: "more than 10 files",
    lying: "can't be read",
    changed: "can't be read",
    truncated: "can't be read",
    noise: "is no archive",
    no_image: "can't be read",
    missing: "no such file",
}


@pytest.mark.parametrize("make", HOSTILE, ids=lambda make: make.__name__)
def test_what_is_no_honest_image_is_refused_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], Path]
) -> None:
    monkeypatch.setattr(disks, "MOST", 2 << 20)
    monkeypatch.setattr(layers, "MOST_FILES", 10)
    place = make(tmp_path / "image")
    with pytest.raises(UsageProblem) as refused:
        made(place)
    assert HOSTILE[make] in refused.value.message
    assert refused.value.hint
    assert not [one for one in cache.root().rglob("*") if one.is_file() and one.suffix != ".lock"]
    assert not [one for one in cache.root().glob("root/*") if one.is_dir()]
    assert not list(tmp_path.parent.rglob("climbed"))


def test_a_layer_that_links_out_writes_nothing_there(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    link = member("out", type=tarfile.SYMTYPE, linkname=str(outside))
    place = layout(tmp_path / "image", layer(*USUAL, link), layer(member("out/file", size=3)))
    made(place)
    assert not list(outside.iterdir())


def test_a_directory_that_changes_is_another_root(tmp_path: Path) -> None:
    folder = tmp_path / "root"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "one").write_text("one")
    root = Root(kind="directory", what=str(folder))
    first = roots.disk(root, Quiet())
    (folder / "bin" / "two").write_text("two")
    second = roots.disk(root, Quiet())
    assert first.file != second.file
    assert "two" not in listed(first.file)
    assert "two" in listed(second.file)


@pytest.mark.parametrize(
    ("root", "told"),
    [
        (Root(kind="directory", what="/"), "all of this machine"),
        (Root(kind="directory", what="/no-such-place"), "is no directory"),
        (Root(kind="debian", what="redis-server,;reboot"), "';reboot' is no name"),
        (Root(kind="debian", what=","), "is no name"),
    ],
)
def test_roots_that_can_not_be_are_refused(root: Root, told: str) -> None:
    with pytest.raises(PartywallError, match=told):
        roots.disk(root, Quiet())


def test_packages_are_read_from_what_apt_would_do() -> None:
    told = (
        "Inst libc6 (2.36-9 Debian:12/oldstable [amd64]) []\n"
        "Inst adduser (3.134 Debian:12.15/oldstable [all])\n"
        "Inst libc6:i386 (2.36-9 Debian:12/oldstable [i386])\n"
        "Conf libc6 (2.36-9 Debian:12/oldstable [amd64])\n"
    )
    assert debian.versions(told) == [("adduser", "3.134"), ("libc6", "2.36-9")]


def test_a_container_is_started_as_its_image_says() -> None:
    start = disks.Start(env=("PATH=/opt/bin", "A=b"), cwd="/srv", uid=7, gid=8, groups=(9,))
    usual = oci.config(
        number=3,
        cpus=range(3, 4),
        arguments=["x"],
        environment={"PATH": "/bin", "PW_CPU": "3"},
        capabilities=(),
        confined=True,
        apparmor=True,
        systempaths=True,
        more=rooted.CONFINEMENT,
    )
    process = rooted.config(usual, start)["process"]
    assert process["user"] == {"uid": 7, "gid": 8, "additionalGids": [9]}
    assert process["cwd"] == "/srv"
    assert process["env"] == ["PATH=/opt/bin", "A=b", "HOME=/", "PW_CPU=3"]
    kinds = [one["type"] for one in rooted.config(usual, start)["linux"]["namespaces"]]
    assert "user" not in kinds


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--rootfs", "a", "--debian", "b", "--", "c"], "exclude each other"),
        (["--rootfs", "a", "-w", "signal", "--", "c"], "exclude each other"),
        (["--debian", "redis-server"], "there is no command"),
    ],
)
def test_one_root_and_its_command(arguments: list[str], told: str) -> None:
    status, _, complaint = run("check", *arguments)
    assert status == 2
    assert told in complaint
    assert len(complaint.splitlines()) == 2


def test_a_root_is_made_before_a_kernel_is_looked_for() -> None:
    words = ("--kernel", "/no-such-kernel", "--rootfs", "/no-such-place", "--", "c")
    status, _, complaint = run("check", *words)
    assert status == 2
    assert "/no-such-place is no directory" in complaint
    assert len(complaint.splitlines()) == 2


def test_a_root_that_can_not_be_is_the_failure_of_its_workload_alone() -> None:
    (signal,) = workloads.select(["signal"])
    root = Root(kind="directory", what="/no-such-place")
    server = signal.model_copy(update={"name": "server", "root": root})
    left, why = ready.with_roots([signal, server], Quiet())
    assert left == [signal]
    assert "is no directory" in why["server"].message
    (told,) = measuring.unrooted([signal, server], why, Topology(4, 2))
    assert (told.title, told.operation) == ("server 4x2", signal.operation)
    shapes = [one.title for one in measuring.unrooted([signal, server], why, None)]
    assert shapes == ["server 8x1"]
    assert told.why == why["server"].message
    with pytest.raises(UsageProblem, match="is no directory"):
        ready.with_roots([server], Quiet())


@pytest.mark.parametrize(
    ("command", "entrypoint", "runs", "name"),
    [
        ([], None, ["start", "-a", "run"], "image"),
        # As docker run hands it on.
        (["--flag"], None, ["start", "-a", "--flag"], "image"),
        (["other", "x"], None, ["start", "-a", "other", "x"], "other"),
        (["other", "x"], "", ["other", "x"], "other"),
        (["-c", "x"], "/bin/sh -e", ["/bin/sh", "-e", "-c", "x"], "sh"),
        # What an image has behind its own is not meant for another one.
        ([], "/bin/sh", ["/bin/sh"], "sh"),
    ],
)
def test_a_command_is_handed_to_an_images_entrypoint(
    command: list[str], entrypoint: str | None, runs: list[str], name: str
) -> None:
    start = disks.Start(args=("start", "-a", "run"), entry=2)
    image = Root(kind="image", what="folder/image")
    program = workloads.from_root(image, command, marked=None, window=None, entrypoint=entrypoint)
    assert rooted.arguments(program, start, 0) == runs
    assert program.name == name


def test_an_entrypoint_that_leaves_nothing_to_run_is_told() -> None:
    image = Root(kind="image", what="folder/image")
    program = workloads.from_root(image, [], marked=None, window=None, entrypoint="")
    with pytest.raises(UsageProblem, match="does not say what it runs"):
        rooted.arguments(program, disks.Start(args=("start",), entry=1), 0)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--entrypoint", "a", "--rootfs", "b", "--", "c"], "in place of an image's own"),
        (["--entrypoint", "a", "--", "c"], "in place of an image's own"),
        (["--entrypoint", "a"], "belongs to a program of yours"),
        (["--entrypoint", "a", "--compose", "x"], "exclude each other"),
        (["--entrypoint", "'a", "--image", "b"], "--entrypoint: "),
    ],
)
def test_an_entrypoint_is_an_images(arguments: list[str], told: str, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("services: {a: {image: b}}\n")
    words = [str(tmp_path / "x") if one == "x" else one for one in arguments]
    status, _, complaint = run("check", *words)
    assert status == 2
    assert told in complaint
