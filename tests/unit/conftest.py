# SPDX-License-Identifier: GPL-2.0-or-later
"""No example has to be quick: how long one takes is up to what else the machine does."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
