# SPDX-License-Identifier: GPL-2.0-or-later
"""Network namespaces that come and go: none is left, whatever happens meanwhile.

The order in which pernet operations are called, and what may wait for what, is
tested by KUnit (net/core/net_namespace_test.c), with the other KUnit tests.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from loads import FAILING, HELD_ALONE, SETTLED
from machine import Job, Ran

Boot = Callable[[str, Job], Ran]
Alarms = Callable[[str, Ran], list[str]]


def done(ran: Ran) -> str:
    """What the task printed; it has to have worked, and the kernel to be content."""
    output = ran.output("1-netns")
    assert ran.ended, ran.end
    assert ran.status("1-netns") == 0, output[-3000:]
    assert "BROKEN" not in output, output[-3000:]
    return output


def test_all_are_destroyed_in_the_end(boot: Boot) -> None:
    script = f"netns churn 8 60\n{SETTLED}"
    ran = boot("partywall", Job({"1-netns": script}, ["netns"], memory=2048, timeout=300))
    assert "left 0" in done(ran).splitlines()
    assert ran.alarms() == []


@pytest.mark.parametrize("release", ["stock", "partywall"])
def test_who_has_a_file_of_a_table_that_is_gone_is_told_so(boot: Boot, release: str) -> None:
    ran = boot(release, Job({"1-netns": "netns gone 8"}, ["netns"]))
    assert "gone 8 tables" in done(ran).splitlines()
    assert ran.alarms() == []


# What /proc/sys and /sys show of a namespace, in one order.
TREES = """\
cd /proc/sys && find . | sort
cd /sys/class/net && find lo/ | sort
ls -l /sys/class/net | sed 's/.* \\([^ ]* -> .*\\)/\\1/'
cd /proc/net/ && find . | sort
for name in net/ipv4/conf/lo/forwarding net/core/somaxconn user/max_net_namespaces kernel/shmmax
do echo $name $(cat /proc/sys/$name); done
[ -e /proc/sys/net/ipv4/conf/lo/none ] || echo none
"""


OURS = {
    "./fs/neg-dentry-dir-max",
    "./fs/neg-dentry-enforce",
    "./fs/neg-dentry-pc",
    "./fs/neg-dentry-state",
}


def test_trees_are_as_they_were(boot: Boot) -> None:
    # In the first namespace, which may change what is in no other, and in a new one.
    # And the numbers of the first namespaces of all kinds, which programs know.
    first = "for kind in net mnt pid user; do readlink /proc/1/ns/$kind; done\n"
    tasks = {"1-netns": f"{first}{TREES}unshare -n -i sh /task-2-inner\n", "2-inner": TREES}
    seen = {}
    for kernel in ("stock", "partywall"):
        ran = boot(kernel, Job(tasks))
        seen[kernel] = done(ran).splitlines()
    assert len(seen["stock"]) > 1000
    assert {"net:[4026531840]", "mnt:[4026531841]", "pid:[4026531836]"} < set(seen["stock"])
    assert [line for line in seen["partywall"] if line not in OURS] == seen["stock"]


# What is reserved before anything is, what is written in parts and all anew, and
# which port of four is given out when three are.
PORTS = """\
cd /proc/sys/net/ipv4
echo "first:$(cat ip_local_reserved_ports):"
echo 40000,50000-50003,65535 >ip_local_reserved_ports
cat ip_local_reserved_ports
echo >ip_local_reserved_ports
echo "none:$(cat ip_local_reserved_ports):"
echo 40000-39999 2>&1 >ip_local_reserved_ports || echo refused
echo 40000 40003 >ip_local_port_range
echo 40000,40002-40003 >ip_local_reserved_ports
nc -l -p 0 >/dev/null &
for n in $(seq 100); do
	port=$(sed -n 's/^ *0: [0-9A-F]*:\\([0-9A-F]*\\) .*/\\1/p' /proc/net/tcp6)
	[ -z "$port" ] || break
	usleep 100000
done
echo port $port
kill $!
"""


def test_ports_are_reserved(boot: Boot) -> None:
    tasks = {"1-netns": f"{PORTS}unshare -n sh /task-2-inner\n", "2-inner": PORTS}
    stock, ours = (done(boot(kernel, Job(tasks))).splitlines() for kernel in ("stock", "partywall"))
    assert ours == stock
    assert ours.count("first::") == ours.count("none::") == ours.count("port 9C41") == 2
    assert ours.count("40000,50000-50003,65535") == 2


# Those of the kernel too, in the first namespace and in one that has fewer.
SOCKETS = "sockets 400\nunshare -n sockets 400\n"


def test_sockets_of_netlink_are_listed(boot: Boot) -> None:
    job = Job({"1-netns": SOCKETS}, ["sockets"])
    stock, ours = (done(boot(kernel, job)).splitlines() for kernel in ("stock", "partywall"))
    assert ours == stock
    first, listed, other, listed_there = ours
    assert listed == listed_there == "listed 400 by proc"
    assert set(first.split()) > set(other.split()) > {"0", "16"}


def test_no_socket_of_netlink_is_left_out_by_diag(boot: Boot) -> None:
    # Stock leaves out one for each part of a long list but the last.
    job = Job({"1-netns": SOCKETS}, ["sockets"], timeout=900)
    ran = boot("partywall+lean+net+debug", job)
    assert done(ran).count("listed 400 by proc and diag") == 2
    assert ran.alarms() == []


@pytest.mark.soak
@pytest.mark.parametrize("variant", ["lean+net+debug", "lean+net+kcsan"])
def test_a_storm_under_sanitizers(boot: Boot, alarms: Alarms, variant: str) -> None:
    script = f"netns storm 25\n{SETTLED}"
    job = Job({"1-netns": script}, ["netns"], memory=4096, timeout=900)
    ran = boot(f"partywall+{variant}", job)
    output = done(ran)
    ((made, moved),) = re.findall(r"storm (\d+) made, \d+ links, (\d+) moves", output)
    assert int(made) > 5
    assert int(moved) > 0
    assert alarms(f"partywall+{variant}", ran) == []
    assert "left 0" in output.splitlines()


# Of how many one fails. Each of them is "1", and takes more than half an hour.
EACH = 41


@pytest.mark.soak
def test_allocations_of_a_setup_may_fail(boot: Boot) -> None:
    script = f"{FAILING}netns fail 4 {EACH}\n{SETTLED}netns churn 4 1\n"
    job = Job({"1-netns": script}, ["netns"], memory=4096, timeout=3600)
    ran = boot("partywall+lean+net+debug", job)
    output = done(ran)
    ((allocations, needed),) = re.findall(r"fail (\d+) allocations, (\d+) of them", output)
    assert int(allocations) >= int(needed) > 1000 / EACH
    assert ran.alarms() == []
    assert "left 0" in output.splitlines()


# What is in the backlog of the second processor: the twelfth number, hexadecimal, as the
# thirteenth is whose it is. Who takes it from there is a task as others, for packets that
# another processor put there.
BACKLOG = f"""\
queued() {{ awk '$13 == "00000001" {{ print "queued", $12 }}' /proc/net/softnet_stat; }}
{HELD_ALONE}
taskset 2 netns hold &
held
taskset 1 netns backlog 2
sleep 3
queued
touch /stop
wait
{SETTLED}queued
"""


def test_packets_in_a_backlog_outlive_no_namespace(boot: Boot) -> None:
    job = Job({"1-netns": BACKLOG}, ["netns"], options="thread_backlog_napi", timeout=600)
    ran = boot("partywall+lean+net+debug", job)
    lines = done(ran).splitlines()
    held, flushed = (int(line.split()[1], 16) for line in lines if line.startswith("queued"))
    # The namespace is given up and waits for that processor.
    assert held >= 20
    assert flushed == 0
    assert "left 0" in lines
    assert ran.alarms() == []


def test_a_datapath_and_the_namespace_of_its_device_go_in_any_order(boot: Boot) -> None:
    job = Job({"1-netns": f"datapath 24\n{SETTLED}"}, ["datapath"], timeout=600)
    ran = boot("partywall+lean+net+debug", job)
    lines = done(ran).splitlines()
    assert "datapath 24 devices moved" in lines
    assert "left 0" in lines
    assert ran.alarms() == []


def test_nodes_of_tipc_forget_a_namespace_that_goes(boot: Boot) -> None:
    job = Job({"1-netns": f"tipc 5\n{SETTLED}"}, ["tipc"], timeout=900)
    ran = boot("partywall+lean+net+debug", job)
    output = done(ran)
    ((met, sent),) = re.findall(r"^tipc (\d+) met, (\d+) sent to who goes$", output, re.MULTILINE)
    assert int(met) == 5
    # Who does not forget looks at a namespace that has been freed.
    assert int(sent) > 0
    assert "left 0" in output.splitlines()
    assert ran.alarms() == []


def routes(boot: Boot, kernel: str, modules: list[str], script: str = "routes") -> Ran:
    # What is freed is overwritten, and no allocation is kept by a processor.
    job = Job({"1-netns": script}, ["routes"], modules=modules, options="slub_debug=P")
    return boot(kernel, job)


def jumped(ran: Ran) -> bool:
    """Whether the kernel took the address of a function from what was overwritten."""
    assert "routes: namespace gone" in ran.output("1-netns"), ran.end
    assert not ran.ended
    return "RIP: 0010:0x6b6b6b6b6b6b6b6b" in ran.console and "dst_destroy" in ran.console


def test_a_tunnels_routes_are_gone_before_the_namespace_is(boot: Boot) -> None:
    # fixes/0001.
    stock = routes(boot, "debian", ["ip6_tunnel"])
    assert jumped(stock)
    # That destroys batches beside each other.
    ours = routes(boot, "partywall+lean+net+debug", [], "routes all")
    assert done(ours).splitlines() == ["routes: namespace gone", "routes: device gone"]
    assert ours.alarms() == []
