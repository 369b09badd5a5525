# SPDX-License-Identifier: GPL-2.0-or-later
"""What is made of a guest's console, and that the guest ran the kernel that is meant."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from machine import Job, Ran, run

from partywall.core.errors import EnvironmentProblem
from partywall.kernels import Kernel

OOPS = """\
[  129.745539] Oops: int3: 0000 [#1] PREEMPT SMP NOPTI
[  129.745574] RIP: 0010:sched_clock_cpu+0x9/0x190
[  129.746616] Code: 90 90 f3 0f 1e fa 41 54 55 53 {byte} <1b> e8 31 2a f1 ff
[  129.746749] Kernel panic - not syncing: Fatal exception in interrupt
"""


@pytest.mark.parametrize(
    ("console", "stale"),
    [
        (OOPS.format(byte="eb"), True),
        (OOPS.format(byte="cc"), False),
        (OOPS.format(byte="eb").replace("int3", "0000"), False),
        (OOPS[:120].format(byte="eb"), False),
        ("GUEST ends", False),
    ],
)
def test_a_breakpoint_that_is_not_in_memory_is_the_emulators_fault(
    console: str, stale: bool
) -> None:
    assert Ran(console).stale_code() is stale


def test_page_tables_have_four_levels(kernel: Callable[[str], Kernel]) -> None:
    ran = run(kernel("stock"), Job({"1-flags": "grep -c 'flags.* la57' /proc/cpuinfo"}))
    assert ran.output("1-flags") == "0\n"


def test_a_kernel_that_is_not_the_one_of_its_name_is_not_tested(
    kernel: Callable[[str], Kernel],
) -> None:
    stock, ours = kernel("stock"), kernel("partywall")
    assert run(stock, Job({"1-nothing": "true"})).build_id() == stock.build_id
    stale = replace(ours, image=stock.image)
    with pytest.raises(EnvironmentProblem, match="not of the same build"):
        run(stale, Job({"1-nothing": "true"}))
