# SPDX-License-Identifier: GPL-2.0-or-later
"""The kernel's selftests of net, on stock's kernel and ours side by side.

    .venv/bin/python tests/kernel/net_selftests.py [--only NAME]...

Those that run on one machine without special hardware and with bash, dash,
iproute2, ping and ethtool. Prints how many of each passed, failed and were skipped on
both, and every result that differs; exits with 1 if one does. A test that lacks
a tool or a driver fails or is skipped on both alike.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click
import ktap
import selftests
from machine import Job, Ran, run
from rich.console import Console
from rich.table import Table

from partywall import guest, kernels
from partywall.core.progress import Quiet
from partywall.guest import image
from partywall.kernels import Request

KERNELS = ("stock+lean+net", "partywall+lean+net")

# Programs that are tests themselves.
ALONE = """\
bind_timewait bind_wildcard netlink-dumps psock_fanout psock_tpacket reuseaddr_conflict
reuseport_bpf reuseport_bpf_cpu reuseport_dualstack sk_bind_sendto_listen sk_connect_zero_addr
sk_so_peek_off so_netns_cookie socket tap tun txring_overwrite af_unix/msg_oob af_unix/scm_rights
af_unix/unix_connect
""".split()

# Programs that scripts call.
CALLED = """\
bind_bhash cmsg_sender fin_ack_lat ip_defrag ip_local_port_range ipv6_flowlabel ipv6_flowlabel_mgr
msg_zerocopy nettest psock_snd reuseaddr_ports_exhausted reuseport_addr_any so_incoming_cpu
so_txtime stress_reuseport_listen tcp_fastopen_backup_key udpgso
""".split()

SCRIPTS = """\
arp_ndisc_evict_nocarrier bind_bhash cmsg_so_mark fdb_flush fib-onlink-tests fib_rule_tests
fib_tests fin_ack_lat icmp_redirect ip_defrag ip_local_port_range ipv6_flowlabel l2tp msg_zerocopy
netdevice netns-name netns-sysctl psock_snd reuseaddr_ports_exhausted reuseport_addr_any
rps_default_mask rtnetlink stress_reuseport_listen tcp_fastopen_backup_key
test_vxlan_fdb_changelink test_vxlan_under_vrf test_vxlan_vnifiltering udpgso unicast_extensions
vrf_route_leaking vrf_strict_mode_test
""".split()

# Scripts want these, where busybox would take its own.
TOOLS = {
    "bash": "/bin/bash",
    "dash": "/bin/sh",
    "ip": "/sbin/ip",
    "tc": "/sbin/tc",
    "bridge": "/sbin/bridge",
    "ping": "/bin/ping",
    "ethtool": "/sbin/ethtool",
}

# What iproute2 looks names of protocols up in.
PROTOCOLS = b"icmp 1 ICMP\ntcp 6 TCP\nudp 17 UDP\nipv6-icmp 58 IPv6-ICMP\n"

SECONDS = 240

# A line of scripts that don't print KTAP: "TEST: what it is about    [ OK ]".
_WORDS = re.compile(
    r"^(?:TEST: *)?(?P<name>.*?)[:.]* *\[ *(?P<state>OK|PASS|FAIL|SKIP|XFAIL) *\]", re.IGNORECASE
)
_FIRST = re.compile(r"^(?P<state>PASS|FAIL|SKIP|OK|XFAIL) ?: *(?P<name>.*)", re.IGNORECASE)
_STATES = {"ok": "pass", "pass": "pass", "fail": "fail", "skip": "skip", "xfail": "skip"}


def outcome(ran: Ran, task: str) -> dict[str, str]:
    """Results of one selftest by their names, and how it ended."""
    text = re.sub(r"\x1b\[[\d;]*m", "", ran.output(task))
    found = ktap.results(text)
    for line in text.splitlines():
        match = _WORDS.match(line.strip()) or _FIRST.match(line.strip())
        if match is None:
            continue
        # What is drawn by lot: names of namespaces, times, addresses.
        name = re.sub(r"-\w{6}\b|\d+\.\d+|\b\d{3,}\b", "N", match["name"].strip())
        ktap.add(found, name, _STATES[match["state"].lower()])
    return found | {"exit status": str(ran.status(task))}


def tools() -> dict[str, bytes]:
    """Programs of the system that scripts call, with their libraries."""
    files: dict[str, bytes] = {}
    for name, at in TOOLS.items():
        files |= image.with_libraries(image.tool(name), at)
    return files


def tasks(chosen: tuple[str, ...]) -> dict[str, str]:
    """A script for each selftest, by its name; only those chosen, if there are any."""
    commands = {name: f"./{name}" for name in ALONE} | {name: f"./{name}.sh" for name in SCRIPTS}
    begun = "mkdir -p /run/netns /var; ln -sfn /run /var/run; cd /selftests/net &&"
    return {
        re.sub(r"\W", "-", name): f"{begun} timeout -k 5 {SECONDS} {command}"
        for name, command in commands.items()
        if not chosen or name in chosen
    }


def files(folder: Path) -> dict[str, bytes]:
    """What the guest holds besides."""
    tests = selftests.checkout(folder)
    held = tools() | {"etc/protocols": PROTOCOLS}
    for path in [*tests.glob("net/*.sh"), *tests.glob("kselftest/*.sh")]:
        held[f"selftests/{path.relative_to(tests)}"] = path.read_bytes()
    for name in ALONE + CALLED:
        held[f"selftests/net/{name}"] = selftests.compiled(tests, f"net/{name}")
    return held


@click.command()
@click.option("--only", "chosen", multiple=True, help="One selftest.")
@click.option("--verbose", is_flag=True, help="What was printed by those that differ.")
def main(chosen: tuple[str, ...], verbose: bool) -> None:
    """Run selftests of net on two kernels and lay their results side by side."""
    known = {*ALONE, *SCRIPTS}
    if unknown := sorted(set(chosen) - known):
        raise click.UsageError(f"no selftest '{unknown[0]}'; known: {', '.join(sorted(known))}")
    console = Console()
    wanted = tasks(chosen)
    with tempfile.TemporaryDirectory() as folder:
        try:
            held = files(Path(folder))
        except subprocess.CalledProcessError as error:
            sys.exit(f"compiling failed: {error.stderr.decode(errors='replace')[:200]}")
    job = Job(wanted, files=held, memory=4096, timeout=SECONDS * len(wanted))
    built = [kernels.resolve(Request(name), Quiet()) for name in KERNELS]
    with ThreadPoolExecutor() as pool:
        try:
            ran = list(pool.map(lambda kernel: run(kernel, job), built))
        except BaseException:
            guest.close_all()
            raise
    for name, each in zip(KERNELS, ran, strict=True):
        if not each.ended:
            sys.exit(f"{name} did not come to its end: {each.end}")
    table = Table("selftest", "stock: pass, fail, skip", "ours", "exit status", "differ")
    differ = 0
    for task in wanted:
        one, other = (outcome(each, task) for each in ran)
        differing = [key for key in one | other if one.get(key) != other.get(key)]
        differ += len(differing)
        cells = [
            ", ".join(str(list(each.values()).count(state)) for state in ("pass", "fail", "skip"))
            for each in (one, other)
        ]
        table.add_row(task, *cells, one["exit status"], "; ".join(differing))
        if verbose and differing:
            for each in ran:
                console.print(each.output(task)[-3000:], markup=False, highlight=False)
    console.print(table)
    for name, each in zip(KERNELS, ran, strict=True):
        console.print(f"{name}: {each.alarms() or 'no alarm'}", markup=False, highlight=False)
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()
