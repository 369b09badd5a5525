# SPDX-License-Identifier: GPL-2.0-or-later
"""What is said of what one container can use up."""

from __future__ import annotations

import functools
import io
import re
from pathlib import Path
from typing import Any

import commands
import pytest
from builders import result
from rich.console import Console

from partywall import workloads
from partywall.core.errors import UsageProblem
from partywall.guest import oci
from partywall.measure import caps as measuring
from partywall.report import caps as view
from partywall.results import document
from partywall.results.caps import Cap, Caps, Got, Verdict
from partywall.results.failures import Failure

(INOTIFY,) = workloads.select(["hold/inotify"])

SAID = (
    "before=8,0,0,0,0,0 taken=128,24,0,1,0,0 beside=0,24,0,0,0,0 "
    "limit=fs.inotify.max_user_instances=128 after=8,0,0,0,0,0"
)


def got(done: int, error: str | None = None, *, killed: bool = False, full: bool = False) -> Got:
    return Got(done=done, error=error, killed=killed, full=full, processes=0)


def cap(**changed: Any) -> Cap:
    return measuring.parse(SAID, INOTIFY).model_copy(update=changed)


def found(*operations: Cap, failed: tuple[Failure, ...] = ()) -> Caps:
    said = result()
    return Caps(
        created=said.created,
        kernel=said.kernel,
        environment=said.environment,
        users="shared",
        memory=1024,
        operations=list(operations),
        failed=list(failed),
    )


def shown(document: Caps) -> str:
    out = io.StringIO()
    view.render(document, Console(file=out, width=80))
    return out.getvalue()


def test_what_the_referee_says_is_read() -> None:
    one = cap()
    assert (one.knob, one.value) == ("fs.inotify.max_user_instances", "128")
    assert one.taken == Got(done=128, error="EMFILE", killed=False, full=False, processes=1)
    assert (one.verdict, one.stays) == ("cap", False)


def test_a_limit_of_several_numbers_is_read_as_it_was_set() -> None:
    one = measuring.parse("before=8,0,0,0,0,0 limit=net.ipv4.tcp_mem=10/20/30", INOTIFY)
    assert (one.knob, one.value) == ("net.ipv4.tcp_mem", "10 20 30")
    assert one.verdict == "not tried"


@pytest.mark.parametrize(
    ("taken", "beside", "verdict"),
    [
        (got(128, "EMFILE"), got(0, "EMFILE"), "cap"),
        # A neighbour that gets some of what it needs can't do its work.
        (got(128, "EMFILE"), got(7, "EMFILE"), "cap"),
        # Even if the one that took did not come to the end of it.
        (got(128), got(0, "ENOSPC"), "cap"),
        (got(128, "EMFILE"), got(8), "own"),
        # As of more locked memory than a process may have.
        (got(128, "ENOMEM"), got(8), "own"),
        (got(128, killed=True, full=True), got(8), "memory"),
        (got(128, "ENOMEM", full=True), got(8), "memory"),
        # The machine had none for it, within its own limit.
        (got(128, killed=True), got(8), "cap"),
        # What waits without end has come to no limit.
        (got(128, "ETIMEDOUT"), got(8), "not reached"),
        (got(128), got(8), "not reached"),
    ],
)
def test_the_verdict_is_what_the_neighbour_gets(taken: Got, beside: Got, verdict: Verdict) -> None:
    assert cap(taken=taken, beside=beside).verdict == verdict


def test_caps_are_shown_by_what_sets_them() -> None:
    watch = cap(title="hold/inotify-watch", beside=got(3, "ENOSPC"), after=got(2, "ENOSPC"))
    signal = cap(title="hold/signal", taken=got(3777, "EAGAIN"), knob=None, value=None)
    text = shown(found(cap(), watch, signal))
    assert text.count("fs.inotify.max_user_instances = 128") == 1
    assert re.search(r"128 +0 of 8  hold/inotify: EMFILE\n", text)
    assert "hold/inotify-watch: ENOSPC; still when" in text
    assert re.search(r"no limit that was tried raises it\n +3,777 +0 of 8  hold/signal", text)
    assert max(map(len, text.splitlines())) <= 80


def test_what_is_no_cap_is_told_by_what_bounds_it() -> None:
    own = cap(title="hold/semaphores", taken=got(32000, "ENOSPC"), beside=got(8))
    memory = cap(title="hold/pipe", taken=got(500, killed=True, full=True), beside=got(8))
    fails = cap(title="hold/x", before=got(3, "EPERM"), taken=None, beside=None, after=None)
    failed = (Failure(title="hold/y", operation="one of y", why="it went out"),)
    text = shown(found(own, memory, fails, failed=failed))
    assert "what all need\n  none" in text
    assert "hold/semaphores: 32,000, then ENOSPC" in text
    assert "limit\n  hold/pipe: 500\n" in text
    assert "hold/x: 3, then EPERM" in text
    assert "hold/y: it went out" in text


run = functools.partial(commands.run, "caps")


def test_what_was_saved_is_shown_again_and_held_against_a_limit(tmp_path: Path) -> None:
    saved, caps = tmp_path / "caps.json", found(cap())
    saved.write_text(document.dump(caps))
    assert run(saved) == (0, shown(caps), "")
    assert run(saved, "--json") == (0, saved.read_text(), "")
    assert run(saved, "--fail-caps", "1")[0] == 0
    assert run(saved, "--fail-caps", "0")[0] == 1
    failed = (Failure(title="d", operation="one of d", why="it went out"),)
    saved.write_text(document.dump(found(cap(), failed=failed)))
    # What was not measured has not passed.
    assert run(saved, "--fail-caps", "1")[0] == 3
    status, _, error = run(saved, "--seconds", "3")
    assert status == 2
    assert "--seconds says how to measure" in error


def test_what_has_to_know_how_many_there_will_be_can_not_use_up_all() -> None:
    library = [one for one, _ in workloads.load()]
    measuring.require_endless(measuring.tried(library))
    measuring.require_endless(workloads.select(["negative/unique", "overlay/create"]))
    with pytest.raises(UsageProblem, match="overlay/copy-up has to know"):
        measuring.require_endless(workloads.select(["negative/unique", "overlay/copy-up"]))


def test_users_of_containers_are_the_same_if_asked_for() -> None:
    assert oci.first_uid(3, "shared") == oci.first_uid(0, "own") == oci.FIRST_UID
    assert oci.first_uid(3, "own") == oci.FIRST_UID + 3 * oci.UIDS


def test_without_user_namespaces_root_of_a_container_is_root() -> None:
    assert oci.first_uid(3, "host") == 0


def test_a_machine_without_memory_is_said() -> None:
    text = shown(found(cap(taken=got(500, killed=True), beside=got(8), knob=None, value=None)))
    assert "the machine's memory: the one that took was killed within its own limit" in text
    assert "hold/inotify: as much as it asks for" in text


def test_a_neighbour_that_gets_less_without_an_error_is_told_so() -> None:
    text = shown(found(cap(taken=got(500), beside=got(3))))
    assert "3 of 8  hold/inotify: less, and no error" in text


def test_docker_has_no_user_namespaces_and_limits_no_tasks() -> None:
    common: dict[str, Any] = {
        "number": 1,
        "cpus": range(1, 2),
        "arguments": ["x"],
        "environment": {},
        "capabilities": (),
        "confined": True,
        "apparmor": True,
        "systempaths": True,
    }
    host = oci.Confinement("host", -1, (("RLIMIT_NPROC", -1), ("RLIMIT_NOFILE", 5)))
    config = oci.config(**common, more=host)
    assert {"type": "user"} not in config["linux"]["namespaces"]
    assert "uidMappings" not in config["linux"]
    assert config["linux"]["resources"]["pids"] == {"limit": -1}
    assert config["process"]["rlimits"] == [
        {"type": "RLIMIT_NPROC", "soft": 2**64 - 1, "hard": 2**64 - 1},
        {"type": "RLIMIT_NOFILE", "soft": 5, "hard": 5},
    ]
    usual = oci.config(**common)
    assert {"type": "user"} in usual["linux"]["namespaces"]
    assert usual["linux"]["uidMappings"][0]["hostID"] == oci.FIRST_UID + oci.UIDS
    assert "rlimits" not in usual["process"]
