#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Writes man pages and completions into a folder, from the commands themselves.

scripts/man.py FOLDER: partywall.1, a page for each command, and what bash, zsh and
fish read, as click has it for them.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from partywall import __version__
from partywall.cli import commands

STATUSES = (
    ("0", "Done, and nothing is over a limit."),
    ("1", "A wall, a lock, growth or a cap is over a limit that an option set, or partywall diff "
     "found a regression, or that a workload is not measured any more."),
    ("2", "What was asked for can't be done."),
    ("3", "This machine or the guest failed."),
    ("130", "Interrupted."),
    ("141", "Whoever read the output had enough of it."),
)  # fmt: skip
ENVIRONMENT = (
    ("XDG_CACHE_HOME", "What is downloaded and built is kept in partywall/ there; ~/.cache if it "
     "is not set."),
    ("PARTYWALL_QEMU", "The emulator, qemu-system-x86_64 if it is not set."),
)  # fmt: skip
SHELLS = {"bash": "partywall", "zsh": "_partywall", "fish": "partywall.fish"}


def plain(text: str) -> str:
    """Text as troff reads it: no line of it is a request, hyphens are what they look like."""
    text = text.replace("\\", r"\e").replace("-", r"\-")
    return "\n".join(rf"\&{line}" if line[:1] in ".'" else line for line in text.split("\n"))


def section(name: str, *lines: str) -> Iterator[str]:
    """A section, if there is anything in it."""
    if lines:
        yield f".SH {name}"
        yield from lines


def items(rows: list[tuple[str, str]]) -> list[str]:
    """Words and what they mean."""
    return [line for word, told in rows for line in (".TP", rf"\fB{plain(word)}\fR", plain(told))]


def paragraphs(text: str) -> list[str]:
    """Paragraphs; their lines are filled anew."""
    parts = inspect.cleandoc(text).split("\n\n")
    return [line for part in parts for line in (".PP", plain(" ".join(part.split())))][1:]


def page(command: click.Command, context: click.Context) -> str:
    """The page of a command, or of all."""
    path = context.command_path
    name = path.replace(" ", "-")
    told = inspect.cleandoc(command.help or "")
    first = told.partition("\n\n")[0].replace("\n", " ").rstrip(".")
    options = [
        record
        for param in command.get_params(context)
        if isinstance(param, click.Option) and (record := param.get_help_record(context))
    ]
    inner = [
        (f"{path} {one.name}".replace(" ", "-") + "(1)", (one.help or "").partition("\n\n")[0])
        for _, one in below(command, context)
    ]
    examples = getattr(command, "examples", ())
    above = [] if context.parent is None else [rf"\fB{plain(context.parent.command_path)}\fR(1)"]
    lines = [
        f'.TH "{plain(name.upper())}" 1 "" "Partywall {__version__}" "Partywall"',
        *section("NAME", rf"{plain(name)} \- {plain(first[:1].lower() + first[1:])}"),
        *section(
            "SYNOPSIS",
            rf"\fB{plain(path)}\fR {plain(' '.join(command.collect_usage_pieces(context)))}",
        ),
        *section("DESCRIPTION", *paragraphs(told)),
        *(paragraphs(f"x\n\n{command.epilog}")[1:] if command.epilog else []),
        *section("OPTIONS", *items(options)),
        *section("COMMANDS", *items([(one, " ".join(words.split())) for one, words in inner])),
        *section("EXAMPLES", *([".nf", *map(plain, examples), ".fi"] if examples else [])),
        *section("EXIT STATUS", *items(list(STATUSES))),
        *section("ENVIRONMENT", *items(list(ENVIRONMENT))),
        *section("SEE ALSO", *(above or [r"\fBqemu\-system\-x86_64\fR(1), \fBdrgn\fR(1)"])),
    ]
    return "\n".join(lines) + "\n"


def below(command: click.Command, context: click.Context) -> Iterator[tuple[str, click.Command]]:
    """Commands of a group."""
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            one = command.get_command(context, name)
            if one is not None and not one.hidden:
                yield name, one


def pages(
    command: click.Command, name: str, above: click.Context | None
) -> Iterator[tuple[str, str]]:
    """Names and texts of the pages of a command and of all below it."""
    context = click.Context(command, info_name=name, parent=above, **command.context_settings)
    yield f"{context.command_path.replace(' ', '-')}.1", page(command, context)
    for inner, one in below(command, context):
        yield from pages(one, inner, context)


def main() -> None:
    """Write them all."""
    if len(sys.argv) != 2:
        sys.exit("usage: scripts/man.py FOLDER")
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages(commands, "partywall", None):
        (folder / name).write_text(text)
    for shell, name in SHELLS.items():
        kind = get_completion_class(shell)
        assert kind is not None
        place = folder / shell
        place.mkdir(exist_ok=True)
        source = kind(commands, {}, "partywall", "_PARTYWALL_COMPLETE").source()
        (place / name).write_text(f"{source.strip()}\n")


if __name__ == "__main__":
    main()
