# SPDX-License-Identifier: GPL-2.0-or-later
"""What the recorder costs: ``make bench``.

Three guests of the same kernel, workload and topology take turns: without any
plugin, with the recorder told to record nothing, and with it recording. Boot
is the time until the containers start, which no marker has been seen in yet;
the window is timed by the recorder itself.
"""

from __future__ import annotations

import statistics
import sys
import time
from dataclasses import replace

import click
from rich.console import Console
from rich.table import Table

from partywall import guest, kernels, workloads
from partywall.core import progress
from partywall.core.errors import PartywallError
from partywall.core.topology import Topology
from partywall.guest import Guest, Settings, image, qemu
from partywall.record import hooks
from partywall.record.plugin import recorder


def boot_seconds(settings: Settings) -> float:
    """From QEMU's start to the containers' start."""
    begun = time.monotonic()
    with Guest(settings) as machine:
        machine.wait_for("ready")
        return time.monotonic() - begun


def window_seconds(settings: Settings) -> float:
    """From the first marker to the last, as the recorder measures it."""
    with Guest(settings) as machine:
        machine.wait()
        said = dict(line.split() for line in machine.times.read_text().splitlines())
        return int(said["window_ns"]) / 1e9


def _row(table: Table, what: str, base: list[float], other: list[float]) -> None:
    one, two = statistics.median(base), statistics.median(other)
    spread = f"{min(other) / one:.2f} to {max(other) / one:.2f}"
    table.add_row(what, f"{one:.2f} s", f"{two:.2f} s", f"{two / one:.2f}", spread)


@click.command()
@click.option("--rounds", default=3, show_default=True, help="Turns; medians are compared.")
@click.option("--containers", default=8, show_default=True)
@click.option("--workload", "names", multiple=True, default=("signal", "fork"), show_default=True)
def main(rounds: int, containers: int, names: tuple[str, ...]) -> None:
    """Measure what recording costs, as ratios."""
    quiet = progress.Quiet()
    kernel = kernels.resolve(kernels.Request("debian"), quiet)
    machine = qemu.find()
    plugin = recorder(machine, quiet)
    table = Table(title=f"{kernel.release}, {containers} containers, {rounds} rounds", box=None)
    for heading in ("", "without", "with recorder", "ratio", "range"):
        table.add_column(heading, justify="left" if not heading else "right")
    for workload in workloads.select(names):
        shape = Topology(containers, 1)
        parts, _ = guest.initramfs(
            image.base(kernel, workload, quiet), image.job(workload, shape, confined=True)
        )
        on = Settings(
            qemu=machine,
            kernel_image=kernel.image,
            initramfs=parts,
            topology=shape,
            plugin=plugin,
            hooks=hooks.build(kernel.vmlinux, workload).text,
        )
        off, none = replace(on, record=False), replace(on, plugin=None)
        boots: tuple[list[float], list[float]] = ([], [])
        windows: tuple[list[float], list[float]] = ([], [])
        for number in range(rounds):
            print(f"{workload.title}: round {number + 1} of {rounds}", file=sys.stderr)
            boots[0].append(boot_seconds(none))
            boots[1].append(boot_seconds(on))
            windows[0].append(window_seconds(off))
            windows[1].append(window_seconds(on))
        _row(table, f"{workload.title}: boot", *boots)
        _row(table, f"{workload.title}: window", *windows)
    Console(width=max(80, Console().width)).print(table)


if __name__ == "__main__":
    try:
        main()
    except PartywallError as error:
        print(f"bench: {error.message}", file=sys.stderr)
        sys.exit(error.exit_code)
