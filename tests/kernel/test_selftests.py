# SPDX-License-Identifier: GPL-2.0-or-later
"""The kernel's own selftests of what the series touches: the same results as stock."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import ktap
import pytest
import selftests
from machine import Job, Ran, missing

Boot = Callable[[str, Job], Ran]

KERNELS = ("stock", "partywall")

# Those that need a library that is not there, or change the clock, are left out.
PROGRAMS = """\
clone3/clone3 clone3/clone3_clear_sighand clone3/clone3_set_tid
filesystems/overlayfs/creds filesystems/overlayfs/dev_in_maps
mm/mlock2-tests mqueue/mq_open_tests
pidfd/pidfd_fdinfo_test pidfd/pidfd_getfd_test pidfd/pidfd_open_test pidfd/pidfd_poll_test
pidfd/pidfd_test pidfd/pidfd_wait
prctl/set-process-name ptrace/get_syscall_info ptrace/peeksiginfo
rlimits/rlimits-per-userns sigaltstack/sas
timers/nanosleep timers/posix_timers timers/threadtest
""".split()

# These compare clocks, which a vCPU that the host did not run for a moment fails. So they run
# where time is what the guest has executed, whatever else the host has to do.
TIMED = ("timers/", "pidfd/pidfd_test")

# Of what stock's kernel does not have.
OWN = ["filesystems/neg_dentry"]


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The programs, static, by the path they have in the kernel's folder of selftests."""
    tests = selftests.checkout(tmp_path_factory.mktemp("selftests"))
    return {name: selftests.compiled(tests, name) for name in PROGRAMS + OWN}


def outcome(ran: Ran, task: str) -> dict[str, str]:
    """Result lines of a selftest, and how it ended."""
    output = re.sub(r"\d+\.\d+|\b\d{3,}\b", "N", ran.output(task))
    return ktap.results(output) | {"exit status": str(ran.status(task))}


def test_selftests_end_as_on_the_stock_kernel(boot: Boot, programs: dict[str, bytes]) -> None:
    files = {f"selftests/{name}": programs[name] for name in PROGRAMS}
    names = {name: name.replace("/", "-") for name in PROGRAMS}
    # pidfd_test forks until a pid comes again: 32,768 times by default, minutes when emulated.
    few = "echo 4096 > /proc/sys/kernel/pid_max"
    tasks = {
        short: f"{few} && cd /selftests/{Path(name).parent} && timeout 300 ./{Path(name).name}"
        for name, short in names.items()
    }
    job = Job(tasks, files=files, modules=["overlay"], memory=3072, timeout=1800)
    listed = []
    for counted in (False, True):
        chosen = {n: short for n, short in names.items() if n.startswith(TIMED) == counted}
        part = replace(job, tasks={s: tasks[s] for s in chosen.values()}, counted=counted)
        stock, ours = (boot(kernel, part) for kernel in KERNELS)
        assert stock.ended and ours.ended, ours.end
        for name, short in chosen.items():
            expected, found = outcome(stock, short), outcome(ours, short)
            passed = sum(state == "pass" for state in found.values())
            listed.append(f"{name}: {passed} passed, exit status {found['exit status']}")
            assert found == expected, (name, ours.output(short)[-2000:])
        assert ours.alarms() == stock.alarms() == []
    print("\n".join(listed))


def test_limits_of_names_that_are_not_there(boot: Boot, programs: dict[str, bytes]) -> None:
    (name,) = OWN
    job = missing("cd /new && /selftest", memory=512)
    job = replace(job, files={**job.files, "selftest": programs[name]})
    ran = boot("partywall", job)
    found = ktap.results(ran.output("1-run"))
    assert len(found) >= 4
    assert set(found.values()) == {"pass"}, ran.output("1-run")
    assert ran.alarms() == []
