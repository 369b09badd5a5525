# SPDX-License-Identifier: GPL-2.0-or-later
"""Partywall: find the cache lines that containers share in a Linux kernel."""

__version__ = "0.5.0.dev0"
