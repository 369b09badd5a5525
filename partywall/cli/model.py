# SPDX-License-Identifier: GPL-2.0-or-later
"""The command that lays the model beside what others measured."""

from __future__ import annotations

import click

from partywall.cli.options import Output, commands
from partywall.model import profiles
from partywall.model.predict import overlay_stalls, signals
from partywall.report import predict as view

MOST = 4096


@commands.command("model")
@click.option("--profile", "profile_name", metavar="NAME|FILE.toml", help="Only this machine.")
def model_command(profile_name: str | None) -> int:
    """Lay the model beside what others measured and published, machine by machine."""
    chosen = [profile_name] if profile_name else profiles.names()
    found = [profiles.load(name) for name in chosen]
    checks = [(profile, signals(profile)) for profile in found]
    view.render_checks(checks, overlay_stalls(), Output())
    return 0
