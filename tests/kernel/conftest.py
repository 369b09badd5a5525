# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernels that are built for tests. Each is built once and kept in the cache."""

from __future__ import annotations

from collections.abc import Callable

import judge
import pytest
from machine import Job, Ran, run

from partywall import kernels
from partywall.core.progress import Quiet
from partywall.kernels import Kernel, Request


@pytest.fixture(scope="session")
def kernel() -> Callable[[str], Kernel]:
    """The kernel of a name, as ``--kernel`` takes it."""
    known: dict[str, Kernel] = {}

    def get(name: str) -> Kernel:
        if name not in known:
            known[name] = kernels.resolve(Request(name), Quiet())
        return known[name]

    return get


@pytest.fixture(scope="session")
def boot(kernel: Callable[[str], Kernel]) -> Callable[[str, Job], Ran]:
    """Runs a job on the kernel of a name."""
    return lambda name, job: run(kernel(name), job)


@pytest.fixture(scope="session")
def alarms(kernel: Callable[[str], Kernel]) -> Callable[[str, Ran], list[str]]:
    """What a kernel of the series said that is ours: no race that is of stock's code alone."""
    return lambda name, ran: judge.alarms(kernel(name), ran.reports())
