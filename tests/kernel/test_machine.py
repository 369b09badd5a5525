# SPDX-License-Identifier: GPL-2.0-or-later
"""That guests have what tests rely on, and that the guest ran the kernel that is meant."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from machine import Job, run

from partywall.core.errors import EnvironmentProblem
from partywall.kernels import Kernel


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
