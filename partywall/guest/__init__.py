# SPDX-License-Identifier: GPL-2.0-or-later
"""Guests: QEMU, what is in them, and their life from boot to end."""

from partywall.guest.boot import Guest, clean_up, close_all, initramfs
from partywall.guest.settings import (
    COMMAND_LINE,
    ICOUNT_SHIFT,
    MAX_CPUS,
    VISIT_DISTANCE,
    Accel,
    Settings,
    command_line,
    expected_seconds,
    memory,
    patience,
)
from partywall.guest.trial import boots

__all__ = [
    "COMMAND_LINE",
    "ICOUNT_SHIFT",
    "MAX_CPUS",
    "VISIT_DISTANCE",
    "Accel",
    "Guest",
    "Settings",
    "boots",
    "clean_up",
    "close_all",
    "command_line",
    "expected_seconds",
    "initramfs",
    "memory",
    "patience",
]
