# SPDX-License-Identifier: GPL-2.0-or-later
"""What the recorder costs: ``make bench``.

Three guests of the same kernel, workload and topology take turns: without any
plugin, with the recorder told to record nothing, and with it recording. Boot
is the time until the containers start, which no marker has been seen in yet.
A window is timed by the recorder itself, in QEMU's time on a processor, and has as
many operations as fill about a second of that where nothing is recorded.
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
from partywall.guest import Guest, Settings, image, qemu, snapshot
from partywall.guest.qemu import Qemu
from partywall.kernels import Kernel
from partywall.record import hooks
from partywall.record.plugin import recorder
from partywall.workloads import Workload


def boot_seconds(settings: Settings) -> float:
    """From QEMU's start to the containers' start."""
    begun = time.monotonic()
    with Guest(settings) as machine:
        machine.wait_for("ready")
        return time.monotonic() - begun


def window_seconds(settings: Settings) -> float:
    """QEMU's time on a processor from the first marker to the last."""
    with Guest(settings) as machine:
        machine.wait()
        said = dict(line.split() for line in machine.times.read_text().splitlines())
        return int(said["window_cpu_ns"]) / 1e9


def _settings(kernel: Kernel, workload: Workload, containers: int, machine: Qemu) -> Settings:
    """A guest that is recorded."""
    quiet = progress.Quiet()
    shape = Topology(containers, 1)
    parts, _ = guest.initramfs(
        image.base(kernel, workload, quiet), image.job(workload, shape, confined=True), quiet
    )
    return Settings(
        qemu=machine,
        kernel_image=kernel.image,
        initramfs=parts,
        topology=shape,
        plugin=recorder(machine, quiet),
        hooks=hooks.build(kernel.vmlinux, workload).text,
    )


def _row(table: Table, what: str, base: list[float], other: list[float]) -> None:
    one, two = statistics.median(base), statistics.median(other)
    spread = f"{min(other) / one:.2f} to {max(other) / one:.2f}"
    table.add_row(what, f"{one:.2f} s", f"{two:.2f} s", f"{two / one:.2f}", spread)


@click.command()
@click.option("--rounds", default=3, show_default=True, help="Turns; medians are compared.")
@click.option("--containers", default=8, show_default=True)
@click.option("--workload", "names", multiple=True, default=("signal", "fork"), show_default=True)
@click.option(
    "--seconds",
    default=1.0,
    show_default=True,
    help="Length of a window that is not recorded; 0: as check has it.",
)
@click.option("--boots/--no-boots", default=True, show_default=True, help="Time boots too.")
def main(rounds: int, containers: int, names: tuple[str, ...], seconds: float, boots: bool) -> None:
    """Measure what recording costs, and what a snapshot saves, as ratios."""
    kernel = kernels.resolve(kernels.Request("debian"), progress.Quiet())
    machine = qemu.find()
    table = Table(title=f"{kernel.release}, {containers} containers, {rounds} rounds", box=None)
    for heading in ("", "without", "with", "ratio", "range"):
        table.add_column(heading, justify="left" if not heading else "right")
    for workload in workloads.select(names):
        on = _settings(kernel, workload, containers, machine)
        if seconds:
            took = window_seconds(replace(on, record=False))
            window = max(1, round(workload.window * seconds / took))
            on = _settings(
                kernel, workload.model_copy(update={"window": window}), containers, machine
            )
        off, none = replace(on, record=False), replace(on, plugin=None)
        goes_on = snapshot.booted(on, progress.Quiet()) if boots else on
        started: tuple[list[float], list[float], list[float]] = ([], [], [])
        windows: tuple[list[float], list[float]] = ([], [])
        for number in range(rounds):
            print(f"{workload.title}: round {number + 1} of {rounds}", file=sys.stderr)
            if boots:
                started[0].append(boot_seconds(none))
                started[1].append(boot_seconds(on))
                started[2].append(boot_seconds(goes_on))
            windows[0].append(window_seconds(off))
            windows[1].append(window_seconds(on))
        if boots:
            _row(table, f"{workload.title}: boot, recorder", *started[:2])
            _row(table, f"{workload.title}: boot, snapshot", started[1], started[2])
        _row(table, f"{workload.title}: window, recorder", *windows)
    Console(width=max(80, Console().width)).print(table)


if __name__ == "__main__":
    try:
        main()
    except PartywallError as error:
        print(f"bench: {error.message}", file=sys.stderr)
        sys.exit(error.exit_code)
