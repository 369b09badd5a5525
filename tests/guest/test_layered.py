# SPDX-License-Identifier: GPL-2.0-or-later
"""Containers of images that have layers: each of them is a lower layer of the overlay."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from checks import Checked, beside

# What an image has when layers remove and replace what is below.
LOOKS = """
fail() { echo "not so: $*"; exit 1; }
[ ! -e /srv/gone ] || fail "a file that was removed is there"
[ "$(busybox ls /srv/other)" = new ] || fail "a folder that is another one has what it had"
[ "$(busybox cat /srv/kept)" = kept ] || fail "a file of the lowest layer"
while read -r _ place _ options _; do
    [ "$place" != / ] || told=$options
done </proc/mounts
IFS=:
set -- ${told#*lowerdir=}
[ $# = 4 ] || fail "$# layers: $told"
"""


def umoci(*words: str | Path) -> None:
    subprocess.run(["umoci", *words], check=True, capture_output=True, timeout=60)


@pytest.fixture
def layout(tmp_path: Path) -> Path:
    """A layout with an image of one layer, called "base": busybox, and files in /srv."""
    root, place = tmp_path / "root", tmp_path / "layout"
    (root / "bin").mkdir(parents=True)
    program = shutil.which("busybox")
    assert program
    shutil.copy(program, root / "bin" / "busybox")
    (root / "srv/other").mkdir(parents=True)
    for name in ("gone", "kept", "other/old"):
        (root / "srv" / name).write_text(f"{name}\n")
    umoci("init", "--layout", place)
    umoci("new", "--image", f"{place}:base")
    umoci("insert", "--image", f"{place}:base", root, "/")
    return place


def test_layers_are_upon_each_other_as_in_their_image(
    check: Callable[..., Checked], layout: Path, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other/new").write_text("new\n")
    (tmp_path / "looks").write_text(LOOKS)
    image = f"{layout}:base"
    umoci("insert", "--image", image, tmp_path / "looks", "/looks")
    umoci("insert", "--image", image, "--whiteout", "/srv/gone")
    umoci("insert", "--image", image, "--opaque", tmp_path / "other", "/srv/other")
    command = ("busybox", "sh", "/looks")
    (found,) = check("-n", "2", "--image", image, "--", *command).result.workloads
    assert found.operations == 2


OWN = '''
summary = "a file of the layer below"
image = "layout:NAME"
server = "busybox httpd -f -p 80 -h /srv"
warmup = 20
window = 40
default = "get"

[variants.get]
operation = "a file that both images have of one layer"
client = """
busybox sh -c 'for n in $(busybox seq {requests}); do busybox wget -qO- {server}/kept; done'
"""
'''


@pytest.mark.slow
def test_images_that_have_a_layer_in_common_meet_there(layout: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).write_text(name)
        umoci("tag", "--image", f"{layout}:base", name)
        umoci("insert", "--image", f"{layout}:{name}", tmp_path / name, f"/srv/{name}")
        (tmp_path / f"{name}.toml").write_text(OWN.replace("NAME", name))
    one, two = (tmp_path / f"{name}.toml" for name in ("one", "two"))
    found = beside("-n", 2, "-w", f"{one}/get-peer", "--with", f"{two}/get-peer")
    # busybox is mapped anew by each client, and has one page cache for both.
    both = found.of("one/get-peer", "two/get-peer")
    assert both is not None
    assert any("busybox" in one.object for one in both.objects), both.objects
