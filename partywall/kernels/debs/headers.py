# SPDX-License-Identifier: GPL-2.0-or-later
"""What the kernel's scripts leave out of linux-headers: a configuration, and what programs need."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from partywall.core.errors import EnvironmentProblem

_PLACES = ("scripts", "tools/objtool", "tools/bpf/resolve_btfids")
"""Where install-extmod-build takes programs from."""
_ELF = b"\x7fELF"
_PROGRAM = (2, 3)
"""Of an ELF file's types: executable, with an address of its own or without."""
_INSTALL = "scripts/package/install-extmod-build"
_MORE = r"""
# DKMS looks there for what a kernel has; modules are to be compiled as it was, whatever
# compiler a release calls gcc.
cp .config "${destdir}/.config"
sed -i -E -e 's/^(CC[[:space:]]*= \$\(CROSS_COMPILE\))gcc$/\1%(gcc)s/' \
	-e 's/^(HOSTCC[[:space:]]*= )gcc$/\1%(gcc)s/' "${destdir}/Makefile"
# As Debian's policy has it: no data for a debugger in programs, nothing of git's.
find "${destdir}" -name .gitignore -delete
find "${destdir}" -type f -perm /111 -exec sh -c \
	'for one; do ! head -c 4 "$one" | grep -q ELF || strip --strip-all "$one"; done' sh {} +
"""


def complete(tree: Path, compiler: str) -> None:
    """Have linux-headers of a tree get ``.config``, and name the compiler, such as gcc-12.

    DKMS copies the first, and reads options there. Programs are stripped. EnvironmentProblem
    if the script that makes headers is another one.
    """
    script = tree / _INSTALL
    try:
        text = script.read_text()
    except OSError as error:
        raise EnvironmentProblem(f"{script}: {error.strerror}") from error
    if "${destdir}" not in text:
        raise EnvironmentProblem(f"{_INSTALL} of this source is not as it was", "see debs/headers")
    more = _MORE % {"gcc": compiler}
    if more not in text:
        script.write_text(text.rstrip("\n") + "\n" + more)


def programs(tree: Path) -> Iterator[Path]:
    """Yield programs of a tree that linux-headers have, and that were built."""
    for place in _PLACES:
        for path in sorted((tree / place).rglob("*")):
            if path.is_symlink() or not path.is_file():
                continue
            with path.open("rb") as data:
                head = data.read(18)
            # The type is a number of two bytes, the lower first here.
            if head.startswith(_ELF) and int.from_bytes(head[16:18], "little") in _PROGRAM:
                yield path


def libraries(tree: Path) -> list[str]:
    """Return packages of libraries that these programs need, as dpkg-shlibdeps tells them.

    Names differ between releases: libelf1 is libelf1t64 in Debian 13.
    """
    found = [str(path.relative_to(tree)) for path in programs(tree)]
    command = shutil.which("dpkg-shlibdeps")
    if command is None or not found:
        what = "dpkg-shlibdeps is not installed" if found else f"{tree} has no programs"
        raise EnvironmentProblem(what, "apt-get install dpkg-dev")
    done = subprocess.run(
        [command, "-O", *found], cwd=tree, capture_output=True, text=True, check=False
    )
    told = re.search(r"^shlibs:Depends=(.+)$", done.stdout, re.MULTILINE)
    if done.returncode or told is None:
        why = (done.stderr.strip().splitlines() or ["it says nothing"])[-1]
        raise EnvironmentProblem(f"dpkg-shlibdeps failed: {why[:160]}")
    return [one.strip() for one in told[1].split(",")]
