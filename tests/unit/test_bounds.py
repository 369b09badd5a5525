# SPDX-License-Identifier: GPL-2.0-or-later
"""What is said to bound what grows."""

from __future__ import annotations

import functools
import io
from pathlib import Path
from typing import Any

import commands
import pytest
from builders import result
from rich.console import Console

from partywall.core.errors import UsageProblem
from partywall.report import growth as view
from partywall.results import bounds, document
from partywall.results.caps import Cap, Caps, Got
from partywall.results.growth import Growth, Left, Operation, Raised

SAID = result()
OTHER = SAID.kernel.model_copy(update={"build_id": "0" * 40})


def got(done: int, error: str | None = None, **other: bool) -> Got:
    return Got(**{"killed": False, "full": False} | other, done=done, error=error, processes=1)


def cap(title: str, taken: Got, beside: Got, limit: tuple[str, str] | None = None) -> Cap:
    knob, value = limit or (None, None)
    return Cap(
        title=title,
        operation=f"one of {title}",
        tries=8,
        before=got(8),
        taken=taken,
        beside=beside,
        after=got(8),
        knob=knob,
        value=value,
    )


def caps(*operations: Cap, **changed: Any) -> Caps:
    usual: dict[str, Any] = {
        "created": SAID.created,
        "kernel": SAID.kernel,
        "environment": SAID.environment,
        "users": "host",
        "memory": 1024,
        "operations": list(operations),
        "failed": [],
    }
    return Caps(**usual | changed)


def operation(title: str, *raised: tuple[str, float], left: tuple[Left, ...] = ()) -> Operation:
    return Operation(
        title=title,
        operation=f"one of {title}",
        count=128,
        least=0.02,
        kept=not left,
        confirmed=True,
        left=list(left),
        raised=[Raised(name=name, each=each, returned=1.0) for name, each in raised],
    )


def growth(*operations: Operation) -> Growth:
    return Growth(
        created=SAID.created,
        kernel=SAID.kernel,
        environment=SAID.environment,
        containers=2,
        operations=list(operations),
        failed=[],
    )


def shown(found: Growth) -> str:
    out = io.StringIO()
    view.render(found, Console(file=out, width=80), everything=True)
    return out.getvalue()


def limits(found: Growth) -> dict[str, str | None]:
    (one,) = found.operations
    return {counter.name: counter.limit for counter in one.raised}


def test_a_counter_counts_towards_the_limit_that_it_fills() -> None:
    pipes = operation("hold/pipe", ("nr_files", 2.0), ("inodes", 1.0), ("pages", 16.0))
    files = cap("hold/pipe", got(48051, "ENFILE"), got(0, "ENFILE"), ("fs.file-max", "96154"))
    found = bounds.joined(growth(pipes), caps(files))
    assert limits(found) == {"nr_files": "fs.file-max", "inodes": None, "pages": None}
    assert found.operations[0].raised[0].filled == 0.999
    text = " ".join(shown(found).split())
    assert "may be what fs.file-max counts, and no other that was seen may: one" in text
    assert "container can have 100% of it" in text
    assert "bounded for all by fs.file-max = 96154: 48,051 of them, then ENFILE" in text


@pytest.mark.parametrize(
    ("taken", "value", "known"),
    [
        (128, "128", True),
        # A part of it was there before.
        (118, "128", True),
        # So large a part that it may be another number that comes near.
        (3071, "4096", False),
        # More than there can be.
        (132, "128", False),
        # A soft limit, a pressure and a hard one.
        (21000, "10545 14061 21090", True),
        (18, "0", False),
        (18, "unlimited", False),
    ],
)
def test_a_counter_that_does_not_come_to_the_limit_is_none_of_it(
    taken: int, value: str, known: bool
) -> None:
    one = operation("hold/x", ("count", 1.0))
    limit = cap("hold/x", got(taken, "EAGAIN"), got(0, "EAGAIN"), ("kernel.x", value))
    assert limits(bounds.joined(growth(one), caps(limit))) == {"count": "kernel.x" * known or None}


def test_what_rises_with_others_is_told_by_where_it_does_not_come_to_the_limit() -> None:
    """Each file has a name; each watch is a file, and pipes have one name for two files."""
    operations = (
        operation("hold/eventfd", ("nr_files", 1.0), ("nr_dentry", 1.0)),
        operation("hold/pipe", ("nr_files", 2.0), ("nr_dentry", 1.0)),
        operation("hold/inotify", ("nr_files", 1.0), ("nr_dentry", 1.0), ("instances", 1.0)),
        operation("hold/thread", ("nr_threads", 1.0), ("users", 1.0)),
        operation("hold/not-tried", ("nr_files", 1.0)),
    )
    files, watches = ("fs.file-max", "1000"), ("fs.inotify.max_user_instances", "128")
    tried = caps(
        cap("hold/eventfd", got(990, "ENFILE"), got(0), files),
        cap("hold/pipe", got(495, "ENFILE"), got(0), files),
        cap("hold/inotify", got(128, "EMFILE"), got(0), watches),
        cap("hold/thread", got(99, "EAGAIN"), got(0), ("kernel.threads-max", "100")),
    )
    found = bounds.joined(growth(*operations), tried)
    said = {
        (one.title, counter.name): (counter.limit, counter.alike)
        for one in found.operations
        for counter in one.raised
        if counter.limit is not None
    }
    by_files = ("hold/eventfd", "hold/pipe", "hold/inotify", "hold/not-tried")
    assert said == {
        **{(title, "nr_files"): ("fs.file-max", 0) for title in by_files},
        ("hold/inotify", "instances"): ("fs.inotify.max_user_instances", 0),
        ("hold/thread", "nr_threads"): ("kernel.threads-max", 1),
        ("hold/thread", "users"): ("kernel.threads-max", 1),
    }
    text = " ".join(shown(found).split())
    assert "may be what kernel.threads-max counts, and 1 other may: one container" in text


def test_of_two_limits_that_a_counter_comes_to_both_are_said() -> None:
    operations = [operation(f"hold/{name}", ("nr_files", 1.0)) for name in "ab"]
    tried = [cap(f"hold/{name}", got(128, "EMFILE"), got(0), (name, "128")) for name in "ab"]
    found = bounds.joined(growth(*operations), caps(*tried))
    (counter,) = found.operations[1].raised
    assert (counter.limit, counter.alike) == ("a or b", 0)


def test_a_limit_may_be_another_number_in_another_guest() -> None:
    operations = [operation(f"hold/{name}", ("nr_files", 1.0)) for name in "abc"]
    tried = [
        cap(f"hold/{name}", got(taken, "ENFILE"), got(0), ("fs.file-max", value))
        for name, taken, value in (("a", 900, "1000"), ("b", 1100, "1100"), ("c", 500, "0"))
    ]
    found = bounds.joined(growth(*operations[:2]), caps(*tried[:2]))
    assert [limit for one in found.operations for limit in limits(growth(one)).values()] == [
        "fs.file-max"
    ] * 2
    # Of one that is set to nothing it can't be told.
    found = bounds.joined(growth(*operations), caps(*tried))
    assert not any(limits(growth(one))["nr_files"] for one in found.operations)


def test_a_limit_without_a_name_is_of_no_counter() -> None:
    one = operation("hold/x", ("count", 1.0))
    found = bounds.joined(growth(one), caps(cap("hold/x", got(128, "ENOSPC"), got(0))))
    assert limits(found) == {"count": None}
    assert "bounded for all, by no limit that was tried: 128 of them" in shown(found)


NAME = Left(
    kind="slab",
    what="dentry",
    made_by=("__d_alloc",),
    objects=1.0,
    bytes=192.0,
    charged=1.0,
    after={"gone": 1.0, "reclaimed": 0.0, "ended": 0.0},
)


@pytest.mark.parametrize(
    ("taken", "words"),
    [
        (got(2_000_000), "bounded by nothing that one container came to: 2,000,000 of them"),
        (got(2_000_000, full=True), "bounded by its container's memory limit alone"),
        (got(2_000_000, reclaimed=True), "by its container's memory limit alone, by reclaim"),
        (got(500, killed=True), "bounded by the machine's memory, within its container's limit"),
        (got(3, "ETIMEDOUT"), "3 of them, then it waits without end"),
        (got(400, "ENOSPC"), "for each container or process by itself: 400 of them, then ENOSPC"),
    ],
)
def test_what_an_operation_leaves_is_told_with_what_bounds_it(taken: Got, words: str) -> None:
    one = operation("negative/unique", left=(NAME,))
    found = bounds.joined(growth(one), caps(cap("negative/unique", taken, got(8))))
    assert words in " ".join(shown(found).split())


def test_what_was_not_tried_has_no_bound() -> None:
    tried = cap("hold/x", got(1), got(1)).model_copy(update={"taken": None, "beside": None})
    one = operation("hold/x", ("count", 1.0))
    for others in (caps(tried), caps()):
        assert bounds.joined(growth(one), others).operations[0].bound is None


@pytest.mark.parametrize("other", [{"kernel": OTHER}, {"users": "own"}])
def test_caps_of_other_kernels_and_users_bound_nothing(other: dict[str, Any]) -> None:
    with pytest.raises(UsageProblem):
        bounds.joined(growth(operation("hold/x")), caps(**other))


def test_what_was_saved_is_shown_with_what_bounds_it(tmp_path: Path) -> None:
    saved, tried = tmp_path / "growth.json", tmp_path / "caps.json"
    grown = growth(operation("hold/x", ("count", 1.0)))
    limit = caps(cap("hold/x", got(128, "EAGAIN"), got(0), ("kernel.x", "128")))
    saved.write_text(document.dump(grown))
    tried.write_text(document.dump(limit))
    run = functools.partial(commands.run, "growth")
    together = bounds.joined(grown, limit)
    assert run(saved, "--caps", tried) == (0, shown(together), "")
    assert run(saved, "--caps", tried, "--json") == (0, document.dump(together), "")
    tried.write_text(document.dump(caps(users="own")))
    status, _, error = run(saved, "--caps", tried)
    assert status == 2
    assert "user namespaces" in error
