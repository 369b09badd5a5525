# SPDX-License-Identifier: GPL-2.0-or-later
"""What is to be posted, on the newest kernel: KUnit, limits and lifetimes under sanitizers.

Soak: its kernels take an hour to build.
"""

from __future__ import annotations

from collections.abc import Callable

import ktap
import pytest
from machine import Job, Ran
from test_dcache import NAMED, OTHERS, named
from test_kunit import CASES
from test_lifetime import WAYS, charged
from test_limits import races
from test_netns import done, jumped, routes
from test_windows import crashed, marks_first, sockets

from partywall.kernels import Kernel

pytestmark = pytest.mark.soak

Boot = Callable[[str, Job], Ran]
Alarms = Callable[[str, Ran], list[str]]

# Those of ucounts come first.
KUNIT = CASES[: CASES.index("race_of_users_that_come_and_go") + 1]
KUNIT += ["sysctl_test_register_sysctl_duplicate", "direct_xmit_test_run"]
SANITIZERS = ["partywall@7.3+debug", "partywall@7.3+kcsan"]
WITH_TUNNELS = "partywall@7.3+lean+net+debug"
DEBIANS = "debian@trixie-backports"


@pytest.mark.parametrize("name", SANITIZERS)
def test_kunit_passes(boot: Boot, alarms: Alarms, name: str) -> None:
    ran = boot(name, Job({}, timeout=1800, options="kunit.enable=1 loglevel=7"))
    assert ran.ended, ran.end
    found = ktap.results(ran.console)
    assert {case: found.get(case) for case in KUNIT} == dict.fromkeys(KUNIT, "pass"), ran.end
    assert alarms(name, ran) == []


@pytest.mark.parametrize("name", SANITIZERS)
def test_limits_are_exact_and_nothing_is_left(boot: Boot, alarms: Alarms, name: str) -> None:
    tasks = {
        "1-race": races(2),
        "2-see": "semantics",
        "3-exits": "exits 30",
        "4-namespaces": "echo 40 >/proc/sys/user/max_user_namespaces\nnamespaces 1000 16",
    }
    programs = ["limits", "semantics", "exits", "namespaces"]
    ran = boot(name, Job(tasks, programs, memory=4096, timeout=3600))
    assert ran.ended, ran.end
    output = ran.output("1-race").splitlines()
    told = [line for line in output if line.startswith(("ok", "not ok", "#"))]
    assert told, ran.end
    assert all(line.startswith("ok") for line in told), told
    assert set(ktap.results(ran.output("2-see")).values()) == {"pass"}, ran.output("2-see")
    assert ran.status("3-exits") == 0, ran.output("3-exits")
    assert "1000 namespaces, 0 failed" in ran.output("4-namespaces")
    assert alarms(name, ran) == []


@pytest.mark.parametrize(("name", "modules"), [(DEBIANS, ["netlink_diag"]), (SANITIZERS[1], [])])
def test_no_socket_of_netlink_is_left_out(boot: Boot, name: str, modules: list[str]) -> None:
    # Debian's leaves out one for each part of a long list but the last.
    ran = boot(name, Job({"1-all": "sockets 400"}, ["sockets"], modules=modules, timeout=900))
    assert ran.ended, ran.end
    printed = ran.output("1-all")
    if modules:
        assert ran.status("1-all") != 0
        assert "a list of diag's" in printed
    else:
        assert "listed 400 by proc and diag" in printed


def test_a_file_is_no_name_that_is_not_there(boot: Boot) -> None:
    assert named(boot, DEBIANS).left == pytest.approx(NAMED, abs=OTHERS)
    assert named(boot, SANITIZERS[0]).left == pytest.approx(0, abs=OTHERS)


def test_a_keyring_gives_back_what_it_took_of_its_users_quota(boot: Boot) -> None:
    assert charged(boot, DEBIANS) == dict.fromkeys(WAYS, 65536)
    assert charged(boot, SANITIZERS[0]) == dict.fromkeys(WAYS, 0)


def test_a_tunnels_routes_are_gone_before_the_namespace_is(boot: Boot) -> None:
    assert jumped(routes(boot, DEBIANS, ["ip6_tunnel"]))
    ours = routes(boot, WITH_TUNNELS, [])
    assert done(ours).splitlines() == ["routes: namespace gone", "routes: device gone"]
    assert ours.alarms() == []


def test_a_kernel_socket_is_not_found_before_it_is_marked(
    boot: Boot, kernel: Callable[[str], Kernel]
) -> None:
    debians = sockets(boot, DEBIANS, kernel(DEBIANS))
    assert crashed(debians, "kernel BUG at net/netlink/af_netlink.c", "netlink_data_ready")
    assert not marks_first(kernel(DEBIANS))
    assert marks_first(kernel(SANITIZERS[0]))
