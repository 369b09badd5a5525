# SPDX-License-Identifier: GPL-2.0-or-later
"""Layers in folders of their own are upon each other what they are in one."""

from __future__ import annotations

import hashlib
import io
import json
import os
import random
import stat
import subprocess
import tarfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import layouts
import pytest
from layouts import member

from partywall.core.errors import PartywallError
from partywall.core.progress import Quiet
from partywall.guest import roots
from partywall.guest.roots import images, layers, stacked, started
from partywall.guest.roots.disks import unpack
from partywall.workloads import Root, Service

Entry = tuple[str, str]
"""A path, and what it is: a mode of a folder, a target of a link, or the text of a file."""


def archive(*entries: Entry) -> bytes:
    """Return a layer; what is only removed has no text: ``a/.wh.b``."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for path, what in entries:
            kind, _, told = what.partition(" ")
            if kind == "folder":
                tar.addfile(member(path, type=tarfile.DIRTYPE, mode=int(told, 8)))
            elif kind == "link":
                tar.addfile(member(path, type=tarfile.SYMTYPE, linkname=told))
            else:
                tar.addfile(member(path, size=len(told), mode=0o644), io.BytesIO(told.encode()))
    return out.getvalue()


def facts(place: Path) -> dict[str, object]:
    index = json.loads((place / "index.json").read_text())
    manifest = layouts.read(place, index["manifests"][0]["digest"])
    found: dict[str, object] = layouts.read(place, manifest["config"]["digest"])
    return found


def umoci(place: Path, tag: str, into: Path) -> None:
    command = ["umoci", "raw", "unpack", "--image", f"{place}:{tag}", into]
    subprocess.run(command, check=True, capture_output=True)


def stack(place: Path, into: Path) -> list[Path]:
    """Unpack the layers of an image, and return their folders, the topmost first."""
    into.mkdir()
    found = stacked.unpack(
        place,
        layers.prepare(place, "it"),
        facts(place),
        into,
        lambda tag, folder: umoci(place, tag, folder),
    )
    return [into / name for name in found.folders]


def state(path: Path) -> str:
    seen = path.lstat()
    if stat.S_ISLNK(seen.st_mode):
        return f"link {path.readlink()}"
    if stat.S_ISDIR(seen.st_mode):
        return f"folder {stat.S_IMODE(seen.st_mode):o}"
    return f"file {path.read_text()}"


def flat(top: Path) -> dict[str, str]:
    return {
        str((Path(path) / name).relative_to(top)): state(Path(path) / name)
        for path, folders, files in os.walk(top)
        for name in (*folders, *files)
    }


def whiteout(path: Path) -> bool:
    seen = path.lstat()
    return stat.S_ISCHR(seen.st_mode) and seen.st_rdev == 0


def opaque(path: Path) -> bool:
    try:
        return os.getxattr(path, "trusted.overlay.opaque") == b"y"
    except OSError:
        return False


def merged(tops: list[Path], at: str = "") -> dict[str, str]:
    """Return what an overlay of folders shows, by the rules that the kernel's documents give."""
    found = dict[str, str]()
    for name in sorted({name for top in tops for name in os.listdir(top)}):  # noqa: PTH208
        there = [top / name for top in tops if os.path.lexists(top / name)]
        if whiteout(there[0]):
            # What is merged with nothing is shown as it is.
            found |= {f"{at}{name}": "whiteout"} if len(tops) == 1 else {}
            continue
        found[f"{at}{name}"] = state(there[0])
        below = list[Path]()
        for one in there:
            if one.is_symlink() or not one.is_dir():
                break
            below.append(one)
            if opaque(one):
                break
        found |= merged(below, f"{at}{name}/") if below else {}
    return found


BASE = (
    ("a", "folder 755"),
    ("a/one", "file 1"),
    ("a/two", "file 2"),
    ("b", "folder 700"),
    ("b/deep", "folder 711"),
    ("b/deep/three", "file 3"),
)
CHANGES: dict[str, tuple[Entry, ...]] = {
    "a file is removed": (("a/.wh.one", "file "),),
    "a folder is removed": (("b/.wh.deep", "file "),),
    "a file is replaced": (("a/one", "file new"),),
    "a folder is another one": (("b/deep/.wh..wh..opq", "file "), ("b/deep/four", "file 4")),
    "a folder is removed and made again": (
        ("b/.wh.deep", "file "),
        ("b/deep", "folder 755"),
        ("b/deep/four", "file 4"),
    ),
    "folders above are not said": (("b/deep/four", "file 4"),),
    "a file is where a folder was": (("b/.wh.deep", "file "), ("b/deep", "file 5")),
    "a folder is where a file was": (("a/one", "folder 750"), ("a/one/six", "file 6")),
    "what is not there is removed": (("a/.wh.none", "file "), ("c/.wh.none", "file ")),
    "all of a folder and some of it is removed": (
        ("a/.wh..wh..opq", "file "),
        ("a/.wh.one", "file "),
        ("a/new", "file x"),
    ),
    "a folder is another one, and some of it is removed": (
        (".wh.a", "file "),
        ("a", "folder 755"),
        ("a/.wh.one", "file "),
    ),
    "a link is where a folder was": (("b/.wh.deep", "file "), ("b/deep", "link ../a")),
}


@pytest.mark.parametrize("more", CHANGES.values(), ids=CHANGES)
def test_a_layer_is_what_it_is_in_one_folder(tmp_path: Path, more: tuple[Entry, ...]) -> None:
    place = layouts.layout(tmp_path / "image", archive(*BASE), archive(*more))
    umoci(place, "one", tmp_path / "flat")
    assert merged(stack(place, tmp_path / "stack")) == flat(tmp_path / "flat")


@pytest.mark.parametrize("more", CHANGES.values(), ids=CHANGES)
def test_so_it_is_for_who_may_not_call_a_folder_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: tuple[Entry, ...]
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "setxattr", refuse)
    place = layouts.layout(tmp_path / "image", archive(*BASE), archive(*more))
    umoci(place, "one", tmp_path / "flat")
    assert merged(stack(place, tmp_path / "stack")) == flat(tmp_path / "flat")


def above(path: str) -> set[str]:
    parts = path.split("/")
    return {"/".join(parts[:depth]) for depth in range(1, len(parts))}


def some(chance: random.Random, known: dict[str, str]) -> tuple[Entry, ...]:
    """Return a layer whose names meet those below, ``known``, to which it is added.

    As archives have it: nothing is below a file, and a name is one thing.
    """
    found = dict[str, str]()
    for _ in range(chance.randint(1, 8)):
        path = "/".join(chance.choice("abc") for _ in range(chance.randint(1, 3)))
        kind = chance.choice(["file x", "file y", "folder 755", "folder 700", "gone", "opaque"])
        files = {one for one, what in (known | found).items() if what.startswith("file")}
        taken = path in found or (
            kind[:4] in ("file", "gone") and any(path in above(one) for one in found)
        )
        if not taken and not above(path) & (files | {o for o in found if found[o] == "gone"}):
            found[path] = kind
    # What a layer removes is below it, wherever in its archive that stands.
    for path in found:
        for one in [one for one in known if path in above(one) or path == one]:
            if one == path or not found[path].startswith("folder"):
                del known[one]
    known |= {path: kind for path, kind in found.items() if kind != "gone"}
    entries = list[Entry]()
    for path, kind in found.items():
        folder, _, name = path.rpartition("/")
        if kind == "gone":
            entries.append((f"{folder}/.wh.{name}" if folder else f".wh.{name}", "file "))
        elif kind == "opaque":
            entries += [(path, "folder 755"), (f"{path}/.wh..wh..opq", "file ")]
        else:
            entries.append((path, kind))
    # First what is removed, as is asked of who makes a layer, and folders before what is in them.
    return tuple(sorted(entries, key=lambda one: (".wh." not in one[0], one[0])))


@pytest.mark.parametrize("seed", range(40))
def test_any_layers_are_what_they_are_in_one_folder(tmp_path: Path, seed: int) -> None:
    chance, known = random.Random(seed), dict[str, str]()
    every = [some(chance, known) for _ in range(5)]
    place = layouts.layout(tmp_path / "image", *(archive(*one) for one in every))
    umoci(place, "one", tmp_path / "flat")
    assert merged(stack(place, tmp_path / "stack")) == flat(tmp_path / "flat"), every


def twice(*members: tuple[str, str | None]) -> bytes:
    """Return a layer with names as they come: a folder, or a link to what is behind it."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for path, link in members:
            kind = tarfile.DIRTYPE if link is None else tarfile.SYMTYPE
            tar.addfile(member(path, type=kind, mode=0o777, linkname=link or ""))
    return out.getvalue()


def test_nothing_is_made_through_a_link_of_a_layer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    victim = tmp_path / "victim"
    (victim / "etc").mkdir(parents=True)
    (victim / "etc").chmod(0o700)
    before = (victim / "etc").stat()
    base = archive(
        ("a", "folder 755"), ("a/new", "folder 777"), ("a/etc", "folder 777"), ("a/gone", "file x")
    )
    names = (("a", None), ("a", str(victim)), ("a/new/f", None), ("a/etc/f", None))
    hostile = twice(*names, ("a/.wh.gone", None))
    place = layouts.layout(tmp_path / "image", base, hostile)
    with pytest.raises(stacked.FlatError):
        stack(place, tmp_path / "stack")
    with suppress(PartywallError):
        images.disk(f"{layouts.layout(tmp_path / 'again', base, hostile)}:one", Quiet())
    assert sorted(one.name for one in victim.iterdir()) == ["etc"]
    after = (victim / "etc").stat()
    assert (after.st_mode, after.st_uid, list((victim / "etc").iterdir())) == (
        before.st_mode,
        before.st_uid,
        [],
    )


def deep() -> list[bytes]:
    name = "/".join("a" * 1900)
    return [archive(*BASE), archive(*((f"{n}/{name}/.wh.x", "file ") for n in range(20)))]


def wide() -> list[bytes]:
    many = ((f"{n}/.wh.x", "file ") for n in range(stacked.MOST_NODES // 2 + 1))
    return [archive(*BASE), archive(*many)]


@pytest.mark.parametrize("make", [deep, wide])
def test_names_without_end_are_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[], list[bytes]]
) -> None:
    # What is removed is nowhere, so umoci makes nothing of it and sets no limit.
    monkeypatch.setattr(stacked, "_merge", lambda *_: pytest.fail("it was gone through"))
    place = layouts.layout(tmp_path / "image", *make()[1:])
    with pytest.raises(stacked.FlatError, match="too"):
        stack(place, tmp_path / "stack")


def test_who_a_linked_list_knows_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(layouts, "CONFIG", layouts.CONFIG | {"User": "nobody"})
    place = layouts.layout(
        tmp_path / "image",
        archive(
            ("nix/passwd", "file nobody:x:65534:65534::/:\n"), ("etc/passwd", "link ../nix/passwd")
        ),
    )
    made = images.disk(f"{place}:one", Quiet())
    assert made.stack is None
    assert made.start.uid == 65534


def test_a_folder_that_is_only_part_of_names_is_all_that_it_was(tmp_path: Path) -> None:
    place = layouts.layout(tmp_path / "image", archive(*BASE), archive(("b/deep/four", "file 4")))
    # As if the first layer had said it: tarfile writes no attributes of this kind.
    usual = umoci

    def unpacked(place: Path, tag: str, into: Path) -> None:
        usual(place, tag, into)
        if tag == "layer-0":
            os.setxattr(into / "b/deep", "user.foo", b"bar")

    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(globals(), "umoci", unpacked)
        top, bottom = stack(place, tmp_path / "stack")
    assert os.getxattr(top / "b/deep", "user.foo") == b"bar"
    assert (top / "b/deep").stat().st_mtime_ns == (bottom / "b/deep").stat().st_mtime_ns


def through_a_link() -> list[bytes]:
    return [
        archive(("usr", "folder 755"), ("lib", "link usr")),
        archive(("lib/one", "file 1")),
    ]


def many() -> list[bytes]:
    return [archive((f"file-{number}", "file x")) for number in range(stacked.MOST + 1)]


def empties() -> list[bytes]:
    return [archive(*BASE), archive((".wh..wh..opq", "file "), ("new", "file x"))]


def through_its_own_link() -> list[bytes]:
    return [
        archive(("s", "folder 755"), ("usr", "link s")),
        archive(("lib", "link usr"), ("lib/x", "file x")),
    ]


def said_afterwards() -> list[bytes]:
    return [
        archive(("e", "folder 755"), ("d", "link e")),
        archive(("d/x", "file x"), ("d", "folder 755")),
    ]


def removed_afterwards() -> list[bytes]:
    return [
        archive(("e", "folder 755"), ("d", "folder 750")),
        archive(("d/x", "file x"), (".wh.d", "file ")),
    ]


def linked_lists() -> list[bytes]:
    return [archive(("g", "file one:x:5:\n"), ("etc/group", "link ../g"))]


APART = [
    through_a_link,
    through_its_own_link,
    said_afterwards,
    removed_afterwards,
    linked_lists,
    many,
    empties,
]


@pytest.mark.parametrize("make", APART)
def test_layers_that_are_not_the_same_apart_are_in_one_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[], list[bytes]]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    place = layouts.layout(tmp_path / "image", *make())
    umoci(place, "one", tmp_path / "flat")
    with pytest.raises(stacked.FlatError):
        stack(layouts.layout(tmp_path / "again", *make()), tmp_path / "stack")
    made = roots.disk(Root(kind="image", what=f"{place}:one"), Quiet())
    assert made.stack is None
    unpack(made.file, tmp_path / "made")
    assert flat(tmp_path / "made") == flat(tmp_path / "flat")


def test_layers_with_more_folders_than_can_be_looked_up_are_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stacked, "MOST_LOOKS", 6)
    wide = archive(*((f"{n}", "folder 755") for n in range(3)))
    place = layouts.layout(tmp_path / "image", wide, wide, wide)
    with pytest.raises(stacked.FlatError, match="too many folders"):
        stack(place, tmp_path / "stack")


def test_an_images_disk_has_a_folder_for_each_layer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    base, more = archive(*BASE), archive(*CHANGES["a folder is another one"])
    place = layouts.layout(tmp_path / "image", base, more)
    made = images.disk(f"{place}:one", Quiet())
    assert made.stack is not None
    top, bottom = made.stack.folders
    hashes = [hashlib.sha256(one).hexdigest() for one in (base, more)]
    assert bottom == hashes[0][:12]
    told = f"sha256:{hashes[0]} sha256:{hashes[1]}"
    assert top == hashlib.sha256(told.encode()).hexdigest()[:12]
    unpack(made.file, tmp_path / "made")
    shown = merged([tmp_path / "made" / top, tmp_path / "made" / bottom])
    umoci(place, "one", tmp_path / "flat")
    assert shown == flat(tmp_path / "flat")


def test_users_are_those_that_layers_have_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    first = archive(("etc/passwd", "file one:x:1:1::/:\n"), ("etc/group", "file g:x:5:\n"))
    place = layouts.layout(
        tmp_path / "image",
        first,
        archive(("etc/passwd", "file one:x:1:1::/:\ntwo:x:2:5::/two:\n")),
        archive(("etc/.wh.group", "file ")),
    )
    made = images.disk(f"{place}:one", Quiet())
    assert made.stack is not None
    assert made.stack.group == ""
    start = started(made, Service(name="s", image="i", user="two", command=("x",)))
    assert (start.uid, start.gid) == (2, 5)
