# SPDX-License-Identifier: GPL-2.0-or-later
"""The compiler that kernels are built with: ccache gives no object of other contents."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from partywall.kernels import make

pytestmark = pytest.mark.skipif(not shutil.which("ccache"), reason="there is no ccache")

SOURCES = {
    "piggy.S": '.data\n.incbin "{folder}/taken"\n',
    "taken.c": 'asm(".data\\n.incbin \\"{folder}/taken\\"\\n");\n',
    "plain.c": 'char plain[] = "plain";\n',
}


def hits(env: dict[str, str]) -> int:
    done = subprocess.run(
        ["ccache", "--print-stats"], env=env, capture_output=True, text=True, check=True
    )
    counts = dict(line.split("\t") for line in done.stdout.splitlines())
    return int(counts["direct_cache_hit"])


def test_it_is_found_in_a_folder_with_a_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "my clone"
    folder.mkdir()
    monkeypatch.setattr(make, "CC", shutil.copy(make.CC, folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "Makefile").write_text("bzImage:\n\t$(CC) --version\n")
    log = tmp_path / "log"
    log.write_bytes(b"")
    make.Make(tmp_path, log)("bzImage")
    assert "Free Software Foundation" in log.read_text()


@pytest.mark.parametrize("name", SOURCES)
def test_what_is_taken_in_is_what_is_there(tmp_path: Path, name: str) -> None:
    env = make.environment() | {"CCACHE_DIR": str(tmp_path / "ccache")}
    source, found = tmp_path / name, tmp_path / "found.o"
    source.write_text(SOURCES[name].format(folder=tmp_path))
    # ccache does not believe a file that is as young as itself.
    os.utime(source, (1, 1))
    objects = []
    for contents in ("the first", "the other"):
        (tmp_path / "taken").write_text(contents)
        dependencies = f"-Wp,-MMD,{tmp_path / 'found.d'}"
        words = [make.CC, "gcc", dependencies, "-c", source, "-o", found]
        subprocess.run(words, env=env, check=True)
        objects.append(found.read_bytes())
    if name == "plain.c":
        assert objects[0] == objects[1]
        assert hits(env) == 1
    else:
        assert b"the first" in objects[0]
        assert b"the other" in objects[1]
