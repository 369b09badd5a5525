# SPDX-License-Identifier: GPL-2.0-or-later
"""Errors that a person is meant to read: what is wrong, where, what to do next."""

from __future__ import annotations


class PartywallError(Exception):
    """Anything that ends a command. ``hint``: what to do next, one line."""

    exit_code = 1

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageProblem(PartywallError):
    """What was asked for can't be done; asking differently helps."""

    exit_code = 2


class EnvironmentProblem(PartywallError):
    """This machine, its tools or the guest fail; asking differently does not help."""

    exit_code = 3
