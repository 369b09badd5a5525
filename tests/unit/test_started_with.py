# SPDX-License-Identifier: GPL-2.0-or-later
"""How a machine and its containers can be started otherwise, and what that mends."""

from __future__ import annotations

import json
from typing import Any, cast

import builders
import pytest
from commands import run

from partywall import workloads
from partywall.advice import checked, mends
from partywall.advice.mends import Advice, Mend, Option
from partywall.core.progress import Quiet
from partywall.core.topology import Topology
from partywall.guest import image
from partywall.measure.plan import Plan
from partywall.results.lines import Line, LineObject
from partywall.results.result import Result, WorkloadResult
from partywall.results.setting import BARE, NO_APPARMOR, OWN_PROFILES, VOLATILE
from partywall.workloads.opening import opening

(SIGNAL,) = workloads.select(["signal"])
FSYNC = "file/fdatasync-overlay"


def config(**how: Any) -> tuple[dict[str, Any], bytes]:
    """Return the first container's config.json, and all that the guest is told."""
    packed = image.job(SIGNAL, Topology(2, 1), confined=True, **how)
    start = packed.index(b'{\n "ociVersion"')
    return json.JSONDecoder().raw_decode(packed[start:].decode(errors="replace"))[0], packed


def test_containers_have_a_profile_unless_told_otherwise() -> None:
    usual, told = config()
    assert usual["process"]["apparmorProfile"]
    assert b"job/apparmor\0" in told
    without, told = config(profiles="none")
    assert "apparmorProfile" not in without["process"]
    assert b"job/apparmor\0" not in told
    # All else is as it was.
    assert without["linux"]["seccomp"] == usual["linux"]["seccomp"]


def test_overlays_sync_unless_told_otherwise() -> None:
    assert b"job/volatile\0" not in config()[1]
    assert b"job/volatile\0" in config(volatile=True)[1]


@pytest.mark.parametrize(
    ("window", "told"),
    [
        (None, False),
        ("from=a,to=b", True),
        ("signals", True),
        # Which is over anyway.
        ("after=1,for=1", False),
    ],
)
def test_who_waits_for_a_program_is_told_for_how_long(window: str | None, told: bool) -> None:
    waits = SIGNAL.model_copy(update={"opening": None if window is None else opening(window)})
    packed = image.job(waits, Topology(2, 1), confined=True, patience=300)
    assert (b"PW_ENDED_AFTER=000300" in packed) is told


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ({}, "docker"),
        ({"profiles": "none"}, f"docker ({BARE})"),
        ({"volatile": True}, f"docker ({VOLATILE})"),
        ({"volatile": True, "confined": False}, f"unconfined ({VOLATILE})"),
    ],
)
def test_a_result_says_how_containers_were_started(how: dict[str, Any], told: str) -> None:
    # A comparison of two that differ in it is refused by this.
    plan = Plan(
        kernel=cast(Any, None),
        qemu=cast(Any, None),
        workload=SIGNAL,
        topology=Topology(2, 1),
        **how,
    )
    assert plan.confinement == told


@pytest.mark.parametrize("words", [["--apparmor", "none"], ["--apparmor", "own"]])
def test_who_is_not_confined_has_no_profile_to_choose(words: list[str]) -> None:
    status, _, complaint = run("check", "--unconfined", *words)
    assert status == 2
    assert "exclude each other" in complaint


def thing(kind: Any, name: str, type_: str | None = None) -> LineObject:
    return LineObject(kind=kind, name=name, type=type_, address="0x1000", size=64, line=0)


def slab(cache: str, type_: str) -> LineObject:
    return thing("slab", f"{cache}: {type_}", type_)


def found(result: Result, lines: list[Line]) -> set[Option]:
    (workload,) = result.workloads
    return {mend.option for mend in Advice(result).on(lines, workload) if mend.option}


def buffers(**more: Any) -> WorkloadResult:
    """A workload that waits for AppArmor's buffers, as nginx does."""
    code = [builders.site("aa_get_buffer", 0, "aa_buffers_lock", atomics=4.0)]
    return builders.workload(
        "nginx", [builders.line(thing("global", "aa_buffers_lock"), 8.0, code=code)], **more
    )


@pytest.mark.parametrize(
    ("more", "helps"),
    [
        ({}, True),
        ({"confinement": f"docker ({OWN_PROFILES})"}, True),
        ({"confinement": f"docker ({NO_APPARMOR})"}, False),
        ({"confinement": "unconfined"}, False),
        ({"topology": Topology(1, 8), "scope": "within"}, True),
    ],
)
def test_without_a_profile_nobody_takes_apparmors_buffers(
    more: dict[str, Any], helps: bool
) -> None:
    result = builders.result(buffers(**more))
    lines = result.workloads[0].walls
    assert ("no-apparmor" in found(result, lines)) == helps


def counter(title: str) -> WorkloadResult:
    """A workload that charges a memory cgroup for its sockets' buffers."""
    charge = builders.site("page_counter_try_charge", 0, "memory.usage", atomics=2.0)
    send = builders.site("__sk_mem_raise_allocated", 0, "sk_forward_alloc", reads=1.0)
    of = slab("kmalloc-2k", "struct mem_cgroup")
    fields = [builders.field("memory.usage", 0)]
    lines = [
        builders.line(of, 5.0, code=[charge], fields=fields),
        builders.line(slab("TCP", "struct sock"), 0.1, code=[send]),
    ]
    name, _, variant = title.partition("/")
    return builders.workload(name, lines, variant=variant or "default")


def test_the_counter_of_sockets_has_a_parameter_and_a_release() -> None:
    result = builders.result(counter("redis/get-peer"))
    (line, _) = result.workloads[0].walls
    assert "nosocket" in found(result, [line])
    releases = [m.release for m in Advice(result).on([line], result.workloads[0])]
    assert "6.16" in releases
    # Who is alone on his CPU has stock there on any kernel.
    alone = builders.result(counter("redis/get"))
    releases = [m.release for m in Advice(alone).on([line], alone.workloads[0])]
    assert "6.16" not in releases


@pytest.mark.parametrize(
    ("title", "has"),
    [("redis/peer", True), ("nginx/keep-outside", True), ("mypeer", False), ("x/speer", False)],
)
def test_who_shares_a_cpu_is_known_by_the_variant(title: str, has: bool) -> None:
    result = builders.result(counter(title))
    (workload,) = result.workloads
    releases = [mend.release for mend in Advice(result).on(workload.walls[:1], workload)]
    assert ("6.16" in releases) == has


@pytest.mark.parametrize("given", [mends.NOSOCKET, "cgroup.memory=nokmem,nosocket"])
def test_a_kernel_that_was_started_so_is_not_told_to_be(given: str) -> None:
    result = builders.result(counter("redis/get-peer"))
    line = f"{result.environment.command_line} {given}"
    there = result.environment.model_copy(update={"command_line": line})
    result = result.model_copy(update={"environment": there})
    assert "nosocket" not in found(result, list(result.workloads[0].walls))


@pytest.mark.parametrize(
    ("title", "told", "helps"),
    [
        (FSYNC, "docker", True),
        # What is synced there is on no overlay.
        ("file/fdatasync-volume", "docker", False),
        ("mine", "docker", False),
        (FSYNC, f"docker ({VOLATILE})", False),
        (f"{FSYNC}, own layers", "docker", True),
        # Within one container it has a wall left.
        ("overlay/fsync within", "docker", False),
    ],
)
def test_overlays_that_sync_nothing_help_where_that_was_measured(
    title: str, told: str, helps: bool
) -> None:
    title, _, own = title.partition(", ")
    title, _, within = title.partition(" ")
    name, _, variant = title.partition("/")
    journal = builders.line(slab("kmalloc-2k", "struct journal_s"), 3.0)
    workload = builders.workload(
        name,
        [journal],
        variant=variant or "default",
        confinement=told,
        layers="own" if own else "shared",
        scope="within" if within else "between",
    )
    assert ("volatile" in found(builders.result(workload), [journal])) == helps


@pytest.mark.parametrize(
    ("option", "told", "expected"),
    [
        (None, "docker", ("", "shared", False)),
        ("nosocket", "docker", (mends.NOSOCKET, "shared", False)),
        ("no-apparmor", "docker", ("", "none", False)),
        ("no-apparmor", f"docker ({OWN_PROFILES})", ("", "none", False)),
        ("profiles", "docker", ("", "own", False)),
        ("volatile", "docker", ("", "shared", True)),
        # As it was measured, and so besides.
        ("volatile", f"docker ({BARE})", ("", "none", True)),
        # As the workload is by itself.
        ("volatile", f"docker ({NO_APPARMOR})", ("", "shared", True)),
        ("nosocket", f"docker ({VOLATILE})", (mends.NOSOCKET, "shared", True)),
    ],
)
def test_what_would_help_is_run(
    monkeypatch: pytest.MonkeyPatch,
    option: Option | None,
    told: str,
    expected: tuple[str, str, bool],
) -> None:
    asked: list[Any] = []

    def check(wanted: Any, progress: Any) -> Any:
        asked.append(wanted)
        return checked.run.Outcome(builders.result(builders.signal()), {})

    monkeypatch.setattr(checked.run, "check", check)
    one = builders.signal().model_copy(update={"confinement": told})
    result = builders.result(one)
    usual = checked.guest.command_line(result.kernel.release)
    there = result.environment.model_copy(update={"command_line": usual})
    result = result.model_copy(update={"environment": there})
    checked._measured(result, cast(Any, None), option, one, Quiet())
    (wanted,) = asked
    assert (wanted.parameters, wanted.profiles, wanted.volatile) == expected


def test_every_option_is_told_and_mends_something() -> None:
    mended = {mend.option for mend in mends.load() if mend.option}
    assert mended == set(mends.OPTIONS)
    assert all(isinstance(one, Mend) and one.says for one in mends.load() if one.option)
