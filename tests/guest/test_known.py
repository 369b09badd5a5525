# SPDX-License-Identifier: GPL-2.0-or-later
"""One of the known walls, whose threads take the place of the harness's processes."""

from __future__ import annotations

from pathlib import Path

from checks import walls

from partywall import workloads
from partywall.core.progress import Quiet
from partywall.core.topology import Topology
from partywall.kernels import Kernel
from partywall.measure import run

FOLDER = Path(__file__).parents[1] / "known" / "workloads"


def test_threads_of_one_process_fight_over_the_count_of_their_file(kernel: Kernel) -> None:
    (pread,) = [one for one, _ in workloads.load(FOLDER) if one.title == "threads/pread"]
    wanted = run.Wanted(kernel=kernel, workloads=[pread], topology=Topology(1, 4))
    outcome = run.check(wanted, Quiet())
    assert outcome.failures == {}
    assert outcome.result is not None
    (found,) = outcome.result.workloads
    # One to take it and one to give it back, each on a CPU of its own, and what reads beside it.
    (count,) = [
        line
        for line in walls(found, "struct file")
        if "f_count" in {use.path for use in line.fields}
    ]
    assert count.transfers >= 2
    assert count.sharing == "all"
