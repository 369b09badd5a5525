# SPDX-License-Identifier: GPL-2.0-or-later
"""Names of the contexts that a recording knows by number."""

from __future__ import annotations

from drgn import Program
from drgn.helpers.linux.pid import for_each_task

from partywall.analyse.names.unreadable import UNREADABLE
from partywall.core import syscalls
from partywall.record import recording
from partywall.results.sites import UNSEEN

_FIXED = {
    recording.USER: "entry",
    recording.IRQ: "interrupt",
    recording.SOFTIRQ: "softirq",
    recording.SCHEDULER: "scheduler",
    recording.EXCEPTION: "exception",
    recording.NEW_TASK: "new task",
    recording.SYSCALL_UNKNOWN: "syscall entry",
    **dict(zip((recording.WORK, recording.CALLBACK), UNSEEN, strict=True)),
}
_DEFERRED = (
    (recording.CALLED_BACK, "RCU callback of"),
    (recording.WORKED, "work item of"),
    (recording.DEFERRED, "softirq in"),
)
"""What is put off, from which number on, the highest first."""


class ContextNamer:
    """``name(n)``: the context numbered ``n`` in a recording."""

    def __init__(self, prog: Program, stacks: list[int], charged: tuple[str, ...]) -> None:
        self._stacks = stacks
        self._charged = charged
        self._names = _threads(prog)

    def name(self, number: int) -> str:
        """'syscall tgkill', 'softirq in sendto', 'work item of close', 'interrupt', …"""
        if number >= recording.TASK:
            index = number - recording.TASK
            stack = self._stacks[index] if index < len(self._stacks) else 0
            return f"thread {self._names.get(stack, '(ended)')}"
        for first, what in _DEFERRED:
            if number >= first:
                return f"{what} {_cause(number - first)}"
        if number >= recording.SYSCALL:
            return f"syscall {syscalls.name(number - recording.SYSCALL)}"
        if number >= recording.CHARGED:
            index = number - recording.CHARGED
            return self._charged[index] if index < len(self._charged) else "charged work"
        return _FIXED.get(number, f"context {number}")


def _cause(number: int) -> str:
    """What put it off, by the number that is left of a context's."""
    return syscalls.name(number) if number != recording.OTHER else "other work"


def _threads(prog: Program) -> dict[int, str]:
    names: dict[int, str] = {}
    try:
        for task in for_each_task(prog):
            comm = task.comm.string_().decode(errors="replace")
            names[task.stack.value_()] = comm
    except UNREADABLE:
        pass
    return names
