# SPDX-License-Identifier: GPL-2.0-or-later
"""Functions called in a process of their own, which say how far they are.

Work in Python that runs side by side needs a process each, or one waits for the
other; and what one of them holds is gone for good when it ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from types import FrameType
from typing import Any, NoReturn, TypeVar

from partywall.core.errors import EnvironmentProblem
from partywall.core.progress import Progress, Step

T = TypeVar("T")

# A fork would copy locks that other threads hold.
_CONTEXT = multiprocessing.get_context("spawn")
_PR_SET_PDEATHSIG = 1
_TERMINAL = (signal.SIGINT, signal.SIGHUP)
_PATIENCE = 5.0
"""Seconds that a process which is asked to end may take to clean up."""


class Apart:
    """Processes that end with this one. All may be called from any thread."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._lock = threading.Lock()
        self._alive: set[BaseProcess] = set()
        self._over = False

    def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """Return ``function(*arguments, progress)``, called in a process of its own.

        Raise what it raises; EnvironmentProblem if its process dies.
        """
        ours, theirs = _CONTEXT.Pipe(duplex=False)
        process = _CONTEXT.Process(
            target=_work, args=(os.getpid(), theirs, function, arguments), daemon=True
        )
        with ours:
            with self._lock, theirs:
                if self._over:
                    raise EnvironmentProblem("stopped before it was begun")
                # A process that serves all of them, and must not be born deaf to interrupts.
                resource_tracker.ensure_running()
                # As it is until the other one has said what an interrupt does to it.
                before = signal.pthread_sigmask(signal.SIG_BLOCK, _TERMINAL)
                try:
                    process.start()
                finally:
                    signal.pthread_sigmask(signal.SIG_SETMASK, before)
                self._alive.add(process)
            try:
                value: T = self._listen(ours)
            except (EOFError, OSError):
                process.join()
                raise EnvironmentProblem(
                    f"a process that measured died (status {process.exitcode})",
                    "the machine may be out of memory: end other programs, or use --jobs 1",
                ) from None
            finally:
                process.join(_PATIENCE)
                process.kill()
                with self._lock:
                    self._alive.discard(process)
        return value

    def _listen(self, said: Connection) -> Any:
        """What the process returns; its steps and notes are ours as long as it runs."""
        steps: dict[int, contextlib.ExitStack] = {}
        with contextlib.ExitStack() as whole:
            while True:
                match said.recv():
                    case "begin", number, name, expected:
                        steps[number] = whole.enter_context(contextlib.ExitStack())
                        steps[number].enter_context(self._progress.step(name, expected))
                    case "end", number, None:
                        steps.pop(number).close()
                    case "end", number, error:
                        steps.pop(number).__exit__(type(error), error, None)
                    case "note", text:
                        self._progress.note(text)
                    case "ahead", text:
                        self._progress.ahead(text)
                    case "raise", error:
                        raise error
                    case "return", value:
                        return value

    def end(self) -> None:
        """End all processes, which clean up if they can; no other can be started."""
        with self._lock:
            self._over = True
            left = list(self._alive)
        for process in left:
            process.terminate()
        for process in left:
            process.join(_PATIENCE)
            process.kill()


class _Told:
    """A `Progress` in another process."""

    def __init__(self, to: Connection) -> None:
        self._to = to
        self._lock = threading.Lock()
        self._count = 0

    def _say(self, *what: object) -> None:
        with self._lock:
            self._to.send(what)

    @contextlib.contextmanager
    def step(self, name: str, expected: float | None = None) -> Iterator[Step]:
        """A step there. How much of it is done is not told."""
        with self._lock:
            self._count += 1
            number = self._count
        self._say("begin", number, name, expected)
        try:
            yield Step()
        except BaseException:
            self._say("end", number, RuntimeError(name))
            raise
        self._say("end", number, None)

    def note(self, text: str) -> None:
        """A note there."""
        self._say("note", text)

    def ahead(self, text: str) -> None:
        """The same there."""
        self._say("ahead", text)


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    # Once is enough: cleaning up must not be interrupted in turn.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise SystemExit(1)


def _work(parent: int, to: Connection, function: Callable[..., Any], arguments: Any) -> None:
    # A terminal interrupts all of its processes; the first says to the others what to do.
    for name in _TERMINAL:
        signal.signal(name, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _TERMINAL)
    signal.signal(signal.SIGTERM, _stop)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        return
    try:
        value = function(*arguments, _Told(to))
    except Exception as error:
        error.add_note(traceback.format_exc())
        to.send(("raise", error))
    else:
        to.send(("return", value))
