# SPDX-License-Identifier: GPL-2.0-or-later
"""Containers by the clock: on this machine's own kernel, and in a guest."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from partywall import kernels, workloads
from partywall.clock import bench
from partywall.clock.bench import Wanted
from partywall.core.progress import Quiet
from partywall.kernels import Request

(SIGNAL,) = workloads.select(["signal"])


@pytest.mark.skipif(os.geteuid() != 0, reason="containers need root")
def test_containers_run_on_this_machine_and_leave_nothing() -> None:
    mounts = Path("/proc/self/mounts").read_text()
    if os.fork() == 0:
        # The mount namespace that it makes is for the rest of a process's life.
        status = 1
        try:
            found = bench.bench(Wanted(SIGNAL, counts=[1, 2], seconds=0.3, runs=2), Quiet())
            (series,) = found.series
            good = [point.containers for point in series.points] == [1, 2]
            good &= all(len(point.runs) == 2 and min(point.runs) > 1000 for point in series.points)
            status = 0 if good else 2
        finally:
            os._exit(status)
    _, status = os.wait()
    assert os.waitstatus_to_exitcode(status) == 0
    assert Path("/proc/self/mounts").read_text() == mounts
    assert not list(Path(tempfile.gettempdir()).glob("partywall-bench-*"))


def test_a_guest_runs_containers_by_the_clock() -> None:
    kernel = kernels.resolve(Request("debian"), Quiet())
    wanted = Wanted(SIGNAL, counts=[2], seconds=0.3, runs=1, kernels=[kernel], accel="threads")
    found = bench.bench(wanted, Quiet())
    (series,) = found.series
    (point,) = series.points
    assert (point.containers, series.runs_on) == (2, "emulated threads")
    assert point.runs[0] > 0
    assert point.slowest <= point.runs[0]
    assert any("emulated" in warning for warning in found.warnings)
