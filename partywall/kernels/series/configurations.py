# SPDX-License-Identifier: GPL-2.0-or-later
"""Proves that a series compiles as others configure their kernels.

A configuration is a file of ``kernels/config/prove``: options, and lines that begin
with ``#:`` for what is no option. Compiled are the C files that the series touches, on
stock and with the series; what the compiler says there and not here is stock's.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from partywall.core import cache
from partywall.core.errors import EnvironmentProblem, UsageProblem
from partywall.core.progress import Progress
from partywall.kernels import build, series
from partywall.kernels.make import Make, compiler_version
from partywall.kernels.series import kbuild, prove, source

FOLDER = build.FRAGMENTS / "prove"

_SECONDS = 120.0


@dataclass(frozen=True)
class Configuration:
    """How somebody configures a kernel, and what is asked of it.

    ``base``: a target of make, or None for Debian's cloud kernel with all of the net.
    ``compiler`` and the Debian ``package`` it comes from. ``words`` for make.
    """

    name: str
    options: str
    base: str | None = None
    compiler: str = "gcc"
    package: str = "gcc"
    words: tuple[str, ...] = ()
    sparse: bool = False


@dataclass(frozen=True)
class Compiled:
    """What became of the objects that were asked for: those made, and what was said."""

    objects: tuple[str, ...]
    said: Counter[str]


def parse(name: str, text: str) -> Configuration:
    """The configuration of a file. UsageProblem for a line that it can't have."""
    facts: dict[str, str] = {}
    for line in re.findall(r"^#: (.*)$", text, re.MULTILINE):
        word, _, rest = line.partition(" ")
        facts[word] = rest
    compiler = re.fullmatch(r"(\S+) \((\S+)\)", facts.pop("compiler", "gcc (gcc)"))
    words = tuple(facts.pop("make", "").split())
    base = facts.pop("base", None)
    sparse = facts.pop("sparse", None) is not None
    if facts or compiler is None:
        raise UsageProblem(
            f"{name}.config: '#: {next(iter(facts), 'compiler')}' can't be understood",
            "known: base TARGET, make WORDS, compiler PROGRAM (PACKAGE), sparse",
        )
    return Configuration(name, text, base, compiler[1], compiler[2], words, sparse)


def load(names: tuple[str, ...] = (), folder: Path = FOLDER) -> list[Configuration]:
    """The configurations of these names, all if none is named."""
    known = {path.stem: path for path in sorted(folder.glob("*.config"))}
    for name in names:
        if name not in known:
            raise UsageProblem(f"no configuration '{name}'", f"known: {', '.join(known)}")
    return [parse(name, known[name].read_text()) for name in names or known]


def warnings(said: str, tree: Path) -> Counter[str]:
    """What compilers, kernel-doc and sparse say, by file and words, and how often.

    Lines and other numbers are left out: they move.
    """
    place = re.compile(rf"^(?:{re.escape(str(tree))}/|\./)?(\S+?):\d+(?::\d+)?: (warning|error): ")
    found: Counter[str] = Counter()
    for line in said.splitlines():
        if match := place.match(line):
            words = re.sub(r"\d+", "N", line[match.end() :])
            found[f"{match[1]}: {match[2]}: {words}"] += 1
    return found


def added(stock: Counter[str], ours: Counter[str]) -> Counter[str]:
    """What is said of ours and not of stock, each as from `warnings`.

    A function whose body went to one of the same name with underscores, which takes more
    arguments, has said it before. What a header says it says to each file that includes
    it: that a new file does is no new warning.
    """

    def named(said: Counter[str]) -> Counter[str]:
        found: Counter[str] = Counter()
        for words, times in said.items():
            found[re.sub(r"'_+", "'", words)] += times
        return found

    before = named(stock)
    new = named(ours) - before
    return Counter(
        {
            words: times
            for words, times in new.items()
            if words not in before or not words.partition(":")[0].endswith(".h")
        }
    )


def compiled(make: Make, wanted: list[str], *more: str) -> Compiled:
    """Compiles those of the objects that the configuration has.

    EnvironmentProblem with the first error if one can't be compiled.
    """
    before = make.log.stat().st_size
    try:
        make("--keep-going", *more, *wanted)
    except EnvironmentProblem:
        said = make.log.read_bytes()[before:].decode(errors="replace")
        absent = set(re.findall(r"No rule to make target '(\S+\.o)'", said))
        if not absent & set(wanted):
            raise
        wanted = [one for one in wanted if one not in absent]
        make(*more, *wanted)
    said = make.log.read_bytes()[before:].decode(errors="replace")
    return Compiled(tuple(wanted), warnings(said, make.tree))


def _laid_over(base: series.Base, *names: str) -> str:
    return build.fragments(build.Variant(names), base, own=True)


def _configure(one: Configuration, make: Make, base: series.Base, progress: Progress) -> None:
    """Makes the configuration. EnvironmentProblem if it comes out without its options."""
    assert make.output is not None
    make.output.mkdir(parents=True)
    # The series' own options are asked of stock too, which may have the file that one
    # of them turns on: what is said of it there is stock's.
    if one.base is None:
        config = build.configuration(
            build.debian_config(progress, base),
            f"{_laid_over(base, 'lean', 'net', 'kunit')}\n{one.options}",
        )
    else:
        make(one.base)
        added = "" if one.base == "allmodconfig" else f"{_laid_over(base, 'net', 'kunit')}\n"
        config = f"{(make.output / '.config').read_text()}\n{added}{one.options}\n"
    (make.output / ".config").write_text(config)
    make("olddefconfig")
    lacking = build.unmet(one.options, (make.output / ".config").read_text())
    if lacking:
        raise EnvironmentProblem(
            f"{one.name} can't be configured as {', '.join(lacking[:3])}",
            f"its options are in {FOLDER / one.name}.config",
        )
    make("prepare")


def _compiled(
    one: Configuration,
    tree: Path,
    wanted: list[str],
    place: Path,
    base: series.Base,
    progress: Progress,
) -> Compiled:
    place.mkdir()
    log = place / "log"
    log.write_bytes(b"")
    make = Make(tree, log, place / "obj", compiler=one.compiler, words=one.words)
    try:
        _configure(one, make, base, progress)
        config = (place / "obj" / ".config").read_text()
        wanted = [name for name in wanted if kbuild.has(tree, config, name)]
        if not wanted:
            return Compiled((), Counter())
        check = ("C=2", "CHECK=sparse") if one.sparse else ()
        return compiled(make, wanted, "W=1", *check)
    except EnvironmentProblem as error:
        # The log goes with its folder.
        raise EnvironmentProblem(f"{one.name}: {error.message}") from error
    finally:
        shutil.rmtree(place / "obj", ignore_errors=True)


def _files(key: str, progress: Progress) -> tuple[set[str], set[str]]:
    """Return C files of a series that a configuration compiled, and all, as its proof has them.

    EnvironmentProblem if it is there no more: others may remove what is kept at any time.
    """

    def fill(folder: Path) -> None:
        raise EnvironmentProblem(
            "what was proven of a configuration was removed in the meantime", "run this again"
        )

    folder = cache.entry("proof", key, fill, progress)
    with cache.file_errors("reading what was proven", folder):
        told = json.loads((folder / "files.json").read_text())
    return set(told["compiled"]), set(told["all"])


def _left(keys: Iterable[str], progress: Progress) -> list[str]:
    """Return C files that none of some proofs has compiled."""
    compiled, every = set[str](), set[str]()
    for key in keys:
        has, all_ = _files(key, progress)
        compiled |= has
        every |= all_
    return sorted(every - compiled)


def _key(one: Configuration, *inputs: str) -> str:
    if shutil.which(one.compiler) is None:
        raise EnvironmentProblem(
            f"{one.name} wants {one.compiler}, which is not installed",
            f"apt-get install {one.package}",
        )
    # What decides which files are compiled decides what was proven.
    rule = Path(kbuild.__file__).read_text()
    parts = [one.name, one.options, compiler_version(one.compiler), rule, *inputs]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _stock(
    one: Configuration, origin: source.Source, wanted: list[str], place: Path, progress: Progress
) -> Counter[str]:
    """What is said of stock, which is asked once."""

    def fill(folder: Path) -> None:
        there = [name for name in wanted if (origin.repository / name).with_suffix(".c").is_file()]
        with progress.step(f"{one.name}: stock", _SECONDS):
            found = _compiled(one, origin.repository, there, place / "stock", origin.base, progress)
        (folder / "said.json").write_text(json.dumps(found.said))

    options = _laid_over(origin.base, "lean", "net", "kunit")
    config = build.debian_config(progress, origin.base)
    key = _key(one, "stock", options, config, origin.key, *wanted)
    entry = cache.entry("proof", key, fill, progress)
    return Counter(json.loads((entry / "said.json").read_text()))


def prove_configured(
    progress: Progress, names: tuple[str, ...] = (), base: series.Base | None = None
) -> Iterator[str]:
    """A line for each configuration in which the series compiles, after it was proven.

    And one for each file that none of them compiles. What was proven is remembered.
    PartywallError for the first in which a file does not compile, or with a warning that
    stock has not; in the end if all configurations leave a file out.
    """
    origin = source.get(progress, base)
    patches = series.read(origin.base.folder)
    own = _laid_over(origin.base, "lean", "net", "kunit")
    config = build.debian_config(progress, origin.base)
    keys = {
        one: _key(one, "files", series.digest(patches), own, config, origin.key)
        for one in load(names)
    }
    todo = []
    for one, key in keys.items():
        if cache.has("proof", key):
            yield f"{one.name}: proven before"
        else:
            todo.append((one, key))
    if todo:
        yield from _prove(todo, origin, patches, progress)
    left = _left(keys.values(), progress)
    for path in left:
        yield f"{path}: compiled in none of {'these' if names else 'all'} configurations"
    if left and not names:
        raise EnvironmentProblem(
            f"no configuration has {len(left)} of the series' files: {', '.join(left[:3])}",
            f"one that has them belongs into {FOLDER}",
        )


def _prove(
    todo: list[tuple[Configuration, str]],
    origin: source.Source,
    patches: list[series.Patch],
    progress: Progress,
) -> Iterator[str]:
    with build.working_tree(origin, patches, progress) as tree:
        touched = sorted({path for patch in patches for path in prove.c_files(patch)})
        units = prove.units(tree, touched)
        wanted = prove.objects(tree, touched)
        for one, key in todo:
            with tempfile.TemporaryDirectory(dir=tree.parent) as folder:
                stock = _stock(one, origin, wanted, Path(folder), progress)
                with progress.step(f"{one.name}: ours", _SECONDS):
                    ours = _compiled(
                        one, tree, wanted, Path(folder) / "ours", origin.base, progress
                    )
            new = added(stock, ours.said)
            if new:
                more = f" (and {len(new) - 1} more)" if len(new) > 1 else ""
                raise EnvironmentProblem(
                    f"{one.name}: {min(new)}", f"stock has no such warning{more}"
                )
            _keep(key, units, ours.objects, progress)
            yield f"{one.name}: {len(ours.objects)} of {len(wanted)} files are in it and compile"


def _keep(
    key: str, units: dict[str, list[str]], objects: tuple[str, ...], progress: Progress
) -> None:
    """Remember a proof, with the files that it was of."""
    compiled = [path for path, names in units.items() if not set(objects).isdisjoint(names)]

    def fill(folder: Path) -> None:
        (folder / "files.json").write_text(json.dumps({"compiled": compiled, "all": list(units)}))

    cache.entry("proof", key, fill, progress)
