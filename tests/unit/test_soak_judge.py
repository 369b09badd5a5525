# SPDX-License-Identifier: GPL-2.0-or-later
"""A race is the series' if a line that it added or moved takes part, and else it is not."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

import added
import judge
import places
import pytest
from added import Added, Copied
from places import At, Place
from reports import Frame, Report

from partywall.kernels import Kernel
from partywall.kernels.git import git

DIFF = """\
diff --git a/fs/dcache.c b/fs/dcache.c
index 8aab1c3..a162e85 100644
--- a/fs/dcache.c
+++ b/fs/dcache.c
@@ -10,0 +11,2 @@ static void d_lru_add(struct dentry *dentry)
+	if (dentry->d_flags & DCACHE_REFERENCED)
+++ b/no/file is what this line says
@@ -20 +22 @@ static void d_lru_del(struct dentry *dentry)
-	old();
+	dentry->d_flags &= ~DCACHE_REFERENCED;
@@ -30,3 +32,0 @@ static void gone(void)
-	one();
--- a/no/file/either
-	three();
diff --git a/fs/gone.c b/fs/gone.c
deleted file mode 100644
--- a/fs/gone.c
+++ /dev/null
@@ -1,2 +0,0 @@
-int a;
-int b;
diff --git a/fs/new.c b/fs/new.c
new file mode 100644
--- /dev/null
+++ b/fs/new.c
@@ -0,0 +1,3 @@
+int a;
+
+int b;
\\ No newline at end of file
"""


def test_added_lines_are_those_of_the_diff() -> None:
    found = added.parse(DIFF)
    assert {file: sorted(lines) for file, lines in found.lines.items()} == {
        "fs/dcache.c": [11, 12, 22],
        "fs/new.c": [1, 2, 3],
    }
    assert found.has("fs/dcache.c", 22)
    assert not found.has("fs/dcache.c", 21)
    assert not found.has("fs/other.c", 22)


def test_a_diff_that_is_cut_off_or_none_adds_what_it_has() -> None:
    assert added.parse("").lines == {}
    cut = DIFF[: DIFF.index("+++ b/no/file")]
    assert sorted(added.parse(cut).lines["fs/dcache.c"]) == [11]


def test_a_line_that_moved_counts_as_added(tmp_path: Path) -> None:
    path = tmp_path / "a.c"
    lines = [f"line {number}\n" for number in range(1, 11)]
    path.write_text("".join(lines))
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", "--all")
    git(tmp_path, "commit", "--quiet", "--message=base")
    git(tmp_path, "tag", "base")
    path.write_text("".join([*lines[1:8], lines[0], *lines[8:]]))
    git(tmp_path, "add", "--all")
    assert added.between(tmp_path, "base", cached=True).lines == {"a.c": {8: "line 1"}}
    git(tmp_path, "commit", "--quiet", "--message=moved")
    git(tmp_path, "mv", "a.c", "b.c")
    git(tmp_path, "commit", "--quiet", "--message=renamed")
    assert len(added.between(tmp_path, "base").lines["b.c"]) == 10


COPY = Copied("fs/dcache.c", "dentry->d_flags &= ~DCACHE_REFERENCED;", "stock's does the same")
OURS = added.parse(DIFF).marked([COPY], {"fs/dcache.c": f"a\n\t\t{COPY.words}\nb\n"})

WALK, ISOLATE, ADD, INLINED, NOWHERE = (
    Frame(name, 0x10, 0x50) for name in ("walk", "isolate", "add", "inlined", "nowhere")
)
LINES: Mapping[Frame, list[Place]] = {
    WALK: [Place("fs/dcache.c", 99)],
    ISOLATE: [Place("fs/dcache.c", 22)],
    ADD: [Place("fs/dcache.c", 11)],
    INLINED: [Place("include/linux/list.h", 7), Place("fs/new.c", 3)],
    NOWHERE: [],
}


def race(*accesses: Frame | None) -> Report:
    return Report("KCSAN", "BUG: KCSAN: data-race in a / b", "", None, accesses)


@pytest.mark.parametrize(
    ("accesses", "why"),
    [
        ((WALK, WALK), None),
        ((WALK,), None),
        ((WALK, ADD), "fs/dcache.c:11 is the series'"),
        ((ADD, WALK), "fs/dcache.c:11 is the series'"),
        ((INLINED, WALK), "fs/new.c:3 is the series'"),
        ((NOWHERE, WALK), "no line is known of nowhere+0x10/0x50"),
        ((WALK, None), "an access has no frame"),
        ((NOWHERE, ADD), "fs/dcache.c:11 is the series'"),
        ((), "it names no access"),
        # What stock has word for word is excused where it meets with stock's.
        ((ISOLATE, WALK), None),
        ((WALK, ISOLATE), None),
        ((ISOLATE, ISOLATE), "fs/dcache.c:22 is the series'"),
        ((ISOLATE, ADD), "fs/dcache.c:11 is the series'"),
        ((ISOLATE,), "fs/dcache.c:22 is the series'"),
        ((ISOLATE, NOWHERE), "no line is known of nowhere+0x10/0x50"),
    ],
)
def test_a_race_is_judged_by_its_lines(accesses: tuple[Frame | None, ...], why: str | None) -> None:
    assert judge.race(race(*accesses), OURS, LINES) == why


def test_a_copy_of_what_stock_has_no_more_is_the_series() -> None:
    lapsed = added.parse(DIFF).marked([COPY], {"fs/dcache.c": "something else\n"})
    assert lapsed.copies == frozenset()
    assert judge.race(race(ISOLATE, WALK), lapsed, LINES) == "fs/dcache.c:22 is the series'"


def test_other_reports_are_ours_unless_stock_says_the_same() -> None:
    seen = Report("WARNING", "WARNING: CPU: 1 PID: 9 at fs/dcache.c:1 d_lru_add+0x1/0x2", "")
    again = Report("WARNING", "WARNING: CPU: 3 PID: 7 at fs/dcache.c:9 d_lru_add+0x8/0x9", "")
    other = Report("KASAN", "BUG: KASAN: use-after-free in kernfs_put+0x20/0x50", "")
    judged = judge.ours([again, other, race(WALK)], {seen.signature}, lambda report: None)
    assert [why for _, why in judged] == [None, "stock says no such thing", None]
    (only,) = judge.ours([race(WALK)], {race(WALK).signature}, lambda report: "it is")
    assert only[1] == "it is"


SYMBOLS = """\

vmlinux:     file format elf64-x86-64

SYMBOL TABLE:
0000000000000000 l    df *ABS*\t0000000000000000 dcache.c
ffffffff81000000 l    d  .text\t0000000000000000 .text
ffffffff81000010 l     F .text\t0000000000000011 isolate
ffffffff81000030 g     F .text\t0000000000000040 walk
ffffffff81000080 l     F .text\t0000000000000011 isolate
ffffffff810000c0 g     F .text\t0000000000000010 .hidden alias
ffffffff810000c0 g     F .text\t0000000000000010 last
ffffffff82000000 g     O .data\t0000000000000010 jiffies
"""


def test_functions_of_one_name_are_told_apart_by_the_room_they_have() -> None:
    symbols = places.parse_symbols(SYMBOLS)
    first, second = At(".text", 0xFFFFFFFF81000010, 0x20), At(".text", 0xFFFFFFFF81000080, 0x40)
    assert symbols["isolate"] == [first, second]
    assert places.candidates(symbols, Frame("isolate", 1, 0x20)) == [first]
    assert places.candidates(symbols, Frame("isolate", 1, 0x40)) == [second]
    assert places.candidates(symbols, Frame("isolate", 1, 0x11)) == [first, second]
    assert places.candidates(symbols, Frame("none", 1, 0x11)) == []
    assert "alias" in symbols
    assert "dcache.c" not in symbols
    assert places.parse_symbols("objdump: not an object") == {}


SAID = """\
0xffffffff8100001f
__list_del
/b/linux/./include/linux/list.h:195 (discriminator 3)
isolate
/b/linux/fs/dcache.c:22
0xffffffff81000090
??
??:0
0xffffffff810000a0
walk
/b/linux/fs/dcache.c:?
"""


def test_lines_are_read_with_those_that_they_were_inlined_into() -> None:
    assert places.parse_lines(SAID) == {
        0xFFFFFFFF8100001F: [
            ("/b/linux/./include/linux/list.h", 195),
            ("/b/linux/fs/dcache.c", 22),
        ],
        0xFFFFFFFF81000090: [],
        0xFFFFFFFF810000A0: [],
    }
    assert places.parse_lines("") == {}


SOURCES = {
    "include/linux/list.h": "static inline int inlined(volatile int *p) { return *p + 1; }\n",
    "init/main.c": "void called(void);\nvoid start_kernel(void) { called(); called(); }\n",
    "fs/dcache.c": """\
#include <linux/list.h>

void called(void);
void called(void) { __asm__ volatile(""); }

int walk(volatile int *p);
int walk(volatile int *p)
{
	called();
	return inlined(p);
}
""",
}


def kernel(folder: Path, *more: str) -> Kernel:
    """What looks like a kernel with one module, compiled as the kernel is, in its tree."""
    tree = folder / "linux"
    for name, text in SOURCES.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    gcc = ["gcc", "-O1", "-fno-inline-functions-called-once", "-fno-inline-small-functions"]
    gcc += ["-finline", "-ffreestanding", "-fno-pic", "-I./include", *more]
    gcc += ["-Dinline=inline __attribute__((always_inline))", "-ffunction-sections"]
    link = ["-nostdlib", "-static", "-no-pie", "-Wl,-estart_kernel", "-o", "../vmlinux"]
    subprocess.run([*gcc, "init/main.c", "fs/dcache.c", *link], cwd=tree, check=True)
    module = folder / "modules" / "fs" / "over-lay.ko"
    module.parent.mkdir(parents=True)
    subprocess.run([*gcc, "-c", "fs/dcache.c", "-o", str(module)], cwd=tree, check=True)
    return Kernel("stock", "6.12", folder, folder / "vmlinux", debug_modules=folder / "modules")


def walk(path: Path, module: str | None = None) -> Frame:
    """Where `walk` has called, as a kernel would say it."""
    (at,) = places.parse_symbols(places._said("objdump", "-t", "-w", str(path)))["walk"]
    code = places._said("objdump", "-d", "--disassemble=walk", str(path))
    lines = [line for line in code.splitlines() if line.startswith(" ")]
    (after,) = (n + 1 for n, line in enumerate(lines) if "call" in line)
    offset = int(lines[after].split(":")[0], 16) - at.address
    return Frame("walk", offset, at.room, module)


@pytest.mark.parametrize("debug", ["-gdwarf-4", "-gdwarf-5"])
def test_a_frame_of_the_kernel_or_of_a_module_is_found_in_the_source(
    tmp_path: Path, debug: str
) -> None:
    built = kernel(tmp_path, debug)
    assert built.debug_modules is not None
    there = walk(built.vmlinux)
    loose = walk(built.debug_modules / "fs" / "over-lay.ko", "over_lay")
    none, nowhere = Frame("walk", 1, 2, "none"), Frame("none", 1, 2)
    found = places.of(built, [there, loose, none, nowhere])
    # The call, not what comes after it.
    assert found[there] == found[loose] == [Place("fs/dcache.c", 9)]
    assert found[none] == found[nowhere] == []
    after = Frame("walk", there.offset + 1, there.size)
    assert places.of(built, [after])[after] == [
        Place("include/linux/list.h", 1),
        Place("fs/dcache.c", 10),
    ]


def test_without_debug_information_no_line_is_known(tmp_path: Path) -> None:
    built = kernel(tmp_path)
    frame = walk(built.vmlinux)
    assert places.of(built, [frame]) == {frame: []}
    assert judge.race(race(frame), Added({}), {frame: []}) == f"no line is known of {frame}"
