# SPDX-License-Identifier: GPL-2.0-or-later
"""The option that says for which release of Linux a series is."""

from __future__ import annotations

from collections.abc import Callable

import click
from click.decorators import FC

from partywall.kernels import series
from partywall.kernels.series import bases


def base_option(unless: str) -> Callable[[FC], FC]:
    """Return ``--base``, given to a command as ``base``; ``unless``: which it is if not given."""

    def found(
        context: click.Context, parameter: click.Parameter, value: str | None
    ) -> series.Base | None:
        return None if value is None else bases.get(value)

    return click.option(
        "--base",
        metavar="VERSION",
        callback=found,
        help=f"Release of Linux, or the folder of its series; {unless} if not given.",
    )
