# SPDX-License-Identifier: GPL-2.0-or-later
"""What a kernel says when something is wrong with it: from a console's text to reports.

Of KCSAN and of what prints a ``BUG:``, ``WARNING:`` or ``INFO:`` on the console, and of
kmemleak, whose list is a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, pairwise, takewhile

_ALARMS = re.compile(
    r"BUG: |WARNING: |INFO: (?:task|rcu|possible)|possible (?:circular|recursive|irq)|"
    r"inconsistent lock state|Kernel panic|Oops|general protection fault|"
    r"refcount_t: |list_(?:add|del) corruption|ODEBUG:|DEBUG_LOCKS_WARN"
)

# Most lines of what it says that are kept: the tasks of a report of KASAN are in them,
# and both sides of one of KCSAN.
_MOST = 160
_ENDS = re.compile(r"(?:^|\] )=+$|---\[ end trace")

# A time, and with CONFIG_PRINTK_CALLER who speaks.
_STAMP = re.compile(r"^\[ *\d+\.\d+\](?:\[ *[TC]\d+\])? ?")
_FRAME = re.compile(
    r"(?P<function>[\w.$]+)\+0x(?P<offset>[0-9a-f]+)/0x(?P<size>[0-9a-f]+)(?: \[(?P<module>\w+)\])?"
)
_ACCESS = re.compile(
    r"(?:race at unknown origin, with )?"
    r"(?P<kind>(?:read-write|read|write|assert no accesses|assert no writes)(?: \([\w, ]+\))?)"
    r" to 0x[0-9a-f]+ of \d+ bytes by .+ on cpu \d+:$"
)
_COMM = (
    re.compile(r"\bComm: (.+?)(?: (?:Not tainted|Tainted:|Kdump:)|$)", re.MULTILINE),
    re.compile(r"\bby task (.+)/\d+$", re.MULTILINE),
    re.compile(r"^(.+)/\d+ (?:is trying to|just changed|is freeing|\[HC)", re.MULTILINE),
    re.compile(r"INFO: task (.+):\d+ blocked"),
    re.compile(r'^ *comm "(.*)", pid \d+', re.MULTILINE),
)

# Who allocates for others: of a leak those say more that called them.
_ALLOCATES = re.compile(
    r"kmemleak_|__?k[mzvc]\w*alloc|kv?alloc|kvmalloc|kmem_cache_alloc|kmemdup|kstrdup|kasprintf|"
    r"kvasprintf|slab_post_alloc|pcpu_alloc|__vmalloc|vmalloc|krealloc|__alloc|alloc_pages"
)

KCSAN, LEAK = "KCSAN", "kmemleak"


@dataclass(frozen=True)
class Frame:
    """A place in the code as the kernel says it, ``function+offset/size [module]``."""

    function: str
    offset: int
    size: int
    module: str | None = None

    def __str__(self) -> str:
        module = f" [{self.module}]" if self.module else ""
        return f"{self.function}+{self.offset:#x}/{self.size:#x}{module}"


@dataclass(frozen=True)
class Report:
    """One report. ``kind``: KCSAN, KASAN, lockdep, kmemleak, or the kernel's own word.

    ``comm``: name of the task that the kernel names first. ``accesses``: of KCSAN the
    frame of each access, innermost; None where the report lacks it.
    """

    kind: str
    title: str
    text: str
    comm: str | None = None
    accesses: tuple[Frame | None, ...] = ()

    @property
    def signature(self) -> str:
        """What is the same of two reports of one fault: no numbers, no addresses."""
        words = [_bare(self.title)]
        if self.kind == LEAK:
            words += [frame.function for frame in _frames(self.text.splitlines())][:4]
        if self.kind == "lockdep":
            words += [_bare(at) for at in re.findall(r"\bat: (\S+)", self.text)[:2]]
        return " ".join(words)


def _bare(text: str) -> str:
    """A line without the numbers in it."""
    text = re.sub(r"\+0x[0-9a-f]+/0x[0-9a-f]+", "", text)
    # Which copy of a function the compiler made.
    text = re.sub(r"\.(?:part|constprop|isra|cold)(?:\.\d+)*", "", text)
    # "task sh:12 blocked for more than 300 seconds", "at fs/dcache.c:12".
    return re.sub(r"\b(?:0x[0-9a-f]+|\d+)\b", "N", text)


def plain(line: str) -> str:
    """A line of the console without its time."""
    return _STAMP.sub("", line)


def _frame(text: str) -> Frame | None:
    found = _FRAME.fullmatch(text.strip())
    if found is None:
        return None
    offset, size = int(found["offset"], 16), int(found["size"], 16)
    return Frame(found["function"], offset, size, found["module"])


def _frames(lines: list[str]) -> Iterator[Frame]:
    """Frames of a leak that say who wanted the memory."""
    for line in lines:
        frame = _frame(line)
        if frame is not None and not _ALLOCATES.match(frame.function):
            yield frame


def _kind(title: str) -> str:
    for word in (KCSAN, "KASAN", "KFENCE", "UBSAN"):
        if word in title:
            return word
    if "blocked for more than" in title or "stall" in title:
        return "hang"
    if re.search(r"possible (?:circular|recursive|irq)|lock state|\b(?:un)?lock|RCU usage", title):
        return "lockdep"
    for word in ("WARNING", "panic", "Oops", "BUG", "INFO"):
        if word in title:
            return word
    return "other"


def _comm(lines: list[str]) -> str | None:
    text = "\n".join(lines)
    for pattern in _COMM:
        if found := pattern.search(text):
            return found[1]
    return None


def _accesses(lines: list[str]) -> tuple[Frame | None, ...]:
    """The innermost frame of each access that a report of KCSAN names.

    Another processor's words may come between any two lines.
    """
    found: list[Frame | None] = []
    wanted = False
    for line in lines:
        if _ACCESS.search(line):
            found.append(None)
            wanted = True
        elif line.startswith(("value changed:", "Reported by Kernel Concurrency")):
            wanted = False
        elif wanted and line.startswith(" ") and (frame := _frame(line)) is not None:
            found[-1] = frame
            wanted = False
    return tuple(found)


def _told(lines: list[str]) -> Report:
    bare = [plain(line) for line in lines]
    kind = _kind(bare[0])
    accesses = _accesses(bare) if kind == KCSAN else ()
    return Report(kind, bare[0], "\n".join(lines), _comm(bare), accesses)


def of_console(console: str) -> list[Report]:
    """What the kernel says when something is wrong: a line, and those that explain it."""
    lines = console.splitlines()
    found = [at for at, line in enumerate(lines) if _ALARMS.search(line)]
    reports = []
    for at, following in pairwise([*found, len(lines)]):
        explained = takewhile(lambda line: not _ENDS.search(line), lines[at + 1 : following])
        reports.append(_told([lines[at], *islice(explained, _MOST)]))
    return reports


def of_kmemleak(text: str) -> list[Report]:
    """What /sys/kernel/debug/kmemleak lists."""
    reports = []
    for part in re.split(r"^(?=unreferenced object )", text, flags=re.MULTILINE)[1:]:
        first, *rest = part.splitlines()
        within = list(takewhile(lambda line: line.startswith(" "), rest))
        size = re.search(r"\(size (\d+)\)", first)
        title = f"unreferenced object of {size[1] if size else '?'} bytes"
        reports.append(Report(LEAK, title, "\n".join([first, *within]), _comm(within)))
    return reports
