# SPDX-License-Identifier: GPL-2.0-or-later
"""Network namespaces that come and go, on three kernels side by side.

    .venv/bin/python tests/kernel/churn.py [--kernel NAME]... [--only TABLE]

The three: stock's with the one mutex that Linux had until 4.17, which is why
this was reported first (``baseline/one-mutex.patch``), stock's, and ours. Three
tables: how long it takes to make so many one after the other in eight tasks,
and how many that are dead and how much memory pile up meanwhile; how long one
takes to be made while 500 others are destroyed; and the same while a module that
registers a notifier of network devices is loaded and unloaded in a loop.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import click
from machine import Job, run
from rich.console import Console
from rich.table import Table

from partywall import kernels
from partywall.core.progress import Quiet
from partywall.kernels import Kernel, Request, build, series

TASKS = 8

MUTEX = Path(__file__).parent / "baseline" / "one-mutex.patch"

# The guest's own is not from the slab, those of the tasks are not dead.
SAMPLES = """\
(while [ ! -e /stop ]; do
	echo sample $(cut -d' ' -f1 /sys/kernel/slab/net_namespace/objects) \\
		$(sed -n 's/^Slab: *//p' /proc/meminfo)
	usleep 50000
done) &
"""


def mutex() -> Kernel:
    """Stock's kernel with the mutex."""
    patch = series.Patch("baseline", MUTEX, MUTEX.read_text())
    return build.from_series("mutex", [patch], build.Variant(), Quiet())


KERNELS: dict[str, Callable[[], Kernel]] = {
    "mutex": mutex,
    "stock": lambda: kernels.resolve(Request("stock"), Quiet()),
    "partywall": lambda: kernels.resolve(Request("partywall"), Quiet()),
}


MODULE = """\
(while [ ! -e /stop ]; do
	rmmod macvlan && insmod /modules/*macvlan.ko && echo loaded
done) &
"""


def ran(kernel: Kernel, script: str) -> str:
    """What a script printed; it finds the module macvlan loaded."""
    job = Job({"run": script}, ["netns"], modules=["macvlan"], cpus=4, memory=3072, timeout=1500)
    done = run(kernel, job)
    output = done.output("run")
    if not done.ended or "BROKEN" in output:
        raise SystemExit(f"{kernel.source}: {output or done.end}")
    return output


def churned(names: tuple[str, ...], each: int) -> Table:
    """How long it takes, and what piles up."""
    table = Table("kernel", "seconds", "dead at most", "slab at most, MiB")
    table.title = f"unshare(CLONE_NEWNET) {each:,} times in each of {TASKS} tasks"
    for name in names:
        script = f"{SAMPLES}netns churn {TASKS} {each}\ntouch /stop\nwait\n"
        output = ran(KERNELS[name](), script)
        samples = [(int(a), int(b)) for a, b in re.findall(r"sample (\d+) (\d+) kB", output)]
        (seconds,) = re.findall(r"tasks, ([\d.]+) s", output)
        dead = max(count for count, _ in samples) - TASKS
        slab = max(kilobytes for _, kilobytes in samples) / 1024
        table.add_row(name, seconds, f"{max(dead, 0):,}", f"{slab:,.0f}")
    return table


def beside(names: tuple[str, ...], dead: int, make: int, module: bool) -> Table:
    """How long one takes to be made beside those that die, in milliseconds."""
    table = Table("kernel", "median", "99th", "at most", "all, s")
    table.title = f"ms to make one while {dead:,} are destroyed"
    script = f"netns beside {dead} {make}\n"
    if module:
        table.title += " and a module comes and goes"
        table.add_column("loaded")
        script = f"{MODULE}{script}touch /stop\nwait\n"
    form = r"made in ([\d.]+) s, ([\d.]+) ms median, ([\d.]+) ms 99th, ([\d.]+) ms most"
    for name in names:
        output = ran(KERNELS[name](), script)
        (found,) = re.findall(form, output)
        loaded = [str(output.count("loaded"))] if module else []
        table.add_row(name, *found[1:], found[0], *loaded)
    return table


@click.command()
@click.option("--each", default=250, show_default=True, help="Namespaces of each task.")
@click.option("--dead", default=500, show_default=True, help="Destroyed at once.")
@click.option("--make", default=100, show_default=True, help="Made meanwhile.")
@click.option("--kernel", "names", type=click.Choice(list(KERNELS)), multiple=True)
@click.option("--only", type=click.Choice(["churn", "beside", "module"]), help="One table.")
def main(each: int, dead: int, make: int, names: tuple[str, ...], only: str | None) -> None:
    """Print what it takes to make network namespaces that others give up."""
    console = Console()
    names = names or tuple(KERNELS)
    if only in (None, "churn"):
        console.print(churned(names, each))
    if only in (None, "beside"):
        console.print(beside(names, dead, make, module=False))
    if only in (None, "module"):
        console.print(beside(names, dead, make, module=True))


if __name__ == "__main__":
    main()
