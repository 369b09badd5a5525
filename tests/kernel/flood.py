# SPDX-License-Identifier: GPL-2.0-or-later
"""What a flood of names that are not there does, side by side.

    .venv/bin/python tests/kernel/flood.py [--names N] [--memory MIB]

Boots stock's kernel and ours in guests of a few hundred MiB or of 2 GiB, fills
them with names that never come again, and prints five tables: how many were
kept and how much memory they took; what names that are asked for again met
with meanwhile, and those of another cgroup before, then and after; for how
long a processor could not be had; and what a look-up takes, with the pruning
that it is the cause of, where there are many mounts and cgroups.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import click
from machine import Ran, missing, run
from rich.console import Console
from rich.table import Table

from partywall import kernels
from partywall.core.progress import Quiet
from partywall.kernels import Request

LIMITS = {"soft": (1, 0), "enforced": (1, 1)}

SAMPLES = """\
(while [ ! -e /stop ]; do
	echo sample $(cut -f5 /proc/sys/fs/dentry-state) $(sed -n 's/^Slab: *//p' /proc/meminfo)
	sleep 1
done) &
"""


@dataclass(frozen=True)
class Kind:
    """A kernel, and what it is told."""

    kernel: str
    limit: str = ""

    @property
    def title(self) -> str:
        """For the first column."""
        return f"{self.kernel} {self.limit}".strip()

    @property
    def script(self) -> str:
        """Sets the limit."""
        if not self.limit:
            return ""
        percent, enforce = LIMITS[self.limit]
        return (
            f"echo {percent} >/proc/sys/fs/neg-dentry-pc\n"
            f"echo {enforce} >/proc/sys/fs/neg-dentry-enforce\n"
        )


KINDS = [Kind("stock"), Kind("partywall"), Kind("partywall", "soft"), Kind("partywall", "enforced")]


def ran(kind: Kind, script: str, *, memory: int, cpus: int = 1, counted: bool = False) -> str:
    """What a script printed in a guest of the kind, with an ext4 file system at /new."""
    script = f"{kind.script}mkdir /new/d /new/e\n{script}"
    job = missing(script, memory=memory, cpus=cpus, counted=counted, timeout=3000)
    done: Ran = run(kernels.resolve(Request(kind.kernel), Quiet()), job)
    output = done.output("1-run")
    if not done.ended or "BROKEN" in output:
        raise SystemExit(f"{kind.title}: {output or done.end}")
    return output


def kept(names: int, memory: int) -> Table:
    """How many names there were at most, and in how much memory."""
    table = Table("kernel", "kept at most", "slab, MiB", "seconds", title=f"{names:,} names")
    for kind in KINDS:
        script = f"{SAMPLES}missing flood /new/d {names} 4\ntouch /stop\nwait\n"
        output = ran(kind, script, memory=memory, cpus=4)
        samples = [(int(a), int(b)) for a, b in re.findall(r"sample (\d+) (\d+) kB", output)]
        (seconds,) = re.findall(r"tasks, ([\d.]+) s", output)
        table.add_row(
            kind.title,
            f"{max(a for a, _ in samples):,}",
            f"{max(b for _, b in samples) / 1024:,.0f}",
            seconds,
        )
    return table


def wanted(names: int) -> Table:
    """What names that are asked for again meet with, in nanoseconds of two instructions each."""
    table = Table("kernel", "found, %", "instructions each", "of one that is there")
    table.title = "1,000 names asked for again, 16 others for each of them in between"
    for kind in KINDS:
        output = ran(kind, f"missing beside /new/e 1000 /new/d {names}\n", memory=192, counted=True)
        found = re.findall(r"([\d.]+) ns each, ([\d.]+) of \S+, ([\d.]+) %", output)
        mean, there, slow = map(float, found[0])
        table.add_row(kind.title, f"{100 - slow:.1f}", f"{mean / 2:,.0f}", f"{there / 2:,.0f}")
    return table


VICTIM = """\
echo +memory >/sys/fs/cgroup/cgroup.subtree_control
mkdir /sys/fs/cgroup/one /sys/fs/cgroup/other
echo $$ >/sys/fs/cgroup/one/cgroup.procs
missing victim /new/e 1000 /new/d {names} /sys/fs/cgroup/other
"""


def victim(names: int) -> Table:
    """What 1,000 names of one cgroup meet with before, while and after another one's flood."""
    table = Table("kernel", *(f"{a}, {b}" for a in WHEN for b in ("found, %", "instr.")))
    table.title = f"1,000 names of one cgroup, {names:,} of another"
    for kind in KINDS:
        output = ran(kind, VICTIM.format(names=names), memory=192, counted=True)
        cells = []
        for when in WHEN:
            (found,) = re.findall(rf"{when} .*?([\d.]+) ns each, .*, ([\d.]+) %", output)
            cells += [f"{100 - float(found[1]):.1f}", f"{float(found[0]) / 2:,.0f}"]
        table.add_row(kind.title, *cells)
    return table


WHEN = ("before", "during", "after")

# What is done in a directory that has had its flood; the last one takes the names away.
PAUSES = {
    "watch": "missing watch /new/d 1",
    "list": "ls /new/d",
    "rmdir": "rmdir /new/d",
    "drop": "echo 2 >/proc/sys/vm/drop_caches",
    "reclaim": "echo 150M >/sys/fs/cgroup/one/memory.reclaim || true",
    "unmount": "umount /new",
}
KEEP = ("watch", "list")

PAUSED = """\
echo +memory >/sys/fs/cgroup/cgroup.subtree_control
mkdir /sys/fs/cgroup/one
flood() {{
	mkdir -p /new/d
	sh -c 'echo $$ >/sys/fs/cgroup/one/cgroup.procs; exec missing flood /new/d {names}'
}}
"""


def pauses(names: int) -> Table:
    """For how long a task of high priority waited while one thing was done, in milliseconds."""
    table = Table("kernel", *PAUSES, title=f"a directory of {names:,} names that are not there")
    script = PAUSED.format(names=names) + "flood\n"
    for what, command in PAUSES.items():
        script += f"missing pauses sh -c '{command}' || echo BROKEN {what}\n"
        script += "" if what in KEEP else "[ ! -e /new/e ] || flood\n"
    for kind in KINDS[:2]:
        output = ran(kind, script, memory=names // 2500, counted=True)
        table.add_row(kind.title, *re.findall(r"pauses ([\d.]+) ms at most", output))
    return table


# File systems that the flood does not come to, and cgroups each of which has names.
MOUNTS, CGROUPS = 2000, 200

CROWD = {
    "alone": "",
    f"{MOUNTS:,} mounts": f"""\
for n in $(seq {MOUNTS}); do mkdir -p /m/$n; mount -t tmpfs tmpfs /m/$n; done
""",
    f"{CGROUPS} cgroups more": f"""\
echo +memory >/sys/fs/cgroup/cgroup.subtree_control
for n in $(seq {CGROUPS}); do
	mkdir /sys/fs/cgroup/$n /new/e/$n
	sh -c 'echo $$ >/sys/fs/cgroup/'$n'/cgroup.procs; exec missing flood /new/e/'$n' 100'
done
""",
}


def mounts(names: int) -> Table:
    """What each look-up of a flood takes, pruning included, in instructions."""
    table = Table("kernel", *CROWD, title=f"{names:,} names, in instructions each")
    for kind in KINDS:
        script = "".join(
            f"{setup}mkdir /new/d/{n}\nmissing flood /new/d/{n} {names}\nsleep 1\n"
            for n, setup in enumerate(CROWD.values())
        )
        output = ran(kind, script, memory=384, counted=True)
        seconds = re.findall(rf"flood {names} names, 1 tasks, ([\d.]+) s", output)
        table.add_row(kind.title, *(f"{float(took) / names / 2e-9:,.0f}" for took in seconds))
    return table


@click.command()
@click.option("--names", default=10_000_000, show_default=True, help="Names of the flood.")
@click.option("--memory", default=2048, show_default=True, help="MiB of its guest.")
@click.option(
    "--only",
    type=click.Choice(["kept", "wanted", "victim", "pauses", "mounts"]),
    help="One table.",
)
def main(names: int, memory: int, only: str | None) -> None:
    """Print what a flood of names that are not there does to stock's kernel and ours."""
    console = Console()
    if only in (None, "kept"):
        console.print(kept(names, memory))
    if only in (None, "wanted"):
        console.print(wanted(names // 10))
    if only in (None, "victim"):
        console.print(victim(names // 5))
    if only in (None, "pauses"):
        console.print(pauses(names // 10))
    if only in (None, "mounts"):
        console.print(mounts(names // 20))


if __name__ == "__main__":
    main()
