# SPDX-License-Identifier: GPL-2.0-or-later
"""What one container can use up: known by construction, and on Debian's kernel."""

from __future__ import annotations

from pathlib import Path

import kmodule
import pytest

from partywall import workloads
from partywall.core.progress import Quiet
from partywall.kernels import Kernel
from partywall.measure import caps, growth
from partywall.measure.run import Wanted
from partywall.results import bounds
from partywall.results.caps import Cap, Caps
from partywall.workloads import Workload

CAPPED = Path(__file__).resolve().parent / "capped"

# The one that stays is in the midst: those after it have another guest.
KINDS = ("knob", "hard", "two", "stays", "own", "free", "process", "passes")


def by_title(found: list[Cap]) -> dict[str, Cap]:
    return {one.title: one for one in found}


@pytest.fixture(scope="module")
def ready(kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Kernel:
    return kmodule.loaded(CAPPED, kernel, tmp_path_factory.mktemp("modules"), Quiet())


def capped(*kinds: str) -> list[Workload]:
    common = {
        "name": "capped",
        "source": CAPPED,
        "summary": "things of which it is known how many there are",
        "operation": "one of them taken",
        "warmup": 1,
        "window": 1,
        "modules": ("capped",),
        "keeps": True,
    }
    return [Workload(variant=kind, **common) for kind in kinds]


@pytest.fixture(scope="module")
def tried(ready: Kernel) -> Caps:
    wanted = Wanted(kernel=ready, workloads=capped(*KINDS), jobs=1)
    found = caps.caps(wanted, Quiet(), seconds=3)
    assert not found.failed
    return found


@pytest.fixture(scope="module")
def known(tried: Caps) -> dict[str, Cap]:
    """What is found of a module's things, of which it says how many there are."""
    return by_title(tried.operations)


def test_a_cap_is_found_with_the_sysctl_that_sets_it(known: dict[str, Cap]) -> None:
    one = known["capped/knob"]
    assert (one.verdict, one.knob, one.value) == ("cap", "kernel.capped_max", "1000")
    assert one.taken is not None
    assert (one.taken.done, one.taken.error) == (1000, "ENOSPC")
    assert one.beside is not None
    assert (one.beside.done, one.beside.error) == (0, "ENOSPC")
    assert not one.stays


def test_the_counter_behind_a_cap_is_found_with_it(ready: Kernel, tried: Caps) -> None:
    wanted = Wanted(kernel=ready, workloads=capped("knob"), jobs=1)
    # Of both containers so many, and twice as many more: less than there may be.
    grown = growth.growth(wanted, Quiet(), operations=64)
    (one,) = bounds.joined(grown, tried).operations
    assert one.bound is not None
    assert (one.bound.verdict, one.bound.taken) == ("cap", 1000)
    (counter,) = (each for each in one.raised if each.limit is not None)
    assert (counter.each, counter.limit, counter.filled) == (1, "kernel.capped_max", 1.0)


@pytest.mark.parametrize(("kind", "taken"), [("hard", 500), ("two", 200), ("stays", 300 - 8)])
def test_a_cap_that_no_one_sysctl_sets_has_no_name(
    known: dict[str, Cap], kind: str, taken: int
) -> None:
    one = known[f"capped/{kind}"]
    assert one.taken is not None
    assert (one.verdict, one.knob, one.taken.done) == ("cap", None, taken)


def test_what_is_not_given_back_stays(known: dict[str, Cap]) -> None:
    assert [kind for kind in KINDS if known[f"capped/{kind}"].stays] == ["stays"]


def test_what_each_container_has_for_itself_is_no_cap(known: dict[str, Cap]) -> None:
    one = known["capped/own"]
    assert one.taken is not None
    assert (one.verdict, one.taken.done, one.taken.processes) == ("own", 400, 1)


def test_what_each_process_has_for_itself_is_not_used_up_by_many(known: dict[str, Cap]) -> None:
    one = known["capped/process"]
    assert one.taken is not None
    assert (one.verdict, one.taken.done, one.taken.processes) == ("not reached", 2560, 256)


def test_what_is_without_end_is_not_reached(known: dict[str, Cap]) -> None:
    assert known["capped/free"].verdict == "not reached"


def test_what_passes_by_itself_is_no_cap(known: dict[str, Cap]) -> None:
    one = known["capped/passes"]
    assert one.taken is not None
    assert (one.verdict, one.knob, one.taken.done) == ("own", None, 600)


LIMITS = {
    "hold/inotify": "fs.inotify.max_user_instances",
    "hold/pty": "kernel.pty.max",
    "hold/aio-many": "fs.aio-max-nr",
    "hold/file": "fs.file-max",
    "hold/signal": "RLIMIT_SIGPENDING",
    # Of descriptors under way, which no process has open.
    "unread/descriptors": "RLIMIT_NOFILE",
    "unread/datagrams": "net.ipv4.udp_mem",
    # What only a pod may do.
    "pod/fanotify": "fs.fanotify.max_user_groups",
    "pod/neighbour": "net.ipv4.neigh.default.gc_thresh3",
    "pod/uts-namespace": "user.max_uts_namespaces",
}


@pytest.fixture(scope="module")
def debian(kernel: Kernel) -> dict[str, Cap]:
    """What is found of Debian's kernel."""
    chosen = workloads.select([*LIMITS, "hold/process", "hold/semaphores", "negative/unique"])
    found = caps.caps(Wanted(kernel=kernel, workloads=chosen), Quiet())
    assert not found.failed
    return by_title(found.operations)


@pytest.mark.parametrize("title", LIMITS)
def test_known_caps_of_the_kernel_are_found_by_name(debian: dict[str, Cap], title: str) -> None:
    one = debian[title]
    assert (one.verdict, one.knob) == ("cap", LIMITS[title])
    assert one.beside is not None
    assert one.beside.done == 0
    assert not one.stays


def test_what_is_of_a_namespace_is_its_own(debian: dict[str, Cap]) -> None:
    assert debian["hold/semaphores"].verdict == "own"


def test_what_a_container_pays_for_is_bounded_by_its_memory(debian: dict[str, Cap]) -> None:
    one = debian["hold/process"]
    assert one.taken is not None
    assert one.taken.full
    assert one.verdict == "memory"


def test_names_that_are_not_there_come_to_no_limit(debian: dict[str, Cap]) -> None:
    one = debian["negative/unique"]
    assert one.taken is not None
    assert (one.verdict, one.taken.error, one.stays) == ("not reached", None, False)
    assert one.taken.done > 1000
