# SPDX-License-Identifier: GPL-2.0-or-later
"""Says on a terminal which steps run, for how long, and how long they may take."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Protocol

from rich.console import Console
from rich.progress import Progress as Bars
from rich.progress import ProgressColumn, SpinnerColumn, Task, TextColumn
from rich.text import Text


class Step:
    """A step that runs. ``done``: its part that is done, 0..1, None if unknown."""

    def __init__(self) -> None:
        self.done: float | None = None


class Progress(Protocol):
    """Who is told of steps. Steps may run side by side, in threads."""

    @contextmanager
    def step(self, name: str, expected: float | None = None) -> Iterator[Step]:
        """A step, for as long as the context lasts. ``expected``: seconds."""
        yield Step()

    def note(self, text: str) -> None:
        """Something worth knowing that is not an error."""

    def ahead(self, text: str) -> None:
        """What whoever waits should know before it begins, at a terminal or in a log."""


class Quiet:
    """Says nothing: for output that goes to a file or a program."""

    @contextmanager
    def step(self, name: str, expected: float | None = None) -> Iterator[Step]:
        """A step nobody is told of."""
        yield Step()

    def note(self, text: str) -> None:
        """Drops the note."""

    def ahead(self, text: str) -> None:
        """As a note."""
        self.note(text)


def duration(seconds: float) -> str:
    """Seconds for people: ``7 s``, ``2:05 min``."""
    whole = round(seconds)
    return f"{whole} s" if whole < 100 else f"{whole // 60}:{whole % 60:02} min"


class Log(Quiet):
    """A line before what takes minutes, for the log of a job; nothing else."""

    _LONG = 120
    """Seconds."""

    @contextmanager
    def step(self, name: str, expected: float | None = None) -> Iterator[Step]:
        """A step, told before it begins if it may be long."""
        if expected is not None and expected >= self._LONG:
            self.ahead(f"{name}: about {duration(expected)}")
        yield Step()

    def ahead(self, text: str) -> None:
        """A line on stderr."""
        print(text, file=sys.stderr, flush=True)


class _Times(ProgressColumn):
    def render(self, task: Task) -> Text:
        spent = duration(task.elapsed or 0)
        step, expected = task.fields["step"], task.fields["expected"]
        if step.done is not None:
            return Text(f"{spent}, {step.done:.0%}", style="dim")
        about = f" of about {duration(expected)}" if expected else ""
        return Text(f"{spent}{about}", style="dim")


class Terminal:
    """Live lines for the steps that run; one line stays for each that took a while."""

    _WORTH_A_LINE = 0.5

    def __init__(self, console: Console) -> None:
        self._bars = Bars(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            _Times(),
            console=console,
            transient=True,
        )
        self._lock = threading.Lock()

    def __enter__(self) -> Terminal:
        self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bars.stop()

    @contextmanager
    def step(self, name: str, expected: float | None = None) -> Iterator[Step]:
        """A live line."""
        step = Step()
        begun = time.monotonic()
        task = self._bars.add_task(name, total=None, step=step, expected=expected)
        try:
            yield step
        finally:
            self._bars.remove_task(task)
        spent = time.monotonic() - begun
        if spent >= self._WORTH_A_LINE:
            self.note(f"{name}: {duration(spent)}")

    def ahead(self, text: str) -> None:
        """As a note."""
        self.note(text)

    def note(self, text: str) -> None:
        """A line above the live ones."""
        with self._lock:
            self._bars.console.print(Text(text, style="dim"), highlight=False)
