# SPDX-License-Identifier: GPL-2.0-or-later
"""Proves that each patch of a series builds and boots by itself, and passes what checks it."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from partywall.core import cache, packages
from partywall.core.errors import EnvironmentProblem, UsageProblem
from partywall.core.progress import Progress
from partywall.kernels import Kernel, build, series
from partywall.kernels.make import Make
from partywall.kernels.series import bases

# New files belong to the maintainers of what they belong to; MAINTAINERS says who
# that is by folder, and names none for ours. And commits that a message names are
# upstream's, of which Debian's source has no history.
_IGNORED = "FILE_PATH_CHANGES,UNKNOWN_COMMIT_ID"

Boots = Callable[[Kernel, Progress], None]
"""Starts containers on a kernel, and raises EnvironmentProblem if that fails."""

# Debug information and drivers are half of a build, and say nothing of a patch.
_VARIANT = build.Variant(("lean",))

# What the series touches is compiled with all of the net that any of it is for, and
# with its tests.
_COMPILED = build.Variant(("lean", "net", "kunit"))


def complaints(tree: Path, patch: Path) -> list[str]:
    """What ``checkpatch --strict`` of a tree says against a patch, a line each."""
    done = subprocess.run(
        ["perl", "scripts/checkpatch.pl", "--strict", "--terse", "--ignore", _IGNORED, str(patch)],
        cwd=tree,
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.findall(r"^\S+:\d+: ((?:ERROR|WARNING|CHECK): .*)$", done.stdout, re.MULTILINE)
    if done.returncode and not found:
        raise EnvironmentProblem(f"checkpatch failed: {done.stderr.strip()[:160]}")
    return found


def sparse_warnings(said: str) -> Counter[str]:
    """What sparse says, by file and words, and how often. Lines are left out: they move."""
    found = re.findall(r"^\S+?:\d+:\d+: (?:warning|error): .*$", said, re.MULTILINE)
    return Counter(
        re.sub(r"^(?:\./)?(\S+?):\d+:\d+:", r"\1:", line) for line in dict.fromkeys(found)
    )


def sparse(make: Make, files: list[str]) -> Counter[str]:
    """What sparse says of C files of a tree."""
    if not files:
        return Counter()
    if shutil.which("sparse") is None:
        raise EnvironmentProblem("sparse is not installed", packages.mend("kernels"))
    before = make.log.stat().st_size
    make("C=2", *(str(Path(path).with_suffix(".o")) for path in files))
    return sparse_warnings(make.log.read_bytes()[before:].decode(errors="replace"))


def c_files(patch: series.Patch) -> list[str]:
    """C files of the kernel that a patch changes or makes."""
    made = re.findall(r"^\+\+\+ b/(\S+\.c)$", patch.text, re.MULTILINE)
    return [path for path in made if not path.startswith("tools/")]


def units(tree: Path, paths: Iterable[str]) -> dict[str, list[str]]:
    """Return the objects that each C file of a tree among ``paths`` is compiled in.

    Its own; of one that others of its folder include, theirs.
    """
    there = [path for path in map(Path, paths) if (tree / path).is_file()]
    taken_in: dict[Path, list[Path]] = {}
    for folder in sorted({path.parent for path in there}):
        for other in sorted((tree / folder).glob("*.c")):
            for name in re.findall(r'#include "(\S+\.c)"', other.read_text("latin-1")):
                taken_in.setdefault(folder / name, []).append(folder / other.name)
    return {
        str(path): [str(one.with_suffix(".o")) for one in taken_in.get(path, [path])]
        for path in there
    }


def objects(tree: Path, paths: Iterable[str]) -> list[str]:
    """Objects that the C files of a tree among ``paths`` are compiled in."""
    found = units(tree, paths).values()
    return list(dict.fromkeys(name for names in found for name in names))


def compiles(make: Make, wanted: list[str], progress: Progress, title: str) -> None:
    """EnvironmentProblem if objects of a tree can't be compiled without a warning."""
    before = make.log.stat().st_size
    with progress.step(f"compiling {title}", 20):
        make(build.Steps.VERSION, *wanted)
    said = make.log.read_bytes()[before:].decode(errors="replace")
    warned = re.search(r"^\S+?:\d+:\d+: warning: .*$", said, re.MULTILINE)
    if warned:
        raise EnvironmentProblem(warned[0], "the compiler says so")


def _patches(first: int, base: series.Base) -> list[series.Patch]:
    patches = series.read(base.folder)
    if not 1 <= first <= len(patches):
        raise UsageProblem(f"the series has no patch {first}", f"it has 1 to {len(patches)}")
    return patches


def _checked(tree: Path, patch: series.Patch) -> None:
    against = complaints(tree, patch.path)
    if against:
        raise EnvironmentProblem(f"{patch.name}: {against[0]}", "checkpatch says so")


def prove(
    boots: Boots, progress: Progress, first: int = 1, base: series.Base | None = None
) -> Iterator[str]:
    """Yield the names of the patches from number ``first`` on, each after it was proven.

    ``boots``: tries a kernel in a guest, as `partywall.guest.boots` does.
    PartywallError for the first that is not: it does not build or boot, checkpatch
    has something to say, or sparse says what it did not say before.
    """
    base = base or bases.get()
    patches = _patches(first, base)
    with build.steps(patches[: first - 1], _VARIANT, progress, base) as step:
        tree = step.make.tree
        for number, patch in enumerate(patches[first - 1 :], start=first):
            old = [path for path in c_files(patch) if (tree / path).is_file()]
            before = sparse(step.make, old)
            step.apply(patch)
            _checked(tree, patch)
            kernel = step.kernel(f"{number} of {len(patches)}, {patch.name}")
            # A file that another includes, as tests are, is no object of its own.
            built = [path for path in c_files(patch) if (tree / path).with_suffix(".o").is_file()]
            new = sparse(step.make, built) - before
            if new:
                raise EnvironmentProblem(f"{patch.name}: {min(new)}", "sparse says so")
            boots(kernel, progress)
            yield patch.name


def compiled_before(
    patches: list[series.Patch], progress: Progress, base: series.Base | None = None
) -> int:
    """How many of the first patches `prove_compiled` has proven, here and as they are.

    What was compiled then are the C files that patches changed at that time. Of a
    message that has changed since checkpatch is not asked again.
    """
    keys = build.step_keys(patches, _COMPILED, progress, base)
    return next((n for n, key in enumerate(keys) if not cache.has("proof", key)), len(keys))


def prove_compiled(
    progress: Progress,
    first: int = 1,
    seconds: float | None = None,
    base: series.Base | None = None,
) -> Iterator[str]:
    """As `prove`, but that C files which any patch changes compile is all that is asked.

    Begins no patch after ``seconds``. What was proven is remembered, for
    `compiled_before`. PartywallError for the first patch after which a file does not
    compile, or with a warning, and if checkpatch has something to say of it.
    """
    base = base or bases.get()
    patches = _patches(first, base)
    touched = sorted({path for patch in patches for path in c_files(patch)})
    keys = build.step_keys(patches, _COMPILED, progress, base)
    begun = time.monotonic()
    with build.steps(patches[: first - 1], _COMPILED, progress, base) as step:
        for number, patch in enumerate(patches[first - 1 :], start=first):
            if seconds is not None and time.monotonic() - begun > seconds:
                return
            step.apply(patch)
            _checked(step.make.tree, patch)
            title = f"{number} of {len(patches)}, {patch.name}"
            compiles(step.make, objects(step.make.tree, touched), progress, title)
            cache.entry("proof", keys[number - 1], lambda folder: None, progress)
            yield patch.name
