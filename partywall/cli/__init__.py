# SPDX-License-Identifier: GPL-2.0-or-later
"""The commands, their options and exit codes.

0: done, and nothing over --fail-above. 1: a wall is over --fail-above, a lock over --fail-held,
an operation over --fail-growth or --fail-unlimited, caps over --fail-caps, or diff found a
regression, or a workload that is not measured any more.
2: asked for something that can't be. 3: this machine or the guest failed.
130: interrupted. 141: whoever read the output had enough of it.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
from types import FrameType
from typing import NoReturn

import click
from click.shell_completion import shell_complete

from partywall.cli import (
    bench,
    bisect,
    build,
    caps,
    check,
    compare,
    diff,
    doctor,
    explain,
    growth,
    kernel_tree,
    layout,
    machine,
    map,
    model,
    predict,
    prepare,
    report,
    schema,
    series,
    workloads,
)
from partywall.cli.options import BROKEN_PIPE, INTERRUPTED, commands, say
from partywall.core.errors import EnvironmentProblem, PartywallError, UsageProblem

__all__ = [
    "bench",
    "bisect",
    "build",
    "caps",
    "check",
    "commands",
    "compare",
    "diff",
    "doctor",
    "explain",
    "growth",
    "kernel_tree",
    "layout",
    "machine",
    "main",
    "map",
    "model",
    "predict",
    "prepare",
    "report",
    "schema",
    "series",
    "workloads",
]

_COMPLETE = "_PARTYWALL_COMPLETE"


class _Interrupted(BaseException):
    """A signal to end; not KeyboardInterrupt, of which click makes lines of its own."""


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    # Once is enough: cleaning up must not be interrupted in turn.
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, signal.SIG_IGN)
    raise _Interrupted


def _drop_output() -> None:
    """What is still to be written goes nowhere; Python would complain at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _tell(error: PartywallError) -> None:
    """Say what is wrong, if there is anywhere to say it: the exit status says it as well."""
    with contextlib.suppress(OSError):
        say(error)


def main() -> NoReturn:
    """Runs the command line; never returns, never shows a traceback."""
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, _stop)
    # Results are millions of objects, hardly any of which go round in circles.
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)
    status: object = 0
    try:
        # Not commands.main(), which ends on a closed pipe as if a wall were found.
        if sys.stdout is None:
            raise EnvironmentProblem("standard output is closed", "write it to /dev/null instead")
        # A shell that completes a line asks so; partywall --help says nothing of it.
        if instruction := os.environ.get(_COMPLETE):
            status = shell_complete(commands, {}, "partywall", _COMPLETE, instruction)
        else:
            with commands.make_context("partywall", sys.argv[1:]) as invocation:
                status = commands.invoke(invocation)
        sys.stdout.flush()
    except click.exceptions.Exit as error:
        status = error.exit_code
    except PartywallError as error:
        _tell(error)
        status = error.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        status = UsageProblem.exit_code
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        path = context.command_path if context else "partywall"
        _tell(UsageProblem(error.format_message(), f"{path} --help tells more"))
        status = UsageProblem.exit_code
    except (_Interrupted, KeyboardInterrupt, click.Abort):
        click.echo("partywall: interrupted; guests and temporary files are gone", err=True)
        status = INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has had enough.
        _drop_output()
        status = BROKEN_PIPE
    except OSError as error:
        _drop_output()
        _tell(EnvironmentProblem(f"writing the output: {error.strerror or error}"))
        status = EnvironmentProblem.exit_code
    sys.exit(status if isinstance(status, int) else 0)
