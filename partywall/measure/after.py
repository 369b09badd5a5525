# SPDX-License-Identifier: GPL-2.0-or-later
"""Looks at a guest's memory when its windows are over: what operations leave behind.

The recorder has written all down and let the guest go on. Its processes do more of the
operation, and have it held before, between and after.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path

import drgn

from partywall import guest
from partywall.analyse.growth import Kernel
from partywall.analyse.growth.stocks import Stocks
from partywall.analyse.growth.totals import grown, totals
from partywall.core.errors import EnvironmentProblem, PartywallError
from partywall.core.topology import Topology
from partywall.guest import Guest
from partywall.results.memory import Memory
from partywall.workloads import Workload

MOST = 3 << 10
"""MiB of a guest. With more a PC has a hole in its memory, where no pages are."""

_LOOKS = 3
"""As harness/barrier.h has it."""


def step(workload: Workload, topology: Topology) -> int:
    """Return operations of each process around which memory is looked at after its windows.

    0 for none.
    """
    fits = guest.memory(topology) <= MOST
    return workload.step(topology.total) if fits else 0


class Looks:
    """Looks at one guest. ``memory_of``: opens it for drgn."""

    def __init__(self, machine: Guest, memory_of: Callable[[], drgn.Program]) -> None:
        self.machine, self._memory_of = machine, memory_of
        # There while the guest is held for a look, until it is removed.
        self._look = machine.recording.with_suffix(".look")
        self._reads: tuple[Kernel, Stocks] | None = None

    def around(
        self, recording: Path, operations: int, over: str | None = None
    ) -> Memory | PartywallError:
        """Return what operations leave behind that are done when a recording is taken away.

        ``operations``: of all containers in the first step; ``over``: what a guest says that
        goes on without a look. EnvironmentProblem if there is no guest any more.
        """
        recording.unlink()
        seen = []
        wrong: PartywallError | None = None
        for _ in range(_LOOKS):
            try:
                if not self._comes(over):
                    return PartywallError("memory was not looked at: the operation failed")
            except EnvironmentProblem as error:
                return error
            try:
                if wrong is None:
                    seen.append(totals(*self._reading()))
            except Exception as error:
                wrong = PartywallError(fault("memory could not be read", error).message)
            self._look.unlink()
        return wrong or grown(seen, operations)

    def _comes(self, over: str | None) -> bool:
        """Wait until the guest is held; False if it is not to be."""
        machine = self.machine

        def told() -> bool:
            return over is not None and machine.reported(over) is not None

        machine.wait_until(lambda: self._look.exists() or told())
        return self._look.exists()

    def _reading(self) -> tuple[Kernel, Stocks]:
        if self._reads is None:
            kernel = Kernel(self._memory_of())
            self._reads = kernel, Stocks(kernel)
        return self._reads


def fault(what: str, error: Exception) -> PartywallError:
    """Return what is said of a round with which ``what`` went wrong, for whatever reason.

    It may be a fault of ours, or memory that is not what debug information says it is. A
    night's rounds must not go with it.
    """
    if isinstance(error, PartywallError):
        return error
    place = traceback.extract_tb(error.__traceback__)[-1]
    return EnvironmentProblem(
        f"{what}: {type(error).__name__}: {error}",
        f"this is a fault of partywall's, at {Path(place.filename).name}:{place.lineno}",
    )
