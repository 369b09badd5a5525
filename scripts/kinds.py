# SPDX-License-Identifier: GPL-2.0-or-later
"""What looking for all three kinds of walls costs, beside looking for lines alone.

``scripts/kinds.py [--rounds N] [WORKLOAD]...``, by default all five, on Debian's kernel: eight
containers, in turns. Prints seconds on a processor of all processes of a check, in user mode,
with their ratio. With lines alone memory is not looked at after the windows, and no sleep is
told or timed.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import sys
from dataclasses import replace

from partywall import guest, kernels, workloads
from partywall.core.errors import PartywallError
from partywall.core.progress import Quiet
from partywall.core.topology import Topology
from partywall.guest import qemu
from partywall.kernels import Request
from partywall.measure import run
from partywall.measure.plan import Plan, measure
from partywall.record.plugin import recorder

SHAPE = Topology(8, 1)
HEADINGS = ("lines alone", "all three kinds", "ratio")


def seconds(plan: Plan) -> float:
    """Of all processes that measure this once."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    plugin = recorder(plan.qemu, Quiet())
    (became,) = run.side_by_side([run.Call("", SHAPE, measure, (plan, plugin))], 1, Quiet())
    if isinstance(became, PartywallError):
        raise became
    looked = became.result.memory is not None, became.result.held is not None
    assert looked == (not plan.lines_only,) * 2, f"{plan.title}: {looked}"
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def main() -> int:
    """Measure the workloads in turns, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("names", nargs="*", metavar="WORKLOAD", default=[])
    asked = parser.parse_args()
    names = asked.names or ["signal", "fork", "negative", "overlay", "netns"]
    guest.clean_up()
    try:
        kernel = kernels.resolve(Request("debian"), Quiet())
        wanted = run.Wanted(kernel=kernel, workloads=workloads.select(names))
        plans = [wanted.plan(qemu.find(), one, SHAPE) for one in wanted.workloads]
        print(f"{kernel.release}, QEMU {qemu.find().version}, {asked.rounds} rounds", end="")
        print(", after one that is not counted: seconds")
        print(f"{'':16}", *(f"{one:>24}" for one in HEADINGS))
        for plan in plans:
            kinds = replace(plan, lines_only=True), plan
            took = [[seconds(one) for one in kinds] for _ in range(asked.rounds + 1)][1:]
            lines, three = zip(*took, strict=True)
            ratio = statistics.median(three) / statistics.median(lines)
            shown = (" ".join(f"{one:.1f}" for one in each) for each in (lines, three))
            print(f"{plan.workload.title:16}", *(f"{one:>24}" for one in shown), f"{ratio:>24.2f}")
    except PartywallError as error:
        print(f"kinds: {error.message}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
